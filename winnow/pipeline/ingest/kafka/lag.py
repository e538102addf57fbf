"""Records how far a log is behind its Kafka topic, for metrics, page and alerts, which ask no broker.

The log has everything of its topic up to a time: that of the look at the brokers if nothing was missing after the call,
else the timestamp of the first record that is missing, be it committed or of an open transaction. From that time the
seconds behind are counted, so they grow while nobody looks, and so is the earliest deadline that a missing record can
have. It is that of its partition at the look before where neither is known.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from winnow.config.topic import TopicConfig
from winnow.errors import WinnowError
from winnow.kafka.cluster import BrokerOffsets, BrokerTopic, Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.installation import Installation
from winnow.planning.cleanable import MAXIMUM_LONG
from winnow.store.ingest_lag import IngestLag
from winnow.values.topic_state import TopicState

log = logging.getLogger("winnow")
MAXIMUM_TOPICS_READ = 50
"""Maximum topics of one call whose first missing records are read; it takes a tenth of a second per partition."""


def record_complete_lag(installation: Installation, topic: str, found: BrokerTopic, config: TopicConfig) -> None:
    """Record that ``topic`` has everything that ``found`` names, up to its last stable offsets."""
    ends = {number: part.stable_offset for number, part in found.partitions.items()}
    _record_lag(installation, topic, found, ends, {}, config)


def confirm_complete_lags(installation: Installation, found: Mapping[str, BrokerTopic]) -> None:
    """Record that topics of these names still have everything up to the last stable offsets; opens no log."""
    held = {name for name, topic in found.items() if topic.is_held}
    free = found.keys() - held
    if free:
        installation.store.ingest_lags.confirm_complete(free, min(found[name].looked_at_ms for name in free))
    if held:
        before = installation.store.ingest_lags.find_many(sorted(held))
        installation.store.ingest_lags.record(
            [
                _confirm_complete_lag(row, found[topic].looked_at_ms, found[topic].partitions[number])
                for (topic, number), row in before.items()
                if number in found[topic].partitions
            ]
        )


def record_failed_lags(installation: Installation, cluster: Cluster, failed: Mapping[str, BrokerTopic]) -> None:
    """Record how much a call left out of the topics in which it failed; nothing where that cannot be told.

    What was recorded before stands then, and ages: of a topic that was created again the offsets tell nothing, and a
    log that cannot be opened has none.
    """
    for number, (topic, found) in enumerate(failed.items()):
        try:
            table = installation.log.open(topic)
            head = table.head()
            positions = _find_positions(head.state, found)
            if positions is not None:
                reads = number < MAXIMUM_TOPICS_READ
                missing = _read_first_times(cluster, found, positions) if reads else {}
                _record_lag(installation, topic, found, positions, missing, table.config(head))
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


def _record_lag(
    installation: Installation,
    topic: str,
    found: BrokerTopic,
    positions: Mapping[int, int],
    missing: Mapping[int, int | None],
    config: TopicConfig,
) -> None:
    """Record the lag of a log that ends at ``positions``; ``missing``: the times of the first missing records."""
    before = installation.store.ingest_lags.find(topic)
    rows = []
    for number, part in found.partitions.items():
        behind = max(0, part.stable_offset - positions[number])
        first_times = [missing.get(number)] if behind else []
        until_ms = _find_complete_until_ms(found.looked_at_ms, first_times, part, before.get(number))
        deadline_ms = compute_deadline_ms(until_ms, config.max_compaction_lag_ms) if config.compacts else None
        rows.append(_make_lag(topic, number, found.looked_at_ms, behind, until_ms, deadline_ms, part))
    installation.store.ingest_lags.record(rows)


def _confirm_complete_lag(row: IngestLag, looked_at_ms: int, part: BrokerOffsets) -> IngestLag:
    until_ms = _find_complete_until_ms(looked_at_ms, [], part, row)
    deadline_ms = None if row.deadline_ms is None else row.deadline_ms + until_ms - row.complete_until_ms
    return _make_lag(row.topic, row.partition, looked_at_ms, 0, until_ms, deadline_ms, part)


def _find_complete_until_ms(
    looked_at_ms: int, first_times: Sequence[int | None], part: BrokerOffsets, before: IngestLag | None
) -> int:
    """Find the time up to which a log has everything; ``before``: its lag at the look before.

    ``first_times``: of the first committed record that is missing, None where it is not known; empty if none is.
    """
    times = [*first_times, *([part.open_since_ms] if part.records_uncommitted else [])]
    known_ms = looked_at_ms if before is None else before.complete_until_ms
    return min([looked_at_ms, *(known_ms if ms is None else ms for ms in times)])


def _make_lag(
    topic: str,
    partition: int,
    looked_at_ms: int,
    behind: int,
    until_ms: int,
    deadline_ms: int | None,
    part: BrokerOffsets,
) -> IngestLag:
    return IngestLag(
        topic=topic,
        partition=partition,
        looked_at_ms=looked_at_ms,
        records_behind=behind,
        complete_until_ms=until_ms,
        deadline_ms=deadline_ms,
        records_uncommitted=part.records_uncommitted,
        open_since_ms=part.open_since_ms,
    )


def compute_deadline_ms(complete_until_ms: int, max_compaction_lag_ms: int) -> int | None:
    """Compute when a record that is missing since then must be compacted; None without max.compaction.lag.ms."""
    return None if max_compaction_lag_ms >= MAXIMUM_LONG else complete_until_ms + max_compaction_lag_ms
