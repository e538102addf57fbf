"""Takes a run, or a deletion of records, back in one commit: what it replaced is live again, what it wrote is retired.

Nothing decides but that commit: on every turn of the commit loop it is decided anew over the newest head, and a segment
that a sweep has condemned is gone for it. The commit raises the fence, so that no attempt from before is published
over segments that are live again, and pauses the partitions, so that the next run does not do the same again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from winnow.clock import format_ms
from winnow.config.definitions import LATEST_TABLE
from winnow.errors import DamagedSegmentError, UndoRefusedError
from winnow.files.checked_reading import check_segment_offsets
from winnow.files.quarantine_files import is_of_keyless_move
from winnow.log import fence
from winnow.log.erasures import find_erased_files
from winnow.log.head import Change, Head
from winnow.log.quarantine import Quarantine
from winnow.log.state import UNDONE_MOVES_PROPERTY
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.plan_validity import name_undone_run
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import iterate_parallel
from winnow.pipeline.topics.audit import get_actor_name, record_action
from winnow.pipeline.topics.overview import refresh_overview
from winnow.pipeline.topics.partitions import MAXIMUM_NAME_LENGTH, add_pause
from winnow.pipeline.undo.changes import LogChange, list_changes_from
from winnow.pipeline.undo.decide import Obstacle, PartitionUndo, UndoDecision, decide_undo
from winnow.report.alerts import format_partitions
from winnow.report.events import log_event
from winnow.store.audit import AuditAction
from winnow.values.counts import format_count
from winnow.values.model import Segment
from winnow.values.topic_state import MAXIMUM_UNDONE, RetiredFile, TopicState, UndoneChange

OPERATION: Final = "undo"
"""Value of ``winnow.operation`` in the summary of a snapshot that took changes back."""
UNDO_PROPERTY: Final = "winnow.undone"
"""Property of a snapshot's summary: what it took back, the newest first."""
UNDONE_NOTE: Final = "Undone by "
"""Begins the message of a run that was taken back."""
MAXIMUM_OBSTACLES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class UndonePartition:
    """One partition after the undo. ``undone``: what was taken back, newest first."""

    partition: int
    log_start_offset: int
    first_dirty_offset: int | None
    undone: tuple[str, ...]
    records_restored: int
    files_restored: int
    bytes_restored: int


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What taking a change back did. ``was_undone``: an earlier call did it already, and nothing was changed.

    ``paused_by``: the name under which the partitions are paused. ``resume``: the command that lets them go on.
    ``snapshot_id`` None: nothing was committed.
    """

    topic: str
    change_id: str
    was_undone: bool
    snapshot_id: int | None
    partitions: tuple[UndonePartition, ...]
    files_retired: int
    bytes_retired: int
    paused_by: str
    resume: str


class _AlreadyUndoneError(Exception):
    """Nothing is left to take back."""


def undo_change(
    installation: Installation,
    topic: str,
    change_id: str,
    partitions: Collection[int] | None = None,
    *,
    takes_later: bool = False,
) -> UndoReport:
    """Take back a compaction, a retention run, or a deletion of records, in ``partitions`` (None or none: all of it).

    Repeating it changes nothing, and completes the metadata store after a crash.

    Args:
        installation: where.
        topic: of the change.
        change_id: the plan's id, or the name of a deletion of records.
        partitions: those in which it is taken back.
        takes_later: also take back later runs that worked on what it left, the newest first, in the same commit.

    Raises:
        UndoRefusedError: a later run contradicts it, or a file that it replaced is gone or damaged. Nothing was
            changed.
        UsageError: the log has no such change, or it changed nothing in one of ``partitions``.
        CommitConflictError, CommitUnknownError, ServiceError, UnknownTopicError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    started_ms = installation.now_ms()
    log = installation.log.open(topic)
    actor = get_actor_name(installation)
    checked: set[str] = set()
    retired: list[RetiredFile] = []
    decided: list[PartitionUndo] = []

    def build(head: Head) -> Change:
        changes = list_changes_from(log, head, change_id)
        decision = decide_undo(
            head.state,
            log.segments(head),
            changes,
            partitions,
            takes_later=takes_later,
            erased=find_erased_files(head.state),
        )
        _require_no_obstacle(topic, change_id, decision)
        if not decision.partitions:
            raise _AlreadyUndoneError
        # Once is enough: after this, only a commit of a sweep allows deleting them, and that is seen.
        _check_restored(topic, change_id, decision.partitions, checked)
        now_ms = installation.now_ms()
        decided[:] = decision.partitions
        retired[:] = [
            *_retire_segments(decided, now_ms),
            *_retire_keyless(installation.log.quarantine(topic, head), decided, now_ms),
        ]
        installation.guard.require_own()
        return _build_change(head, decided, retired, actor, now_ms)

    try:
        snapshot_id = log.commit(build).snapshot_id
    except _AlreadyUndoneError:
        snapshot_id = None
        decided.clear()
        retired.clear()
    undone = {change.change_id for part in decided for change in part.changes}
    _complete_store(installation, log, {change_id, *undone})
    report = _make_report(topic, change_id, snapshot_id, decided, retired, name_pause(actor))
    if snapshot_id is not None:
        _tell(installation, report, installation.now_ms() - started_ms)
    return report


