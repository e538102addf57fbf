"""Checks what a Spark application made of an ingest plan before anything of it is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from winnow.errors import WinnowError
from winnow.values.ingest_plans import IngestPlan, IngestRange, IngestResult, RangeResult
from winnow.values.model import Segment


def check_result(plan: IngestPlan, result: IngestResult) -> None:
    """Check that ``result`` is one of ``plan``, complete, and that its segments are where the plan puts them.

    Raises:
        WinnowError: with what is wrong; nothing landed.
    """
    wrong = _find_fault(plan, result)
    if wrong is not None:
        raise WinnowError(
            f"The result of ingest plan {plan.plan_id} of topic {plan.topic} was refused: {wrong}.",
            left="Nothing of this call landed; the next sweep removes its files.",
            next="Run it again.",
        )


def _find_fault(plan: IngestPlan, result: IngestResult) -> str | None:
    if result.plan_id != plan.plan_id:
        return f"it is that of plan {result.plan_id}"
    numbers = Counter([*(each.number for each in result.ranges), *(each.number for each in result.failures)])
    expected = range(len(plan.surveyed or plan.ranges))
    if set(numbers) != set(expected) or max(numbers.values(), default=1) > 1:
        return "it does not have each range once"
    groups = plan.surveyed or tuple(each.objects for each in plan.ranges)
    for each in result.ranges:
        if sorted(fact.number for fact in each.findings.objects) != sorted(groups[each.number]):
            return f"range {each.number} accounts for other objects than planned"
    if plan.surveyed:
        return None
    for each in result.ranges:
        wrong = _find_range_fault(plan, result, plan.ranges[each.number], each)
        if wrong is not None:
            return f"range {each.number} of partition {plan.ranges[each.number].partition} {wrong}"
    return None


def _find_range_fault(plan: IngestPlan, result: IngestResult, planned: IngestRange, found: RangeResult) -> str | None:
    below = f"{plan.folder}/{result.application}/"
    first, end = max(planned.offsets.start, planned.log_end_offset), planned.offsets.end
    for segment in found.segments:
        if not segment.path.startswith(below) or segment.partition != planned.partition:
            return "has a segment elsewhere than planned"
        if not first <= segment.first_offset <= segment.last_offset < end:
            return "has a segment outside of its offsets"
        if not 0 < segment.records <= segment.last_offset - segment.first_offset + 1:
            return "has a segment with an impossible number of records"
    if any(one.last_offset >= other.first_offset for one, other in pairwise(found.segments)):
        return "has segments that overlap"
    written = sum(segment.records for segment in found.segments)
    if found.records != written + found.repeats + found.skipped:
        return f"read {found.records} records and accounts for {written + found.repeats + found.skipped}"
    return None


def group_segments(plan: IngestPlan, result: IngestResult) -> Mapping[int, list[Segment]]:
    """Return the new segments by partition, in the order of offsets."""
    found: dict[int, list[Segment]] = {}
    for each in sorted(result.ranges, key=lambda each: _key(plan.ranges[each.number])):
        found.setdefault(plan.ranges[each.number].partition, []).extend(each.segments)
    return {partition: segments for partition, segments in sorted(found.items()) if segments}


def _key(planned: IngestRange) -> tuple[int, int]:
    return planned.partition, planned.offsets.start
