"""Carries out updates of side tables in one Spark application: partitions are distributed, records never are.

A partition all of whose rows are written, and that is much larger than the others, is the work of many tasks: its
winners are found, its rows written and judged by shares (:mod:`winnow.engine.latest_shares`). The job's program passes
what makes rows and what judges them: this package knows no schema and no check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, Self

import pyarrow as pa

from winnow.engine.damage import build_failed_result, find_plan_failure
from winnow.engine.events import PlanOutcome, emit_event
from winnow.engine.job_documents import (
    locate_job_result,
    locate_job_survivors,
    read_job_document,
    write_job_document,
)
from winnow.engine.latest_plans import (
    PartitionUpdate,
    PartitionUpdatePlan,
    PartitionUpdateResult,
    UpdatePlan,
    UpdateResult,
    remove_written,
)
from winnow.engine.latest_rows import RecordForm, TypedForm, write_rows
from winnow.engine.latest_shares import (
    Result,
    RunUnits,
    StateUnit,
    find_latest_share,
    read_latest_range,
    run_rounds,
)
from winnow.engine.latest_update import write_part
from winnow.engine.spark_application import open_spark_context, run_partition_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import DEFAULT_GIANT_BYTES, WorkUnit, count_key_shares, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.engine.winners import KeyShare
from winnow.files import storage
from winnow.values.model import PartitionPlan
from winnow.values.row_shape import ColumnsGrewError, TypedRows

Facts = dict[str, int | str]
"""What a judge found of the rows of one partition, or of a share of its keys."""


class TaskRowMaker(Protocol):
    """Makes rows of one set of columns."""

    @property
    def rows_not_decoded(self) -> int:
        """How many rows could not be decoded so far."""

    @property
    def drops_rows(self) -> bool:
        """Whether a record can be no row."""

    def get_schema(self) -> pa.Schema:
        """Return the schema of rows."""

    def convert(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Make rows.

        Raises:
            ColumnsGrewError: they need other columns.
        """

    def learn(self, records: pa.RecordBatch) -> None:
        """Note the types of rows."""

    def list_types(self) -> tuple[str, ...]:
        """List the noted types."""


OpenRows = Callable[[TypedRows], TaskRowMaker]
"""Opens what makes rows. Runs in a task, so it must be a module-level function."""


class RowJudge(Protocol):
    """Judges a partition as it is to be. Runs in tasks, so it must be of a module-level class."""

    def compute(self, topic: str, described: dict[str, Any], budget: TaskBudget) -> Facts:
        """Compute the facts of what :func:`describe_rows` describes."""

    def merge(self, facts: Sequence[Facts], max_undecoded_ratio: float) -> Facts:
        """Merge the facts of all shares of one partition."""


@dataclass(frozen=True, slots=True)
class UpdateUnit(StateUnit):
    """One partition; ``update`` is the plan with it alone.

    ``written``: what was written of it; the rows of keys of ``share`` are judged, instead of written.
    """

    update: UpdatePlan | None = None
    written: PartitionUpdate | None = None

    @property
    def part(self) -> PartitionUpdatePlan:
        """What is to be done."""
        assert self.update is not None
        (part,) = self.update.parts
        return part

    @property
    def log(self) -> PartitionPlan:
        """What of the log it is to show."""
        return self.part.log

    def narrow(self, log: PartitionPlan) -> Self:
        """Return the unit with ``log`` in the place of its plan."""
        assert self.update is not None
        return replace(self, update=replace(self.update, parts=(replace(self.part, log=log),)))


def run_update_plan(
    argument: str,
    *,
    open_rows: OpenRows,
    judge: RowJudge,
    budget: TaskBudget,
    maximum_tasks: int | None = None,
    giant_bytes: int = DEFAULT_GIANT_BYTES,
    app_name: str = "winnow latest",
) -> PlanOutcome:
    """Carry out the plan named by ``argument``, and write what the tasks did as one document beside it.

    ``giant_bytes``: partitions from this size on are written by several tasks where cores would be idle otherwise.
    """
    uri, sha256 = parse_plan_argument(argument)
    plan = read_job_document(UpdatePlan, uri, sha256)
    with open_spark_context(app_name) as context:
        size_bytes = sum(part.size_bytes for part in plan.parts)
        emit_event({"event": "started", "partitions": len(plan.parts), "bytes": size_bytes})
        cores = context.defaultParallelism

        def run(units: Sequence[WorkUnit]) -> list[Result]:
            tasks, share = plan_tasks(units, cores, budget, maximum_tasks)
            return run_partition_tasks(context, tasks, lambda unit: run_update_unit(unit, share, open_rows, judge))

        cores_used = min(cores, maximum_tasks or cores)
        return carry_out_update_plan(uri, plan, run, judge, cores=cores_used, giant_bytes=giant_bytes)


