"""Timetable of backfill_topics: dates for backfills only, no scheduled runs (class path is stored by Airflow)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.timetables.trigger import CronTriggerTimetable

if TYPE_CHECKING:
    from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction


class BackfillTimetable(CronTriggerTimetable):
    """Dates of a cron expression, for backfills only.

    Airflow refuses backfills of a DAG without a schedule, and runs a DAG with a schedule as soon as it is unpaused. For
    a DAG that does not catch up, only a backfill asks for dates with ``catchup``.
    """

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the next date of a backfill; None for the scheduler."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
