"""The DAG ``compact_topics``: schedule, order, retries, text. What it does is in the pipeline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    CronTriggerTimetable,
    Param,
    TriggerRule,
    get_current_context,
    task,
    task_group,
)
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from winnow.clock import format_ms, wall_clock_ms
from winnow_airflow import metrics, steps
from winnow_airflow.as_of import as_of_of
from winnow_airflow.assets import COMPACTED, event_of, topic_asset
from winnow_airflow.notifier import WinnowNotifier
from winnow_airflow.operators import CompactOperator
from winnow_airflow.policy import COMMIT_POOL, DEFAULT_ARGS, SPARK_POOL, START, TAGS
from winnow_airflow.references import BatchRow, TopicCheck, label_of, shares

EVERY = timedelta(minutes=15)

DOC = """
### Compacts every topic that is due

Kafka keeps the latest record of each key; this DAG does the same for the archive of a topic on the lake.

1. **list_topics**: the topics of this run, all of them unless the Param `topics` names some.
2. **check_eligibility**, one per topic: is it worth compacting now, and why not. Reads no data.
3. **plan**: writes what exactly will be compacted, most overdue first. Small topics share a Spark application.
4. **compact_batch**, once per Spark application:
   **compact** writes new files that nobody reads yet, **validate** judges them, **publish** makes them visible in one
   commit and moves the checkpoint, **report** says in a paragraph what happened.
5. **send_metrics** measures the topics of this run and sends gauges where Airflow's own metrics go, if anywhere.
6. **outcome** runs only when something failed, and fails the run.

A run that finds nothing due ends after **plan**. One topic's failure stops no other topic. Every task may be cleared
and run again: what is published stays published once.