def carry_out_update_plan(
    uri: str, plan: UpdatePlan, run: RunUnits, judge: RowJudge, *, cores: int, giant_bytes: int
) -> PlanOutcome:
    """Have the units of ``plan`` run, those of divided partitions in rounds, and write what they did beside it.

    If one fails, what they wrote is removed.
    """
    units = [
        UpdateUnit(uri, plan.topic, part.partition, part.size_bytes, update=replace(plan, parts=(part,)))
        for part in plan.parts
    ]
    counts = count_key_shares([unit.size_bytes for unit in units], cores, giant_bytes)
    # An update compares the rows that there are, which have no keys of their own.
    counts = [1 if unit.part.before is not None else count for unit, count in zip(units, counts, strict=True)]
    results, expected = run_rounds(units, counts, run, cores)
    failure = find_plan_failure(plan.topic, results, expected)
    parts: list[PartitionUpdateResult] = []
    found: list[Result] = []
    if failure is None:
        divided = list(zip(units, counts, strict=True))
        parts = [_merge_results(unit, results, is_divided=shares > 1) for unit, shares in divided]
        judging = [
            part
            for (unit, shares), result in zip(divided, parts, strict=True)
            for part in _build_judging_units(unit, result, shares)
        ]
        found = run(judging) if judging else []
        failure = find_plan_failure(plan.topic, found, len(judging))
    if failure is not None:
        remove_written(plan.folder, [result["result"] for result in results if "result" in result])
        return PlanOutcome(plan.topic, plan.plan_id, None, failure)
    parts = [_add_facts(part, found, judge, plan.max_undecoded_ratio) for part in parts]
    place = locate_job_result(uri)
    done = UpdateResult(plan.plan_id, tuple(sorted(parts, key=lambda part: part.partition)))
    return PlanOutcome(plan.topic, plan.plan_id, place, sha256=write_job_document(place, done))


def _merge_results(unit: UpdateUnit, results: Sequence[Result], *, is_divided: bool) -> PartitionUpdateResult:
    """Merge what tasks did for the ranges of one partition; if one needs other columns, no range counts."""
    done: list[PartitionUpdateResult] = [
        result["result"] for result in results if result["partition"] == unit.partition
    ]
    if not is_divided:
        return done[0]
    updates = [each.update for each in done if each.update is not None]
    if len(updates) < len(done):
        assert unit.update is not None
        remove_written(unit.update.folder, done)
        return PartitionUpdateResult(unit.partition, types=tuple(dict.fromkeys(chain(*(each.types for each in done)))))
    update = PartitionUpdate(
        tuple(segment for each in updates for segment in each.added),
        unit.part.rows,
        rows_inserted=sum(each.rows_inserted for each in updates),
    )
    return PartitionUpdateResult(unit.partition, update, sum(each.rows_not_decoded for each in done))


