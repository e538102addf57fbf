"""What a sweep of a topic did: its report, its sentences, and its row for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from winnow.errors import join_first
from winnow.log.head import Head
from winnow.pipeline.admin.document_mending import MendedDocuments
from winnow.pipeline.admin.leftovers import Leftover
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.overview import suppress_overview_errors
from winnow.store.table_health import TopicSweep
from winnow.values.counts import format_count
from winnow.values.topic_state import RetiredFile

_FOLDERS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep of one topic removed, and what still waits for its grace.

    ``documents_restored``: put back from their copies; ``documents_lost``: of these both are gone or damaged.
    ``history_rows_removed``: from the metadata store. ``pages_removed``: Data Docs pages of removed verdicts.
    ``unnamed``: what the sweep came across and nothing names (links, other programs' files), and what a record names
    that is not the topic's; all of it stays. ``kept_versions``: why the store still has versions of files with erased
    keys; empty: it has none.
    """

    topic: str
    files_deleted: int
    bytes_deleted: int
    snapshots_expired: int
    files_waiting: int
    bytes_waiting: int
    message: str
    history_rows_removed: int = 0
    pages_removed: int = 0
    unnamed: tuple[str, ...] = ()
    documents_restored: int = 0
    documents_copied: int = 0
    documents_lost: int = 0
    kept_versions: str = ""


def format_swept(topic: str, deleted: int, waiting: int, grace_ms: int, history_rows: int) -> str:
    """Format what was removed and what waits; ``history_rows``: of the metadata store."""
    text = f"{topic}: {format_count(deleted, 'file')} removed."
    if waiting:
        text += (
            f" {format_count(waiting, 'retired file', 'wait')} for their grace of {grace_ms:,} ms "
            "(winnow.retired.grace.ms)."
        )
    if history_rows:
        text += f" {format_count(history_rows, 'row')} of history older than history.retention_ms removed."
    return text


def format_unnamed(paths: Sequence[str]) -> str:
    """Format what nothing names as a sentence for the end of a message; empty if there is nothing."""
    if not paths:
        return ""
    folders = [f"{folder}/" for folder in dict.fromkeys(path.rpartition("/")[0] for path in paths)]
    shown = join_first(folders, _FOLDERS_SHOWN, ", ", last=" and ")
    return f" {format_count(len(paths), 'path')} that no record of the topic names: left in {shown}."


def format_mended(mended: MendedDocuments) -> str:
    """Format what was mended of a topic's documents as sentences for the end of a message."""
    said = [
        (mended.restored, "put back from copies, since gone or damaged"),
        (mended.copied, "copied anew, since without a copy"),
        (mended.left, "left to the next sweep"),
        (mended.lost, "gone or damaged, and so are their copies: see winnow scrub"),
    ]
    return "".join(f" {format_count(count, 'document')} {what}." for count, what in said if count)


def record_sweep(
    installation: Installation,
    head: Head,
    deleted: Sequence[RetiredFile],
    orphaned: Sequence[Leftover],
    snapshots_expired: int,
    unnamed: Sequence[str],
) -> None:
    """Record for the page what a sweep did; an error here affects nothing."""
    topic = head.state.topic
    with suppress_overview_errors(topic):
        installation.store.table_health.record_sweep(
            TopicSweep(
                topic=topic,
                swept_at_ms=installation.now_ms(),
                files_deleted=len(deleted),
                bytes_deleted=sum(file.size_bytes for file in deleted),
                snapshots_expired=snapshots_expired,
                orphaned_files=len(orphaned),
                orphaned_bytes=sum(file.size_bytes for file in orphaned),
                unnamed_files=len(unnamed),
            ),
            table_uuid=head.table_uuid,
        )