def name_pause(actor: str) -> str:
    """Return the name under which ``actor`` pauses what it undoes."""
    return "".join(letter for letter in f"undone by {actor}" if letter.isprintable())[:MAXIMUM_NAME_LENGTH].strip()


def make_resume_command(topic: str, partitions: Iterable[int], name: str) -> str:
    """Make the command that lets undone partitions be compacted again."""
    listed = " ".join(f"--partition {number}" for number in sorted(partitions))
    return f"winnow partitions resume {topic} {listed} --by '{name}'"


def describe_obstacles(topic: str, change_id: str, obstacles: Sequence[Obstacle]) -> str:
    """Describe in a sentence why ``change_id`` cannot be taken back."""
    reasons = [each.reason for each in obstacles[:MAXIMUM_OBSTACLES_SHOWN]]
    left_out = len(obstacles) - len(reasons)
    more = f"; and {format_count(left_out, 'more partition')}" if left_out else ""
    return f"{change_id} of topic {topic} was not undone: {'; '.join(reasons)}{more}."


def _require_no_obstacle(topic: str, change_id: str, decision: UndoDecision) -> None:
    if not decision.obstacles:
        return
    only_later = all(each.later for each in decision.obstacles)
    possible = [each.partition for each in decision.partitions]
    if only_later:
        following = f"To take all of them back, the newest first: winnow undo {change_id} --and-later"
    elif possible:
        listed = " ".join(f"--partition {number}" for number in possible)
        following = f"Elsewhere it can be undone: winnow undo {change_id} {listed}"
    else:
        following = f"See what can be taken back with: winnow undo --list {topic}"
    raise UndoRefusedError(
        describe_obstacles(topic, change_id, decision.obstacles), left="Nothing was changed.", next=following
    )


def _check_restored(topic: str, change_id: str, found: Iterable[PartitionUndo], checked: set[str]) -> None:
    """Check that each segment that comes back is the one that left: its size, its footer, its offsets.

    Raises:
        UndoRefusedError: one is gone or damaged.
        ServiceError: the object store does not answer.
    """
    wanted = [segment for part in found for segment in part.restored if segment.path not in checked]
    for segment, problem in iterate_parallel(_find_damage, wanted):
        if problem is not None:
            raise UndoRefusedError(
                f"{change_id} of topic {topic} was not undone: a segment of {topic}-{segment.partition} that it "
                f"replaced {problem}: {segment.path}.",
                left="Nothing was changed.",
                next=(
                    "Restore that file from a backup or the object store's versions, then run it again; other "
                    "partitions can be undone with --partition."
                ),
            )
        checked.add(segment.path)


def _find_damage(segment: Segment) -> str | None:
    try:
        check_segment_offsets(segment)
    except FileNotFoundError:
        return "is missing"
    except DamagedSegmentError as problem:
        return problem.clause
    return None


def _retire_segments(found: Iterable[PartitionUndo], now_ms: int) -> list[RetiredFile]:
    retired: list[RetiredFile] = []
    for part in found:
        writers = {path: change.change_id for change in part.changes for path in change.reversals[part.partition].added}
        retired += [
            RetiredFile(segment.path, segment.size_bytes, now_ms, name_undone_run(writers[segment.path]))
            for segment in part.removed
        ]
    return retired


def _retire_keyless(quarantine: Quarantine, found: Sequence[PartitionUndo], now_ms: int) -> list[RetiredFile]:
    """Return the quarantine's files with records that the undone runs moved there."""
    moves = _list_moves(found)
    return [
        RetiredFile(entry.path, entry.size_bytes, now_ms, name_undone_run(change.change_id))
        for entry in (quarantine.files() if moves else ())
        for change in moves
        if is_of_keyless_move(entry.path, quarantine.location, change.change_id, change.attempt)
    ]


def _list_moves(found: Iterable[PartitionUndo]) -> list[LogChange]:
    """List the undone runs whose keyless records come back into the log."""
    listed = {change.change_id: change for part in found for change in part.changes if part.partition in change.keyless}
    return list(listed.values())


def _build_change(
    head: Head, decided: Sequence[PartitionUndo], retired: Sequence[RetiredFile], actor: str, now_ms: int
) -> Change:
    state, name = head.state, name_pause(actor)
    back = {segment.path for part in decided for segment in part.restored}
    moves = {change.move_id for change in _list_moves(decided)}
    after = replace(
        state,
        partitions={**state.partitions, **{part.partition: add_pause(part.state, name, now_ms) for part in decided}},
        retired=(*(file for file in state.retired if file.path not in back), *retired),
        quarantine_ingests=tuple(each for each in state.quarantine_ingests if each not in moves),
        undone=_add_undone(state, decided, actor, now_ms),
    )
    raised = fence.make_fence_change(replace(head, state=after), [], operation=OPERATION)
    ids = dict.fromkeys(change.change_id for part in decided for change in reversed(part.changes))
    return replace(
        raised,
        add=[segment for part in decided for segment in part.restored],
        remove=[segment.path for part in decided for segment in part.removed],
        remove_from={part.partition for part in decided},
        summary={
            **raised.summary,
            UNDO_PROPERTY: ",".join(ids),
            **({UNDONE_MOVES_PROPERTY: ",".join(sorted(moves))} if moves else {}),
        },
    )


