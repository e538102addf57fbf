"""Alert routes: open alerts, their history, the runbook; acknowledge, mute and unmute."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Query
from pydantic import Field

from winnow.clock import format_ms
from winnow.errors import WinnowError
from winnow.report.alert_kinds import AlertKind
from winnow.report.alerts import format_partitions
from winnow.store.alert_events import AlertEventKind
from winnow.store.alert_handling import AlertState
from winnow.store.audit import AuditAction
from winnow.store.rows import AuditEntry, HandledAlert
from winnow.values.results import OpenAlert
from winnow_airflow.page.access import may_view, own_request, require_owner_right, require_right_to
from winnow_airflow.page.dependencies import InstallationDep, NowDep, ShownInstallation, WindowDep
from winnow_airflow.page.request_body import RequestBody
from winnow_airflow.page.responses import Document, describe, describe_page
from winnow_airflow.page.runbook import FILE, load_sections

log = logging.getLogger(__name__)

MAXIMUM_MUTE_MS: Final = 90 * 86_400_000
"""Maximum time (ms) of a mute: one that nobody ends must not hide an alert for ever."""

router = APIRouter(prefix="/api/alerts", dependencies=[may_view])

Topic = Annotated[str | None, Query(max_length=249)]
Partition = Annotated[int | None, Query(ge=0, le=2**31 - 1)]


class AlertsBody(RequestBody):
    """Open alerts by their keys, and why somebody changes them."""

    keys: Annotated[list[Annotated[str, Field(max_length=400)]], Field(min_length=1, max_length=200)]
    reason: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class MuteBody(AlertsBody):
    """``until_ms``: when the mute ends, in ms since the epoch."""

    until_ms: int


@router.get("")
def list_alerts(
    installation: InstallationDep,
    now_ms: NowDep,
    window: WindowDep,
    topic: Topic = None,
    kind: AlertKind | None = None,
    state: AlertState | None = None,
) -> Document:
    """Return a page of the open alerts, the newest first, with the number of those in each state."""
    handling = installation.store.alert_handling
    found = handling.list_alerts(window, now_ms, topic=topic, kind=kind, state=state)
    page = describe_page("alerts", found, window, _describe_alert)
    return {"now_ms": now_ms, "counts": asdict(handling.count(now_ms)), **page}


@router.get("/count")
def count_alerts(installation: InstallationDep, now_ms: NowDep) -> Document:
    """Return the numbers of open alerts; ``new``: neither acknowledged nor muted."""
    return asdict(installation.store.alert_handling.count(now_ms))


@router.get("/history")
def list_events(
    installation: InstallationDep,
    now_ms: NowDep,
    window: WindowDep,
    topic: Topic = None,
    kind: AlertKind | None = None,
    event: AlertEventKind | None = None,
) -> Document:
    """Return a page of what happened to alerts, the newest first."""
    found = installation.store.alert_history.list_events(window, topic=topic, kind=kind, event=event)
    return {"now_ms": now_ms, **describe_page("events", found, window, describe)}


@router.get("/runbook/{section}")
def get_runbook(
    installation: InstallationDep, section: str, topic: Topic = None, partition: Partition = None
) -> Document:
    """Return a section of the runbook by its anchor, which is the kind of an alert or a situation without one.

    ``values``: what is known of the variables in its commands, for an alert about ``topic`` and ``partition``.
    """
    found = load_sections().get(section)
    if found is None:
        raise HTTPException(404, f"The runbook has no section {section!r}.")
    damaged = [] if topic is None else installation.store.segment_checks.list_damaged(topic, partition)
    # With several damaged segments a person chooses.
    values = {"SEGMENT": damaged[0].removeprefix("file://")} if len(damaged) == 1 else {}
    return {"address": f"docs/{FILE}#{section}", "values": values, **found}


@router.post("/acknowledge", dependencies=[own_request, require_right_to("change")])
def acknowledge(installation: InstallationDep, now_ms: NowDep, user: GetUserDep, body: AlertsBody) -> Document:
    """Note that the user deals with open alerts; return how many."""
    _require_owner_right(installation, user.get_name(), body.keys)
    changed = installation.store.alert_handling.acknowledge(body.keys, now_ms, by=user.get_name(), why=body.reason)
    return _finish(installation, changed, AuditAction.ALERT_ACKNOWLEDGE, now_ms, user.get_name(), body.reason)


@router.post("/mute", dependencies=[own_request, require_right_to("change")])
def mute(installation: InstallationDep, now_ms: NowDep, user: GetUserDep, body: MuteBody) -> Document:
    """Keep open alerts from every channel until an instant; return how many."""
    if not now_ms < body.until_ms <= now_ms + MAXIMUM_MUTE_MS:
        raise HTTPException(422, "Mute an alert until a time within the next 90 days. Nothing was changed.")
    by = user.get_name()
    _require_owner_right(installation, by, body.keys)
    changed = installation.store.alert_handling.mute(body.keys, body.until_ms, now_ms, by=by, why=body.reason)
    return _finish(
        installation, changed, AuditAction.ALERT_MUTE, now_ms, by, body.reason, f" until {format_ms(body.until_ms)}"
    )


@router.post("/unmute", dependencies=[own_request, require_right_to("change")])
def unmute(installation: InstallationDep, now_ms: NowDep, user: GetUserDep, body: AlertsBody) -> Document:
    """End mutes; return how many. The next watch sends those that are still open."""
    _require_owner_right(installation, user.get_name(), body.keys)
    changed = installation.store.alert_handling.unmute(body.keys, now_ms, by=user.get_name(), why=body.reason)
    return _finish(installation, changed, AuditAction.ALERT_UNMUTE, now_ms, user.get_name(), body.reason)


def _require_owner_right(installation: ShownInstallation, user: str, keys: Sequence[str]) -> None:
    require_owner_right(installation, user, (key.split(":")[1] for key in keys if ":" in key))


def _describe_alert(alert: HandledAlert) -> Document:
    try:
        severity = AlertKind(alert.kind).severity
    except ValueError:
        severity = "error"
    return {**describe(alert), "severity": severity}


def _finish(
    installation: ShownInstallation,
    changed: Sequence[OpenAlert],
    action: AuditAction,
    now_ms: int,
    by: str,
    reason: str,
    more: str = "",
) -> Document:
    if not changed:
        raise HTTPException(409, "None of these alerts is open any more, or none is muted. Nothing was changed.")
    for topic, kind in sorted({(each.topic, each.kind) for each in changed}):
        numbers = sorted(
            each.partition
            for each in changed
            if (each.topic, each.kind) == (topic, kind) and each.partition is not None
        )
        detail = f"{kind} of {format_partitions(topic, numbers)}{more}"
        try:
            installation.store.audit.record(AuditEntry(now_ms, by, action.value, topic, reason, "page", detail))
        except WinnowError as problem:
            # The history of the alert has it too; what was done is done.
            log.warning("The audit log did not get that %s did %s (%s): %s", by, action, detail, problem)
    return {"changed": len(changed)}
