"""DAG scrub_topics: reads and checks every live file once a week, within a daily byte budget."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from winnow_airflow import outcomes
from winnow_airflow.notifier import WinnowNotifier
from winnow_airflow.task_defaults import SCRUB_POOL
from winnow_airflow.tasks import scrub_steps, task_start

DOC = """
### Reads every segment in full and checks its pages

Disks and object stores sometimes change bytes, and damage in a file that is rarely read is noticed late. This DAG reads
all live segments, quarantined records, receipts and ledgers, checks every page against its checksum and every segment
against its manifest entry, and alerts about damage (`segment_damaged`) while a backup still has the file. It changes
nothing.

Files that were checked longest ago come first, and every check is recorded. With `scrub.bytes_per_day` set, a run reads
what is left of the day's budget, frees its pool slot until the budget has room again, and continues;
`scrub.bytes_per_second` limits its read rate. A run that has not finished after a week leaves the rest to the next run.

| Param | meaning |
| --- | --- |
| `topics` | names of topics; empty: all |
| `reason` | why somebody asks for it; kept in the audit log |
"""

SCRUB_DOC = """
Reads the files that this run has not checked yet, and logs for each topic how much is left. Damage fails the task: the
alert `segment_damaged` says which file to restore.
"""


@task
def list_topics() -> list[str]:
    """Lists the topics of this run."""
    return scrub_steps.list_run_topics()


@task(
    pool=SCRUB_POOL,
    execution_timeout=timedelta(days=2),
    on_failure_callback=WinnowNotifier("list_topics"),
    doc_md=SCRUB_DOC,
)
def scrub(topics: list[str]) -> list[str]:
    """Checks all topics in one task, because the file that was checked longest ago may be in any of them."""
    context: Any = get_current_context()
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        reports = scrub_steps.scrub_topics(installation, topics, started_ms=scrub_steps.get_run_start_ms(context))
    outcomes.push_reports(context, reports)
    return [sentence for _, sentence in reports]


with task_start.build_maintenance_dag("scrub_topics", "7 5 * * 0", DOC, timedelta(days=9)) as scrub_topics:
    scrub(list_topics())  # type: ignore[arg-type]
