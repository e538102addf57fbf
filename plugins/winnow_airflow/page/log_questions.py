"""Routes that read the log without its records: explain, forecast, preview of a configuration, ingest calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from winnow_airflow.page.access import may_view, own_request, require_right_to
from winnow_airflow.page.dependencies import LakeDep
from winnow_airflow.page.reader_process import readers

MAXIMUM_CALLS = 500
router = APIRouter(prefix="/api/topics/{topic}", dependencies=[may_view])


class PreviewBody(BaseModel):
    """A change of configuration: values to set, and names that go back to their default."""

    model_config = ConfigDict(extra="forbid")

    config: dict[str, str] = Field(default_factory=dict)
    reset: list[str] = Field(default_factory=list)


@router.get("/explain")
async def explain(request: Request, lake: LakeDep, topic: str, closes_active: bool = False) -> Response:
    """Return what a run would read, write and remove now; ``closes_active``: with active segments closed."""
    parameters = {"topic": topic, "closes_active": closes_active}
    return (await readers.ask(request, lake.settings, "explain", parameters)).respond()


@router.get("/forecast")
async def forecast(request: Request, lake: LakeDep, topic: str) -> Response:
    """Return which partitions will miss their deadline at the pace of recent runs."""
    return (await readers.ask(request, lake.settings, "forecast", {"topic": topic})).respond()


@router.get("/ingests")
async def list_ingests(
    request: Request, lake: LakeDep, topic: str, limit: Annotated[int, Query(ge=1, le=MAXIMUM_CALLS)] = 50
) -> Response:
    """Return the newest ingest calls of a topic, newest first."""
    return (await readers.ask(request, lake.settings, "ingests", {"topic": topic, "limit": limit})).respond()


@router.post("/preview", dependencies=[own_request, require_right_to("configure")])
async def preview(request: Request, lake: LakeDep, topic: str, body: PreviewBody) -> Response:
    """Check a change of configuration and return what it would do; changes nothing."""
    parameters = {"topic": topic, **body.model_dump()}
    return (await readers.ask(request, lake.settings, "preview", parameters)).respond()
