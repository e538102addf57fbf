"""The audit route: who did what to which topic, when and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query

from winnow.store.audit import AuditAction
from winnow.store.rows import AuditEntry
from winnow.values.model import AIRFLOW_HOLDER
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep, WindowDep
from winnow_airflow.page.responses import Document, describe, describe_page

MAXIMUM_DETAIL_CHARACTERS = 1_000
"""Maximum characters of a detail in a list; an entry about many topics names more of them."""

router = APIRouter(prefix="/api/audit", dependencies=[may_view])

Text = Annotated[str | None, Query(max_length=249)]


@router.get("")
def list_entries(
    installation: InstallationDep,
    now_ms: NowDep,
    window: WindowDep,
    topic: Text = None,
    actor: Text = None,
    action: AuditAction | None = None,
) -> Document:
    """Return a page of the audit log, the newest entry first.

    ``origin``: page, shell or airflow; ``dag_run``: the DAG run that did it, None for the other two.
    """
    found = installation.store.audit.list_entries(window, topic=topic, actor=actor, action=action)
    return {"now_ms": now_ms, **describe_page("entries", found, window, _describe_entry)}


def _describe_entry(entry: AuditEntry) -> Document:
    if len(entry.detail) > MAXIMUM_DETAIL_CHARACTERS:
        entry = replace(entry, detail=f"{entry.detail[:MAXIMUM_DETAIL_CHARACTERS]}…")
    if not entry.origin.startswith(AIRFLOW_HOLDER):
        return {**describe(entry), "dag_run": None}
    dag_id, _, run_id = entry.origin.removeprefix(AIRFLOW_HOLDER).partition(":")
    return {**describe(replace(entry, origin="airflow")), "dag_run": {"dag_id": dag_id, "run_id": run_id}}
