"""The step of ``scrub_topics``. It may run again, and goes on where it was."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRescheduleException

from winnow.errors import DamagedSegmentError

if TYPE_CHECKING:
    from winnow.pipeline.context import Context as Pipeline

log = logging.getLogger("airflow.task")

MINIMUM_SCRUB_WAIT_MS = 900_000
"""How long a run leaves its slot to others at least before it looks whether the day's budget has room again."""
MAXIMUM_SCRUB_RUN_MS = 7 * 86_400_000
"""A run ends after so long: the next one is due, and goes on with what was checked longest ago."""


def scrub_topics(ctx: Pipeline, names: Sequence[str], *, started_ms: int) -> list[str]:
    """Check the files that were not checked since the run began. Gives a sentence for each topic.

    Raises:
        AirflowRescheduleException: the budget of the day is used up, and files are left.
        DamagedSegmentError: files are missing or are not what was written.
    """
    from winnow.pipeline.scrub import find_budget_free_at_ms
    from winnow.pipeline.scrub import open_scrub as step

    reports = step(ctx, names, checked_before_ms=started_ms)
    for report in reports:
        log.info("%s", report.message)
    is_left = any(report.oldest_checked_ms is None or report.oldest_checked_ms < started_ms for report in reports)
    if is_left and ctx.now_ms() - started_ms < MAXIMUM_SCRUB_RUN_MS:
        again_ms = max(find_budget_free_at_ms(ctx), ctx.now_ms() + MINIMUM_SCRUB_WAIT_MS)
        raise AirflowRescheduleException(  # type: ignore[no-untyped-call]
            datetime.fromtimestamp(again_ms / 1000, UTC)
        )
    damaged = [report.message for report in reports if report.findings]
    if damaged:
        raise DamagedSegmentError("\n".join(damaged))
    return [report.message for report in reports]


def get_run_start_ms(context: Mapping[str, Any]) -> int:
    """When the DAG run began, in ms since the epoch."""
    return int(context["dag_run"].start_date.timestamp() * 1000)
