"""Timetable of backfill_topics: dates for backfills only, no scheduled runs (class path is stored by Airflow)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.timetables.trigger import CronTriggerTimetable

if TYPE_CHECKING:
    from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction


class BackfillTimetable(CronTriggerTimetable):
    """The dates of a cron expression, for backfills alone.

    Airflow backfills nothing without a schedule, and runs whatever has one, at once when it is unpaused. A DAG that
    does not catch up is asked for its dates with ``catchup`` by a backfill only.
    """

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The next date of a backfill; none for the scheduler."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
