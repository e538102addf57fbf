"""DAG sweep_topics: deletes files once a day that no reader can reach any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from winnow_airflow import outcomes
from winnow_airflow.notifier import WinnowNotifier
from winnow_airflow.task_defaults import COMMIT_POOL
from winnow_airflow.tasks import sweep_steps, task_start
from winnow_airflow.xcom_values import build_label, split_evenly

DOC = """
### Deletes the files that compaction replaced

From the commit of a compaction on, readers use its new files. The old files stay for a grace period (the topic's
`winnow.retired.grace.ms`, one day by default), so that queries that were reading them can finish. This DAG deletes them
when the grace period has passed, and the files of attempts that were never published. A topic that was deleted
(`winnow topics delete`) is removed with all of its files when its grace period has passed. The DAG never deletes a file
that is still referenced, nor files of a run whose outcome is unknown. Running it again deletes nothing more.

| Param | meaning |
| --- | --- |
| `topics` | names of topics; empty: all |
| `reason` | why somebody asks for it; kept in the audit log |
"""

SWEEP_DOC = """
Deletes the files of a topic whose grace period has passed, and logs how much still waits. A topic that is being
compacted is tried again later, and left to the next sweep if it is still being compacted then.
"""


@task
def list_topics() -> list[list[str]]:
    """Lists the topics of this run, split into one share per sweep task."""
    return split_evenly(sweep_steps.list_swept_topics())


@task(
    map_index_template="{{ label }}",
    pool=COMMIT_POOL,
    execution_timeout=timedelta(hours=4),
    on_failure_callback=WinnowNotifier("list_topics"),
    doc_md=SWEEP_DOC,
)
def sweep(topics: list[str]) -> list[str]:
    """Sweeps one share of the topics, one after another."""
    context: Any = get_current_context()
    context["label"] = build_label(topics)
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        reports = sweep_steps.sweep_topics(
            installation, topics, last_try=context["ti"].try_number > context["ti"].max_tries
        )
    outcomes.push_reports(context, reports)
    return [sentence for _, sentence in reports]


with task_start.build_maintenance_dag("sweep_topics", "37 3 * * *", DOC) as sweep_topics:
    sweep.expand(topics=list_topics())
