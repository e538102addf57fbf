"""Quality routes: verdicts per day, uncleanable partitions and open alerts of all topics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep, Search, WindowDep
from winnow_airflow.page.responses import Document, describe, describe_page

MAXIMUM_DAYS = 366
router = APIRouter(prefix="/api/quality", dependencies=[may_view])


@router.get("")
def get_quality(
    installation: InstallationDep, now_ms: NowDep, days: Annotated[int, Query(ge=1, le=MAXIMUM_DAYS)] = 30
) -> Document:
    """Return verdicts and failing expectations of the last days, in UTC; today is the last."""
    return {"now_ms": now_ms, "days": days, **describe(installation.store.quality.summarize(now_ms, days))}


@router.get("/uncleanable")
def list_uncleanable(installation: InstallationDep, window: WindowDep, search: Search = "") -> Document:
    """Return a page of uncleanable partitions, the latest mark first."""
    return describe_page(
        "partitions", installation.store.quality.list_uncleanable(window, search=search), window, describe
    )


@router.get("/alerts")
def list_alerts(installation: InstallationDep, window: WindowDep) -> Document:
    """Return a page of alerts that have not recovered, the newest first."""
    return describe_page("alerts", installation.store.quality.list_alerts(window), window, describe)
