"""Recomputes the facts of staged output in one Spark application, and writes them beside the manifest.

The job's program passes the function that recomputes: this package distributes work and must not know how it is
checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from winnow.engine import staging
from winnow.engine.damage import build_failed_result, find_plan_failure
from winnow.engine.events import PlanFailure, PlanOutcome, emit_event
from winnow.engine.spark_application import open_spark_context, run_partition_tasks
from winnow.engine.staging import FactValues, write_facts
from winnow.engine.task_planning import WorkUnit, plan_tasks
from winnow.engine.task_resources import TaskBudget
from winnow.errors import Explanation, WinnowError
from winnow.values.model import PartitionPlan, Plan
from winnow.values.results import StagedPartition, StagingManifest

PairPartitions = Callable[[Plan, StagingManifest], Sequence[tuple[PartitionPlan, StagedPartition]]]
"""Returns a plan and a staged result for each partition of an attempt."""
RecomputeFacts = Callable[[Plan, PartitionPlan, StagedPartition, str, TaskBudget], FactValues]
"""Returns the facts of one partition of an attempt. Runs in a task, so it must be a module-level function."""


@dataclass(frozen=True, slots=True)
class FactsUnit(WorkUnit):
    """One partition with its staged result."""

    staged: StagedPartition | None = None


def recompute_facts(
    arguments: Sequence[str],
    *,
    attempt: str,
    budget: TaskBudget,
    pairs: PairPartitions,
    recompute: RecomputeFacts,
    maximum_tasks: int | None = None,
    app_name: str = "winnow facts",
) -> list[PlanOutcome]:
    """Recompute what ``attempt`` staged of each plan, and write the facts beside its staging manifest.

    Arguments, budget and ``maximum_tasks`` are those of :func:`winnow.engine.compaction_job.run_plans`. Outcomes are
    per plan; their document is that of the facts.
    """
    plans, refused = staging.read_usable_plans(arguments)
    plan_uris = list(plans)
    manifests = dict(
        zip(
            plan_uris, staging.run_concurrently(lambda uri: staging.read_manifest(uri, attempt), plan_uris), strict=True
        )
    )
    units = [
        unit
        for uri, manifest in manifests.items()
        if manifest is not None
        for unit in build_units(uri, plans[uri], pairs(plans[uri], manifest))
    ]
    with open_spark_context(app_name) as context:
        emit_event({"event": "started", "partitions": len(units), "bytes": sum(unit.size_bytes for unit in units)})
        tasks, share = plan_tasks(units, context.defaultParallelism, budget, maximum_tasks)
        results = run_partition_tasks(context, tasks, lambda unit: recompute_unit(unit, attempt, share, recompute))
    by_plan: dict[str, list[dict[str, Any]]] = {uri: [] for uri in plan_uris}
    for result in results:
        by_plan[result["plan"]].append(result)
    expected = Counter(unit.plan_uri for unit in units)
    return [
        *refused,
        *(write_plan_facts(uri, plans[uri], manifests[uri], by_plan[uri], expected[uri]) for uri in plan_uris),
    ]


def build_units(uri: str, plan: Plan, pairs: Sequence[tuple[PartitionPlan, StagedPartition]]) -> list[FactsUnit]:
    """Build the units of work of one attempt."""
    return [
        FactsUnit(
            uri,
            plan.topic,
            partition.partition,
            partition.size_bytes + sum(s.size_bytes for rewrite in staged.rewrites for s in rewrite.outputs),
            replace(plan, partitions=(partition,)),
            staged,
        )
        for partition, staged in pairs
    ]


def recompute_unit(unit: WorkUnit, attempt: str, budget: TaskBudget, recompute: RecomputeFacts) -> dict[str, Any]:
    """Recompute one unit and return its figures or its error; never raises."""
    result: dict[str, Any] = {"plan": unit.plan_uri, "partition": unit.partition}
    assert isinstance(unit, FactsUnit)
    assert unit.plan is not None
    assert unit.staged is not None
    (partition,) = unit.plan.partitions
    try:
        result["facts"] = recompute(unit.plan, partition, unit.staged, attempt, budget)
    except Exception as problem:  # one partition must not end the others in this application
        result |= build_failed_result(problem, unit.topic, partition)
    return result


def write_plan_facts(
    uri: str, plan: Plan, manifest: StagingManifest | None, results: Sequence[dict[str, Any]], expected: int
) -> PlanOutcome:
    """Write the facts of a plan's attempt if all its ``expected`` units succeeded."""
    if manifest is None:
        failure = PlanFailure(Explanation("the attempt left no staging manifest"), WinnowError.exit_code)
        return PlanOutcome(plan.topic, plan.plan_id, None, failure)
    failed = find_plan_failure(plan.topic, results, expected)
    if failed is not None:
        return PlanOutcome(plan.topic, plan.plan_id, None, failed)
    facts = {int(result["partition"]): result["facts"] for result in results}
    document_uri, sha256 = write_facts(uri, manifest, facts)
    return PlanOutcome(plan.topic, plan.plan_id, document_uri, sha256=sha256)
