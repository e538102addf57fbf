"""Steps of the DAG compact_topics: one pipeline call each, safe to run again.

The error of one topic is raised after the task has processed its other topics. A topic that another run holds is
skipped (:mod:`winnow_airflow.tasks.topic_results`). Heavy libraries are imported inside the steps, to keep DAG parsing
fast.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from winnow.errors import ServiceError, UnknownTopicError
from winnow.values.counts import format_count
from winnow_airflow.outcomes import TopicOutcome, describe_left_topic
from winnow_airflow.task_defaults import describe_error, is_worth_retrying
from winnow_airflow.tasks.topic_results import TaskResults
from winnow_airflow.xcom_values import (
    MAXIMUM_FAILED_TASKS,
    MAXIMUM_MAPPED_TASKS,
    BatchRow,
    PlanRow,
    TopicCheck,
    build_label,
    build_plan_row,
    create_attempt_name,
    list_staged_attempts,
    read_plan_row,
    split_evenly,
)

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.monitor.watermark import Watermark
    from winnow.planning.plans import PlanReference
    from winnow.store import Run
    from winnow.values.results import Receipt

log = logging.getLogger("airflow.task")


def plan_topics(
    installation: Installation,
    checks: Iterable[TopicCheck],
    *,
    as_of_ms: int,
    tell: Callable[[TopicOutcome], None] = lambda _: None,
) -> list[BatchRow]:
    """Plan every eligible topic and pack the plans into batches, most urgent first. Planned topics stay locked.

    A topic that cannot be planned becomes a batch of its own that carries the reason. Batches beyond
    :data:`winnow_airflow.xcom_values.MAXIMUM_MAPPED_TASKS` are released for the next run. ``tell`` gets the topics that
    are left to another run.

    Raises:
        ServiceError: a service is unavailable, which affects every topic.
    """
    from winnow.pipeline.compaction.batch import lock_and_plan
    from winnow.pipeline.compaction.plan import pack_batches
    from winnow.pipeline.parallel import map_parallel
    from winnow.pipeline.topics.leases import release_lease, renew_leases

    name = create_attempt_name()
    results = TaskResults(installation)
    due = [found["topic"] for found in checks if found["eligible"]]
    with renew_leases(installation) as leases:

        def plan(topic: str) -> PlanReference | None:
            with results.collect(topic):
                return lock_and_plan(installation, topic, leases, as_of_ms=as_of_ms, attempt=name)[0]
            return None

        plans = [planned for planned in map_parallel(plan, due) if planned is not None]
    for failure in results.failures:
        if failure.left is not None:
            tell(describe_left_topic(installation, failure.topic))
    away = [problem for _, problem in results.errors if isinstance(problem, ServiceError)]
    if away:
        for planned in plans:
            release_lease(installation, planned.topic)
        raise away[0]
    failed = [_build_failed_batch(share, name) for share in split_evenly(results.errors, MAXIMUM_FAILED_TASKS)]
    packed = pack_batches(plans)
    room = MAXIMUM_MAPPED_TASKS - len(failed)
    for batch in packed[room:]:
        _release_plans(installation, batch.plans)
    rows = [
        BatchRow(
            label=build_label([p.topic for p in batch.plans]),
            attempt=name,
            plans=list(map(build_plan_row, batch.plans)),
        )
        for batch in packed[:room]
    ]
    for row in rows:
        log.info("Batch %s: %s.", row["label"], format_count(len(row["plans"]), "topic"))
    return [*rows, *failed]


def _build_failed_batch(errors: Sequence[tuple[str, Exception]], attempt: str) -> BatchRow:
    said = [f"Topic {topic} could not be planned: {describe_error(problem)}" for topic, problem in errors]
    return BatchRow(label=build_label([topic for topic, _ in errors]), attempt=attempt, plans=[], error="\n".join(said))


def _release_plans(installation: Installation, plans: Iterable[PlanReference]) -> None:
    from winnow.pipeline.compaction.open_runs import close_run
    from winnow.pipeline.topics.leases import release_lease

    for planned in plans:
        text = (
            f"Topic {planned.topic} is due, but a run takes {MAXIMUM_MAPPED_TASKS} batches at most and others are "
            "more urgent. Nothing of it was done; the next run takes it."
        )
        log.warning("%s", text)
        close_run(installation, installation.store.runs.find(planned.plan_id), text)
        release_lease(installation, planned.topic)


def validate_batch(installation: Installation, batch: BatchRow) -> list[str]:
    """Validate what the batch staged, topic by topic. Returns a sentence per topic that passed.

    Plans that were not staged are skipped: the Spark task reports those. Published plans are skipped too: they need no
    verdict any more, and their inputs may be deleted.
    """
    from winnow.pipeline.compaction.batch import PlanAttempt
    from winnow.pipeline.compaction.batch_validation import validate_plans
    from winnow.pipeline.parallel import map_parallel
    from winnow.pipeline.topics.leases import renew_leases

    def find(row: PlanRow) -> PlanAttempt | None:
        attempt = next(list_staged_attempts(row["uri"], batch["attempt"]), None)
        if attempt is None or _may_be_published(installation, row["plan_id"]):
            return None
        return PlanAttempt(read_plan_row(row), attempt)

    attempts = [each for each in map_parallel(find, batch["plans"]) if each is not None]
    results = TaskResults(installation)
    passed: list[str] = []
    # Its DAG run holds the topics already, unless a task was cleared after the report released them.
    with renew_leases(installation) as leases:
        for each, verdict in validate_plans(installation, attempts, results, leases):
            topic = each.plan.topic
            passed.append(f"{topic}: attempt {each.attempt} passed {verdict.expectations} expectations.")
            for failure in verdict.failures:
                log.warning("%s: %s: %s", topic, failure.expectation, failure.detail)
    results.close(passed, nothing="Nothing of this batch is staged and unpublished, so there is nothing to judge.")
    return passed


def publish_batch(installation: Installation, batch: BatchRow) -> list[str]:
    """Publish the plans that passed, commit and checkpoint, topic by topic. Returns the ids of the published plans.

    The metadata store says whether a topic passed, so a failed validation of another topic in the batch does not
    matter.
    """
    from winnow.pipeline.compaction.batch import PlanAttempt, publish_plans
    from winnow.pipeline.parallel import map_parallel
    from winnow.pipeline.topics.leases import renew_leases

    def find(row: PlanRow) -> PlanAttempt | None:
        attempt = _find_passed_attempt(installation, row, batch["attempt"])
        if attempt is None and not _may_be_published(installation, row["plan_id"]):
            return None
        return PlanAttempt(read_plan_row(row), attempt or "")

    attempts = [each for each in map_parallel(find, batch["plans"]) if each is not None]
    results = TaskResults(installation)
    with renew_leases(installation) as leases:
        published = [
            receipt.plan_id for receipt in publish_plans(installation, attempts, results, leases) if receipt.plan_id
        ]
    results.close(published, nothing="Nothing of this batch passed validation, so there is nothing to publish.")
    return published


def _find_passed_attempt(installation: Installation, row: PlanRow, base: str) -> str | None:
    for attempt in list_staged_attempts(row["uri"], base):
        verdict = installation.store.verdicts.find(row["plan_id"], attempt)
        if verdict is not None and verdict.passed:
            return attempt
    return None


def _may_be_published(installation: Installation, plan_id: str) -> bool:
    run = installation.store.runs.find(plan_id)
    return run is not None and run.status.may_be_published


def report_batch(
    installation: Installation, batch: BatchRow, *, last_try: bool = False
) -> tuple[list[str], list[tuple[Receipt, Watermark]]]:
    """Return one paragraph per topic of the batch, and what this run published with its watermark. Releases the topics.

    Airflow sends no asset event from a failed task. So the error of one topic is raised only while a retry may help
    (not on the ``last_try``), or when no other topic's event would be lost; otherwise its paragraph reports the error.
    """
    from winnow.pipeline.monitor.watermark import compute_watermark, name_latest_table
    from winnow.pipeline.parallel import map_parallel
    from winnow.pipeline.topics.leases import release_lease
    from winnow.report.receipts import format_receipt

    results = TaskResults(installation)

    def report(row: PlanRow) -> tuple[str | None, tuple[Receipt, Watermark] | None]:
        paragraph, mark = None, None
        with results.collect(row["topic"]):
            try:
                topic_log = installation.log.open(row["topic"])
                head = topic_log.head()
                receipt = topic_log.find_receipt(row["plan_id"], head)
                run = installation.store.runs.find(row["plan_id"])
                if receipt is not None and (run is None or run.holder in {None, installation.holder}):
                    found = compute_watermark(topic_log, now_ms=installation.now_ms(), head=head)
                    mark = (receipt, name_latest_table(installation, found, receipt.snapshot_id))
                paragraph = (
                    format_receipt(receipt) if receipt is not None else _explain_unpublished(installation, row, run)
                )
            except UnknownTopicError:
                paragraph = (
                    f"Topic {row['topic']} was dropped since plan {row['plan_id']} was made. There is nothing left to "
                    "report, and no event of it is sent."
                )
        with results.collect(row["topic"]):
            release_lease(installation, row["topic"])
        return paragraph, mark

    reported = map_parallel(report, batch["plans"])
    paragraphs = [paragraph for paragraph, _ in reported if paragraph is not None]
    published = [mark for _, mark in reported if mark is not None]
    again = not last_try and any(is_worth_retrying(problem) for _, problem in results.errors)
    if again or not published:
        results.raise_errors()
    paragraphs += [
        f"Topic {topic} could not be reported: {describe_error(problem)} Clear this task to report its batch again."
        for topic, problem in results.errors
    ]
    for text in paragraphs:
        log.info("%s", text)
    return paragraphs, published


def list_outcomes(paragraphs: Iterable[str], published: Sequence[tuple[Receipt, Watermark]]) -> list[TopicOutcome]:
    """List what came of the topics of a batch: what was removed, or the paragraph that says why nothing was."""
    from winnow.report.outcomes import describe_removal
    from winnow.report.receipts import format_receipt

    receipts = [receipt for receipt, _ in published]
    done = {format_receipt(receipt) for receipt in receipts}
    return [
        *(
            TopicOutcome(topic=each.topic, kind="done", text=describe_removal(each), plan_id=each.plan_id)
            for each in receipts
        ),
        *(TopicOutcome(topic="", kind="failed", text=text, plan_id=None) for text in paragraphs if text not in done),
    ]


def _explain_unpublished(installation: Installation, row: PlanRow, run: Run | None) -> str:
    from winnow.pipeline.compaction.open_runs import close_run
    from winnow.pipeline.topics.leases import is_held_by_another
    from winnow.store import RunState

    if run is not None and run.status.is_closed:
        return run.message
    if is_held_by_another(installation, row["topic"]):
        return f"Topic {row['topic']} was not compacted by this run: another run has it, and it is left to that one."
    text = (
        f"Topic {row['topic']} was not compacted: plan {row['plan_id']} was not published. Readers see the log as "
        "before. The failed task of this batch says why."
    )
    # A cleared task may still validate what is staged; the next run closes runs that were not resumed.
    if run is not None and run.status in {RunState.PLANNED, RunState.COMPACTING}:
        close_run(installation, run, text)
        return run.message or text
    return text
