"""Compaction runs, one row per plan, the allowed state changes, and the verdicts on attempts.

================  ====================================================================================================
to                from
================  ====================================================================================================
planned           planned. :meth:`Runs.open` opens again from every state but publishing, unknown and published
compacting        planned, compacting, staged, validated, broken (a new attempt)
staged            planned, compacting, staged, validated, broken
validated         planned, compacting, staged, validated, broken (a mended check)
invalid           planned, compacting, staged, validated, broken, invalid
broken            planned, compacting, staged, validated, broken
spark_failed      planned, compacting, spark_failed
publishing        validated, publishing, unknown
refused           validated, publishing, unknown, refused, void
unknown           every state but published: an attempt thought dead may have committed, and unknown is the careful one
void              planned, compacting, staged, validated, broken, void; publishing and unknown where ``seen`` says so
published         every state: the plan id is in the table's history, and the table is right
================  ====================================================================================================

Every change compares the attempt, so that a process whose attempt was replaced changes nothing any more; published
alone does not, because the table has decided. Publishing and unknown become void only after the topic's fence was
raised (:mod:`winnow.log.fence`), by a caller that names them as the state that was seen.

Published is final: asked to be published again it stays as it is, asked for anything else it refuses. From publishing
and unknown nothing leads back to work before the table's history has been read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from winnow.errors import CommitUnknownError, PlanVoidError, RunAgainError, WinnowError
from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart, lock_topic_rows
from winnow.store.row_values import read_value
from winnow.store.rows import Run, RunState
from winnow.store.run_progress import PLANNING, note_transition
from winnow.store.topic_rows import require_same_life
from winnow.values.documents import dump_json, load_json
from winnow.values.results import Verdict


class Verdicts(StorePart):
    """One row per plan and attempt."""

    def record(self, verdict: Verdict) -> None:
        """Record ``verdict``; a second one of the same attempt replaces it."""
        row = tables.VerdictTable.make_row(verdict, document=dump_json(verdict).decode())
        with self._database.writing() as session:
            bulk_statements.upsert(session, tables.VerdictTable, [row])

    def find(self, plan_id: str, attempt: str) -> Verdict | None:
        """Find the verdict on one attempt at a plan."""
        with self._database.reading() as session:
            row = session.get(tables.VerdictTable, (plan_id, attempt))
            return None if row is None else load_json(Verdict, row.document.encode())

    def list_verdicts(self, topic: str | None = None, limit: int | None = None) -> list[Verdict]:
        """List verdicts of ``topic`` (None = all), newest first; at most ``limit``."""
        row = tables.VerdictTable
        statement = select(row).order_by(row.checked_at_ms.desc(), row.plan_id, row.attempt).limit(limit)
        if topic is not None:
            statement = statement.where(row.topic == topic)
        with self._database.reading() as session:
            return [load_json(Verdict, verdict.document.encode()) for verdict in session.scalars(statement)]


_WORK: Final = frozenset({RunState.PLANNED, RunState.COMPACTING, RunState.STAGED, RunState.VALIDATED, RunState.BROKEN})

_UNSETTLED: Final = frozenset(state for state in RunState if state.is_unsettled)

_NOT_PUBLISHED: Final = frozenset(RunState) - {RunState.PUBLISHED}

TRANSITIONS: Final[dict[RunState, frozenset[RunState]]] = {
    RunState.PLANNED: frozenset({RunState.PLANNED}),
    RunState.COMPACTING: _WORK,
    RunState.STAGED: _WORK,
    RunState.VALIDATED: _WORK,
    RunState.INVALID: _WORK | {RunState.INVALID},
    RunState.BROKEN: _WORK,
    RunState.SPARK_FAILED: frozenset({RunState.PLANNED, RunState.COMPACTING, RunState.SPARK_FAILED}),
    RunState.PUBLISHING: _UNSETTLED | {RunState.VALIDATED},
    RunState.REFUSED: _UNSETTLED | {RunState.VALIDATED, RunState.REFUSED, RunState.VOID},
    RunState.UNKNOWN: _NOT_PUBLISHED,
    RunState.VOID: _WORK | _UNSETTLED | {RunState.VOID},
    RunState.PUBLISHED: _NOT_PUBLISHED,
}
"""Target state to the states that it may follow: the table above."""


class Runs(StorePart):
    """One row per plan. Changes are compare-and-swap on the state, so two processes cannot overwrite each other."""

    def open(
        self,
        plan_id: str,
        topic: str,
        *,
        attempt: str,
        as_of_ms: int,
        plan_uri: str,
        now_ms: int,
        holder: str | None = None,
        plan_sha256: str | None = None,
        fence: int = 0,
        planning_since_ms: int | None = None,
        table_uuid: str | None = None,
    ) -> Run:
        """Open the run of a plan, planned, with ``attempt`` as its latest. Opening again keeps the first opening time.

        ``holder``: the planner, as leases name it. ``plan_sha256``: of the plan's bytes at ``plan_uri``. ``fence``: the
        topic's, as it was before this call. ``planning_since_ms``: when its planning began. ``table_uuid``: the life of
        the topic that is planned for.

        A published run is returned as it is.

        Raises:
            CommitUnknownError: an earlier attempt may have committed; it must be settled first.
            PlanVoidError: the topic was removed and created again meanwhile.
        """
        opened = Run(
            plan_id=plan_id,
            topic=topic,
            attempt=attempt,
            status=RunState.PLANNED,
            as_of_ms=as_of_ms,
            plan_uri=plan_uri,
            opened_at_ms=now_ms,
            updated_at_ms=now_ms,
            holder=holder,
            plan_sha256=plan_sha256,
            fence=fence,
        )
        row = tables.RunTable.make_row(opened, swept_at_ms=None)
        again = update(tables.RunTable).where(
            tables.RunTable.plan_id == plan_id,
            tables.RunTable.status.not_in(_list_values(state for state in RunState if state.may_be_published)),
        )
        with self._database.writing() as session:
            lock_topic_rows(session, topic)
            require_same_life(session, topic, table_uuid)
            if not bulk_statements.insert_missing(session, tables.RunTable, [row]):
                bulk_statements.execute_change(
                    session, again.values({name: row[name] for name in row if name != "opened_at_ms"})
                )
            run = _require_run(session, plan_id)
            if run.status in _UNSETTLED:
                raise _make_unsettled_error(run)
            if run.status is RunState.PLANNED:
                _note_attempt(session, run, now_ms)
                if planning_since_ms is not None:
                    note_transition(session, plan_id, PLANNING, planning_since_ms, attempt)
                note_transition(session, plan_id, run.status.value, now_ms, attempt)
            return run

    def begin_attempt(self, plan_id: str, attempt: str, now_ms: int) -> Run:
        """Let ``attempt`` replace the latest attempt at a plan: the run is compacting. Call it before the first file.

        The attempt carries the fence that the run was opened with.

        Raises:
            CommitUnknownError, PlanVoidError, RunAgainError, WinnowError: as :meth:`set_state`.
        """
        state = RunState.COMPACTING
        row = tables.RunTable
        statement = update(row).where(row.plan_id == plan_id, row.status.in_(_list_values(TRANSITIONS[state])))
        changes = {"status": state.value, "updated_at_ms": now_ms, "message": "", "attempt": attempt}
        with self._database.writing() as session:
            moved = bulk_statements.execute_change(session, statement.values(changes))
            run = _require_run(session, plan_id)
            if not moved:
                raise _make_illegal_error(run, state)
            _note_attempt(session, run, now_ms)
            note_transition(session, plan_id, state.value, now_ms, attempt)
            return run

    def set_state(
        self,
        plan_id: str,
        state: RunState,
        now_ms: int,
        message: str = "",
        snapshot_id: int | None = None,
        *,
        attempt: str,
        seen: RunState | None = None,
        partitions_marked: int | None = None,
    ) -> Run:
        """Set a run's state to ``state``; ``message`` replaces the one before, None as snapshot keeps the present one.

        Args:
            plan_id: the plan of the run.
            state: the new state.
            now_ms: the present.
            message: for people.
            snapshot_id: the published snapshot.
            attempt: which attempt does this; a run whose latest attempt is another one stays as it is, unless ``state``
                is published: then this is the attempt that was.
            seen: the state that the caller has seen; the run stays as it is when it has another one by now.
            partitions_marked: how many partitions the failure speaks against; None: as many as before.

        Raises:
            CommitUnknownError: the run is publishing or unknown, and ``state`` would forget that.
            PlanVoidError: the run is refused, void or invalid: another process closed it. Or another attempt replaced
                this one, or the run is no longer in the state ``seen``, or there is no such run any more.
            RunAgainError: the run is published already.
            WinnowError: ``state`` skips a step.
        """
        values: dict[str, object] = {"status": state.value, "updated_at_ms": now_ms, "message": message}
        if snapshot_id is not None:
            values["snapshot_id"] = snapshot_id
        if partitions_marked is not None:
            values["partitions_marked"] = partitions_marked
        sources = TRANSITIONS[state]
        if seen is not None:
            sources &= {seen}
        elif state is RunState.VOID:
            sources -= _UNSETTLED
        row = tables.RunTable
        statement = update(row).where(row.plan_id == plan_id, row.status.in_(_list_values(sources)))
        if state is RunState.PUBLISHED:
            values["attempt"] = attempt
        else:
            statement = statement.where(row.attempt == attempt)
        with self._database.writing() as session:
            moved = bulk_statements.execute_change(session, statement.values(values))
            run = _require_run(session, plan_id)
            if not moved and not (run.status is state is RunState.PUBLISHED):
                if run.attempt != attempt:
                    raise _make_replaced_error(run, attempt)
                raise _make_illegal_error(run, state) if seen in {None, run.status} else _make_moved_error(run, seen)
            if moved:
                note_transition(session, plan_id, state.value, now_ms, attempt)
            return run

    def give_up(self, plan_ids: Collection[str], now_ms: int) -> None:
        """Record that the log has gone on from before these plans were published: they are void, and may be swept.

        The only way from published: somebody has accepted that the commit is lost.
        """
        row = tables.RunTable
        changes = {
            "status": RunState.VOID.value,
            "updated_at_ms": now_ms,
            "message": "Its publish was given up: the log went on from an older head of the catalog.",
            "found_empty_at_ms": None,
            "swept_at_ms": None,
        }
        with self._database.writing() as session:
            for some in bulk_statements.split_chunks(sorted(plan_ids)):
                statement = update(row).where(row.plan_id.in_(some), row.status == RunState.PUBLISHED.value)
                bulk_statements.execute_change(session, statement.values(changes))

    def note_message(self, plan_id: str, message: str) -> None:
        """Note for people what became of a published run; it stays published, and moves to no other place in a list."""
        row = tables.RunTable
        published = (row.plan_id == plan_id, row.status == RunState.PUBLISHED.value)
        with self._database.writing() as session:
            bulk_statements.execute_change(session, update(row).where(*published).values(message=message))

    def note_spark_failure(self, plan_id: str, attempt: str, now_ms: int, message: str) -> None:
        """Note why ``attempt`` failed in Spark, in the message of its run, which stays compacting: it may be retried.

        Nothing changes if the run has another attempt or state by now.
        """
        row, state = tables.RunTable, RunState.COMPACTING.value
        at_work = (row.plan_id == plan_id, row.attempt == attempt, row.status == state)
        changes = {"message": message, "updated_at_ms": now_ms}
        with self._database.writing() as session:
            if bulk_statements.execute_change(session, update(row).where(*at_work).values(changes)):
                note_transition(session, plan_id, RunState.SPARK_FAILED.value, now_ms, attempt)

    def list_attempts(self, plan_id: str) -> frozenset[str]:
        """List all attempts that were begun at a plan."""
        row = tables.Attempt
        with self._database.reading() as session:
            return frozenset(session.scalars(select(row.attempt).where(row.plan_id == plan_id)))

    def list_to_sweep(self, topic: str, closed_before_ms: int) -> list[Run]:
        """List closed runs of ``topic`` that changed last by ``closed_before_ms`` and were not found empty twice."""
        row = tables.RunTable
        states = _list_values(state for state in RunState if state.is_closed)
        statement = (
            select(row)
            .where(row.topic == topic, row.status.in_(states), row.swept_at_ms.is_(None))
            .where(row.updated_at_ms <= closed_before_ms)
            .order_by(row.updated_at_ms, row.plan_id)
        )
        with self._database.reading() as session:
            return [read_value(Run, run) for run in session.scalars(statement)]

    def note_empty(self, run: Run, *, first_ms: int | None, swept_ms: int | None = None) -> None:
        """Record that nothing was left to delete of ``run``, for the first and for the second time.

        Nothing changes if the run was opened again or changed since it was read.
        """
        row = tables.RunTable
        unmoved = (row.plan_id == run.plan_id, row.status == run.status.value, row.updated_at_ms == run.updated_at_ms)
        with self._database.writing() as session:
            changes = {"found_empty_at_ms": first_ms, "swept_at_ms": swept_ms}
            bulk_statements.execute_change(session, update(row).where(*unmoved).values(changes))

    def find(self, plan_id: str) -> Run | None:
        """Find the run of a plan."""
        with self._database.reading() as session:
            row = session.get(tables.RunTable, plan_id)
            return None if row is None else read_value(Run, row)

    def get(self, plan_id: str) -> Run:
        """Return the run of a plan.

        Raises:
            PlanVoidError: there is none any more.
        """
        with self._database.reading() as session:
            return _require_run(session, plan_id)

    def list_runs(self, topic: str | None = None, limit: int | None = None) -> list[Run]:
        """List runs of ``topic`` (None = all), the one that moved last first; at most ``limit``."""
        statement = _select_newest_first()
        if topic is not None:
            statement = statement.where(tables.RunTable.topic == topic)
        with self._database.reading() as session:
            return [read_value(Run, row) for row in session.scalars(statement.limit(limit))]

    def list_open(self, topic: str) -> list[Run]:
        """List runs of ``topic`` that are not closed (:attr:`RunState.is_closed`), the one that moved last first."""
        states = [state.value for state in RunState if not state.is_closed]
        statement = _select_newest_first().where(tables.RunTable.topic == topic, tables.RunTable.status.in_(states))
        with self._database.reading() as session:
            return [read_value(Run, row) for row in session.scalars(statement)]

    def list_open_topics(self) -> frozenset[str]:
        """Return the topics with runs that are not closed."""
        states = [state.value for state in RunState if not state.is_closed]
        statement = select(tables.RunTable.topic).where(tables.RunTable.status.in_(states)).distinct()
        with self._database.reading() as session:
            return frozenset(session.scalars(statement))

    def list_at_work(self, opened_before_ms: int) -> list[Run]:
        """List runs of all topics that were opened before an instant and go on, the one that moved last first.

        Those whose commit or check has an outcome that nobody knows are left out: they wait, and do nothing.
        """
        waiting = {RunState.UNKNOWN, RunState.BROKEN}
        states = [state.value for state in RunState if not state.is_closed and state not in waiting]
        row = tables.RunTable
        statement = _select_newest_first().where(row.status.in_(states), row.opened_at_ms < opened_before_ms)
        with self._database.reading() as session:
            return [read_value(Run, run) for run in session.scalars(statement)]

    def count_by_state(self, topic: str) -> dict[RunState, int]:
        """Count runs of ``topic`` by the state they are in; states without a run are left out."""
        row = tables.RunTable
        statement = select(row.status, func.count()).where(row.topic == topic).group_by(row.status)
        with self._database.reading() as session:
            return {RunState(status): count for status, count in session.execute(statement)}


def _select_newest_first() -> Select[tables.RunTable]:
    run = tables.RunTable
    return select(run).order_by(run.updated_at_ms.desc(), run.opened_at_ms.desc(), run.plan_id)


def _list_values(states: Iterable[RunState]) -> list[str]:
    return sorted(state.value for state in states)


def _note_attempt(session: Session, run: Run, now_ms: int) -> None:
    """Record the latest attempt of ``run``, by which a sweep knows its files; twice changes nothing."""
    bulk_statements.insert_missing(session, tables.Attempt, [tables.Attempt.make_row(run, opened_at_ms=now_ms)])


def _require_run(session: Session, plan_id: str) -> Run:
    row = session.get(tables.RunTable, plan_id)
    if row is None:
        raise PlanVoidError(
            f"There is no run of plan {plan_id} any more: its topic was removed, and perhaps created again, or its "
            "history is past its retention. The plan is void and nothing was changed.",
            next="Plan the topic again.",
        )
    return read_value(Run, row)


def _make_replaced_error(run: Run, attempt: str) -> PlanVoidError:
    return PlanVoidError(
        f"Attempt {attempt or '-'} at plan {run.plan_id} of topic {run.topic} was replaced by attempt "
        f"{run.attempt or '-'}, and what it wrote does not count.",
        left=f"The run stays {run.status}; run it again if nobody else finishes it.",
    )


def _make_moved_error(run: Run, seen: RunState | None) -> RunAgainError:
    return RunAgainError(
        f"The run of plan {run.plan_id} of topic {run.topic} was {seen} and is {run.status} by now: another process "
        "works on it.",
        left="Nothing was changed.",
        next="Run it again.",
    )


def _make_unsettled_error(run: Run) -> CommitUnknownError:
    return CommitUnknownError(
        f"The run of plan {run.plan_id} of topic {run.topic} is {run.status}: attempt {run.attempt} may have "
        "committed.",
        left="Nothing was changed.",
        next=f"A compaction determines the outcome first: winnow compact {run.topic}",
    )


def _make_illegal_error(run: Run, state: RunState) -> WinnowError:
    what = f"The run of plan {run.plan_id} of topic {run.topic} is {run.status} and cannot become {state}."
    if run.status in _UNSETTLED:
        return _make_unsettled_error(run)
    if run.status is RunState.PUBLISHED:
        return RunAgainError(
            what,
            left="Its result is visible and its row stays as it is; the next run plans anew.",
        )
    if run.status.is_closed:
        return PlanVoidError(
            f"{what} It was closed meanwhile, and what this attempt wrote does not count.",
            next="Run it again: the next plan starts from the log as it is.",
        )
    return WinnowError(
        f"{what} A step was skipped.",
        left="Nothing was changed.",
        next="Run the compaction of the topic again.",
    )
