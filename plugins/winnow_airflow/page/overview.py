"""The route of the overview: all topics summed up, what is wrong, what runs and what is next, deadlines, top runs."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from winnow.store.deadlines import DeadlineDay
from winnow.store.receipt_figures import RunRank
from winnow.store.rows import Window
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep, ShownInstallation
from winnow_airflow.page.responses import Document, describe

router = APIRouter(prefix="/api/overview", dependencies=[may_view])

DAY_MS: Final = 86_400_000

HISTORY_DAYS: Final = 30
"""Days of deadlines and of the longest and most expensive runs, in UTC; today is the last."""

MAXIMUM_LISTED: Final = 5


@router.get("")
def get_overview(installation: InstallationDep, now_ms: NowDep) -> Document:
    """Return the lake at a glance. ``runs_failed``: of 24 hours; ``longest`` and ``dearest`` runs: of 30 days."""
    store = installation.store
    summary = store.lake_summary.summarize(now_ms, failed_since_ms=now_ms - DAY_MS, limit=MAXIMUM_LISTED)
    alerts = store.quality.list_alerts(Window(1, MAXIMUM_LISTED))
    since_ms = (now_ms // DAY_MS - HISTORY_DAYS + 1) * DAY_MS
    ranked = {rank.value: store.receipt_figures.list_ranked(rank, since_ms, MAXIMUM_LISTED) for rank in RunRank}
    return {
        "now_ms": now_ms,
        **describe(summary, without=("runs_working", "working")),
        "alerts": {"total": alerts.total, "alerts": [describe(each) for each in alerts.rows]},
        "working": {
            "total": summary.working,
            "runs": [
                {name: getattr(run, name) for name in ("plan_id", "topic", "status", "opened_at_ms", "updated_at_ms")}
                for run in summary.runs_working
            ],
        },
        "deadlines": _describe_deadlines(installation, since_ms, now_ms),
        **{name: [describe(each) for each in found] for name, found in ranked.items()},
    }


def _describe_deadlines(installation: ShownInstallation, since_ms: int, now_ms: int) -> Document:
    grace_ms = installation.settings.alert.deadline_grace_ms
    found = {day.day_ms: day for day in installation.store.deadlines.count_by_day(since_ms, now_ms, grace_ms=grace_ms)}
    days = [found.get(at_ms, DeadlineDay(at_ms, 0, 0)) for at_ms in range(since_ms, now_ms + 1, DAY_MS)]
    missed = installation.store.deadlines.list_missed(since_ms, now_ms, grace_ms=grace_ms, limit=MAXIMUM_LISTED)
    return {
        "grace_ms": grace_ms,
        "kept": sum(day.kept for day in days),
        "missed": sum(day.missed for day in days),
        "days": [describe(day) for day in days],
        "missed_latest": [describe(each) for each in missed],
    }
