"""DAG watch_topics: checks deadlines, sweeps and alerts also while compaction runs hang or are paused."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, get_current_context, task

from winnow_airflow import monitoring
from winnow_airflow.task_defaults import DEFAULT_ARGS, START, TAGS

WATCH_INTERVAL = timedelta(minutes=15)

DOC = """
### Watches over deadlines, sweeps, and alerts that wait for their channel

Every quarter of an hour, a few minutes off `compact_topics`. That DAG watches too when a run of it ends, so that a
recovery is told at once; this one does it while a run hangs, waits, or is paused. What was told is not told twice.
"""


@task(execution_timeout=timedelta(minutes=30), doc_md=monitoring.WATCH_DOC)
def watch() -> str:
    """Tells of deadlines and sweeps that need somebody, and of what has recovered; of all topics, from the present."""
    return monitoring.watch_topics(get_current_context())


with DAG(
    dag_id="watch_topics",
    schedule=CronTriggerTimetable("10-59/15 * * * *", timezone="UTC", interval=WATCH_INTERVAL),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
) as watch_topics:
    watch()
