"""Lists, pauses and resumes partitions, with the state machine of their cleaning state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from winnow.errors import UsageError, WinnowError
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.leases import is_held_by_another
from winnow.pipeline.topics.marks import release_marks, select_partitions
from winnow.pipeline.topics.state_change import change_states
from winnow.report.alerts import format_partitions
from winnow.store.audit import AuditAction
from winnow.store.leases import describe_holder
from winnow.values.topic_state import PartitionState, TopicState


class CleaningStateKind(StrEnum):
    """The kinds of cleaning state."""

    NONE = "none"
    IN_PROGRESS = "in_progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class CleaningEvent(StrEnum):
    """The events of a partition's cleaning state."""

    TAKE = "take"
    DONE = "done"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class CleaningState:
    """A state; ``pauses`` counts the pausing names: at least 1 if aborted or paused, else 0."""

    kind: CleaningStateKind
    pauses: int = 0

    def __str__(self) -> str:
        return f"{self.kind.value}({self.pauses})" if self.pauses else self.kind.value


def derive_cleaning_state(*, held: bool, pauses: int) -> CleaningState:
    """Return the cleaning state for these facts."""
    if pauses:
        return CleaningState(CleaningStateKind.ABORTED if held else CleaningStateKind.PAUSED, pauses)
    return CleaningState(CleaningStateKind.IN_PROGRESS if held else CleaningStateKind.NONE)


def is_legal_event(state: CleaningState, event: CleaningEvent) -> bool:
    """Check whether ``event`` may happen in ``state``."""
    if event is CleaningEvent.TAKE:
        return state.kind is CleaningStateKind.NONE
    if event is CleaningEvent.DONE:
        return state.kind in {CleaningStateKind.IN_PROGRESS, CleaningStateKind.ABORTED}
    return event is CleaningEvent.PAUSE or state.pauses > 0


def apply_event(state: CleaningState, event: CleaningEvent) -> CleaningState:
    """Return the state after ``event``.

    Raises:
        WinnowError: the event is illegal in this state.
    """
    if not is_legal_event(state, event):
        raise WinnowError(
            f"A partition in state {state} does not allow {event.value}.",
            left="Nothing was changed.",
        )
    held = state.kind in {CleaningStateKind.IN_PROGRESS, CleaningStateKind.ABORTED}
    return derive_cleaning_state(
        held={CleaningEvent.TAKE: True, CleaningEvent.DONE: False}.get(event, held),
        pauses=state.pauses + {CleaningEvent.PAUSE: 1, CleaningEvent.RESUME: -1}.get(event, 0),
    )


UNCLEANABLE_STATE = "uncleanable"

MAXIMUM_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition as ``winnow partitions`` shows it.

    ``state``: none, in_progress, aborted (paused while a run holds the topic), uncleanable or paused; where several
    apply, the first one that eligibility checks. ``since_ms`` and ``reason`` belong to that state. ``attempts`` and
    ``next_attempt_ms`` belong to the uncleanable mark, ``paused_by`` and ``paused_since_ms`` to the pause.
    """

    topic: str
    partition: int
    state: str
    reason: str | None
    since_ms: int | None
    attempts: int
    next_attempt_ms: int | None
    paused_by: tuple[str, ...]
    paused_since_ms: int | None
    changed: bool = False


def get_cleaning_state(state: PartitionState, *, held: bool) -> CleaningState:
    """Return the cleaning state of one partition. A pause without a name counts as one."""
    paused = state.paused_since_ms is not None
    return derive_cleaning_state(held=held, pauses=max(len(state.paused_by), 1) if paused else 0)


def list_partitions(
    installation: Installation, topic: str, partitions: Collection[int] | None = None
) -> list[PartitionRow]:
    """List all partitions (or those named) with their states.

    Raises:
        UsageError: the topic has no such partition.
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    return _build_rows(installation, installation.log.open(topic).head().state, partitions)


def pause_partitions(
    installation: Installation, topic: str, partitions: Collection[int] | None = None, *, by: str
) -> list[PartitionRow]:
    """Pause partitions (None = all) under the name ``by``. Pausing twice under one name changes nothing.

    A run that is active on a paused partition publishes nothing of its topic.

    Raises:
        UsageError: no such partition, or no name.
        CommitConflictError, CommitUnknownError, ServiceError: see :func:`change_states`.
    """
    name = _check_name(by)
    now_ms = installation.now_ms()
    changed: list[int] = []

    def change(state: TopicState) -> dict[int, PartitionState]:
        known = {number: state.partitions[number] for number in select_partitions(topic, state, partitions)}
        fresh = {number: each for number, each in known.items() if name not in each.paused_by}
        changed[:] = fresh
        return {number: add_pause(each, name, now_ms) for number, each in fresh.items()}

    state, _ = change_states(installation, topic, change, operation="pause", summary={"winnow.by": name})
    _record(installation, AuditAction.PAUSE, topic, changed, name)
    return _build_rows(installation, state, partitions, changed)


