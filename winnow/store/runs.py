"""Compaction runs: one row per plan, and which state may follow which.

================  ====================================================================================================
to                from
================  ====================================================================================================
planned           planned. :meth:`Runs.open_run` opens again from every state but publishing, unknown and published
compacting        planned, compacting, staged, validated, broken (a new attempt)
staged            planned, compacting, staged, validated, broken
validated         planned, compacting, staged, validated, broken (a mended check)
invalid           planned, compacting, staged, validated, broken, invalid
broken            planned, compacting, staged, validated, broken
publishing        validated, publishing, unknown
refused           validated, publishing, unknown, refused, void
unknown           every state but published: an attempt thought dead may have committed, and unknown is the careful one
void              planned, compacting, staged, validated, broken, publishing, unknown, void
published         every state: the plan id is in the table's history, and the table is right
================  ====================================================================================================

Published is final: asked to be published again it stays as it is, asked for anything else it refuses. From publishing
and unknown nothing leads back to work before somebody has looked into the table's history.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from winnow.errors import CommitUnknownError, PlanVoidError, RunAgainError, WinnowError
from winnow.store import bulk, tables
from winnow.store.database import Room
from winnow.store.values import Run, RunState

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
    RunState.PUBLISHING: _UNSETTLED | {RunState.VALIDATED},
    RunState.REFUSED: _UNSETTLED | {RunState.VALIDATED, RunState.REFUSED, RunState.VOID},
    RunState.UNKNOWN: _NOT_PUBLISHED,
    RunState.VOID: _WORK | _UNSETTLED | {RunState.VOID},
    RunState.PUBLISHED: _NOT_PUBLISHED,
}
"""From the state to be reached to the states it may follow: the table above."""


class Runs(Room):
    """One row per plan. Changes are compare-and-swap on the state, so two processes cannot overtake each other."""

    def open_run(
        self,
        plan_id: str,
        topic: str,
        *,
        attempt: str,
        as_of_ms: int,
        plan_uri: str,
        now_ms: int,
        holder: str | None = None,
    ) -> Run:
        """The run of a plan, planned, with ``attempt`` as its latest. Opening again keeps the first opening time.

        ``holder``: who does it, as leases name it.

        A published run is returned as it is.

        Raises:
            CommitUnknownError: an earlier attempt may have committed; it must be settled first.
        """
        row = {
            "plan_id": plan_id,
            "topic": topic,
            "attempt": attempt,
            "status": RunState.PLANNED.value,
            "as_of_ms": as_of_ms,
            "plan_uri": plan_uri,
            "opened_at_ms": now_ms,
            "updated_at_ms": now_ms,
            "message": "",
            "snapshot_id": None,
            "holder": holder,
        }
        again = update(tables.Run).where(
            tables.Run.plan_id == plan_id,
            tables.Run.status.not_in([RunState.PUBLISHED.value, *(state.value for state in _UNSETTLED)]),
        )
        with self._database.writing() as session:
            if not bulk.insert_missing(session, tables.Run, [row]):
                bulk.changed(session, again.values({name: row[name] for name in row if name != "opened_at_ms"}))
            run = _found(session, plan_id)
            if run.status in _UNSETTLED:
                raise _unsettled(run)
            return run

    def set_run_state(
        self,
        plan_id: str,
        state: RunState,
        now_ms: int,
        message: str = "",
        snapshot_id: int | None = None,
        attempt: str | None = None,
    ) -> Run:
        """Move a run to ``state``; ``message`` replaces the one before, snapshot and attempt stay where None is given.

        Raises:
            CommitUnknownError: the run is publishing or unknown, and ``state`` would forget that.
            PlanVoidError: the run is refused, void or invalid: somebody else closed it.
            RunAgainError: the run is published already.
            WinnowError: there is no such run, or ``state`` skips a step.
        """
        values: dict[str, object] = {"status": state.value, "updated_at_ms": now_ms, "message": message}
        if snapshot_id is not None:
            values["snapshot_id"] = snapshot_id
        if attempt is not None:
            values["attempt"] = attempt
        sources = sorted(source.value for source in TRANSITIONS[state])
        statement = update(tables.Run).where(tables.Run.plan_id == plan_id, tables.Run.status.in_(sources))
        with self._database.writing() as session:
            moved = bulk.changed(session, statement.values(values))
            run = _found(session, plan_id)
            if not moved and not (run.status is state is RunState.PUBLISHED):
                raise _illegal(run, state)
            return run

    def run(self, plan_id: str) -> Run | None:
        """The run of a plan."""
        with self._database.reading() as session:
            row = session.get(tables.Run, plan_id)
            return None if row is None else run_of(row)

    def runs(self, topic: str | None = None, limit: int | None = None) -> list[Run]:
        """Runs of ``topic`` (None = all), the one that moved last first; at most ``limit``."""
        statement = _newest_first()
        if topic is not None:
            statement = statement.where(tables.Run.topic == topic)
        with self._database.reading() as session:
            return [run_of(row) for row in session.scalars(statement.limit(limit))]

    def open_runs(self, topic: str) -> list[Run]:
        """Runs of ``topic`` that are not closed (:attr:`RunState.is_closed`), the one that moved last first."""
        states = [state.value for state in RunState if not state.is_closed]
        statement = _newest_first().where(tables.Run.topic == topic, tables.Run.status.in_(states))
        with self._database.reading() as session:
            return [run_of(row) for row in session.scalars(statement)]


def _newest_first() -> Select[tables.Run]:
    run = tables.Run
    return select(run).order_by(run.updated_at_ms.desc(), run.opened_at_ms.desc(), run.plan_id)


def _found(session: Session, plan_id: str) -> Run:
    row = session.get(tables.Run, plan_id)
    if row is None:
        raise WinnowError(f"There is no run of plan {plan_id}. Nothing was changed; plan the topic again.")
    return run_of(row)


def run_of(row: tables.Run) -> Run:
    """The run in ``row``."""
    return Run(
        plan_id=row.plan_id,
        topic=row.topic,
        attempt=row.attempt,
        status=RunState(row.status),
        as_of_ms=row.as_of_ms,
        plan_uri=row.plan_uri,
        opened_at_ms=row.opened_at_ms,
        updated_at_ms=row.updated_at_ms,
        message=row.message,
        snapshot_id=row.snapshot_id,
        holder=row.holder,
    )


def _unsettled(run: Run) -> CommitUnknownError:
    return CommitUnknownError(
        f"The run of plan {run.plan_id} of topic {run.topic} is {run.status}: attempt {run.attempt} may have "
        "committed. Nothing was changed. Settle the topic first; a compaction of it does that when it begins."
    )


def _illegal(run: Run, state: RunState) -> WinnowError:
    what = f"The run of plan {run.plan_id} of topic {run.topic} is {run.status} and cannot become {state}."
    if run.status in _UNSETTLED:
        return _unsettled(run)
    if run.status is RunState.PUBLISHED:
        return RunAgainError(f"{what} Its result is visible and its row stays as it is; the next run plans anew.")
    if run.status.is_closed:
        return PlanVoidError(
            f"{what} It was closed meanwhile, and what this attempt wrote does not count. Run it again: the next plan "
            "starts from the log as it is."
        )
    return WinnowError(f"{what} A step was skipped; nothing was changed. Run the compaction of the topic again.")
