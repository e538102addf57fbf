"""Records how far a log is behind its Kafka topic, for metrics, page and alerts, which ask no broker.

The log has everything of its topic up to a time: that of the look at the brokers if nothing was missing after the call,
else the timestamp of the first record that is missing. From that time the seconds behind are counted, so they grow
while nobody looks, and so is the earliest deadline that a missing record can have. It is that of its partition at the
look before where neither is known.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from winnow.config.topic import TopicConfig
from winnow.errors import WinnowError
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.model import TopicState
from winnow.pipeline.context import Context
from winnow.planning.cleanable import MAXIMUM_LONG
from winnow.store.ingest_lag import IngestLag

log = logging.getLogger("winnow")

MAXIMUM_TOPICS_READ = 50
"""Maximum topics of one call whose first missing records are read; it takes a tenth of a second per partition."""


def record_complete_lag(ctx: Context, topic: str, found: BrokerTopic, config: TopicConfig) -> None:
    """Record that ``topic`` has everything that ``found`` names, up to its last stable offsets."""
    ctx.store.ingest_lags.record(
        [_make_lag(topic, number, found, 0, found.looked_at_ms, config) for number in found.partitions]
    )


def record_failed_lags(ctx: Context, cluster: Cluster, failed: Mapping[str, BrokerTopic]) -> None:
    """Record how much a call left out of the topics in which it failed; nothing where that cannot be told.

    What was recorded before stands then, and ages: of a topic that was created again the offsets tell nothing, and a
    log that cannot be opened has none.
    """
    for number, (topic, found) in enumerate(failed.items()):
        try:
            table = ctx.log.open(topic)
            head = table.head()
            positions = _find_positions(head.state, found)
            if positions is not None:
                reads = number < MAXIMUM_TOPICS_READ
                missing = _read_first_times(cluster, found, positions) if reads else {}
                _record_missing(ctx, topic, found, positions, missing, table.config(head))
        except WinnowError as problem:
            log.warning("Topic %s: how far it is behind Kafka could not be found out: %s", topic, problem)


def _find_positions(state: TopicState, found: BrokerTopic) -> dict[int, int] | None:
    """Find the offset at the brokers up to which the log has each partition; None if they are of another topic."""
    if not state.epochs or state.epochs[-1].topic_id != found.topic_id:
        return None
    epoch = state.epochs[-1]
    positions = {
        number: state.partitions[number].log_end_offset - epoch.get_base(number) if number in state.partitions else 0
        for number in found.partitions
    }
    is_set_back = any(positions[number] > part.stable_offset for number, part in found.partitions.items())
    return None if is_set_back else positions


def _read_first_times(cluster: Cluster, found: BrokerTopic, positions: dict[int, int]) -> dict[int, int | None]:
    """Read the timestamp of the first missing record of each partition; None: offsets without a record, or no time."""
    times: dict[int, int | None] = {}
    with RangeReader(cluster.settings) as reader:
        for number, part in found.partitions.items():
            start = max(positions[number], part.start_offset)
            if start >= part.stable_offset:
                continue
            wanted = BrokerRange(found.name, number, start, part.stable_offset)
            batch = next(iter(reader.read(wanted)), None)
            times[number] = None if batch is None else batch.column("timestamp")[0].as_py()
    return times


def _record_missing(
    ctx: Context,
    topic: str,
    found: BrokerTopic,
    positions: dict[int, int],
    missing: dict[int, int | None],
    config: TopicConfig,
) -> None:
    before = ctx.store.ingest_lags.find(topic)
    rows = []
    for number, part in found.partitions.items():
        behind = max(0, part.stable_offset - positions[number])
        until_ms = found.looked_at_ms
        if behind:
            earlier = before.get(number)
            known = [missing.get(number), None if earlier is None else earlier.complete_until_ms]
            until_ms = next((each for each in known if each is not None), until_ms)
        rows.append(_make_lag(topic, number, found, behind, min(until_ms, found.looked_at_ms), config))
    ctx.store.ingest_lags.record(rows)


def _make_lag(
    topic: str, partition: int, found: BrokerTopic, behind: int, until_ms: int, config: TopicConfig
) -> IngestLag:
    return IngestLag(
        topic=topic,
        partition=partition,
        looked_at_ms=found.looked_at_ms,
        records_behind=behind,
        complete_until_ms=until_ms,
        deadline_ms=compute_deadline_ms(until_ms, config.max_compaction_lag_ms) if config.compacts else None,
    )


def compute_deadline_ms(complete_until_ms: int, max_compaction_lag_ms: int) -> int | None:
    """Compute when a record that is missing since then must be compacted; None without max.compaction.lag.ms."""
    return None if max_compaction_lag_ms >= MAXIMUM_LONG else complete_until_ms + max_compaction_lag_ms
