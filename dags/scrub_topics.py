"""DAG scrub_topics: reads and checks every live file once a week, within a daily byte budget."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, get_current_context, task

from winnow_airflow import compaction_steps, maintenance, params, pool_checks
from winnow_airflow.notifier import WinnowNotifier
from winnow_airflow.task_defaults import DEFAULT_ARGS, SCRUB_POOL, START, TAGS

DOC = """
### Reads every segment in full and checks its pages

Disks and object stores change bytes now and then, and a record that nobody reads for a year is missed only then. This
DAG reads all live segments, quarantined records, receipts and ledgers, checks every page against its checksum and
every segment against its manifest entry, and alerts about what it finds (`segment_damaged`) while a backup still has
it. Nothing is changed.

What was checked longest ago comes first, and every check is remembered. With `scrub.bytes_per_day` set, a run reads
what is left of the day's budget, gives its slot back until more is free, and goes on; `scrub.bytes_per_second` slows it
down. A run that is not through after a week leaves the rest to the next.

| Param | meaning |
| --- | --- |
| `topics` | names of topics; empty: all |
"""

SCRUB_DOC = """
Reads what this run has not checked yet, and says for each topic how much is left. Damage fails the task: see the alert
`segment_damaged` for what to restore.
"""


@task
def list_topics() -> list[str]:
    """The topics of this run."""
    context = get_current_context()
    pool_checks.require_pools(context)
    with compaction_steps.open_task_pipeline(context) as ctx:
        return compaction_steps.select_topics(ctx, context["params"]["topics"])


@task(
    pool=SCRUB_POOL,
    execution_timeout=timedelta(days=2),
    on_failure_callback=WinnowNotifier("list_topics"),
    doc_md=SCRUB_DOC,
)
def scrub(topics: list[str]) -> list[str]:
    """All topics together, since what was checked longest ago may be any topic's."""
    context: Any = get_current_context()
    with compaction_steps.open_task_pipeline(context) as ctx:
        return maintenance.scrub_topics(ctx, topics, started_ms=maintenance.get_run_start_ms(context))


with DAG(
    dag_id="scrub_topics",
    schedule=CronTriggerTimetable("7 5 * * 0", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={"topics": params.TOPICS},
) as scrub_topics:
    scrub(list_topics())  # type: ignore[arg-type]
