"""Carries out updates of side tables in one Spark application: partitions are distributed, records never are.

The job's program passes what makes rows and what judges them: this package knows no schema and no check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from winnow.engine.damage import build_failed_result, find_plan_failure
from winnow.engine.events import PlanOutcome, emit_event
from winnow.engine.job_documents import locate_job_result, read_job_document, write_job_document
from winnow.engine.latest_plans import (
    PartitionUpdate,
    PartitionUpdatePlan,
    PartitionUpdateResult,
    UpdatePlan,
    UpdateResult,
    remove_written,
)
from winnow.engine.latest_rows import RecordForm, TypedForm
from winnow.engine.latest_update import write_part
from winnow.engine.spark_application import open_spark_context, run_partition_tasks
from winnow.engine.staging import parse_plan_argument
from winnow.engine.task_planning import WorkUnit, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.files import storage
from winnow.values.row_shape import ColumnsGrewError, TypedRows


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
JudgeRows = Callable[[str, dict[str, Any], TaskBudget], dict[str, int | str]]
"""Computes the facts of one partition as it is to be. Runs in a task, so it must be a module-level function."""


@dataclass(frozen=True, slots=True)
class UpdateUnit(WorkUnit):
    """One partition; ``update`` is the plan with it alone."""

    update: UpdatePlan | None = None


def run_update_plan(
    argument: str,
    *,
    open_rows: OpenRows,
    judge: JudgeRows,
    budget: TaskBudget,
    maximum_tasks: int | None = None,
    app_name: str = "winnow latest",
) -> PlanOutcome:
    """Carry out the plan named by ``argument``, and write what the tasks did as one document beside it."""
    uri, sha256 = parse_plan_argument(argument)
    plan = read_job_document(UpdatePlan, uri, sha256)
    units = build_update_units(uri, plan)
    with open_spark_context(app_name) as context:
        emit_event({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        tasks, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
        results = run_partition_tasks(context, tasks, lambda unit: run_update_unit(unit, share, open_rows, judge))
    return write_update_outcome(uri, plan, results)


def build_update_units(uri: str, plan: UpdatePlan) -> list[UpdateUnit]:
    """Build the units of work of a plan."""
    return [
        UpdateUnit(uri, plan.topic, part.partition, part.size_bytes, None, replace(plan, parts=(part,)))
        for part in plan.parts
    ]


def write_update_outcome(uri: str, plan: UpdatePlan, results: Sequence[dict[str, Any]]) -> PlanOutcome:
    """Write what tasks did for each partition of ``plan``, or remove what they wrote if one of them failed."""
    failure = find_plan_failure(plan.topic, results, len(plan.parts))
    if failure is not None:
        remove_written(plan.folder, [result["result"] for result in results if "result" in result])
        return PlanOutcome(plan.topic, plan.plan_id, None, failure)
    parts = sorted((result["result"] for result in results), key=lambda part: int(part.partition))
    place = locate_job_result(uri)
    sha256 = write_job_document(place, UpdateResult(plan.plan_id, tuple(parts)))
    return PlanOutcome(plan.topic, plan.plan_id, place, sha256=sha256)


def run_update_unit(unit: WorkUnit, budget: TaskBudget, open_rows: OpenRows, judge: JudgeRows) -> dict[str, Any]:
    """Update one partition and return what was done or its error; never raises."""
    assert isinstance(unit, UpdateUnit)
    assert unit.update is not None
    (part,) = unit.update.parts
    result: dict[str, Any] = {"partition": part.partition}
    try:
        result["result"] = update_part(unit.update, part, budget, open_rows, judge)
    except Exception as problem:  # one partition must not end the others in this application
        result |= build_failed_result(problem, unit.topic, part.log)
    return result


def update_part(
    plan: UpdatePlan, part: PartitionUpdatePlan, budget: TaskBudget, open_rows: OpenRows, judge: JudgeRows
) -> PartitionUpdateResult:
    """Write the files of one partition and judge them, or find what columns its rows need.

    Raises:
        Exception: as :func:`winnow.engine.latest_update.write_part`, or what makes or judges rows.
    """
    if plan.typed is None:
        update = write_part(part, plan.order, budget, folder=plan.folder, form=RecordForm())
        storage.sync(segment.path for segment in update.added)
        return PartitionUpdateResult(part.partition, update)
    if not plan.learns:
        rows = open_rows(plan.typed)
        try:
            update = write_part(
                part, plan.order, budget, folder=plan.folder, form=TypedForm(rows.convert, rows.get_schema)
            )
        except ColumnsGrewError:
            pass  # what was written is deleted again
        else:
            storage.sync(segment.path for segment in update.added)
            facts = None
            if update.added or update.removed:
                facts = judge(plan.topic, describe_rows(plan, part, update, drops_rows=rows.drops_rows), budget)
            return PartitionUpdateResult(part.partition, update, rows.rows_not_decoded, facts)
    rows = open_rows(plan.typed)
    form = TypedForm(rows.convert, rows.get_schema, learn=rows.learn)
    write_part(part, plan.order, budget, folder=plan.folder, form=form)
    return PartitionUpdateResult(part.partition, types=rows.list_types())


def describe_rows(
    plan: UpdatePlan, part: PartitionUpdatePlan, update: PartitionUpdate, *, drops_rows: bool
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
    }
