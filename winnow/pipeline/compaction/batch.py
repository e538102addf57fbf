"""Carries out a batch of plans: plan, stage, publish; :mod:`winnow.pipeline.compaction.batch_validation` validates it.

Shell and Airflow call these steps and no others. The shell runs them in one process and publishes each topic as soon as
it is validated; in Airflow each step is a task.
Failures go to the :class:`winnow.values.failures.TopicFailures` of the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from winnow.engine import staging
from winnow.engine.events import PlanFailure, describe_plan_failure
from winnow.errors import Explanation, PlanVoidError, RunAgainError, ServiceError, WinnowError, make_error
from winnow.files.storage_health import make_service_error
from winnow.pipeline.compaction.open_runs import close_run, lock_topic
from winnow.pipeline.compaction.plan import plan_topic
from winnow.pipeline.compaction.plan_validity import explain_void
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.stage import begin_attempt, end_attempt, stage_retention_plans
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import map_parallel
from winnow.pipeline.spark.submit import JobOutcome
from winnow.pipeline.topics.leases import HeldLeases
from winnow.pipeline.topics.marks import mark_failed_partitions
from winnow.planning.plans import PlanReference
from winnow.values.failures import TopicFailure, TopicFailures
from winnow.values.model import Status
from winnow.values.results import Receipt

Submit = Callable[[Sequence[PlanReference]], JobOutcome]
"""Runs Spark on plans and waits for it."""

log = logging.getLogger("winnow")


@dataclass(frozen=True, slots=True)
class PlanAttempt:
    """One attempt at a plan."""

    plan: PlanReference
    attempt: str


def lock_and_plan(
    installation: Installation,
    topic: str,
    leases: HeldLeases,
    *,
    as_of_ms: int,
    attempt: str,
    closes_active: bool = False,
) -> tuple[PlanReference | None, list[Receipt]]:
    """Lock ``topic``, settle its open runs and plan it; it stays locked only if there is a plan.

    ``closes_active``: the active segments count as closed.

    Returns:
        The plan, None if nothing is eligible; and the receipts of earlier runs that turned out to be published.

    Raises:
        TopicBusyError: another run holds the topic.
    """
    planned = None
    try:
        settled = lock_topic(installation, topic, leases)
        planned = plan_topic(installation, topic, as_of_ms=as_of_ms, attempt=attempt, closes_active=closes_active)
    finally:
        if planned is None:
            leases.release(topic)
    return planned, settled


def stage_plans(
    installation: Installation,
    plans: Sequence[PlanReference],
    attempt: str,
    results: TopicFailures,
    submit: Submit,
    *,
    closes_failed: bool = False,
) -> list[PlanReference]:
    """Make ``attempt`` at all ``plans`` in one Spark application; return those that left a staging manifest.

    A failed plan is left to another run if its log changed meanwhile; otherwise the partitions that the job names are
    marked uncleanable. ``submit`` is not called for plans that only apply retention. ``closes_failed``: nobody tries
    again with these plans, so the runs of those that failed are closed.
    """
    started_ms = installation.now_ms()

    def begin(plan: PlanReference) -> PlanReference | None:
        with results.collect(plan.topic, plan.plan_id, attempt, status=Status.REFUSED):
            begin_attempt(installation, plan, attempt)
            return plan
        return None

    begun = [plan for plan in map_parallel(begin, plans) if plan is not None]
    failures: dict[str, PlanFailure] = {}
    outcome = JobOutcome()
    reading = begun
    submitted: list[PlanReference] = []
    try:
        reading, failures = stage_retention_plans(installation, begun, attempt)
        submitted = reading
        outcome = submit(reading) if reading else outcome
    except Exception as problem:  # Spark could not be started, which is a failure of every plan
        error = convert_to_winnow_error("the batch", problem, installation.settings.places)
        failures |= {plan.plan_id: describe_plan_failure(error) for plan in reading}
    failures |= outcome.failures
    in_spark = {plan.plan_id for plan in submitted}

    def end(plan: PlanReference) -> PlanReference | None:
        with results.collect(plan.topic, plan.plan_id, attempt, status=Status.REFUSED):
            failure = failures.get(plan.plan_id)
            if failure is None or plan.plan_id in outcome.silent:
                if staging.has_manifest(plan.uri, attempt):
                    end_attempt(installation, plan, attempt, started_ms=started_ms)
                    return plan
                failure = failure or PlanFailure(
                    Explanation("the Spark application ended well but left no staging manifest"), ServiceError.exit_code
                )
            found = _judge_failure(installation, plan, failure, attempt, in_spark=plan.plan_id in in_spark)
            if closes_failed:
                close_run(installation, installation.store.runs.find(plan.plan_id), str(found.error), attempt=attempt)
            results.add(found)
        return None

    return [plan for plan in map_parallel(end, begun) if plan is not None]


def _judge_failure(
    installation: Installation, plan: PlanReference, failure: PlanFailure, attempt: str, *, in_spark: bool
) -> TopicFailure:
    """Judge why ``attempt`` left ``plan`` without a staging manifest, and mark the partitions that caused it.

    ``in_spark``: the plan was given to Spark, and so its run failed there.

    A plan that became void meanwhile is left: a file that another run retired and a sweep removed is no damage.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: the plan's validity cannot be checked.
    """
    left = explain_void(installation, plan.plan_id)
    marked = None if left is not None else mark_failed_partitions(installation, plan, failure, attempt)
    cause = None
    if left is not None:
        error: WinnowError = PlanVoidError(left)
    elif marked is not None:
        error = marked
    else:
        cause = failure.error
        what, left_behind, to_do = failure.explanation
        explanation = Explanation(
            f"Topic {plan.topic} was not compacted: {what}",
            left_behind,
            str(Explanation(to_do, next="Nothing was published; run it again.")),
        )
        error = make_error(failure.exit_code, explanation)
        # A plan that the job refused to carry out is void, which is no failure of Spark.
        if in_spark and failure.exit_code != RunAgainError.exit_code:
            installation.store.runs.note_spark_failure(plan.plan_id, attempt, installation.now_ms(), str(error))
    status = Status.INVALID if marked is not None else Status.REFUSED
    return TopicFailure(plan.topic, error, plan.plan_id, attempt, left=left, cause=cause, status=status)


def publish_plans(
    installation: Installation, attempts: Iterable[PlanAttempt], results: TopicFailures, leases: HeldLeases
) -> Iterator[Receipt]:
    """Publish validated attempts side by side, one commit for each topic, and move its checkpoint; yield each receipt.

    ``leases``: keeps and renews the topics' leases.
    """

    def publish(each: PlanAttempt) -> Receipt | None:
        # A failure may have come after the commit.
        with results.collect(each.plan.topic, each.plan.plan_id, each.attempt, status=Status.UNKNOWN):
            leases.acquire(each.plan.topic)
            return publish_attempt(installation, each.plan.plan_id, each.attempt)
        return None

    yield from (receipt for receipt in map_parallel(publish, attempts) if receipt is not None)


def convert_to_winnow_error(what: str, problem: Exception, places: Sequence[str]) -> WinnowError:
    """Return ``problem`` as one of Winnow's own errors, about ``what``; ``places``: local folders that may be full."""
    if isinstance(problem, WinnowError):
        return problem
    log.debug("%s", what, exc_info=problem)
    subject = f"{what[:1].upper()}{what[1:]}"
    of_the_machine = make_service_error(problem, places)
    if of_the_machine is not None:
        return ServiceError(f"{subject}: {of_the_machine}")
    # A library's message may quote data, so only the exception's type is shown.
    return WinnowError(
        f"{subject}: unexpected {type(problem).__name__}.",
        left="Nothing more was done for it; what was published stays.",
        next="Run it again, with WINNOW_DEBUG=1 for the traceback.",
    )
