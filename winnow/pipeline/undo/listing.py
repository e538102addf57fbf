"""Lists what can be taken back of a topic's log, until when, and what that would bring back; finds a plan's topic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from winnow.errors import UsageError
from winnow.log.erasures import find_erased_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.undo.changes import LogChange, find_topic_of_deletion, list_newest_changes
from winnow.pipeline.undo.decide import PartitionUndo, UndoDecision, decide_undo
from winnow.values.topic_state import TopicState

DEFAULT_CHANGES_LISTED = 20
MINIMUM_PREFIX_LENGTH = 6


@dataclass(frozen=True, slots=True)
class UndoableChange:
    """A change of a log, and what taking it back would do now.

    ``partitions``: those that it changed; ``undone_partitions``: those in which it was taken back, ``undone_by`` whom.
    ``undoable``: all of the rest can be taken back alone, or, with ``needs_later``, together with those later changes;
    ``reason``: why not alone. ``until_ms``: when the first of the files that this needs may be deleted; None: it needs
    none. ``records``, ``files``, ``size_bytes``: what would come back into the log, less the records of what leaves it.
    """

    change_id: str
    kind: str
    at_ms: int
    partitions: tuple[int, ...]
    undone_partitions: tuple[int, ...]
    undone_by: str | None
    undoable: bool
    reason: str | None
    needs_later: tuple[str, ...]
    until_ms: int | None
    records: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class UndoableChanges:
    """The newest changes of a topic's log, newest first. ``grace_ms``: how long replaced files stay."""

    topic: str
    grace_ms: int
    changes: tuple[UndoableChange, ...]


def list_undoable(installation: Installation, topic: str, *, limit: int = DEFAULT_CHANGES_LISTED) -> UndoableChanges:
    """List the newest ``limit`` changes of the log of ``topic``, newest first, with what an undo would do.

    Raises:
        UnknownTopicError, ForeignTableError, DamagedMetadataError, ServiceError: as
            :meth:`winnow.log.topic_log.TopicLog.head`.
    """
    log = installation.log.open(topic)
    head = log.head()
    grace_ms = log.config(head).retired_grace_ms
    changes = list_newest_changes(log, head, limit)
    live, erased = log.segments(head), find_erased_files(head.state)

    def decide(number: int, *, takes_later: bool) -> UndoDecision:
        return decide_undo(head.state, live, changes[number:], takes_later=takes_later, erased=erased)

    found = []
    for number, change in enumerate(changes):
        alone = decide(number, takes_later=False)
        together = decide(number, takes_later=True) if alone.obstacles else alone
        found.append(_describe(head.state, change, alone, together, grace_ms))
    return UndoableChanges(topic, grace_ms, tuple(found[::-1]))


def find_change(installation: Installation, named: str) -> tuple[str, str]:
    """Return the topic and the whole name of the change that ``named``, or the beginning of a plan's id, stands for.

    Raises:
        UsageError: there is no such change, or there are several.
    """
    topic = find_topic_of_deletion(named)
    if topic is not None:
        return topic, named
    run = installation.store.runs.find(named)
    if run is not None:
        return run.topic, named
    is_prefix = len(named) >= MINIMUM_PREFIX_LENGTH and re.fullmatch("[0-9a-f]+", named) is not None
    found = installation.store.projection.find_published(named) if is_prefix else {}
    if len(found) == 1:
        ((plan_id, of_topic),) = found.items()
        return of_topic, plan_id
    what = f"More than one plan's id begins with {named}." if found else f"There is no published plan {named}."
    raise UsageError(
        what,
        left="Nothing was changed.",
        next="See what can be taken back with: winnow undo --list",
    )


def _describe(
    state: TopicState, change: LogChange, alone: UndoDecision, together: UndoDecision, grace_ms: int
) -> UndoableChange:
    undone = state.find_undone(change.change_id)
    done = () if undone is None else undone.partitions
    possible = not together.obstacles and bool(together.partitions)
    decided = together.partitions if possible else ()
    reason = alone.obstacles[0].reason if alone.obstacles else None
    if not alone.obstacles and not alone.partitions:
        reason = "it was undone"
    return UndoableChange(
        change_id=change.change_id,
        kind=change.kind.value,
        at_ms=change.at_ms,
        partitions=tuple(sorted(change.partitions)),
        undone_partitions=done,
        undone_by=None if undone is None else undone.by,
        undoable=possible,
        reason=reason if not together.obstacles else together.obstacles[0].reason,
        needs_later=_list_later(decided) if alone.obstacles else (),
        until_ms=_find_end(state, decided, grace_ms),
        records=sum(part.records for part in decided),
        files=sum(len(part.restored) for part in decided),
        size_bytes=sum(segment.size_bytes for part in decided for segment in part.restored),
    )


def _list_later(decided: Iterable[PartitionUndo]) -> tuple[str, ...]:
    """List the later changes that go too, the newest of each partition first."""
    return tuple(dict.fromkeys(change.change_id for part in decided for change in reversed(part.changes[1:])))


def _find_end(state: TopicState, decided: Sequence[PartitionUndo], grace_ms: int) -> int | None:
    """Find when the first of the needed files may be deleted."""
    retired = {file.path: file.retired_at_ms for file in state.retired}
    needed = [segment.path for part in decided for segment in part.restored]
    return min((retired[path] + grace_ms for path in needed), default=None)
