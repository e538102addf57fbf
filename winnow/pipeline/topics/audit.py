"""Writes what people did into the audit log, after it is done: a failure to write it changes nothing but a warning."""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Mapping, Sequence

from winnow.errors import WinnowError
from winnow.pipeline.installation import Installation
from winnow.store.audit import AuditAction, name_topics
from winnow.store.rows import AuditEntry
from winnow.values.config_changes import KeyChanges, format_changes
from winnow.values.counts import format_count
from winnow.values.model import AIRFLOW_HOLDER

log = logging.getLogger("winnow.audit")

SHELL = "shell"
"""The origin of what was done by a command; what a DAG run did has its name in leases, ``airflow:DAG:RUN``."""


def get_user_name() -> str:
    """Return the name of the operating system's user, or its number if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def get_actor_name(installation: Installation) -> str:
    """Return who does what this process does: the actor of ``installation``, or user and machine."""
    return installation.actor or f"{get_user_name()}@{socket.gethostname()}"


def record_action(
    installation: Installation,
    action: AuditAction,
    topic: str,
    *,
    detail: str = "",
    reason: str = "",
    once: bool = False,
    changes: Mapping[str, KeyChanges] | None = None,
) -> None:
    """Record that the actor of ``installation`` did something; never raises.

    Args:
        installation: whose actor, reason and name in leases the entry has.
        action: what was done, and is committed.
        topic: the topic; empty: all.
        detail: partitions, offsets, keys of the configuration. Never a record's bytes.
        reason: why; empty: the reason of ``installation``.
        once: a DAG run records this action on this topic a single time, however often its task is tried.
        changes: of which topics it changed which keys of the configuration, so that it can be undone.
    """
    if installation.is_recorded_by_caller:
        return
    in_airflow = installation.holder.startswith(AIRFLOW_HOLDER)
    entry = AuditEntry(
        installation.now_ms(),
        get_actor_name(installation),
        action.value,
        topic,
        reason or installation.reason,
        installation.holder if in_airflow else SHELL,
        detail,
        **(
            {"entry_id": f"{installation.holder}@{installation.began}:{action.value}:{topic}"}
            if once and in_airflow
            else {}
        ),
        config_changes=format_changes(changes or {}),
    )
    try:
        installation.store.audit.record(entry)
    except Exception as problem:  # what was done is done, and its snapshot says so
        # Another library's message may quote an address.
        words = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
        log.warning("The audit log did not get this: %s: %s %s. %s", entry.actor, action.value, topic, words)


def record_creation(installation: Installation, topic: str, partitions: int, overrides: Mapping[str, str]) -> None:
    """Record that a topic was created, by a command of its own or by an ingest; never raises."""
    config = "".join(f", {key}={value}" for key, value in sorted(overrides.items()))
    record_action(installation, AuditAction.CREATE, topic, detail=f"{format_count(partitions, 'partition')}{config}")


def record_request(
    installation: Installation,
    action: AuditAction,
    topics: Sequence[str],
    *,
    detail: str = "",
    changes: Mapping[str, KeyChanges] | None = None,
) -> None:
    """Record that somebody asked by hand for ``action`` on ``topics`` (none: all); never raises.

    It is one entry, which names all of them. ``changes``: as :func:`record_action` takes it.
    """
    named = list(dict.fromkeys(topics))
    if len(named) == 1:
        record_action(installation, action, named[0], detail=detail, once=True, changes=changes)
        return
    what = name_topics(named) if named else "all topics"
    record_action(installation, action, "", detail=f"{detail}, {what}" if detail else what, once=True, changes=changes)
