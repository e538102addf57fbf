"""The steps of ``compact_topics``, one call into the pipeline each. All of them may run again.

What goes wrong with one topic is kept until the others of the task are through, then raised. Heavy libraries load
inside the steps, so that parsing a DAG does not pay for them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from winnow.errors import ServiceError, TopicBusyError, UnknownTopicError, WinnowError
from winnow_airflow.policy import combined, sentence
from winnow_airflow.references import (
    BatchRow,
    IngestRow,
    PlanRow,
    TopicCheck,
    attempts,
    holder_of,
    label_of,
    new_attempt,
    row_of,
)

if TYPE_CHECKING:
    from winnow.model import Receipt
    from winnow.pipeline.context import Context as Pipeline

log = logging.getLogger("airflow.task")


@contextmanager
def pipeline(context: Mapping[str, Any]) -> Iterator[Pipeline]:
    """Settings, store and catalog for one task; leases belong to its DAG run."""
    from winnow.pipeline.context import open_context

    with open_context(holder=holder_of(context)) as ctx:
        yield ctx


class Topics:
    """Goes through topics one by one; a topic that fails stops no other."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, Exception]] = []

    @contextmanager
    def attempt(self, topic: str) -> Iterator[None]:
        """Whatever the block raises is kept under ``topic``."""
        try:
            yield
        except Exception as problem:  # another topic's bug is no reason to leave this one uncompacted
            log.error("Topic %s: %s", topic, sentence(problem), exc_info=not isinstance(problem, WinnowError))
            self.errors.append((topic, problem))

    def raise_kept(self) -> None:
        """Raise one exception for all that failed, if any did."""
        if self.errors:
            raise combined(self.errors)


def choose(ctx: Pipeline, wanted: Sequence[str]) -> list[str]:
    """The topics of a run: those it names, or all.

    Raises:
        UnknownTopicError: a named topic does not exist.
    """
    known = ctx.log.names()
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise UnknownTopicError(f"There is no topic {', '.join(unknown)}. Nothing was done. Name existing topics.")
    return list(dict.fromkeys(wanted)) or known


def check(ctx: Pipeline, topic: str, *, as_of_ms: int) -> TopicCheck:
    """Settle what earlier runs of ``topic`` left open, then assess it and record the decision."""
    from winnow.pipeline.assess import assess
    from winnow.pipeline.leases import holding
    from winnow.pipeline.settle import settle

    try:
        with holding(ctx, topic):
            for receipt in settle(ctx, topic):
                log.info("Settled an earlier run of %s: plan %s is published.", topic, receipt.plan_id)
            found = assess(ctx, [topic], as_of_ms=as_of_ms)
    except TopicBusyError as problem:
        log.info("%s", problem)
        found = assess(ctx, [topic], as_of_ms=as_of_ms)
    reasons = Counter(assessment.reason.value for assessment in found)
    log.info("Topic %s: %s", topic, ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())))
    return TopicCheck(topic=topic, eligible=any(a.eligible for a in found), reasons=dict(reasons))


def plan(ctx: Pipeline, checks: Iterable[TopicCheck], *, as_of_ms: int) -> list[BatchRow]:
    """Plan every eligible topic and pack the plans into batches, most urgent first. Planned topics stay held.

    A topic that cannot be planned becomes a batch of its own that says why.

    Raises:
        ServiceError: a service is away; it is away for every topic.
    """
    from winnow.pipeline.leases import release
    from winnow.pipeline.plan import batches

    name = new_attempt()
    topics = Topics()
    plans = []
    for found in checks:
        if not found["eligible"]:
            continue
        with topics.attempt(found["topic"]):
            planned = _plan_topic(ctx, found["topic"], name, as_of_ms)
            if planned is not None:
                plans.append(planned)
    away = [problem for _, problem in topics.errors if isinstance(problem, ServiceError)]
    if away:
        for planned in plans:
            release(ctx, planned.topic)
        raise away[0]
    packed = [
        BatchRow(label=batch.label, attempt=name, plans=[row_of(p) for p in batch.plans], error=None)
        for batch in batches(plans)
    ]
    failed = [
        BatchRow(label=topic, attempt=name, plans=[], error=f"Topic {topic} could not be planned: {sentence(problem)}")
        for topic, problem in topics.errors
    ]
    for batch in packed:
        log.info("Batch %s: %s", batch["label"], label_of([p["topic"] for p in batch["plans"]]))
    return [*packed, *failed]


def _plan_topic(ctx: Pipeline, topic: str, attempt: str, as_of_ms: int) -> Any:
    from winnow.pipeline.leases import acquire, release
    from winnow.pipeline.plan import plan_topic

    try:
        acquire(ctx, topic)
    except TopicBusyError as problem:
        log.info("%s It is left to that run.", problem)
        return None
    planned = None
    try:
        planned = plan_topic(ctx, topic, as_of_ms=as_of_ms, attempt=attempt)
    finally:
        if planned is None:
            release(ctx, topic)
    return planned


