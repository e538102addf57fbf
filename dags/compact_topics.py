"""DAGs compact_topics, compact_now and backfill_topics: schedule, task order, retries and documentation.

They have the same tasks on different schedules; the work itself is in winnow.pipeline.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    TriggerRule,
    get_current_context,
    task,
    task_group,
)

from winnow.clock import read_wall_clock_ms
from winnow_airflow import lineage, metrics, outcomes, params, pool_checks
from winnow_airflow.assets import COMPACTED, build_event, topic_asset
from winnow_airflow.notifier import WinnowNotifier
from winnow_airflow.older_airflow import AirflowFailException, AirflowSkipException, CronTriggerTimetable
from winnow_airflow.params import get_as_of_ms
from winnow_airflow.task_defaults import (
    CHECK_POOL,
    COMMIT_POOL,
    DEFAULT_ARGS,
    SPARK_POOL,
    START,
    TAGS,
    make_dag_arguments,
)
from winnow_airflow.task_skipping import skip_tasks
from winnow_airflow.tasks import compaction_steps, dry_run, eligibility_steps, monitoring, task_start
from winnow_airflow.tasks.backfill_order import lock_topics_in_as_of_order
from winnow_airflow.tasks.operators import CompactOperator
from winnow_airflow.timetables import BackfillTimetable
from winnow_airflow.xcom_values import BatchRow, TopicCheck, build_label, split_evenly

SCHEDULE_INTERVAL = timedelta(minutes=15)
BACKFILL_INTERVAL = timedelta(days=1)

DOC = """
### Compacts every topic that is due

Kafka keeps the latest record of each key; this DAG does the same for the archive of a topic on the data lake.

1. **check_eligibility** decides for each topic (all, unless the Param `topics` names some) whether it is worth
   compacting now, and logs why. Reads no data. A topic that was idle at the last check and cannot have anything due
   since costs one question to the catalog. Of more than 500 topics to look at, **check_further_topics** takes the rest.
2. **plan**: writes what exactly will be compacted, most overdue first. Small topics share a Spark application.
3. **list_compared**, **compare_strategy**: only with the Param `shadow_strategy`.
4. **compact_batch**, once per Spark application:
   **compact** writes new files that readers do not see yet, **validate** checks them, **publish** makes them visible in
   one commit and moves the checkpoint, **report** describes the result in a paragraph.
5. **send_metrics** measures the topics of this run and sends gauges through Airflow's metrics, if those are enabled.
6. **watch** alerts on deadlines that are near or missed, late runs and stuck sweeps, of all topics.
7. **outcome** runs only when a task failed, and fails the run.

A run that finds nothing due starts two processes, **check_eligibility** and **watch**; the other tasks are skipped. The
failure of one topic stops no other topic. A topic that another run is working on is left to that run: its tasks are
skipped with a message, and this run stays green. Every task can be cleared and run again: a result is published only
once.

Failures from bad data or a wrong setting are not retried. A lost race for a commit is retried at once. An unavailable
service is retried after half a minute, then at growing intervals.

| Param | meaning |
| --- | --- |
| `topics` | names of topics; empty: all |
| `as_of` | decide as of this instant, `2026-01-31T18:00:00Z` or ms; empty: the end of the data interval |
| `simulate` | allow an `as_of` more than a minute in the future |
| `dry_run` | only report what each due topic would read, write and remove; nothing is planned |
| `shadow_strategy` | `offset`, `timestamp` or `header`: report what it would keep instead of the topic's own |
| `reason` | why somebody asks for it; kept in the audit log |
"""

NOW_DOC = """
### Compacts topics now, beside the schedule

For *Compact now* on the page, and for a trigger by hand. It is `compact_topics` without a schedule: such a run waits
neither for the scheduled run to end nor behind its checks, and goes before it where both wait for a slot. A topic that
another run is working on is left to that run.
"""

BACKFILL_DOC = """
### Compacts as of the start of each day of a range

For `winnow airflow backfill create --dag-id backfill_topics …`, the form in the UI, and the API. It is
`compact_topics` with one run per day, as of 00:00 UTC when it begins, instead of ninety-six; most of a month's runs
find nothing due and end after **check_eligibility**. Days may run in any order, several at a time, repeatedly, and
beside the schedule: readers end up with the same log. A run waits for a topic only while a run with an earlier as-of
holds it; a run with the same or a later as-of does its work too. This DAG has no schedule: it runs only when a backfill
is requested.
"""

CHECK_DOC = """
Completes or closes runs that earlier processes left open, then decides for every partition whether it is worth
compacting now. The decision needs the table's manifests only: no data file is read and no Spark is started. The log
names each topic that is due, with the reasons, and counts the reasons of the others; `winnow assess` shows them for
each partition.

