"""Raises the log start offset on request, as Kafka's DeleteRecords does.

A commit without files: segments wholly below it leave the log at the next run, and the disk at a later sweep. Until
then it can be taken back (:mod:`winnow.pipeline.undo`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from winnow.config.topic import TopicConfig
from winnow.errors import UsageError
from winnow.log.head import Head
from winnow.log.reference_chains import count_receipts
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.marks import select_partitions
from winnow.pipeline.topics.second_person import (
    ChangeApproval,
    ShownChange,
    describe_approval,
    require_second_person,
    show_values,
)
from winnow.pipeline.topics.state_change import change_states
from winnow.pipeline.undo.changes import make_deletion_name
from winnow.store.audit import AuditAction
from winnow.values.model import Segment
from winnow.values.strategies import Strategy
from winnow.values.topic_state import (
    MAXIMUM_DELETIONS,
    LogStartRaise,
    PartitionState,
    RecordsDeletion,
    TopicState,
)

LOG_END = -1
"""Offset that stands for the log end (Kafka's DeleteRecordsRequest.HIGH_WATERMARK)."""


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """The result for one partition. ``at_most_records`` counts whole segments, so a few may stay readable.

    ``change_id``: what ``winnow undo`` calls it; None: nothing was changed.
    """

    partition: int
    log_start_offset: int
    previous_log_start_offset: int
    at_most_records: int
    change_id: str | None = None


def delete_records(
    installation: Installation, topic: str, before: Mapping[int, int], *, approval: ChangeApproval | None = None
) -> tuple[DeletedRecords, ...]:
    """Make the records below ``before[partition]`` unreadable; a log start is never lowered. Repeatable.

    ``approval``: by the second person, where it takes one.

    Raises:
        UsageError: the policy is compact only (Kafka's POLICY_VIOLATION), there is no such partition, an offset is
            beyond the log end (OFFSET_OUT_OF_RANGE), or it takes a second person, who did not approve it. Nothing was
            changed.
    """
    log = installation.log.open(topic)
    head = log.newest_head()
    config = log.config(head)
    if config.compacts and not config.deletes:
        raise UsageError(
            f"Records of topic {topic} were not deleted: its cleanup.policy is compact only, where the latest record "
            "of a key is kept for ever (Kafka answers POLICY_VIOLATION).",
            left="Nothing was changed.",
            next=f"To allow it: winnow topics alter {topic} --config cleanup.policy=compact,delete",
        )
    segments = log.segments(head)
    results: dict[int, DeletedRecords] = {}
    change_id = make_deletion_name(topic, uuid.uuid4().hex[:12])
    at_ms = installation.now_ms()

    def change(state: TopicState) -> dict[int, PartitionState]:
        require_second_person(installation, _show(topic, head, state, before), approval)
        moved: dict[int, PartitionState] = {}
        for partition, offset in sorted(before.items()):
            current = state.partitions[partition]
            start = _compute_log_start(f"{topic}-{partition}", current, offset)
            records = _count_records(segments.get(partition, ()), current.log_start_offset, start)
            moves = start > current.log_start_offset
            results[partition] = DeletedRecords(
                partition, start, current.log_start_offset, records, change_id if moves else None
            )
            moved[partition] = replace(current, log_start_offset=start)
        return moved

    def note(state: TopicState) -> TopicState:
        raises = tuple(
            LogStartRaise(each.partition, each.previous_log_start_offset, each.log_start_offset)
            for each in results.values()
            if each.change_id is not None
        )
        deletion = RecordsDeletion(change_id, at_ms, count_receipts(state), raises)
        return replace(state, deletions=(*state.deletions, deletion)[-MAXIMUM_DELETIONS:])

    _, changed = change_states(installation, topic, change, operation="delete-records", note=note, log=log)
    if changed:
        starts = [f"{topic}-{each.partition} below {each.log_start_offset:,}" for each in results.values()]
        details = [*starts, *describe_approval(approval)]
        record_action(installation, AuditAction.DELETE_RECORDS, topic, detail=", ".join(details))
    return tuple(results[partition] for partition in sorted(results))


def show_deletion(installation: Installation, topic: str, before: Mapping[int, int]) -> ShownChange:
    """Show what raising log starts would change, as a second person sees it.

    Raises:
        UsageError: there is no such partition, or an offset is beyond the log end.
    """
    head = installation.log.open(topic).newest_head()
    return _show(topic, head, head.state, before)


def _show(topic: str, head: Head, state: TopicState, before: Mapping[int, int]) -> ShownChange:
    select_partitions(topic, state, before)
    values: dict[str, tuple[str | None, str | None]] = {}
    for number, offset in sorted(before.items()):
        current = state.partitions[number]
        start = _compute_log_start(f"{topic}-{number}", current, offset)
        if start > current.log_start_offset:
            values[f"{topic}-{number}"] = (str(current.log_start_offset), str(start))
    return show_values(topic, head, values, removes=bool(values))


def describe_caution(config: TopicConfig) -> str | None:
    """Describe what deleting records by offset can bring forward under the topic's strategy; None under offset."""
    if not config.compacts or config.compaction_strategy is Strategy.OFFSET:
        return None
    return (
        f"Under compaction.strategy={config.compaction_strategy} the deleted records may have outranked later ones of "
        "their keys: such a later record, if not compacted yet, is the latest now."
    )


def _compute_log_start(name: str, state: PartitionState, offset: int) -> int:
    wanted = state.log_end_offset if offset == LOG_END else offset
    if wanted < 0:
        raise UsageError(
            f"{name}: {wanted} is not an offset (Kafka answers OFFSET_OUT_OF_RANGE).",
            left="Nothing was changed.",
            next=f"Offsets are 0 or above; {LOG_END} stands for the log end.",
        )
    if wanted > state.log_end_offset:
        raise UsageError(
            f"{name} ends at offset {state.log_end_offset}; records before {wanted} cannot be deleted (Kafka answers "
            "OFFSET_OUT_OF_RANGE).",
            left="Nothing was changed.",
        )
    return max(state.log_start_offset, wanted)


def _count_records(segments: tuple[Segment, ...], start: int, end: int) -> int:
    return sum(segment.records for segment in segments if start <= segment.last_offset and segment.first_offset < end)
