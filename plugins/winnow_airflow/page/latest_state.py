"""Routes of the latest state: rows of a topic's typed table, page by page, and the row of a key.

They take the permission of reading records, and each look is written to the audit log before its answer goes out.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from winnow_airflow.page.access import may_view, own_request
from winnow_airflow.page.dependencies import InstallationDep, NowDep
from winnow_airflow.page.records import (
    MAXIMUM_KEY_CHARACTERS,
    MAXIMUM_OFFSET,
    Partition,
    ReaderDep,
    answer_with_audit,
)
from winnow_airflow.page.request_body import RequestBody

router = APIRouter(prefix="/api/topics/{topic}/latest", dependencies=[may_view, own_request])


class RowsBody(RequestBody):
    """Which rows of a partition are wanted; ``start``: the number of the first one."""

    partition: Partition
    start: Annotated[int, Field(ge=0, le=MAXIMUM_OFFSET)] = 0
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class RowOfKeyBody(RequestBody):
    """A key."""

    key: Annotated[str, Field(max_length=MAXIMUM_KEY_CHARACTERS)]
    encoding: Annotated[str, Field(pattern=r"^(text|json|base64|hex)$")] = "text"


@router.post("")
async def list_rows(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: RowsBody
) -> Response:
    """Return some rows of a partition, or why there are none to show."""
    return await answer_with_audit(request, installation, now_ms, reader, topic, "latest", body.model_dump())


@router.post("/key")
async def find_row(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: RowOfKeyBody
) -> Response:
    """Return the row of a key, or none."""
    return await answer_with_audit(request, installation, now_ms, reader, topic, "latest_key", body.model_dump())
