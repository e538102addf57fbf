"""Routes that read the log without its records: explain, forecast, preview of a configuration, ingest calls, undo."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from winnow_airflow.page.access import may_view, own_request, require_right_to
from winnow_airflow.page.dependencies import InstallationDep, ShownInstallation
from winnow_airflow.page.reader_process import readers
from winnow_airflow.page.request_body import RequestBody

MAXIMUM_CALLS = 500
MAXIMUM_CHANGES = 100
Limit = Annotated[int, Query(ge=1, le=MAXIMUM_CALLS)]
ChangeLimit = Annotated[int, Query(ge=1, le=MAXIMUM_CHANGES)]
router = APIRouter(prefix="/api/topics/{topic}", dependencies=[may_view])


class PreviewBody(RequestBody):
    """A change of configuration: values to set, and names that go back to their default."""

    config: dict[str, str] = Field(default_factory=dict)
    reset: list[str] = Field(default_factory=list)


@router.get("/explain")
async def explain(
    request: Request, installation: InstallationDep, user: GetUserDep, topic: str, closes_active: bool = False
) -> Response:
    """Return what a run would read, write and remove now; ``closes_active``: with active segments closed."""
    parameters = {"topic": topic, "closes_active": closes_active}
    return await _ask(request, installation, user, "explain", parameters)


@router.get("/forecast")
async def forecast(request: Request, installation: InstallationDep, user: GetUserDep, topic: str) -> Response:
    """Return which partitions will miss their deadline at the pace of recent runs."""
    return await _ask(request, installation, user, "forecast", {"topic": topic})


@router.get("/ingests")
async def list_ingests(
    request: Request, installation: InstallationDep, user: GetUserDep, topic: str, limit: Limit = 50
) -> Response:
    """Return the newest ingest calls of a topic, newest first."""
    return await _ask(request, installation, user, "ingests", {"topic": topic, "limit": limit})


@router.get("/changes")
async def list_changes(
    request: Request, installation: InstallationDep, user: GetUserDep, topic: str, limit: ChangeLimit = 20
) -> Response:
    """Return the newest changes of a topic's log, newest first, and what taking each back would do."""
    return await _ask(request, installation, user, "changes", {"topic": topic, "limit": limit})


@router.post("/preview", dependencies=[own_request, require_right_to("configure")])
async def preview(
    request: Request, installation: InstallationDep, user: GetUserDep, topic: str, body: PreviewBody
) -> Response:
    """Check a change of configuration and return what it would do; changes nothing."""
    parameters = {"topic": topic, **body.model_dump()}
    return await _ask(request, installation, user, "preview", parameters)


async def _ask(
    request: Request, installation: ShownInstallation, user: BaseUser, question: str, parameters: dict[str, Any]
) -> Response:
    return (await readers.ask(request, installation.settings, user.get_name(), question, parameters)).respond()