def add_pause(state: PartitionState, name: str, now_ms: int) -> PartitionState:
    """Return the state of a partition that is paused under ``name``, too; the pause began with the first name."""
    return replace(
        state,
        paused_since_ms=now_ms if state.paused_since_ms is None else state.paused_since_ms,
        paused_by=state.paused_by if name in state.paused_by else (*state.paused_by, name),
    )


def resume_partitions(
    installation: Installation,
    topic: str,
    partitions: Collection[int] | None = None,
    *,
    by: str,
    everybody: bool = False,
) -> list[PartitionRow]:
    """Remove the pause of ``by``, or of ``everybody``. A partition continues when no pause is left.

    Partitions without that pause stay as they are. A pause without a name can be removed under any name.

    Raises:
        UsageError: no such partition, or no name.
        CommitConflictError, CommitUnknownError, ServiceError: see :func:`change_states`.
    """
    name = _check_name(by)
    changed: list[int] = []

    def change(state: TopicState) -> dict[int, PartitionState]:
        known = {number: state.partitions[number] for number in select_partitions(topic, state, partitions)}
        resumed = {
            number: each
            for number, each in known.items()
            if is_legal_event(get_cleaning_state(each, held=False), CleaningEvent.RESUME)
            and (everybody or name in each.paused_by or not each.paused_by)
        }
        changed[:] = resumed
        return {number: _remove_pause(each, name, everybody=everybody) for number, each in resumed.items()}

    state, _ = change_states(installation, topic, change, operation="resume", summary={"winnow.by": name})
    _record(installation, AuditAction.RESUME, topic, changed, name, ", every pause" if everybody else "")
    return _build_rows(installation, state, partitions, changed)


def release_partitions(
    installation: Installation, topic: str, partitions: Collection[int] | None = None, *, why: str
) -> list[int]:
    """Release uncleanable partitions (None = all), as somebody asked for; return those that were marked.

    Raises:
        UsageError, CommitConflictError, CommitUnknownError, ServiceError: see
            :func:`winnow.pipeline.topics.marks.release_marks`.
    """
    released = release_marks(installation, topic, partitions, why=why)
    _record(installation, AuditAction.RELEASE, topic, released, why)
    return released


def _record(
    installation: Installation, action: AuditAction, topic: str, changed: Sequence[int], reason: str, more: str = ""
) -> None:
    if changed:
        record_action(
            installation, action, topic, detail=format_partitions(topic, sorted(changed)) + more, reason=reason
        )


def _remove_pause(state: PartitionState, name: str, *, everybody: bool) -> PartitionState:
    if (
        everybody
        or apply_event(get_cleaning_state(state, held=False), CleaningEvent.RESUME).kind is CleaningStateKind.NONE
    ):
        return replace(state, paused_by=(), paused_since_ms=None)
    return replace(state, paused_by=tuple(each for each in state.paused_by if each != name))


def _check_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > MAXIMUM_NAME_LENGTH or not name.isprintable():
        raise UsageError(
            f"A pause needs a name of 1 to {MAXIMUM_NAME_LENGTH} printable characters.",
            left="Nothing was changed.",
            next="Give one with --by NAME.",
        )
    return name


def _build_rows(
    installation: Installation, state: TopicState, partitions: Collection[int] | None, changed: Collection[int] = ()
) -> list[PartitionRow]:
    topic = state.topic
    lease = installation.store.leases.find(topic) if is_held_by_another(installation, topic) else None
    holder = None if lease is None else describe_holder(lease, installation.now_ms(), installation.settings.lease_ms)
    return [
        _build_row(topic, number, state.partitions[number], holder, number in changed)
        for number in select_partitions(topic, state, partitions)
    ]


def _build_row(topic: str, number: int, state: PartitionState, holder: str | None, changed: bool) -> PartitionRow:
    found = get_cleaning_state(state, held=holder is not None)
    mark = state.uncleanable
    shown, reason, since_ms = found.kind.value, None, None
    if mark is not None:
        # Shown while a run holds the topic, too: people look here for the mark's reason before they release it.
        shown, reason, since_ms = UNCLEANABLE_STATE, mark.reason, mark.since_ms
        reason = reason if holder is None else f"{reason}; the topic is {holder}"
    elif holder is not None:
        reason = holder
        since_ms = state.paused_since_ms
    elif found.pauses:
        reason = f"paused by {', '.join(state.paused_by) or 'somebody'}"
        since_ms = state.paused_since_ms
    return PartitionRow(
        topic=topic,
        partition=number,
        state=shown,
        reason=reason,
        since_ms=since_ms,
        attempts=mark.attempts if mark is not None else 0,
        next_attempt_ms=mark.next_attempt_ms if mark is not None else None,
        paused_by=state.paused_by,
        paused_since_ms=state.paused_since_ms,
        changed=changed,
    )
