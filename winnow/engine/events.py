"""The JSON events that Spark jobs print for the process that started them. Imports nothing of Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from winnow.clock import format_ms
from winnow.errors import Explanation, WinnowError, join_first

PROGRESS_PREFIX = "WINNOW "
"""Prefix of the lines of the job's standard output that hold a JSON event."""
MAXIMUM_SHOWN_FAILURES = 3
"""Maximum failed partitions that an error names."""


@dataclass(frozen=True, slots=True)
class PartitionFailure:
    """Why one partition of a plan failed. ``error`` holds no user bytes."""

    partition: int
    error: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class PlanFailure:
    """Why a plan has no staging manifest. ``partitions``: those that failed, empty if unknown."""

    explanation: Explanation
    exit_code: int
    partitions: tuple[PartitionFailure, ...] = ()

    @property
    def error(self) -> str:
        """The whole message without its full stop."""
        return self.explanation.clause


def describe_plan_failure(problem: WinnowError) -> PlanFailure:
    """Describe why a plan has no staging manifest by ``problem``."""
    return PlanFailure(problem.explanation, problem.exit_code)


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of one plan of the batch: a staging manifest, or the failure.

    ``sha256``: of the document's bytes, where its reader must detect another document.
    """

    topic: str
    plan_id: str
    manifest_uri: str | None
    failure: PlanFailure | None = None
    sha256: str | None = None

    @property
    def exit_code(self) -> int:
        """Exit code of the outcome, 0 with a staging manifest."""
        return self.failure.exit_code if self.failure is not None else 0


def emit_event(event: dict[str, Any], stream: TextIO | None = None) -> None:
    """Print one event for the process that started the job."""
    stream = stream or sys.stdout
    stream.write(f"{PROGRESS_PREFIX}{json.dumps(event, sort_keys=True)}\n")
    stream.flush()


def print_log_line(event: dict[str, Any], now_ms: int, stream: TextIO | None = None) -> None:
    """Write one event to this process's log (standard error): one line with a JSON object and its time."""
    stream = stream or sys.stderr
    # In one write: tasks of one machine may share the stream.
    stream.write(f"{json.dumps({'timestamp': format_ms(now_ms), **event})}\n")
    stream.flush()


def parse_event(line: str) -> dict[str, Any] | None:
    """Return the event in a line of the job's output; None for other lines."""
    if not line.startswith(PROGRESS_PREFIX):
        return None
    try:
        event = json.loads(line[len(PROGRESS_PREFIX) :])
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def emit_outcomes(outcomes: Sequence[PlanOutcome], stream: TextIO | None = None) -> None:
    """Print a ``plan`` event for each outcome, failed ones last: a truncated log still shows why."""
    for outcome in sorted(outcomes, key=lambda each: each.failure is not None):
        failure = outcome.failure
        emit_event(
            {
                "event": "plan",
                "topic": outcome.topic,
                "plan_id": outcome.plan_id,
                "manifest": outcome.manifest_uri,
                **({"error": None} if failure is None else describe_error(failure.explanation)),
                "exit_code": outcome.exit_code,
                "failures": [asdict(each) for each in failure.partitions] if failure is not None else [],
                **({} if outcome.sha256 is None else {"sha256": outcome.sha256}),
            },
            stream,
        )


def describe_error(explanation: Explanation) -> dict[str, str]:
    """Make the fields of an event about an error: the whole message, and its parts."""
    return {"error": explanation.clause, **explanation._asdict()}


def parse_failure(event: dict[str, Any]) -> PlanFailure | None:
    """Return the failure in a ``plan`` or ``failed`` event; None for other events."""
    if event["event"] not in {"plan", "failed"} or not event.get("error"):
        return None
    partitions = tuple(
        PartitionFailure(int(each["partition"]), str(each["error"]), int(each["exit_code"]))
        for each in event.get("failures", ())
    )
    # An event of another version has the whole message only.
    what, left, after = (str(event.get(part, "")) for part in Explanation._fields)
    explanation = Explanation(what, left, after) if what else Explanation(str(event["error"]))
    return PlanFailure(explanation, int(event["exit_code"]), partitions)


def format_failures(topic: str, failures: Sequence[PartitionFailure]) -> str:
    """Describe failed partitions in part of a sentence, the first three by name."""
    return join_first([f"{topic}-{each.partition}: {each.error}" for each in failures], MAXIMUM_SHOWN_FAILURES)