def validate(ctx: Pipeline, batch: BatchRow) -> list[str]:
    """Judge what the batch staged, topic by topic. Gives a sentence per topic that passed.

    What was not staged is not judged: the Spark task says what became of it. What is published needs no verdict any
    more, and its inputs may be gone.
    """
    from winnow.pipeline import validate as step

    topics = Topics()
    passed = []
    for row in batch["plans"]:
        attempt = next(attempts(row["uri"], batch["attempt"]), None)
        if attempt is None or _reached_publish(ctx, row["plan_id"]):
            continue
        with topics.attempt(row["topic"]), _held(ctx, row["topic"]):
            verdict = step.validate(ctx, row["plan_id"], attempt)
            passed.append(f"{row['topic']}: attempt {attempt} passed {verdict.expectations} expectations.")
            for failure in verdict.failures:
                log.warning("%s: %s: %s", row["topic"], failure.expectation, failure.detail)
    topics.raise_kept()
    return passed


def publish(ctx: Pipeline, batch: BatchRow) -> list[str]:
    """Publish what passed, commit and checkpoint, topic by topic. Gives the ids of the published plans.

    Whether a topic passed is what the metadata store says, so a sibling's failed validation is no obstacle.
    """
    from winnow.pipeline import publish as step

    topics = Topics()
    published = []
    for row in batch["plans"]:
        attempt = _passed(ctx, row, batch["attempt"])
        if attempt is None and not _reached_publish(ctx, row["plan_id"]):
            continue
        with topics.attempt(row["topic"]), _held(ctx, row["topic"]):
            step.publish(ctx, row["plan_id"], attempt or "")
            published.append(row["plan_id"])
    topics.raise_kept()
    return published


def _passed(ctx: Pipeline, row: PlanRow, base: str) -> str | None:
    for attempt in attempts(row["uri"], base):
        verdict = ctx.store.verdict(row["plan_id"], attempt)
        if verdict is not None and verdict.passed:
            return attempt
    return None


def _reached_publish(ctx: Pipeline, plan_id: str) -> bool:
    from winnow.store import RunState

    run = ctx.store.run(plan_id)
    return run is not None and run.status in {RunState.PUBLISHED, RunState.PUBLISHING, RunState.UNKNOWN}


@contextmanager
def _held(ctx: Pipeline, topic: str) -> Iterator[None]:
    """Hold ``topic``, as its DAG run does already unless a task was cleared after the report gave the topic back."""
    from winnow.pipeline.leases import acquire, renewing

    with renewing(ctx, [acquire(ctx, topic)]):
        yield


def report(ctx: Pipeline, batch: BatchRow) -> tuple[list[str], list[Receipt]]:
    """One paragraph per topic of the batch, and the receipts of those that were published. Gives the topics back."""
    from winnow.pipeline.leases import release
    from winnow.pipeline.report import paragraph

    paragraphs: list[str] = []
    receipts: list[Receipt] = []
    topics = Topics()
    for row in batch["plans"]:
        with topics.attempt(row["topic"]):
            receipt = ctx.log.open(row["topic"]).find_receipt(row["plan_id"])
            if receipt is not None:
                receipts.append(receipt)
            paragraphs.append(paragraph(receipt) if receipt is not None else _unpublished(ctx, row))
        with topics.attempt(row["topic"]):
            release(ctx, row["topic"])
    for text in paragraphs:
        log.info("%s", text)
    topics.raise_kept()
    return paragraphs, receipts


def _unpublished(ctx: Pipeline, row: PlanRow) -> str:
    from winnow.store import RunState

    run = ctx.store.run(row["plan_id"])
    if run is not None and run.status.is_closed:
        return run.message
    text = (
        f"Topic {row['topic']} was not compacted: plan {row['plan_id']} was not published. Readers see the log as "
        "before. The failed task of this batch says why."
    )
    # What is staged may still be judged when its task is cleared; the next run closes what nobody took up.
    if run is not None and run.status in {RunState.PLANNED, RunState.COMPACTING}:
        ctx.store.set_run_state(row["plan_id"], RunState.VOID, ctx.now_ms(), message=text)
    return text


def ingest(ctx: Pipeline, entry: IngestRow, *, as_of_ms: int) -> str:
    """Append the files of one entry, in one commit. Gives a sentence."""
    from winnow.pipeline.ingest import ingest_files

    done = ingest_files(ctx, entry["topic"], entry["paths"], as_of_ms=as_of_ms)
    for notice in done.notices:
        log.warning("%s", notice)
    text = (
        f"{done.topic}: {done.records_appended:,} records appended from {done.files} file(s), "
        f"{done.records_skipped:,} were there already, {done.records_quarantined:,} went to quarantine."
    )
    log.info("%s", text)
    return text


def sweep(ctx: Pipeline, names: Sequence[str]) -> list[str]:
    """Sweep topics one by one. Gives a sentence for each."""
    from winnow.pipeline import sweep as step

    topics = Topics()
    done = []
    for topic in names:
        with topics.attempt(topic):
            for swept in step.sweep(ctx, [topic]):
                log.info("%s", swept.message)
                done.append(swept.message)
    topics.raise_kept()
    return done