A topic that the last check found idle is left out if its log has the same head and neither the rules nor the clock can
have changed the answer. A topic that cannot be checked fails this task; the others are compacted all the same.
"""

COMPARE_DOC = """
With the Param `shadow_strategy`: picks the winners twice with Spark over the records that a compaction would cover, by
the topic's own strategy and by the other one, and reports how many keys would have another winner. It logs numbers and
offsets, never keys. It runs before the compaction, so that both choose from the same records. The compaction continues
even if this task fails.
"""

COMPACT_DOC = """
Runs Spark on the plans of this batch. It reads the planned files and writes new files beside them, which readers do not
see. The log shows a line per partition. A retry writes a new attempt and does not touch the old one.
"""


@task(doc_md=CHECK_DOC)
def check_eligibility() -> list[list[str]]:
    """Decides which topics of the run are due, with the reason; returns the topics that are left for further tasks.

    Refuses a future as-of and missing pools.
    """
    context = get_current_context()
    with eligibility_steps.end_run_on_error(context), outcomes.push_failure(context):
        pool_checks.require_pools(context)
        as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
        with task_start.open_task_installation(context) as installation:
            topics = task_start.select_topics(installation, context, context["params"]["topics"])
            if not context["params"]["dry_run"]:
                task_start.record_manual_run(installation, context, "compact")
            shares = eligibility_steps.split_topics(
                installation,
                topics,
                as_of_ms=as_of_ms,
                looks_at_all=eligibility_steps.looks_at_all(context["params"]),
            )
            first = shares[0] if shares else []
            results, found = eligibility_steps.check_share(installation, context, first, as_of_ms=as_of_ms)
    # Before a topic's error is raised: the others are planned all the same.
    context["ti"].xcom_push(key=eligibility_steps.CHECKS_KEY, value=found)
    if not eligibility_steps.will_be_retried(context, [problem for _, problem in results.errors]):
        skip_tasks(eligibility_steps.list_idle_tasks(context, found, further=shares[1:]))
    results.raise_errors()
    return shares[1:]


@task(map_index_template="{{ label }}", pool=CHECK_POOL, doc_md=CHECK_DOC)
def check_further_topics(topics: list[str]) -> list[TopicCheck]:
    """Decides whether the topics of this share are due, with the reason."""
    context: Any = get_current_context()
    context["label"] = build_label(topics)
    as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
    with task_start.open_task_installation(context) as installation:
        results, found = eligibility_steps.check_share(installation, context, topics, as_of_ms=as_of_ms)
    context["ti"].xcom_push(key="return_value", value=found)
    results.raise_errors()
    return found


@task(trigger_rule=TriggerRule.ALL_DONE)
def plan(further: list[list[TopicCheck]]) -> list[BatchRow]:
    """Writes a plan per due topic, locks the topics, and packs the plans into Spark applications."""
    context: Any = get_current_context()
    as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
    first = context["ti"].xcom_pull(task_ids="check_eligibility", key=eligibility_steps.CHECKS_KEY)
    found = [check for share in [first or [], *further[:]] for check in share]
    if context["params"]["dry_run"]:
        dry_run.log_preview(found)
        return []
    with task_start.open_task_installation(context) as installation:
        if context["dag_run"].run_type == "backfill":
            found = lock_topics_in_as_of_order(installation, found, as_of_ms=as_of_ms)
        left: list[outcomes.TopicOutcome] = []
        batches = compaction_steps.plan_topics(installation, found, as_of_ms=as_of_ms, tell=left.append)
        outcomes.push_outcomes(context, left)
    return batches


@task
def list_compared() -> list[list[str]]:
    """Lists the topics to compare with another strategy, one share per task."""
    context = get_current_context()
    if context["params"]["shadow_strategy"] is None:
        raise AirflowSkipException("The Param shadow_strategy is empty, so nothing is compared.")
    with task_start.open_task_installation(context) as installation:
        return split_evenly(task_start.select_topics(installation, context, context["params"]["topics"]))


@task(map_index_template="{{ label }}", pool=SPARK_POOL, execution_timeout=timedelta(hours=12), doc_md=COMPARE_DOC)
def compare_strategy(topics: list[str]) -> list[str]:
    """Reports what another strategy would keep of each topic. Changes nothing."""
    context: Any = get_current_context()
    context["label"] = build_label(topics)
    as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
    with task_start.open_task_installation(context) as installation:
        return dry_run.compare_strategies(installation, topics, context["params"]["shadow_strategy"], as_of_ms=as_of_ms)


@task(
    map_index_template="{{ label }}",
    trigger_rule=TriggerRule.ALL_DONE,
    execution_timeout=timedelta(hours=4),
    on_failure_callback=WinnowNotifier(),
)
def validate(batch: BatchRow) -> list[str]:
    """Validates the new files with Great Expectations, topic by topic. A failed result is not published or retried."""
    context: Any = get_current_context()
    context["label"] = batch["label"]
    with task_start.open_task_installation(context) as installation:
        return compaction_steps.validate_batch(installation, batch)


@task(
    map_index_template="{{ label }}",
    trigger_rule=TriggerRule.ALL_DONE,
    pool=COMMIT_POOL,
    execution_timeout=timedelta(hours=1),
    on_failure_callback=WinnowNotifier(),
)
def publish(batch: BatchRow) -> list[str]:
    """Makes valid results visible, one commit per topic, then moves the checkpoint. A second time changes nothing."""
    context: Any = get_current_context()
    context["label"] = batch["label"]
    with task_start.open_task_installation(context) as installation:
        return compaction_steps.publish_batch(installation, batch)


@task(map_index_template="{{ label }}", trigger_rule=TriggerRule.ALL_DONE, outlets=[COMPACTED])
def report(batch: BatchRow) -> list[str]:
    """Reports the result of each topic, sends its asset event, and releases the topics."""
    context: Any = get_current_context()
    context["label"] = batch["label"]
    with task_start.open_task_installation(context) as installation:
        last_try = context["ti"].try_number > context["ti"].max_tries
        paragraphs, published = compaction_steps.report_batch(installation, batch, last_try=last_try)
    outcomes.push_outcomes(context, compaction_steps.list_outcomes(paragraphs, published))
    for receipt, mark in published:
        context["outlet_events"][COMPACTED].add(topic_asset(receipt.topic), extra=build_event(receipt, mark))
    return paragraphs


@task_group(tooltip="One Spark application: compact, validate, publish, report")
def compact_batch(batch: BatchRow) -> None:
    """Compacts, validates, publishes and reports one batch."""
    compact = CompactOperator(
        task_id="compact",
        batch=batch,
        trigger_rule=TriggerRule.ALL_DONE,
        pool=SPARK_POOL,
        execution_timeout=timedelta(hours=12),
        status_poll_interval=5,
        # Airflow 3.1 renders it at the end with a task whose batch is not resolved; newer ones at the beginning, too.
        map_index_template="{{ label if label is defined else task.batch['label'] }}",
        on_failure_callback=WinnowNotifier(),
        doc_md=COMPACT_DOC,
    )
    judged = lineage.attach_lineage(validate(batch), lineage.JUDGED)
    published = lineage.attach_lineage(publish(batch), lineage.PUBLISHED)
    compact >> judged >> published >> report(batch)


@task(trigger_rule=TriggerRule.ALL_DONE, execution_timeout=timedelta(minutes=30))
def send_metrics() -> int:
    """Sends the metrics of this run's topics through Airflow's metrics client; skipped if metrics are switched off."""
    if not metrics.are_metrics_enabled():
        raise AirflowSkipException("Airflow's metrics are switched off: neither statsd_on nor otel_on in [metrics].")
    return monitoring.send_run_metrics(get_current_context())


@task(trigger_rule=TriggerRule.ALL_DONE, execution_timeout=timedelta(minutes=30), doc_md=monitoring.WATCH_DOC)
def watch() -> str:
    """Alerts on deadlines and sweeps of all topics that need attention now, and reports recoveries."""
    return monitoring.watch_topics(get_current_context())


@task(trigger_rule=TriggerRule.ONE_FAILED, retries=0)
def outcome() -> None:
    """Fails the run when one of its tasks failed. Needed because reports run even after failures."""
    # It runs as soon as one task has failed: what becomes of the other topics is not known yet.
    raise AirflowFailException(
        "A task of this run failed: see the red tasks. Each report says what became of its topics."
    )


def build_compaction_dag(
    name: str, schedule: CronTriggerTimetable | BackfillTimetable | None, doc: str, *, max_active_runs: int = 1
) -> DAG:
    """Builds the DAG ``name`` with the tasks of a compaction."""
    with DAG(
        **make_dag_arguments(name),
        schedule=schedule,
        start_date=START,
        catchup=False,
        max_active_runs=max_active_runs,
        default_args=DEFAULT_ARGS,
        tags=TAGS,
        doc_md=doc,
        params=params.COMPACTION,
    ) as dag:
        further: Any = check_eligibility()
        checked: Any = check_further_topics.expand(topics=further)
        planned: Any = plan(checked)
        further >> planned
        compacted = compact_batch.expand(batch=planned)
        # Before the compaction, so that both strategies choose from the same records.
        compared: Any = list_compared()
        further >> compared
        compare_strategy.expand(topics=compared) >> compacted
        steps_of_the_run = list(dag.tasks)
        steps_of_the_run >> outcome()
        if not isinstance(schedule, BackfillTimetable):
            # The outcome does not wait for them. They are about the present, and a backfill is about the past.
            compacted >> [send_metrics(), watch()]
    return dag


compact_topics = build_compaction_dag(
    "compact_topics", CronTriggerTimetable("*/15 * * * *", timezone="UTC", interval=SCHEDULE_INTERVAL), DOC
)
# Not a run of compact_topics, of which there is one at a time.
compact_now = build_compaction_dag("compact_now", None, NOW_DOC, max_active_runs=16)
# One run per day: a month of 15-minute runs would be three thousand.
backfill_topics = build_compaction_dag(
    "backfill_topics", BackfillTimetable("0 0 * * *", timezone="UTC", interval=BACKFILL_INTERVAL), BACKFILL_DOC
)
