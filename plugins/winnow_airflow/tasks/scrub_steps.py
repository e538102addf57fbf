"""Steps of the DAG scrub_topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from winnow.errors import DamagedSegmentError
from winnow_airflow import pool_checks
from winnow_airflow.older_airflow import AirflowRescheduleException
from winnow_airflow.tasks.task_start import open_task_installation, record_manual_run, select_topics

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")

MINIMUM_SCRUB_WAIT_MS = 900_000
"""Minimum wait (ms) before a scrub run, which frees its slot, checks the day's budget again."""

MAXIMUM_SCRUB_RUN_MS = 7 * 86_400_000
"""Maximum duration (ms) of a scrub run; the next run is due then, and continues with the files checked longest ago."""


def list_run_topics() -> list[str]:
    """Return the topics of the running DAG run: those of its Param, or all. Fails when a pool is missing."""
    context = get_current_context()
    pool_checks.require_pools(context)
    with open_task_installation(context) as installation:
        found = select_topics(installation, context, context["params"]["topics"])
        record_manual_run(installation, context, "scrub")
        return found


def scrub_topics(installation: Installation, names: Sequence[str], *, started_ms: int) -> list[tuple[str, str]]:
    """Check the files that were not checked since the run began. Returns each topic with a sentence.

    Raises:
        AirflowRescheduleException: the budget of the day is used up, and files are left.
        DamagedSegmentError: files are missing or differ from what was written.
    """
    from winnow.pipeline.admin.scrub import find_budget_free_at_ms
    from winnow.pipeline.admin.scrub import open_scrub as step

    reports = step(installation, names, checked_before_ms=started_ms)
    for report in reports:
        log.info("%s", report.message)
    is_left = not all(report.is_checked_since(started_ms) for report in reports)
    if is_left and installation.now_ms() - started_ms < MAXIMUM_SCRUB_RUN_MS:
        again_ms = max(find_budget_free_at_ms(installation), installation.now_ms() + MINIMUM_SCRUB_WAIT_MS)
        raise AirflowRescheduleException(  # type: ignore[no-untyped-call]
            datetime.fromtimestamp(again_ms / 1000, UTC)
        )
    damaged = [report.message for report in reports if report.findings]
    if damaged:
        raise DamagedSegmentError("\n".join(damaged))
    return [(report.topic, report.message) for report in reports]


def get_run_start_ms(context: Mapping[str, Any]) -> int:
    """Return when the DAG run began, in ms since the epoch."""
    return int(context["dag_run"].start_date.timestamp() * 1000)