def _build_judging_units(unit: UpdateUnit, part: PartitionUpdateResult, shares: int) -> list[UpdateUnit]:
    """Build the tasks that judge a divided partition; none if its rows are records or nothing was written."""
    update = part.update
    if shares == 1 or update is None or unit.update is None or unit.update.typed is None:
        return []
    if not update.added and not update.removed:
        return []
    whole = replace(unit, size_bytes=unit.size_bytes // shares, written=update)
    return [replace(whole, share=KeyShare(number, shares)) for number in range(shares)]


def _add_facts(
    part: PartitionUpdateResult, found: Sequence[Result], judge: RowJudge, max_undecoded_ratio: float
) -> PartitionUpdateResult:
    facts = [result["facts"] for result in found if result["partition"] == part.partition]
    return replace(part, facts=judge.merge(facts, max_undecoded_ratio)) if facts else part


def run_update_unit(unit: WorkUnit, budget: TaskBudget, open_rows: OpenRows, judge: RowJudge) -> Result:
    """Update one partition or range, find the winners of a share or judge it; never raises."""
    assert isinstance(unit, UpdateUnit)
    plan, part = unit.update, unit.part
    assert plan is not None
    result: Result = {"partition": part.partition}
    try:
        if unit.written is not None:
            assert plan.typed is not None
            result["facts"] = _judge(unit, plan, budget, judge, drops_rows=open_rows(plan.typed).drops_rows)
        elif unit.share is not None:
            uri = locate_job_survivors(unit.plan_uri, part.partition)
            below = unit.plan_uri.rsplit("/", 2)[0]
            result["share"] = find_latest_share(part.log, plan.order, unit.share, budget, uri, below=below)
        else:
            result["result"] = update_part(unit, plan, budget, open_rows, judge)
    except Exception as problem:  # one partition must not end the others in this application
        result |= build_failed_result(problem, unit.topic, part.log)
    return result


def update_part(
    unit: UpdateUnit, plan: UpdatePlan, budget: TaskBudget, open_rows: OpenRows, judge: RowJudge
) -> PartitionUpdateResult:
    """Write the files of one partition or range, or find what columns its rows need; a whole partition is judged.

    Raises:
        Exception: as :func:`winnow.engine.latest_update.write_part`, or what makes or judges rows.
    """
    partition = unit.partition
    if plan.typed is None:
        update = _write(unit, plan, budget, RecordForm())
        storage.sync(segment.path for segment in update.added)
        return PartitionUpdateResult(partition, update)
    if not plan.learns:
        rows = open_rows(plan.typed)
        try:
            update = _write(unit, plan, budget, TypedForm(rows.convert, rows.get_schema))
        except ColumnsGrewError:
            pass  # what was written is deleted again
        else:
            storage.sync(segment.path for segment in update.added)
            facts = None
            if unit.group is None and (update.added or update.removed):
                whole = replace(unit, written=update)
                found = _judge(whole, plan, budget, judge, drops_rows=rows.drops_rows)
                facts = judge.merge([found], plan.max_undecoded_ratio)
            return PartitionUpdateResult(partition, update, rows.rows_not_decoded, facts)
    rows = open_rows(plan.typed)
    _write(unit, plan, budget, TypedForm(rows.convert, rows.get_schema, learn=rows.learn))
    return PartitionUpdateResult(partition, types=rows.list_types())


def _write(unit: UpdateUnit, plan: UpdatePlan, budget: TaskBudget, form: RecordForm | TypedForm) -> PartitionUpdate:
    if unit.group is None:
        return write_part(unit.part, plan.order, budget, folder=plan.folder, form=form)
    records = read_latest_range(unit.log, unit.group, unit.survivors, budget)
    added = write_rows(form, unit.partition, plan.folder, form.make_rows(records))
    return PartitionUpdate(added, rows_inserted=sum(segment.records for segment in added))


def _judge(unit: UpdateUnit, plan: UpdatePlan, budget: TaskBudget, judge: RowJudge, *, drops_rows: bool) -> Facts:
    assert unit.written is not None
    described = describe_rows(plan, unit.part, unit.written, unit.share, drops_rows=drops_rows)
    return judge.compute(plan.topic, described, budget)


def describe_rows(
    plan: UpdatePlan, part: PartitionUpdatePlan, update: PartitionUpdate, share: KeyShare | None, *, drops_rows: bool
) -> dict[str, Any]:
    """Describe one partition of the table as it is to be, and the log that it has to show, for the judge."""
    assert plan.typed is not None
    removed = {segment.path for segment in update.removed}
    return {
        "partition": part.partition,
        "rows": [*(segment for segment in part.rows if segment.path not in removed), *update.added],
        "segments": part.log.segments,
        "start_offset": part.log.log_start_offset,
        "end_offset": part.log.log_end_offset,
        "strategy": plan.order.strategy,
        "header": plan.order.header,
        "error_column_id": plan.typed.error_column_id,
        "drops_rows": drops_rows,
        "max_undecoded_ratio": plan.max_undecoded_ratio,
        "share": 0 if share is None else share.number,
        "shares": 1 if share is None else share.of,
    }
