"""Compacts topics in one process, as a shell does: every step, with one receipt per topic."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from winnow.errors import (
    CommitConflictError,
    CommitUnknownError,
    PlanVoidError,
    TopicBusyError,
    ValidationFailedError,
    WinnowError,
    find_worst_exit_code,
)
from winnow.pipeline.compaction.batch import (
    PlanAttempt,
    convert_to_winnow_error,
    lock_and_plan,
    publish_plans,
    stage_plans,
)
from winnow.pipeline.compaction.plan import pack_batches
from winnow.pipeline.compaction.plan_validity import explain_void
from winnow.pipeline.compaction.stage import submit_plans
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import map_parallel
from winnow.pipeline.spark.progress import observe_too, record_progress
from winnow.pipeline.spark.submit import JobOutcome, Progress
from winnow.pipeline.topics.leases import HeldLeases, hold_leases
from winnow.planning.plans import PlanReference
from winnow.quality import start_import
from winnow.values.failures import TopicFailure, TopicFailures
from winnow.values.model import Status
from winnow.values.results import Receipt


@dataclass(frozen=True, slots=True)
class TopicError:
    """Error of one topic; the others continue."""

    topic: str
    error: WinnowError

    @property
    def message(self) -> str:
        """What the receipt of the topic says, too."""
        return str(self.error)

    @property
    def exit_code(self) -> int:
        """That of the error."""
        return self.error.exit_code


@dataclass
class CompactionOutcome:
    """Result of each topic, in the order of the request: one receipt each, and an error for each failed topic."""

    receipts: list[Receipt] = field(default_factory=list)
    errors: list[TopicError] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 before all, else the highest that occurred."""
        return find_worst_exit_code(error.exit_code for error in self.errors)


class _ShellResults(TopicFailures):
    """Turns each failure into the topic's receipt and error."""

    def __init__(
        self, installation: Installation, outcome: CompactionOutcome, *, as_of_ms: int, leaves_held: bool
    ) -> None:
        super().__init__(partial(explain_void, installation))
        self._installation = installation
        self._outcome = outcome
        self._as_of_ms = as_of_ms
        self._leaves_held = leaves_held

    def add(self, failure: TopicFailure) -> None:
        """Add the receipt of a topic that failed, and its error; none for a topic that another run holds."""
        super().add(failure)
        if self._leaves_held and isinstance(failure.error, TopicBusyError):
            self.add_idle(failure.topic, str(failure.error))
            return
        error = convert_to_winnow_error(f"topic {failure.topic}", failure.error, self._installation.settings.places)
        status = _find_status(failure.error) or failure.status or Status.REFUSED
        self._add_receipt(failure.topic, failure.plan_id, failure.attempt, status, str(error))
        self._outcome.errors.append(TopicError(failure.topic, error))

    def add_idle(self, topic: str, message: str) -> None:
        """Add the receipt of a topic for which nothing was done."""
        self._add_receipt(topic, None, None, Status.NOTHING_TO_DO, message)

    def _add_receipt(self, topic: str, plan_id: str | None, attempt: str | None, status: Status, message: str) -> None:
        self._outcome.receipts.append(
            Receipt(
                topic=topic,
                plan_id=plan_id,
                status=status,
                snapshot_id=None,
                partitions=(),
                message=message,
                as_of_ms=self._as_of_ms,
                finished_at_ms=self._installation.now_ms(),
                attempt=attempt,
            )
        )


def _find_status(problem: Exception) -> Status | None:
    if isinstance(problem, ValidationFailedError):
        return Status.INVALID
    if isinstance(problem, PlanVoidError | CommitConflictError):
        return Status.REFUSED
    return Status.UNKNOWN if isinstance(problem, CommitUnknownError) else None


def compact_topics(
    installation: Installation,
    topics: Sequence[str],
    *,
    as_of_ms: int,
    progress: Progress | None = None,
    leave_held: bool | None = None,
    closes_active: bool = False,
) -> CompactionOutcome:
    """Compact the eligible partitions of ``topics`` (none = all). One topic's failure never stops another.

    ``leave_held``: a topic that another run holds is left to that run, with a sentence. Otherwise it is refused. Left
    out: it is refused where topics are named. ``closes_active``: the active segments count as closed for this run.
    """
    outcome = CompactionOutcome()
    leaves_held = not topics if leave_held is None else leave_held
    results = _ShellResults(installation, outcome, as_of_ms=as_of_ms, leaves_held=leaves_held)
    attempt = f"a-{uuid.uuid4().hex[:12]}"
    names = list(dict.fromkeys(topics or installation.log.names()))
    with installation.store.keep_open(), hold_leases(installation) as leases:

        def plan_one(topic: str) -> PlanReference | None:
            with results.collect(topic):
                plan, settled = lock_and_plan(
                    installation, topic, leases, as_of_ms=as_of_ms, attempt=attempt, closes_active=closes_active
                )
                if plan is not None:
                    return plan
                if settled:
                    outcome.receipts.append(settled[-1])
                else:
                    results.add_idle(topic, f"Nothing of {topic} is eligible now. See why with: winnow assess {topic}")
            return None

        plans = [plan for plan in map_parallel(plan_one, names) if plan is not None]
        for batch in pack_batches(plans):
            outcome.receipts.extend(_compact_batch(installation, batch.plans, attempt, results, leases, progress))
    order = {topic: number for number, topic in enumerate(names)}
    outcome.receipts.sort(key=lambda receipt: order[receipt.topic])
    outcome.errors.sort(key=lambda error: order[error.topic])
    return outcome


def _compact_batch(
    installation: Installation,
    plans: Sequence[PlanReference],
    attempt: str,
    results: TopicFailures,
    leases: HeldLeases,
    progress: Progress | None,
) -> list[Receipt]:
    """Compact one batch of plans; return the receipts of those that were published."""

    def submit(reading: Sequence[PlanReference]) -> JobOutcome:
        # They take seconds to import; Spark is at work meanwhile.
        start_import("winnow.pipeline.compaction.batch_validation", data_docs=installation.settings.data_docs)
        with record_progress(installation, reading, attempt) as recorder:
            outcome = submit_plans(installation, reading, attempt, observe_too(recorder, progress))
            recorder.end(outcome)
        return outcome

    staged = stage_plans(installation, plans, attempt, results, submit, closes_failed=True)
    from winnow.pipeline.compaction.batch_validation import validate_plans

    attempts = [PlanAttempt(plan, attempt) for plan in staged]
    passed = (each for each, _ in validate_plans(installation, attempts, results, leases, progress=progress))
    receipts = list(publish_plans(installation, passed, results, leases))
    map_parallel(lambda plan: leases.release(plan.topic), plans)
    return receipts
