"""Pins snapshots by Iceberg's own tags, so that neither a sweep nor another tool removes them or their files.

A sweep deletes no file that a snapshot in the table's metadata names, and expires no snapshot that has a tag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException

from winnow.log.catalog_access import translate_catalog_errors, wait_before_retry
from winnow.log.head import Head
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES, TopicLog

if TYPE_CHECKING:
    from pyiceberg.table import Table


def pin_snapshot(log: TopicLog, tag: str, head: Head) -> None:
    """Pin the snapshot of ``head`` by ``tag``; repeating it changes nothing.

    Raises:
        UsageError: the table no longer has the snapshot.
        CommitConflictError: other commits came first too often; nothing was pinned.
    """
    snapshot_id = head.snapshot_id
    if snapshot_id is None:
        return

    def pin(table: Table) -> None:
        log.snapshot(snapshot_id)  # raises once it is gone
        if tag not in table.metadata.refs:
            with table.manage_snapshots() as change:
                change.create_tag(snapshot_id, tag)

    _retry(log, pin)


def unpin_snapshots(log: TopicLog, chosen: Callable[[str], bool]) -> list[str]:
    """Remove the tags that ``chosen`` accepts and return them; the next sweeps remove what they held.

    Raises:
        CommitConflictError: other commits came first too often; some tags stay.
    """
    removed: list[str] = []

    def unpin(table: Table) -> None:
        for tag in [name for name, reference in table.metadata.refs.items() if _is_tag(reference) and chosen(name)]:
            with table.manage_snapshots() as change:
                change.remove_tag(tag)
            removed.append(tag)
            table.refresh()

    _retry(log, unpin)
    return removed


def _is_tag(reference: object) -> bool:
    return str(getattr(reference, "snapshot_ref_type", "")).rpartition(".")[2].lower() == "tag"


def _retry(log: TopicLog, change: Callable[[Table], None]) -> None:
    for attempt in range(MAXIMUM_COMMIT_TRIES):
        try:
            # A restore, whose tags these are, says what it has committed in Kafka.
            with translate_catalog_errors(f"A snapshot of topic {log.topic} was not pinned or released", left=""):
                head = log.newest_head()
                change(head.table)
                return log.record(head)
        except CommitFailedException:
            wait_before_retry(attempt)
    raise log.conflict()