| Param | meaning |
| --- | --- |
| `topics` | names of topics; empty: all |
| `as_of` | the instant to look from, `2026-01-31T18:00:00Z` or ms; empty: the end of the data interval |
| `simulate` | allow an `as_of` that lies more than a minute ahead of the present |
"""

CHECK_DOC = """
Settles what an earlier run of the topic left open, then decides for every partition whether it is worth compacting now.
The decision needs the table's manifests only: no data file is read and no Spark is started. The log counts the reasons,
and `winnow assess` shows them partition by partition.
"""

COMPACT_DOC = """
Runs Spark on the plans of this batch. It reads the planned files and writes new ones beside them; nothing that anybody
reads changes. The log shows a line per partition. A retry writes a new attempt and leaves the old one alone.
"""


@task
def list_topics() -> list[list[str]]:
    """The topics of this run, in as many shares as there will be checks. Refuses an as-of that lies in the future."""
    context = get_current_context()
    as_of_ms = as_of_of(context, now_ms=wall_clock_ms())
    with steps.pipeline(context) as ctx:
        topics = steps.choose(ctx, context["params"]["topics"])
    steps.log.info("As of %s: %d topic(s).", format_ms(as_of_ms), len(topics))
    return shares(topics)


@task(map_index_template="{{ label }}", retries=1, doc_md=CHECK_DOC)
def check_eligibility(topics: list[str]) -> list[TopicCheck]:
    """Whether the topics of this share are due, and why not."""
    context: Any = get_current_context()
    context["label"] = label_of(topics)
    as_of_ms = as_of_of(context, now_ms=wall_clock_ms())
    found: list[TopicCheck] = []
    kept = steps.Topics()
    with steps.pipeline(context) as ctx:
        for topic in topics:
            with kept.attempt(topic):
                found.append(steps.check(ctx, topic, as_of_ms=as_of_ms))
    # Pushed before a topic's error is raised: the others of this share are planned all the same.
    context["ti"].xcom_push(key="return_value", value=found)
    kept.raise_kept()
    return found


@task(trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS)
def plan(checked: list[list[TopicCheck]]) -> list[BatchRow]:
    """Writes a plan per due topic, takes hold of the topics, and packs the plans into Spark applications."""
    context = get_current_context()
    as_of_ms = as_of_of(context, now_ms=wall_clock_ms())
    with steps.pipeline(context) as ctx:
        return steps.plan(ctx, [found for share in checked[:] for found in share], as_of_ms=as_of_ms)


@task(
    map_index_template="{{ label }}",
    trigger_rule=TriggerRule.ALL_DONE,
    execution_timeout=timedelta(hours=4),
    on_failure_callback=WinnowNotifier(),
)
def validate(batch: BatchRow) -> list[str]:
    """Judges the new files with Great Expectations, topic by topic. What fails is not published and not tried again."""
    context: Any = get_current_context()
    context["label"] = batch["label"]
    with steps.pipeline(context) as ctx:
        passed = steps.validate(ctx, batch)
    if not passed:
        raise AirflowSkipException("Nothing of this batch is staged and unpublished, so there is nothing to judge.")
    return passed


@task(
    map_index_template="{{ label }}",
    trigger_rule=TriggerRule.ALL_DONE,
    pool=COMMIT_POOL,
    execution_timeout=timedelta(hours=1),
)
def publish(batch: BatchRow) -> list[str]:
    """Makes what passed visible, one commit per topic, then moves its checkpoint. A second time changes nothing."""
    context: Any = get_current_context()
    context["label"] = batch["label"]
    with steps.pipeline(context) as ctx:
        published = steps.publish(ctx, batch)
    if not published:
        raise AirflowSkipException("Nothing of this batch passed validation, so there is nothing to publish.")
    return published


@task(map_index_template="{{ label }}", trigger_rule=TriggerRule.ALL_DONE, outlets=[COMPACTED])
def report(batch: BatchRow) -> list[str]:
    """Says what became of each topic, tells whoever waits for its asset, and gives the topics back."""
    context: Any = get_current_context()
    context["label"] = batch["label"]
    with steps.pipeline(context) as ctx:
        paragraphs, receipts = steps.report(ctx, batch)
    for receipt in receipts:
        context["outlet_events"][COMPACTED].add(topic_asset(receipt.topic), extra=event_of(receipt))
    return paragraphs


@task_group(tooltip="One Spark application: compact, validate, publish, report")
def compact_batch(batch: BatchRow) -> None:
    """What happens to one batch."""
    compact = CompactOperator(
        task_id="compact",
        batch=batch,
        pool=SPARK_POOL,
        execution_timeout=timedelta(hours=12),
        status_poll_interval=5,
        map_index_template="{{ task.batch['label'] }}",
        doc_md=COMPACT_DOC,
    )
    compact >> validate(batch) >> publish(batch) >> report(batch)


@task(trigger_rule=TriggerRule.ALL_DONE, execution_timeout=timedelta(minutes=30))
def send_metrics() -> int:
    """Sends the metrics of every topic of this run through Airflow's own; does nothing where those are switched off."""
    if not metrics.is_on():
        raise AirflowSkipException("Airflow's metrics are switched off: neither statsd_on nor otel_on in [metrics].")
    context = get_current_context()
    with steps.pipeline(context) as ctx:
        return metrics.send(ctx, steps.choose(ctx, context["params"]["topics"]))


@task(trigger_rule=TriggerRule.ONE_FAILED, retries=0)
def outcome() -> None:
    """Fails the run when any of its tasks failed: reports run whatever happened, so they cannot tell."""
    raise AirflowFailException("A task of this run failed; the other topics were compacted. See the red tasks.")


with DAG(
    dag_id="compact_topics",
    schedule=CronTriggerTimetable("*/15 * * * *", timezone="UTC", interval=EVERY),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={
        "topics": Param([], type="array", items={"type": "string"}, description="Names of topics; empty: all."),
        "as_of": Param(
            None,
            type=["null", "string"],
            description="ISO 8601 with offset, or ms since the epoch; empty: the end of the data interval.",
        ),
        "simulate": Param(False, type="boolean", description="Allow an as-of that lies in the future."),
    },
) as compact_topics:
    checked: Any = check_eligibility.expand(topics=list_topics())
    compacted = compact_batch.expand(batch=plan(checked))
    steps_of_the_run = list(compact_topics.tasks)
    steps_of_the_run >> outcome()
    # Beside the outcome, which does not wait for it.
    compacted >> send_metrics()
