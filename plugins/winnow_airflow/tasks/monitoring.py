"""Tasks at the end of a compaction run: watch deadlines and sweeps, send metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from winnow.clock import format_ms, read_wall_clock_ms
from winnow.errors import UsageError
from winnow_airflow.metrics import describe_metrics_error, send_gauges
from winnow_airflow.older_airflow import AirflowSkipException, AirflowTaskTimeout
from winnow_airflow.params import get_as_of_ms
from winnow_airflow.tasks import task_start
from winnow_airflow.tasks.latest_tables import update_due_tables

log = logging.getLogger("airflow.task")

MAXIMUM_PRESENT_DISTANCE_MS = 3_600_000
"""Maximum distance (ms) of a run's as-of from the present; beyond it the run is a backfill or the like."""

WATCH_DOC = """
Alerts on compaction deadlines that are near or missed, on runs that take too long, on sweeps that are stuck and on
tables of latest states that are late, reports recoveries, and delivers alerts that their channel did not accept
earlier. It covers all topics as of now; the metadata store says which of them need a closer check. Then it brings
tables of latest states up to date that are due (`winnow.latest.update=SECONDS`). A run as of another time (a backfill,
a Param `as_of` in the past) skips this task, because alerts are about the present.
"""


def send_run_metrics(context: Mapping[str, Any]) -> int:
    """Send the gauges of the topics of a DAG run; return how many were sent.

    Never raises, even when a service fails or hangs: metrics must not decide the result of a run.
    """
    wanted = context["params"]["topics"]
    try:
        with task_start.open_task_installation(context) as installation:
            # Who triggered the run decides what it does, not what is told about topics.
            return send_gauges(
                installation, list(dict.fromkeys(wanted)) or installation.log.names(), together=not wanted
            )
    except (Exception, AirflowTaskTimeout) as problem:
        log.warning("No metrics were sent: %s", describe_metrics_error(problem))
        return 0


def watch_topics(context: Mapping[str, Any]) -> str:
    """Check deadlines and sweeps; return a sentence about the result.

    Raises:
        AirflowSkipException: the as-of of this run is not the present.
    """
    from winnow.pipeline.monitor.watch import watch_topics as look_around

    away = explain_not_present(context, now_ms=read_wall_clock_ms())
    if away is not None:
        raise AirflowSkipException(away)
    with task_start.open_task_installation(context) as installation:
        done = look_around(installation)
        log.info("%s", done.sentence)
        update_due_tables(installation)  # may take long, and no alert waits for it
    return done.sentence


def explain_not_present(context: Mapping[str, Any], *, now_ms: int) -> str | None:
    """Explain why a run is not suited to check the present; None when it is.

    A scheduled run always is, however late it begins: when runs queue up, deadlines pass.
    """
    try:
        as_of_ms = get_as_of_ms(context, now_ms=now_ms)
    except UsageError as problem:
        return str(problem)
    if context["dag_run"].run_type == "scheduled":
        return None
    if abs(now_ms - as_of_ms) <= MAXIMUM_PRESENT_DISTANCE_MS:
        return None
    return f"This run is as of {format_ms(as_of_ms)}; alerts are about the present, which other runs watch."
