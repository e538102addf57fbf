"""Quality routes: verdicts per day, uncleanable partitions and open alerts of all topics."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import LakeDep, NowDep, Search, WindowDep
from winnow_airflow.page.responses import (
    AlertPage,
    AlertRow,
    Day,
    FailingExpectation,
    Quality,
    UncleanablePage,
    UncleanableRow,
)

MAXIMUM_DAYS = 366
router = APIRouter(prefix="/api/quality", dependencies=[may_view])


@router.get("")
def get_quality(lake: LakeDep, now_ms: NowDep, days: Annotated[int, Query(ge=1, le=MAXIMUM_DAYS)] = 30) -> Quality:
    """Return verdicts and failing expectations of the last days, in UTC; today is the last."""
    seen = lake.store.quality.summarize(now_ms, days)
    return Quality(
        now_ms=now_ms,
        days=days,
        series=[Day(**asdict(each)) for each in seen.series],
        expectations=[FailingExpectation(**asdict(each)) for each in seen.expectations],
    )


@router.get("/uncleanable")
def list_uncleanable(lake: LakeDep, window: WindowDep, search: Search = "") -> UncleanablePage:
    """Return a page of uncleanable partitions, the latest mark first."""
    found = lake.store.quality.list_uncleanable(window, search=search)
    rows = [UncleanableRow(**asdict(each)) for each in found.rows]
    return UncleanablePage(total=found.total, page=window.number, size=window.size, partitions=rows)


@router.get("/alerts")
def list_alerts(lake: LakeDep, window: WindowDep) -> AlertPage:
    """Return a page of alerts that have not recovered, the newest first."""
    found = lake.store.quality.list_alerts(window)
    rows = [AlertRow(**asdict(each)) for each in found.rows]
    return AlertPage(total=found.total, page=window.number, size=window.size, alerts=rows)
