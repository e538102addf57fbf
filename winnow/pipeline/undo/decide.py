"""Decides what taking back a change of the log would do, partition by partition. Pure.

The log afterwards is what it would be, had the change never been: appends, log starts raised by others, checkpoint
imports, marks and epochs stay. A later change that was made over its result contradicts it, and goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

from winnow.clock import format_ms
from winnow.errors import UsageError
from winnow.pipeline.undo.changes import ChangeKind, LogChange
from winnow.values.model import Segment
from winnow.values.reversal import PartitionReversal
from winnow.values.topic_state import Append, EarlierLogStart, PartitionState, RetiredFile, TopicState


@dataclass(frozen=True, slots=True)
class PartitionUndo:
    """What taking changes back does to one partition.

    ``changes``: what is taken back, oldest first. ``state``: afterwards. ``restored``: segments that are live again;
    ``removed``: those that leave the log. ``log_starts``: of changes that stay and came later.
    """

    partition: int
    changes: tuple[LogChange, ...]
    state: PartitionState
    restored: tuple[Segment, ...]
    removed: tuple[Segment, ...]
    log_starts: tuple[EarlierLogStart, ...] = ()

    @property
    def records(self) -> int:
        """Number of records that come back, by the segments' counts; what lies below the log start is among them."""
        return sum(each.records for each in self.restored) - sum(each.records for each in self.removed)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a partition cannot be undone. ``later``: the changes that contradict it, oldest first, if that is all."""

    partition: int
    reason: str
    later: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UndoDecision:
    """What an undo would do. It is possible if there is no obstacle; nothing in either: all of it was undone before."""

    partitions: tuple[PartitionUndo, ...]
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True)
class _Log:
    """A head's state with its segments, its changes from the one that is taken back on, and what is looked up in it.

    ``erased``: by path of a file that held an erased key, the erasure that ended it.
    """

    state: TopicState
    live: Mapping[int, Sequence[Segment]]
    changes: Sequence[LogChange]
    erased: Mapping[str, str]

    @cached_property
    def undone(self) -> dict[str, frozenset[int]]:
        """The partitions in which changes were undone, by their names."""
        return {each.change_id: frozenset(each.partitions) for each in self.state.undone}

    @cached_property
    def retired(self) -> frozenset[str]:
        """Paths of the files that wait for the end of their grace."""
        return frozenset(file.path for file in self.state.retired)

    @cached_property
    def condemned(self) -> dict[str, RetiredFile]:
        """The files that a sweep deletes, by path."""
        return {file.path: file for file in self.state.condemned}

    def list_standing(self, number: int) -> list[LogChange]:
        """List the changes of a partition that were not undone in it, oldest first."""
        nowhere = frozenset[int]()
        return [
            change
            for change in self.changes
            if number in change.partitions and number not in self.undone.get(change.change_id, nowhere)
        ]


class _ObstacleError(Exception):
    """A partition cannot be undone."""

    def __init__(self, reason: str, later: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason, self.later = reason, tuple(later)


def decide_undo(
    state: TopicState,
    live: Mapping[int, Sequence[Segment]],
    changes: Sequence[LogChange],
    partitions: Collection[int] | None = None,
    *,
    takes_later: bool = False,
    erased: Mapping[str, str] | None = None,
) -> UndoDecision:
    """Decide what taking back the first of ``changes`` would do.

    Args:
        state: of the head.
        live: its segments, by partition.
        changes: that change, and all that came after it, oldest first.
        partitions: only these; None or none: all that it changed.
        takes_later: take back what contradicts it, too.
        erased: by path of a file that held an erased key, the id of the erasure.

    Raises:
        UsageError: it changed nothing in one of ``partitions``.
    """
    target = changes[0]
    for number in partitions or ():
        if number not in target.partitions:
            raise UsageError(
                f"{target.change_id} changed nothing in {state.topic}-{number}; it changed "
                f"{', '.join(f'{state.topic}-{changed}' for changed in sorted(target.partitions))}.",
                left="Nothing was changed.",
            )
    done = state.list_undone_partitions(target.change_id)
    log = _Log(state, live, changes, erased or {})
    found: list[PartitionUndo] = []
    obstacles: list[Obstacle] = []
    for number in sorted(set(partitions or target.partitions) - done):
        try:
            found.append(_decide_partition(log, number, takes_later=takes_later))
        except _ObstacleError as problem:
            obstacles.append(Obstacle(number, problem.reason, problem.later))
    if not obstacles:
        obstacles += _find_divided_moves(state, found)
    return UndoDecision(tuple(found), tuple(obstacles))


def _decide_partition(log: _Log, number: int, *, takes_later: bool) -> PartitionUndo:
    name, live = f"{log.state.topic}-{number}", log.live.get(number, ())
    standing = log.list_standing(number)
    taken = _select_taken(standing, number)
    later = [change.change_id for change in taken[1:]]
    if later and not takes_later:
        raise _ObstacleError(f"what it left of {name} was worked on later by {', '.join(later)}", later)
    reversals = [_get_reversal(change, number) for change in taken]
    present = log.state.partitions[number]
    _require_continuity(name, present, reversals)
    restored, removed = _compute_segments(name, log, live, reversals)
    _require_available(name, log, restored)
    _require_fit(name, present, live, restored, removed)
    start, log_starts = _compute_log_start(log.state, number, standing, taken)
    return PartitionUndo(
        number,
        tuple(taken),
        _compute_state(present, reversals, start),
        tuple(restored),
        tuple(removed),
        tuple(log_starts),
    )


def _get_reversal(change: LogChange, number: int) -> PartitionReversal:
    found = change.reversals.get(number)
    if found is None:
        raise _ObstacleError(
            f"what undoing {change.change_id} needs is not known: an older Winnow published it, or the state was "
            "rebuilt since"
        )
    return found


def _select_taken(standing: Sequence[LogChange], number: int) -> list[LogChange]:
    """Return the first change, and those after it that were made over its result or that of another of these."""
    taken = list(standing[:1])
    for later in standing[1:]:
        if any(_is_over(later, earlier, number) for earlier in taken):
            taken.append(later)
    return taken


def _is_over(later: LogChange, earlier: LogChange, number: int) -> bool:
    """Check whether ``later`` was made over what ``earlier`` left of a partition."""
    over, before = later.reversals.get(number), earlier.reversals.get(number)
    if over is None or before is None:
        return later.kind is not ChangeKind.DELETE_RECORDS
    if over.compacts:
        return True  # it judged every record by those that it found, and perhaps dropped their tombstones
    added = set(before.added)
    low, high = before.before.log_start_offset, before.after.log_start_offset
    return any(
        segment.path in added or (segment.first_offset < high and segment.last_offset >= low)
        for segment in over.removed
    )


def _require_continuity(name: str, present: PartitionState, reversals: Sequence[PartitionReversal]) -> None:
    """Check that no records were replaced by others below what a compaction had cleaned."""
    dirty = present.first_dirty_offset
    for each in reversed(reversals):
        cleaned = each.after.first_dirty_offset
        if each.compacts and cleaned is not None and (dirty is None or dirty < cleaned):
            raise _ObstacleError(
                f"records of {name} below offset {cleaned} were replaced since, by what Kafka has there"
            )
        dirty = each.before.first_dirty_offset if each.compacts else dirty


def _compute_segments(
    name: str, log: _Log, live: Sequence[Segment], reversals: Sequence[PartitionReversal]
) -> tuple[list[Segment], list[Segment]]:
    """Return the segments that come back into the log, and those that leave it."""
    there = {segment.path: segment for segment in live}
    restored: dict[str, Segment] = {}
    removed: list[Segment] = []
    for each in reversed(reversals):
        for path in each.added:
            if restored.pop(path, None) is not None:
                continue
            if path not in there:
                _require_not_erased(name, log, path)
                raise _ObstacleError(f"a segment of {name} that it wrote is no longer in the log: {path}")
            removed.append(there[path])
        restored |= {segment.path: segment for segment in each.removed}
    return sorted(restored.values(), key=attrgetter("first_offset")), removed


def _require_available(name: str, log: _Log, restored: Iterable[Segment]) -> None:
    """Check that the log still has each file among those that wait for the end of their grace."""
    for segment in restored:
        _require_not_erased(name, log, segment.path)
        if segment.path in log.condemned:
            at = format_ms(log.condemned[segment.path].retired_at_ms)
            raise _ObstacleError(f"a sweep is deleting a segment of {name} that it replaced at {at}: {segment.path}")
        if segment.path not in log.retired:
            raise _ObstacleError(f"a sweep has deleted a segment of {name} that it replaced: {segment.path}")


def _require_not_erased(name: str, log: _Log, path: str) -> None:
    if path in log.erased:
        raise _ObstacleError(f"ended by erasure {log.erased[path]}: a segment of {name} held an erased key: {path}")


def _require_fit(
    name: str,
    present: PartitionState,
    live: Iterable[Segment],
    restored: Sequence[Segment],
    removed: Iterable[Segment],
) -> None:
    """Check that segments that come back hold no offset that the log gave away again."""
    gone = {segment.path for segment in removed}
    after = sorted([*(each for each in live if each.path not in gone), *restored], key=attrgetter("first_offset"))
    crossed = next((high for low, high in pairwise(after) if high.first_offset <= low.last_offset), None)
    if crossed is not None:
        raise _ObstacleError(f"another segment of {name} holds offset {crossed.first_offset} now")
    if any(each.last_offset >= present.log_end_offset for each in restored):
        raise _ObstacleError(f"{name} ends at offset {present.log_end_offset} now, and its segments went beyond")


def _is_raise(change: LogChange, number: int) -> bool:
    found = change.reversals.get(number)
    return found is not None and found.after.log_start_offset > found.before.log_start_offset


def _compute_log_start(
    state: TopicState, number: int, standing: Sequence[LogChange], taken: Sequence[LogChange]
) -> tuple[int, list[EarlierLogStart]]:
    """Return the log start without the raises of ``taken``, and what those that stay would have found."""
    present = state.partitions[number].log_start_offset
    if not any(_is_raise(change, number) for change in taken):
        return present, []
    earlier = {
        each.change_id: each.log_start_offset
        for undone in state.undone
        for each in undone.log_starts
        if each.partition == number
    }
    before = {change.change_id: change.reversals[number].before for change in standing if number in change.reversals}
    found = {change_id: earlier.get(change_id, each.log_start_offset) for change_id, each in before.items()}
    start = found[taken[0].change_id]
    changed: list[EarlierLogStart] = []
    for change in standing:
        if change in taken or not _is_raise(change, number):
            continue
        if found[change.change_id] != start:
            changed.append(EarlierLogStart(change.change_id, number, start))
        start = max(start, change.reversals[number].after.log_start_offset)
    return min(start, present), changed


def _compute_state(present: PartitionState, reversals: Sequence[PartitionReversal], start: int) -> PartitionState:
    state = present
    for each in reversed(reversals):
        before, after = each.before, each.after
        if each.compacts:
            state = replace(
                state,
                first_dirty_offset=before.first_dirty_offset,
                strategy=before.strategy,
                history=before.history,
            )
            continue
        # What is not as the change left it was imported since, or retained by others.
        if state.first_dirty_offset == after.first_dirty_offset:
            state = replace(state, first_dirty_offset=before.first_dirty_offset)
        if state.history == after.history:
            state = replace(state, history=before.history)
    return replace(state, log_start_offset=start, appends=_join_appends(present, reversals, start))


def _join_appends(present: PartitionState, reversals: Sequence[PartitionReversal], start: int) -> tuple[Append, ...]:
    """Return the appends that are dirty again, and those that still are, in the order of their offsets."""
    dropped = [entry for each in reversals for entry in each.before.appends]
    joined = dict.fromkeys([*dropped, *present.appends])
    return tuple(sorted((each for each in joined if each.last_offset >= start), key=attrgetter("first_offset")))


def _find_divided_moves(state: TopicState, found: Sequence[PartitionUndo]) -> list[Obstacle]:
    """Find partitions that cannot be undone alone: their keyless records are in the quarantine under one name."""
    by_change: dict[str, set[int]] = {}
    changes: dict[str, LogChange] = {}
    for part in found:
        for change in part.changes:
            changes[change.change_id] = change
            by_change.setdefault(change.change_id, set()).add(part.partition)
    obstacles = []
    for change_id, change in changes.items():
        mine = by_change[change_id] & change.keyless
        others = change.keyless - mine - state.list_undone_partitions(change_id)
        if mine and others:
            listed = ", ".join(map(str, sorted(change.keyless)))
            obstacles.append(
                Obstacle(
                    min(mine),
                    f"{change_id} moved keyless records of partitions {listed} into the quarantine together; undo "
                    "these partitions together",
                )
            )
    return obstacles
