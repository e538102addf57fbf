"""Routes of erasures: their list, certificates, what one would end; requests, and what the other person says to them.

Erasing is a DAG run of its own, which the browser triggers. No key goes through here: a request names a file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Annotated, Any, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Path, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from winnow.report.certificate_page import render_certificate
from winnow.store.audit import AuditAction
from winnow.store.erase_requests import RequestedErasure, describe_request, is_same_person
from winnow.store.rows import AuditEntry
from winnow_airflow.page.access import may_view, own_request, require_owner_right, require_right_to
from winnow_airflow.page.dependencies import InstallationDep, NowDep, ShownInstallation, WindowDep
from winnow_airflow.page.reader_process import ReadAnswer, readers
from winnow_airflow.page.request_body import RequestBody
from winnow_airflow.page.responses import Document, describe_page

MAXIMUM_ERASURES: Final = 200
Limit = Annotated[int, Query(ge=1, le=MAXIMUM_ERASURES)]
ErasureId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
RequestId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
_STYLE: Final = re.compile(r"<style>(.*?)</style>", re.DOTALL)

router = APIRouter(prefix="/api/topics/{topic}/erasures", dependencies=[may_view])


class DecisionBody(RequestBody):
    """What somebody says to a request. ``plan_sha256``: of the plan that they saw."""

    plan_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    reason: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


@router.get("")
async def list_erasures(
    request: Request, installation: InstallationDep, user: GetUserDep, topic: str, limit: Limit = 20
) -> Response:
    """Return the newest erasures of a topic, newest first, and how many files of them are still on disk."""
    return (await _ask(request, installation, user.get_name(), "erasures", topic, limit=limit)).respond()


@router.get("/preview", dependencies=[require_right_to("erase")])
async def preview(request: Request, installation: InstallationDep, user: GetUserDep, topic: str) -> Response:
    """Return what an erasure would end now."""
    return (await _ask(request, installation, user.get_name(), "erasure_preview", topic)).respond()


@router.get("/requests")
def list_requests(
    installation: InstallationDep, now_ms: NowDep, window: WindowDep, user: GetUserDep, topic: str
) -> Document:
    """Return a page of the requests for erasures of a topic; ``own``: the user asked, and so may not approve."""
    found = installation.store.erase_requests.list_requests(window, topic=topic)

    def describe(requested: RequestedErasure) -> Document:
        is_own = is_same_person(requested.requested_by, user.get_name())
        return {**describe_request(requested, now_ms), "own": is_own}

    return {"now_ms": now_ms, **describe_page("requests", found, window, describe)}


@router.post("/requests/{request_id}/approve", dependencies=[own_request, require_right_to("erase")])
def approve(
    installation: InstallationDep,
    now_ms: NowDep,
    user: GetUserDep,
    topic: str,
    request_id: RequestId,
    body: DecisionBody,
) -> Document:
    """Approve a request of another person; it erases nothing by itself."""
    return _decide(installation, now_ms, user.get_name(), topic, request_id, body, approves=True)


@router.post("/requests/{request_id}/reject", dependencies=[own_request, require_right_to("erase")])
def reject(
    installation: InstallationDep,
    now_ms: NowDep,
    user: GetUserDep,
    topic: str,
    request_id: RequestId,
    body: DecisionBody,
) -> Document:
    """Reject a request, or take an approval back that was not used."""
    return _decide(installation, now_ms, user.get_name(), topic, request_id, body, approves=False)


@router.get("/{erasure_id}/certificate.json")
async def get_certificate(
    request: Request, installation: InstallationDep, user: GetUserDep, topic: str, erasure_id: ErasureId
) -> Response:
    """Return the certificate of an erasure as a file."""
    found = await _ask(request, installation, user.get_name(), "certificate", topic, erasure_id=erasure_id)
    name = f"winnow-erasure-{erasure_id}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(found.content, media_type="application/json", headers=headers)


@router.get("/{erasure_id}/certificate.html")
async def show_certificate(
    request: Request, installation: InstallationDep, user: GetUserDep, topic: str, erasure_id: ErasureId
) -> Response:
    """Return the certificate of an erasure as a page to print."""
    found = await _ask(request, installation, user.get_name(), "certificate", topic, erasure_id=erasure_id)
    page = render_certificate(json.loads(found.content))
    return HTMLResponse(page, headers={"Content-Security-Policy": _make_policy(page)})


def _make_policy(page: str) -> str:
    """Allow the page's own style sheet, which stands in it, and nothing else."""
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in _STYLE.findall(page)[:1])
    styles = " ".join(f"'sha256-{each}'" for each in digests)
    return f"default-src 'none'; style-src {styles}; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"


async def _ask(
    request: Request, installation: ShownInstallation, user: str, question: str, topic: str, **parameters: Any
) -> ReadAnswer:
    return await readers.ask(request, installation.settings, user, question, {"topic": topic, **parameters})


def _decide(
    installation: ShownInstallation,
    now_ms: int,
    by: str,
    topic: str,
    request_id: str,
    body: DecisionBody,
    *,
    approves: bool,
) -> Document:
    require_owner_right(installation, by, [topic])
    store = installation.store
    known = store.erase_requests.find(request_id)
    if known is None or known.topic != topic:
        raise HTTPException(404, f"Topic {topic} has no such request. Nothing was changed.")
    decided = store.erase_requests.decide(
        request_id, body.plan_sha256, approves=approves, by=by, why=body.reason, now_ms=now_ms
    )
    action = AuditAction.ERASE_APPROVE if approves else AuditAction.ERASE_REJECT
    # The same decision again writes the entry if it is missing.
    store.audit.record(
        AuditEntry(
            decided.decided_at_ms or now_ms,
            by,
            action.value,
            topic,
            decided.decided_why or body.reason,
            "page",
            request_id,
            entry_id=f"{action.value}:{request_id}:{decided.decided_at_ms}",
        )
    )
    return {"state": decided.state.value}
