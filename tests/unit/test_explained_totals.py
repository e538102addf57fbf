"""Totals of what a run would do: an estimate of some partitions is a lower bound of all, and never a zero."""

from __future__ import annotations

from typing import Any

from winnow.log_reader.consequences import describe_explanation
from winnow.pipeline.explain.explain import Explanation, PartitionExplanation
from winnow.values.model import Reason


def explain(*reclaimed_bytes: int | None, eligible: bool = True) -> dict[str, Any]:
    """The totals of a topic with a partition per estimate."""
    partitions = tuple(
        PartitionExplanation(
            partition=number,
            eligible=eligible,
            reason=Reason.DIRTY_RATIO if eligible else Reason.CLEAN,
            segments=1,
            records=10,
            bytes_to_read=100,
            at_most_bytes_to_write=100,
            tombstones_in_expired_ranges=0,
            next_first_dirty_offset=10,
            deadline_slack_ms=None,
            expected_records_kept=None if size is None else 5,
            expected_bytes_out=None if size is None else 100 - size,
            reclaimed_bytes=size,
        )
        for number, size in enumerate(reclaimed_bytes)
    )
    return dict(describe_explanation(Explanation("orders", "p-1", 0, "offset", partitions))["totals"])


def test_partitions_that_had_a_run_give_a_lower_bound_beside_others_that_had_none() -> None:
    totals = explain(40, None, 20)
    assert (totals["reclaimed_bytes"], totals["expected_records_kept"], totals["estimated_partitions"]) == (60, 10, 2)
    assert totals["bytes_to_read"] == 300


def test_nothing_is_claimed_before_the_first_run_and_nothing_freed_where_nothing_is_due() -> None:
    assert explain(None, None)["reclaimed_bytes"] is None
    assert explain(40, eligible=False)["reclaimed_bytes"] == 0
