"""DAG watch_topics: checks deadlines, sweeps and alerts also while compaction runs hang or are paused."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, get_current_context, task

from winnow_airflow.older_airflow import CronTriggerTimetable
from winnow_airflow.task_defaults import DEFAULT_ARGS, START, TAGS, make_dag_arguments
from winnow_airflow.tasks import monitoring

WATCH_INTERVAL = timedelta(minutes=15)

DOC = """
### Checks deadlines and sweeps, and delivers alerts that wait for their channel

Runs every 15 minutes, a few minutes after `compact_topics`. That DAG does the same at the end of each run, so that a
recovery is reported at once; this DAG does it while such a run hangs, waits, or is paused. An alert is sent once.
"""


@task(execution_timeout=timedelta(minutes=30), doc_md=monitoring.WATCH_DOC)
def watch() -> str:
    """Alerts on deadlines and sweeps of all topics that need attention now, and reports recoveries."""
    return monitoring.watch_topics(get_current_context())


with DAG(
    **make_dag_arguments("watch_topics"),
    schedule=CronTriggerTimetable("10-59/15 * * * *", timezone="UTC", interval=WATCH_INTERVAL),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
) as watch_topics:
    watch()
