"""Partition states as rows: checkpoint, cleaning history, marks. Everything of a state but its appends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from winnow.model import Cleaning, PartitionState, TopicPartition, Uncleanable
from winnow.store import bulk, tables
from winnow.store.values import CheckpointRow


def read_checkpoints(session: Session, topics: Sequence[str]) -> list[CheckpointRow]:
    """Checkpoints of ``topics`` (none = all) with their histories, in the order of topic and partition."""
    row, entry = tables.Checkpoint, tables.CleaningTable
    checkpoints = select(row).order_by(row.topic, row.partition)
    cleanings = select(entry).order_by(entry.topic, entry.partition, entry.end_offset)
    if topics:
        checkpoints = checkpoints.where(row.topic.in_(topics))
        cleanings = cleanings.where(entry.topic.in_(topics))
    history: dict[tuple[str, int], list[Cleaning]] = defaultdict(list)
    for found in session.scalars(cleanings):
        history[found.topic, found.partition].append(
            Cleaning(found.end_offset, found.cleaning_time_ms, found.delete_horizon_ms)
        )
    return [
        CheckpointRow(
            topic=found.topic,
            partition=found.partition,
            first_dirty_offset=found.first_dirty_offset,
            log_start_offset=found.log_start_offset,
            log_end_offset=found.log_end_offset,
            strategy=found.strategy,
            history=tuple(history[found.topic, found.partition]),
            updated_at_ms=found.updated_at_ms,
        )
        for found in session.scalars(checkpoints)
    ]


def read_marks(session: Session, topics: Sequence[str]) -> dict[TopicPartition, Uncleanable]:
    """Uncleanable partitions of ``topics`` (none = all), in order."""
    row = tables.UncleanableTable
    statement = select(row).order_by(row.topic, row.partition)
    if topics:
        statement = statement.where(row.topic.in_(topics))
    return {
        TopicPartition(found.topic, found.partition): Uncleanable(
            reason=found.reason,
            since_ms=found.since_ms,
            plan_id=found.plan_id,
            attempts=found.attempts,
            next_attempt_ms=found.next_attempt_ms,
        )
        for found in session.scalars(statement)
    }


def read_paused(session: Session, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Paused partitions of ``topics`` (none = all) and since when (ms), in order."""
    row = tables.Paused
    statement = select(row).order_by(row.topic, row.partition)
    if topics:
        statement = statement.where(row.topic.in_(topics))
    return {TopicPartition(found.topic, found.partition): found.since_ms for found in session.scalars(statement)}


def read_paused_by(session: Session, topic: str) -> dict[int, tuple[str, ...]]:
    """Who paused the partitions of ``topic``, in the order in which they did."""
    row = tables.PausedBy
    names: dict[int, list[str]] = defaultdict(list)
    for found in session.scalars(select(row).where(row.topic == topic).order_by(row.partition, row.number)):
        names[found.partition].append(found.name)
    return {number: tuple(listed) for number, listed in names.items()}


def read_states(session: Session, topic: str) -> dict[int, PartitionState]:
    """The states of ``topic`` as far as they are projected: without appends."""
    marks, paused = read_marks(session, [topic]), read_paused(session, [topic])
    paused_by = read_paused_by(session, topic)
    return {
        found.partition: PartitionState(
            log_start_offset=found.log_start_offset,
            log_end_offset=found.log_end_offset,
            first_dirty_offset=found.first_dirty_offset,
            strategy=found.strategy,
            history=found.history,
            uncleanable=marks.get(TopicPartition(topic, found.partition)),
            paused_since_ms=paused.get(TopicPartition(topic, found.partition)),
            paused_by=paused_by.get(found.partition, ()),
        )
        for found in read_checkpoints(session, [topic])
    }


def write_states(session: Session, topic: str, states: Mapping[int, PartitionState], now_ms: int) -> None:
    """Replace what is projected of the partitions in ``states``. Those that say nothing new are not touched."""
    known = read_states(session, topic)
    changed = {
        number: state for number, state in sorted(states.items()) if known.get(number) != replace(state, appends=())
    }
    for some in bulk.split_chunks(sorted(changed.keys() & known.keys())):
        # History and marks hang on the checkpoint and go with it.
        session.execute(
            delete(tables.Checkpoint).where(tables.Checkpoint.topic == topic, tables.Checkpoint.partition.in_(some))
        )
    _insert(session, topic, changed, now_ms)


def _insert(session: Session, topic: str, states: Mapping[int, PartitionState], now_ms: int) -> None:
    of = {number: {"topic": topic, "partition": number} for number in states}
    bulk.insert(
        session,
        tables.Checkpoint,
        [
            {
                **of[number],
                "first_dirty_offset": state.first_dirty_offset,
                "log_start_offset": state.log_start_offset,
                "log_end_offset": state.log_end_offset,
                "strategy": state.strategy,
                "updated_at_ms": now_ms,
            }
            for number, state in states.items()
        ],
    )
    bulk.insert(
        session,
        tables.CleaningTable,
        [{**of[number], **asdict(entry)} for number, state in states.items() for entry in state.history],
    )
    bulk.insert(
        session,
        tables.UncleanableTable,
        [
            {**of[number], **asdict(state.uncleanable)}
            for number, state in states.items()
            if state.uncleanable is not None
        ],
    )
    bulk.insert(
        session,
        tables.Paused,
        [
            {**of[number], "since_ms": state.paused_since_ms}
            for number, state in states.items()
            if state.paused_since_ms is not None
        ],
    )
    bulk.insert(
        session,
        tables.PausedBy,
        [
            {**of[number], "number": place, "name": name}
            for number, state in states.items()
            for place, name in enumerate(state.paused_by)
        ],
    )
