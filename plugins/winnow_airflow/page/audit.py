"""The audit route: who did what to which topic, when and why."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from winnow.store.audit import AuditAction
from winnow.store.rows import AuditEntry
from winnow.values.config_changes import parse_changes
from winnow.values.model import AIRFLOW_HOLDER
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep, WindowDep
from winnow_airflow.page.responses import Document, describe, describe_page

MAXIMUM_DETAIL_CHARACTERS = 1_000
"""Maximum characters of a detail in a list; an entry about many topics names more of them."""

router = APIRouter(prefix="/api/audit", dependencies=[may_view])

Text = Annotated[str | None, Query(max_length=249)]
EntryId = Annotated[str, Query(max_length=1_000)]


@router.get("")
def list_entries(
    installation: InstallationDep,
    now_ms: NowDep,
    window: WindowDep,
    topic: Text = None,
    actor: Text = None,
    action: AuditAction | None = None,
    entry: EntryId | None = None,
) -> Document:
    """Return a page of the audit log, the newest entry first.

    ``origin``: page, shell or airflow; ``dag_run``: the DAG run that did it, None for the other two.
    ``config_changes``: by key of the configuration ``[before, after]`` for the topic that the entry is about, of one
    about several for the one that is asked for; None: not known, or no change of it.
    """
    found = installation.store.audit.list_entries(window, topic=topic, actor=actor, action=action, entry_id=entry)
    return {"now_ms": now_ms, **describe_page("entries", found, window, partial(_describe_entry, topic=topic))}


def _describe_entry(entry: AuditEntry, *, topic: str | None) -> Document:
    values = parse_changes(entry.config_changes).get(entry.topic or topic or "")
    dag_run = None
    if len(entry.detail) > MAXIMUM_DETAIL_CHARACTERS:
        entry = replace(entry, detail=f"{entry.detail[:MAXIMUM_DETAIL_CHARACTERS]}…")
    if entry.origin.startswith(AIRFLOW_HOLDER):
        dag_id, _, run_id = entry.origin.removeprefix(AIRFLOW_HOLDER).partition(":")
        entry, dag_run = replace(entry, origin="airflow"), {"dag_id": dag_id, "run_id": run_id}
    return {**describe(entry, without=("config_changes",)), "config_changes": values, "dag_run": dag_run}
