"""DAG sweep_topics: deletes files once a day that no reader can reach any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, get_current_context, task

from winnow_airflow import compaction_steps, maintenance, params, pool_checks
from winnow_airflow.notifier import WinnowNotifier
from winnow_airflow.task_defaults import COMMIT_POOL, DEFAULT_ARGS, START, TAGS
from winnow_airflow.xcom_values import build_label, split_evenly

DOC = """
### Removes the files that compaction left behind

A compacted topic reads its new files from the moment of the commit. The old ones stay for a grace (the topic's
`winnow.retired.grace.ms`, one day by default), so that whoever was reading them can finish. This DAG removes them once
the grace has passed, and what attempts that were never published have left. It never touches what is still referenced,
nor a run whose outcome is not known. Running it again removes nothing more.

| Param | meaning |
| --- | --- |
| `topics` | names of topics; empty: all |
"""

SWEEP_DOC = """
Removes the files of a topic whose grace has passed and says how much still waits. A topic that is being compacted is
tried again later, and is left to the next sweep when it still is.
"""


@task
def list_topics() -> list[list[str]]:
    """The topics of this run, in as many shares as there will be sweeps."""
    context = get_current_context()
    pool_checks.require_pools(context)
    with compaction_steps.open_task_pipeline(context) as ctx:
        return split_evenly(compaction_steps.select_topics(ctx, context["params"]["topics"]))


@task(
    map_index_template="{{ label }}",
    pool=COMMIT_POOL,
    execution_timeout=timedelta(hours=4),
    on_failure_callback=WinnowNotifier("list_topics"),
    doc_md=SWEEP_DOC,
)
def sweep(topics: list[str]) -> list[str]:
    """One share of the topics, one after another."""
    context: Any = get_current_context()
    context["label"] = build_label(topics)
    with compaction_steps.open_task_pipeline(context) as ctx:
        return maintenance.sweep_topics(ctx, topics, last_try=context["ti"].try_number > context["ti"].max_tries)


with DAG(
    dag_id="sweep_topics",
    schedule=CronTriggerTimetable("37 3 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={"topics": params.TOPICS},
) as sweep_topics:
    sweep.expand(topics=list_topics())