def _add_undone(state: TopicState, decided: Sequence[PartitionUndo], by: str, now_ms: int) -> tuple[UndoneChange, ...]:
    known = {each.change_id: each for each in state.undone}
    for part in decided:
        for change in part.changes:
            before = known.pop(change.change_id, UndoneChange(change.change_id, by, now_ms, ()))
            # What a change that stays would have found is told by the oldest that is taken back.
            starts = part.log_starts if change is part.changes[0] else ()
            known[change.change_id] = replace(
                before,
                by=by,
                at_ms=now_ms,
                partitions=tuple(sorted({*before.partitions, part.partition})),
                log_starts=(*before.log_starts, *starts),
            )
    return tuple(known.values())[-MAXIMUM_UNDONE:]


def _complete_store(installation: Installation, log: TopicLog, change_ids: Iterable[str]) -> None:
    """Bring the metadata store in line with the newest head, and the table of the latest state with the log.

    ``change_ids``: what this call was asked to take back, and took with it.
    """
    head = log.head()  # another commit may have come after
    topic, state = log.topic, head.state
    undone = {name_undone_run(each.change_id) for each in state.undone}
    retired = [file for file in state.waiting_files if file.plan_id in undone]
    live = log.segments(head)
    installation.store.retired_files.take_back(
        topic, [segment.path for segment in chain.from_iterable(live.values())], table_uuid=head.table_uuid
    )
    installation.store.retired_files.record(topic, retired, "data", table_uuid=head.table_uuid)
    installation.store.projection.record_states(
        topic, state.partitions, installation.now_ms(), table_uuid=head.table_uuid
    )
    _note_runs(installation, state, change_ids)
    refresh_overview(installation, topic, head, live)
    if LATEST_TABLE in head.table.properties:
        # The engine takes a while to load, and most topics keep no such table.
        from winnow.pipeline.latest.table import update_after_publish

        update_after_publish(installation, topic, head)


def _note_runs(installation: Installation, state: TopicState, change_ids: Iterable[str]) -> None:
    """Note in the messages of runs by whom and where they were taken back."""
    for change_id in sorted(change_ids):
        undone, receipt = state.find_undone(change_id), installation.store.projection.find_receipt(change_id)
        if undone is not None and receipt is not None:
            partitions = format_partitions(state.topic, undone.partitions)
            note = (
                f"{UNDONE_NOTE}{undone.by} at {format_ms(undone.at_ms)}: {partitions}. Before that: {receipt.message}"
            )
            installation.store.runs.note_message(change_id, note)


def _make_report(
    topic: str,
    change_id: str,
    snapshot_id: int | None,
    decided: Sequence[PartitionUndo],
    retired: Sequence[RetiredFile],
    name: str,
) -> UndoReport:
    return UndoReport(
        topic=topic,
        change_id=change_id,
        was_undone=snapshot_id is None,
        snapshot_id=snapshot_id,
        partitions=tuple(
            UndonePartition(
                partition=part.partition,
                log_start_offset=part.state.log_start_offset,
                first_dirty_offset=part.state.first_dirty_offset,
                undone=tuple(change.change_id for change in reversed(part.changes)),
                records_restored=part.records,
                files_restored=len(part.restored),
                bytes_restored=sum(segment.size_bytes for segment in part.restored),
            )
            for part in decided
        ),
        files_retired=len(retired),
        bytes_retired=sum(file.size_bytes for file in retired),
        paused_by=name if decided else "",
        resume=make_resume_command(topic, [part.partition for part in decided], name) if decided else "",
    )


def _tell(installation: Installation, report: UndoReport, duration_ms: int) -> None:
    records = sum(part.records_restored for part in report.partitions)
    undone = dict.fromkeys(chain.from_iterable(part.undone for part in report.partitions))
    log_event(
        "undone",
        report.topic,
        plan_id=report.change_id,
        undone=list(undone),
        records_restored=records,
        partitions=[part.partition for part in report.partitions],
        files_retired=report.files_retired,
        bytes_retired=report.bytes_retired,
        snapshot_id=str(report.snapshot_id),
        duration_ms=duration_ms,
    )
    numbers = ", ".join(f"{report.topic}-{part.partition}" for part in report.partitions)
    detail = f"{', '.join(undone)} in {numbers}: {records:,} records are back"
    record_action(installation, AuditAction.UNDO, report.topic, detail=detail)
