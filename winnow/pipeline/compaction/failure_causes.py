"""Groups the expectations that fail a validation by what an operator does about them. Pure.

docs/operations.md has a section for each cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from winnow.values.model import Severity
from winnow.values.results import Failure


class FailureCause(StrEnum):
    """What is at fault. The value is the title of the runbook's section; the gravest cause is first."""

    CHECK = "validation_failed"
    LIMIT = "validation_failed by a limit"
    CONTENT = "validation_failed by a content suite"


LIMITS: Final = frozenset(
    {
        "partition_planned",
        "planned_from_log",
        "planned_as_configured",
        "retention_due",
        "tombstones_due",
        "end_cleanable",
        "nothing_above_end",
    }
)
"""Expectations of the structural suite that compare a plan with what configuration, state and clock allow."""


def find_cause(failure: Failure) -> FailureCause:
    """Find what is at fault where ``failure`` fails a validation."""
    if failure.suite:
        return FailureCause.CONTENT
    return FailureCause.LIMIT if failure.expectation in LIMITS else FailureCause.CHECK


def list_causes(failures: Iterable[Failure]) -> list[FailureCause]:
    """List what is at fault where ``failures`` fail a validation, the gravest first; warnings fail none."""
    present = {find_cause(failure) for failure in failures if failure.severity is Severity.FAIL}
    return [cause for cause in FailureCause if cause in present]


def advise(topic: str, failures: Iterable[Failure]) -> str:
    """Write what to do about each cause of ``failures``, with the runbook's section: sentences, for an alert."""
    listed = list(failures)
    suites = sorted({failure.suite for failure in listed if failure.suite})
    sentences = {
        FailureCause.CHECK: (
            "Winnow's own check of the result failed: a disk, memory or a task is at fault, and no record. See whether "
            f"the input can be read (winnow read {topic} --output /dev/null)."
        ),
        FailureCause.LIMIT: (
            "The plan does more than the topic's configuration and the clock allow, which is a defect of the plan and "
            f"no record's fault. See what the configuration is (winnow topics describe {topic})."
        ),
        FailureCause.CONTENT: (
            f"Records violate the topic's content suite {', '.join(suites)}. Send corrected records of these keys, or "
            f"correct the suite, or do without it (winnow topics alter {topic} --delete-config winnow.expectations)."
        ),
    }
    return " ".join(f"{sentences[cause]} Runbook: {cause.value}." for cause in list_causes(listed))
