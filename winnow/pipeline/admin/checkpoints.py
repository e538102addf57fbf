"""Imports and exports Kafka's cleaner checkpoints.

When a broker cleaned up to an offset is unknown. So an imported checkpoint is a first dirty offset with a history of
unknown time: its tombstones count as not yet covered, and the first run starts their horizon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from winnow.errors import UnknownTopicError
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.state_change import change_states
from winnow.sources.checkpoint_file import CheckpointEntry
from winnow.store.audit import AuditAction
from winnow.values.topic_state import Cleaning, PartitionState, TopicState

OPERATION = "import-checkpoint"


class ImportOutcome(StrEnum):
    """The outcome of one entry of the file."""

    IMPORTED = "imported"
    RAISED = "raised"
    UNCHANGED = "unchanged"
    KEPT_NEWER = "kept_newer"
    UNKNOWN_TOPIC = "unknown_topic"
    UNKNOWN_PARTITION = "unknown_partition"


@dataclass(frozen=True, slots=True)
class ImportedEntry:
    """One entry of the file and its outcome.

    ``first_dirty_offset`` is the checkpoint afterwards, None if there is no such topic partition.
    """

    topic: str
    partition: int
    offset: int
    outcome: ImportOutcome
    first_dirty_offset: int | None
    message: str


def has_imported_checkpoint(state: PartitionState) -> bool:
    """Check whether the checkpoint was imported and Winnow has not cleaned the partition since."""
    return (
        state.first_dirty_offset is not None
        and state.strategy is None
        and all(entry.cleaning_time_ms is None for entry in state.history)
    )


def group_by_topic(entries: Iterable[CheckpointEntry]) -> dict[str, list[CheckpointEntry]]:
    """Group entries by topic, both sorted."""
    found: dict[str, list[CheckpointEntry]] = {}
    for entry in sorted(entries):
        found.setdefault(entry.topic, []).append(entry)
    return found


def import_checkpoints(
    installation: Installation, topic: str, entries: Sequence[CheckpointEntry]
) -> list[ImportedEntry]:
    """Import the checkpoints of one topic in one commit; no commit if they change nothing. Repeatable.

    A checkpoint of Winnow's own cleaning is never overwritten; an imported one is only raised. Offsets outside the log
    are imported unchanged: as in Kafka's cleaner, decisions start at the log start in that case. A run may be active
    meanwhile: its publish comes after or before this commit, and wins.

    Raises:
        ForeignTableError, CommitConflictError, CommitUnknownError, ServiceError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`; the topic is as it was, or (unknown) may not be.
    """
    outcomes: list[tuple[CheckpointEntry, ImportOutcome]] = []

    def change(state: TopicState) -> dict[int, PartitionState]:
        outcomes[:] = [
            (entry, _decide_outcome(state.partitions.get(entry.partition), entry.offset)) for entry in entries
        ]
        return {
            entry.partition: replace(
                state.partitions[entry.partition],
                first_dirty_offset=entry.offset,
                history=(Cleaning(entry.offset, None, None),),
            )
            for entry, outcome in outcomes
            if outcome in {ImportOutcome.IMPORTED, ImportOutcome.RAISED}
        }

    try:
        state, changed = change_states(installation, topic, change, operation=OPERATION)
    except UnknownTopicError:
        text = f"there is no topic {topic}"
        return [ImportedEntry(topic, e.partition, e.offset, ImportOutcome.UNKNOWN_TOPIC, None, text) for e in entries]
    if changed:
        taken = [e for e, outcome in outcomes if outcome in {ImportOutcome.IMPORTED, ImportOutcome.RAISED}]
        detail = ", ".join(f"{topic}-{entry.partition} clean below {entry.offset:,}" for entry in taken)
        record_action(installation, AuditAction.IMPORT_CHECKPOINT, topic, detail=detail)
    return [_build_imported_entry(entry, outcome, state.partitions.get(entry.partition)) for entry, outcome in outcomes]


def _decide_outcome(state: PartitionState | None, offset: int) -> ImportOutcome:
    if state is None:
        return ImportOutcome.UNKNOWN_PARTITION
    if state.first_dirty_offset is None:
        return ImportOutcome.IMPORTED
    if not has_imported_checkpoint(state) or offset < state.first_dirty_offset:
        return ImportOutcome.KEPT_NEWER
    return ImportOutcome.UNCHANGED if offset == state.first_dirty_offset else ImportOutcome.RAISED


def _build_imported_entry(
    entry: CheckpointEntry, outcome: ImportOutcome, state: PartitionState | None
) -> ImportedEntry:
    in_force = state.first_dirty_offset if state is not None else None
    return ImportedEntry(
        entry.topic, entry.partition, entry.offset, outcome, in_force, _describe_outcome(entry, outcome, state)
    )


def _describe_outcome(entry: CheckpointEntry, outcome: ImportOutcome, state: PartitionState | None) -> str:
    if state is None:
        return f"topic {entry.topic} has no partition {entry.partition}"
    if outcome is ImportOutcome.KEPT_NEWER:
        whose = "a higher one was imported before" if has_imported_checkpoint(state) else "Winnow has cleaned it since"
        return f"stays at {state.first_dirty_offset}: {whose}"
    what = {ImportOutcome.IMPORTED: "clean up to here, cleaning time unknown", ImportOutcome.RAISED: "raised"}
    return what.get(outcome, "was imported before") + _describe_outside_log(entry.offset, state)


def _describe_outside_log(offset: int, state: PartitionState) -> str:
    """Describe the effect of an offset outside the log."""
    if offset > state.log_end_offset:
        return f"; beyond the log end {state.log_end_offset}: counts as the log start until the log reaches it"
    if offset < state.log_start_offset:
        return f"; below the log start {state.log_start_offset}: counts as the log start"
    return ""


def export_checkpoints(installation: Installation, topic: str) -> list[CheckpointEntry]:
    """Return the checkpoints of ``topic`` in its log; partitions without one are left out.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    states = installation.log.open(topic).head().state.partitions
    return [
        CheckpointEntry(topic, number, state.first_dirty_offset)
        for number, state in sorted(states.items())
        if state.first_dirty_offset is not None
    ]
