"""Quality over all topics: verdicts by day, uncleanable partitions, open alerts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from winnow_airflow.page.access import may_view
from winnow_airflow.page.documents import (
    AlertRow,
    Alerts,
    Day,
    FailingExpectation,
    Quality,
    UncleanablePartitions,
    UncleanableRow,
)
from winnow_airflow.page.lake import LakeDep, NowDep, Search, WindowDep

MAX_DAYS = 366
router = APIRouter(prefix="/api/quality", dependencies=[may_view])


@router.get("")
def quality(lake: LakeDep, now_ms: NowDep, days: Annotated[int, Query(ge=1, le=MAX_DAYS)] = 30) -> Quality:
    """What validation said over the last days, in UTC; today is the last."""
    seen = lake.store.quality.summarize(now_ms, days)
    return Quality(
        now_ms=now_ms,
        days=days,
        series=[Day(**asdict(each)) for each in seen.series],
        expectations=[FailingExpectation(**asdict(each)) for each in seen.expectations],
    )


@router.get("/uncleanable")
def uncleanable(lake: LakeDep, window: WindowDep, search: Search = "") -> UncleanablePartitions:
    """A page of partitions that are not cleaned, the latest mark first."""
    found = lake.store.quality.list_uncleanable(window, search=search)
    rows = [UncleanableRow(**asdict(each)) for each in found.rows]
    return UncleanablePartitions(total=found.total, page=window.number, size=window.size, partitions=rows)


@router.get("/alerts")
def alerts(lake: LakeDep, window: WindowDep) -> Alerts:
    """A page of alerts that have not recovered, the newest first."""
    found = lake.store.quality.list_alerts(window)
    rows = [AlertRow(**asdict(each)) for each in found.rows]
    return Alerts(total=found.total, page=window.number, size=window.size, alerts=rows)
