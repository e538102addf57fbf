"""Takes Kafka's records in the place of those that its brokers lost: what leaves the log, counted, or why it must not.

A partition is cut where the brokers' records diverge from the log's. Where a compaction went beyond that, it may have
removed older records because of some that go now; then the log has to be read again from its start, or stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.config.topic import TopicConfig
from winnow.errors import BadInputError, CommitConflictError, join_first
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest.history import ReceiptEnds
from winnow.pipeline.ingest.kafka.divergence import Divergence, compare_with_brokers
from winnow.pipeline.ingest.kafka.reading import TAKE, ReadingRules
from winnow.pipeline.ingest.log_cut import LogCut, RemovedRecords, plan_cut, record_cut
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.store.audit import AuditAction
from winnow.values.strategies import Strategy

MAXIMUM_NAMED = 5


@dataclass(frozen=True, slots=True)
class Taking:
    """What one call takes Kafka's records in the place of.

    ``cut``: what leaves the log. ``divergences``: where the brokers lost records. ``reread``: partitions of which all
    records leave, since a compaction went beyond the divergence; with the offset up to which one did.
    """

    topic: str
    source: BrokerTopic
    cut: LogCut
    divergences: tuple[Divergence, ...]
    reread: dict[int, int]


def plan_taking(
    log: TopicLog, head: Head, source: BrokerTopic, divergences: Sequence[Divergence], rules: ReadingRules
) -> Taking | None:
    """Plan what leaves the log at ``head``, for a call with ``rules``; None where there is nothing of that kind to do.

    Raises:
        BadInputError: a record would be lost that no divergence took from the brokers.
        CommitConflictError: it is not what a person agreed to.
        DamagedSegmentError: a segment of the log is not what was written.
    """
    if rules.diverged != TAKE:
        return None
    if not divergences:
        _check_agreement(log.topic, (), rules)
        return None
    config = log.config(head)
    receipts = ReceiptEnds(log, head)
    offsets: dict[int, int] = {}
    reread: dict[int, int] = {}
    for divergence in divergences:
        partition = divergence.partition
        _require_decidable(log, head, source, divergence, config)
        state = head.state.partitions[partition]
        place = max(divergence.offset + head.state.epochs[-1].get_base(partition), state.log_start_offset)
        cleaned, _ = receipts.find_highest_end(partition, since=0)
        compacted = max(cleaned, state.first_dirty_offset or 0, *(entry.end_offset for entry in state.history), 0)
        if compacted > place > state.log_start_offset:
            _require_complete(log, head, source, divergence, config, compacted)
            reread[partition] = compacted
            place = state.log_start_offset
        offsets[partition] = place
    cut = plan_cut(log, head, offsets)
    _check_agreement(log.topic, cut.removed, rules)
    return Taking(log.topic, source, cut, tuple(divergences), reread)


def preview_taking(
    installation: Installation, topic: str, cluster: Cluster, source: BrokerTopic, rules: ReadingRules
) -> Taking | None:
    """Plan what a call with ``rules`` would take from ``topic``, and change nothing; raises as that call.

    ``source``: the topic at the brokers. None: they lost nothing that was read.
    """
    log = installation.log.open(topic)
    head = log.newest_head()
    compared = compare_with_brokers(head.state, source, lambda: log.segments(head), cluster.settings)
    return plan_taking(log, head, source, compared.divergences, rules)


def describe_taking(taking: Taking) -> str:
    """Say what would leave the log and what would come in its place, for who decides about it."""
    records = sum(part.records for part in taking.cut.removed)
    effect = (
        f"{records:,} records would leave the log of {taking.topic}, and Kafka's would come in their place, in one "
        "commit. Snapshots of before have them until the files that leave are swept; no undo brings them back."
    )
    lines = [effect]
    for divergence, removed in zip(taking.divergences, taking.cut.removed, strict=True):
        name = f"{taking.source.name}-{divergence.partition}"
        lines.append(
            f"{name}: Kafka lost what was read from offset {divergence.offset} to {divergence.end - 1}, and ends at "
            f"{divergence.stable_offset} now. {_describe_removed(taking.topic, removed)}"
        )
        if divergence.partition in taking.reread:
            lines.append(
                f"{name}: a compaction went up to offset {taking.reread[divergence.partition]} of the log, beyond the "
                "divergence, and may have removed older records for the sake of some that go. So all records of the "
                "partition go, and Kafka's are read from its first one on. Kafka's own compaction may have removed "
                "tombstones that are here."
            )
    lines.append(f"To keep both instead: winnow ingest kafka {taking.topic} --diverged keep")
    return "\n".join(lines)


def describe_taken(taking: Taking) -> list[str]:
    """Say what a call did."""
    notices = []
    for divergence, removed in zip(taking.divergences, taking.cut.removed, strict=True):
        again = " A compaction had gone beyond that, so all was read again." * (divergence.partition in taking.reread)
        notices.append(
            f"{taking.source.name}-{divergence.partition}: the brokers lost what was read from offset "
            f"{divergence.offset} to {divergence.end - 1}. {_describe_removed(taking.topic, removed)} Kafka's are in "
            f"their place.{again}"
        )
    return notices


def record_taking(installation: Installation, log: TopicLog, taking: Taking, ingest_id: str) -> None:
    """Record in audit log and metadata store what the committed call ``ingest_id`` took from the log."""
    record_cut(installation, log)
    removed = [_describe_removed(taking.topic, part) for part in taking.cut.removed]
    detail = f"{ingest_id}: {join_first(removed, MAXIMUM_NAMED, ' ')}"
    record_action(installation, AuditAction.TAKE_DIVERGED, taking.topic, detail=detail)


def summarize_removed(taking: Taking) -> dict[int, str]:
    """Summarize, per partition, the offsets that the brokers lost, and what left the log, for the ledger."""
    return {
        removed.partition: f"{divergence.offset}-{divergence.end - 1}, {removed.records} records from offset "
        f"{removed.first_offset} of the log on"
        for divergence, removed in zip(taking.divergences, taking.cut.removed, strict=True)
    }


def _describe_removed(topic: str, removed: RemovedRecords) -> str:
    if not removed.records:
        return f"No record of {topic}-{removed.partition} goes."
    last = removed.end_offset - 1
    return f"{removed.records:,} records of {topic}-{removed.partition} go: offsets {removed.first_offset} to {last}."


def _check_agreement(topic: str, removed: tuple[RemovedRecords, ...], rules: ReadingRules) -> None:
    if rules.agreed is not None and rules.agreed != removed:
        raise CommitConflictError(
            f"What would leave the log of {topic} is not what was agreed to any more: the log or Kafka's topic "
            "changed meanwhile.",
            left=NOTHING_INGESTED,
            next="Run it again: it says what would leave now.",
        )


def _require_decidable(
    log: TopicLog, head: Head, source: BrokerTopic, divergence: Divergence, config: TopicConfig
) -> None:
    """Refuse where it is not known which records are those that the brokers lost.

    Raises:
        BadInputError: as this says.
    """
    partition, epoch = divergence.partition, head.state.epochs[-1]
    name, here = f"{source.name}-{partition}", f"{log.topic}-{partition}"
    place, begin = divergence.offset + epoch.get_base(partition), epoch.get_begin(partition)
    start = max(begin, head.state.partitions[partition].log_start_offset)
    if place < begin:
        raise _make_taking_error(
            log.topic,
            f"The brokers lost {name} from offset {divergence.offset} on, which is before where they lost it the last "
            f"time, and records of {here} that they lost then were kept on purpose",
        )
    if divergence.offset <= source.partitions[partition].start_offset and any(
        segment.first_offset < place and segment.last_offset >= start
        for segment in log.segments(head).get(partition, ())
    ):
        raise _make_taking_error(
            log.topic,
            f"Kafka's log of {name} begins at offset {source.partitions[partition].start_offset} and has nothing in "
            f"common with {here}, so that it cannot be told which older records of {here} the brokers lost, too",
        )
    if head.state.quarantine_ingests or (config.compacts and config.keyless == "quarantine"):
        raise _make_taking_error(
            log.topic,
            f"Records of {log.topic} without a key are in its quarantine, and those of {name} that the brokers lost "
            "would stay there",
        )


def _require_complete(
    log: TopicLog, head: Head, source: BrokerTopic, divergence: Divergence, config: TopicConfig, compacted: int
) -> None:
    """Refuse where reading again would not bring what a compaction removed for the sake of records that go.

    Raises:
        BadInputError: as this says.
    """
    partition, epoch = divergence.partition, head.state.epochs[-1]
    name, here = f"{source.name}-{partition}", f"{log.topic}-{partition}"
    begin = source.partitions[partition].start_offset + epoch.get_base(partition)
    start = head.state.partitions[partition].log_start_offset
    missing = None
    if begin > start or epoch.get_begin(partition) > start:
        missing = f"Kafka has {name} from offset {source.partitions[partition].start_offset} on only, and {here} more"
    elif not config.compacts or config.compaction_strategy is not Strategy.OFFSET:
        missing = f"{log.topic} keeps other records than Kafka's compaction does"
    if missing is not None:
        below = sum(
            min(segment.records, divergence.offset + epoch.get_base(partition) - segment.first_offset)
            for segment in log.segments(head).get(partition, ())
            if segment.first_offset < divergence.offset + epoch.get_base(partition)
        )
        raise _make_taking_error(
            log.topic,
            f"A compaction of {here} went up to offset {compacted}, beyond the divergence at offset "
            f"{divergence.offset} of {name}: it may have removed older records for the sake of some that would go now, "
            f"so that their keys had none any more. Up to {below:,} records are below it, and reading them again would "
            f"not help: {missing}",
        )


def _make_taking_error(topic: str, reason: str) -> BadInputError:
    return BadInputError(
        f"{reason}.",
        left=NOTHING_INGESTED,
        next=(
            f"The log keeps its records. To append Kafka's after them as a new epoch: winnow ingest kafka {topic} "
            "--diverged keep. To have Kafka's alone, ingest the topic under another name: winnow ingest kafka NAME "
            "--create --source-topic"
        ),
    )
