"""What the results of an application's tasks say of a plan that could not be carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from winnow.engine.damage import explain_failure
from winnow.engine.events import PartitionFailure, PlanFailure, find_worst_exit_code
from winnow.errors import WinnowError
from winnow.model import PartitionPlan

MAXIMUM_SHOWN_FAILURES = 3
"""Failed partitions that an error names."""


def build_failed_result(problem: Exception, topic: str, partition: PartitionPlan) -> dict[str, Any]:
    """What a task gives back of a partition it could not do: ``error`` without its full stop, and ``exit_code``."""
    found = explain_failure(problem, topic, partition)
    return {"error": str(found).rstrip("."), "exit_code": found.exit_code}


def find_plan_failure(topic: str, results: Iterable[Mapping[str, Any]], expected: int) -> PlanFailure | None:
    """Why ``results`` do not amount to ``expected`` partitions that went well; None when they do."""
    results = sorted(results, key=lambda result: int(result["partition"]))
    failed = tuple(
        PartitionFailure(result["partition"], result["error"], int(result["exit_code"]))
        for result in results
        if "error" in result
    )
    if not failed and len(results) == expected:
        return None
    named = "; ".join(f"{topic}-{each.partition}: {each.error}" for each in failed[:MAXIMUM_SHOWN_FAILURES])
    more = f"; and {len(failed) - MAXIMUM_SHOWN_FAILURES} more" if len(failed) > MAXIMUM_SHOWN_FAILURES else ""
    code = find_worst_exit_code([each.exit_code for each in failed]) if failed else WinnowError.exit_code
    return PlanFailure(f"{named}{more}" or "a task returned no result", code, failed)
