"""The JSON events that Spark jobs print for the process that started them.

Needs nothing of Spark, so that the one who listens does not load it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from winnow.clock import format_ms

PROGRESS_PREFIX = "WINNOW "
"""A line of the job's standard output that begins so holds one JSON event."""


@dataclass(frozen=True, slots=True)
class PartitionFailure:
    """Why one topic partition of a plan was not carried out. ``error`` holds no user bytes."""

    partition: int
    error: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class PlanFailure:
    """Why a plan was left without a staging manifest. ``partitions``: those that failed, none when nobody knows."""

    error: str
    exit_code: int
    partitions: tuple[PartitionFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What became of one plan of the batch: a staging manifest, or the failure that left it without one.

    ``sha256``: of the document's bytes, where whoever reads it must not take another one.
    """

    topic: str
    plan_id: str
    manifest_uri: str | None
    failure: PlanFailure | None = None
    sha256: str | None = None

    @property
    def exit_code(self) -> int:
        """0 when there is a staging manifest."""
        return self.failure.exit_code if self.failure is not None else 0


def emit_event(event: dict[str, Any], stream: TextIO | None = None) -> None:
    """Print one event for whoever started the job."""
    stream = stream or sys.stdout
    stream.write(f"{PROGRESS_PREFIX}{json.dumps(event, sort_keys=True)}\n")
    stream.flush()


def log_event(event: dict[str, Any], now_ms: int, stream: TextIO | None = None) -> None:
    """Write one event to the log of this process, standard error: one line, one JSON object, with its time."""
    stream = stream or sys.stderr
    # In one piece: tasks of one machine may share the stream.
    stream.write(f"{json.dumps({'timestamp': format_ms(now_ms), **event})}\n")
    stream.flush()


def parse_event(line: str) -> dict[str, Any] | None:
    """The event in a line of the job's output; None for anything else."""
    if not line.startswith(PROGRESS_PREFIX):
        return None
    try:
        event = json.loads(line[len(PROGRESS_PREFIX) :])
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def emit_outcomes(outcomes: Sequence[PlanOutcome], stream: TextIO | None = None) -> None:
    """Print a ``plan`` event for each outcome, those that failed last: a log that is cut short still says why."""
    for outcome in sorted(outcomes, key=lambda each: each.failure is not None):
        failure = outcome.failure
        emit_event(
            {
                "event": "plan",
                "topic": outcome.topic,
                "plan_id": outcome.plan_id,
                "manifest": outcome.manifest_uri,
                "error": failure.error if failure is not None else None,
                "exit_code": outcome.exit_code,
                "failures": [asdict(each) for each in failure.partitions] if failure is not None else [],
                **({} if outcome.sha256 is None else {"sha256": outcome.sha256}),
            },
            stream,
        )


def parse_failure(event: dict[str, Any]) -> PlanFailure | None:
    """The failure that a ``plan`` or ``failed`` event tells of; None for any other event."""
    if event["event"] not in {"plan", "failed"} or not event.get("error"):
        return None
    partitions = tuple(
        PartitionFailure(int(each["partition"]), str(each["error"]), int(each["exit_code"]))
        for each in event.get("failures", ())
    )
    return PlanFailure(str(event["error"]), int(event["exit_code"]), partitions)
