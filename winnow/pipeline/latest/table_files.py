"""Deletes what the side table of a topic's latest state no longer needs, and the table itself on request.

As in the log, only a commit permits a deletion. Files that no snapshot names are listed first, then a snapshot without
changes is committed: whoever wrote one of them for an update that began before can commit it no more, and whoever
begins after writes files of other names. What such an update did commit meanwhile is seen before anything is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from winnow.errors import CommitConflictError, UnknownTopicError, WinnowError
from winnow.files import storage
from winnow.files.file_names import is_data_file, is_metadata_file
from winnow.log.former_specs import remove_former_specs
from winnow.log.latest_tables import LatestTable
from winnow.log.removable_files import find_latest_files
from winnow.log.snapshot_expiry import collect_references, expire_latest, expire_unreadable
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.progress import measure_progress
from winnow.pipeline.topics.audit import record_action
from winnow.store.audit import AuditAction

log = logging.getLogger("winnow")

_SUFFIXES: Final = (".parquet", ".avro")


@dataclass(frozen=True, slots=True)
class SweptTable:
    """What a sweep removed of a side table; ``unnamed``: what lies in its folder and is not its own, which stays."""

    files_deleted: int = 0
    bytes_deleted: int = 0
    snapshots_expired: int = 0
    unnamed: tuple[str, ...] = ()


def find_reflected_snapshot(installation: Installation, topic: str) -> int | None:
    """Find the snapshot of the log that the side table reflects; None if there is none, or the table cannot be read."""
    try:
        head = installation.log.latest_table(topic).load()
    except WinnowError:  # the sweep of the table says why
        return None
    return None if head is None or head.reflected is None else head.reflected.snapshot_id


def sweep_latest_table(installation: Installation, topic: str, now_ms: int, grace_ms: int) -> SweptTable:
    """Expire old snapshots of the side table, and delete files that none of the kept ones names.

    A failure is a warning: the log's own sweep does not depend on it, and the next one continues.
    """
    latest = installation.log.latest_table(topic)
    try:
        installation.guard.require_own()
        try:
            return _sweep(latest, now_ms, grace_ms)
        except FileNotFoundError:
            if not expire_unreadable(latest):
                raise
            return _sweep(latest, now_ms, grace_ms)
    except WinnowError as problem:
        log.warning("Files of the table of the latest state of topic %s were not swept. %s", topic, problem)
    except FileNotFoundError as missing:
        log.warning(
            "Files of the table of the latest state of topic %s were not swept: a metadata file is gone (%s). If that "
            "repeats, have the table written anew: winnow latest-table drop %s, then winnow latest-table update %s",
            topic,
            missing,
            topic,
            topic,
        )
    return SweptTable()


def drop_latest_table(installation: Installation, topic: str) -> int | None:
    """Drop the side table of ``topic`` and delete the files that it names; return how many, None: there is no table.

    Raises:
        ForeignTableError: Winnow did not create it.
        CommitConflictError: it was changed meanwhile; it is still there.
        ServiceError: catalog or object store do not answer.
    """
    latest = installation.log.latest_table(topic)
    table = latest.table()
    if table is None:
        return None
    with suppress(UnknownTopicError):  # of a topic that is gone, its side table may go too
        installation.log.open(topic).newest_head(even_deleted=True)
    if not latest.owns(table):
        raise latest.make_foreign_table_error()
    found = find_latest_files(table)
    listing = found.list_files()
    installation.guard.require_own()
    latest.drop(table.metadata_location)
    if latest.table() is not None:
        raise CommitConflictError(
            f"The table {latest.name} was changed meanwhile and is still there.",
            next="Run it again.",
        )
    going = [file for file in listing.files if storage.delete(file.uri, below=found.location)]
    storage.remove_emptied_folders((file.uri for file in listing.files), found.location)
    storage.remove_empty_root(found.location)
    record_action(installation, AuditAction.SWEEP, topic, detail=f"dropped the table {latest.name}")
    with suppress(WinnowError):  # of a topic that is gone nothing waits, and a store that is away is told by others
        measure_progress(installation, topic)
    return len(going)


def _sweep(latest: LatestTable, now_ms: int, grace_ms: int) -> SweptTable:
    head = latest.load()
    if head is None or head.reflected is None:
        return SweptTable()
    expired, unneeded = expire_latest(latest, now_ms=now_ms, grace_ms=grace_ms)
    remove_former_specs(latest)
    wanted = set(map(storage.get_name, unneeded))
    found = find_latest_files(head.table, head.reflected.table_uuid)
    location = found.location

    def is_own(path: str) -> bool:
        named = storage.get_name(path) in wanted and (is_data_file(path) or is_metadata_file(path))
        return named or found.may_delete(path)

    listing = storage.list_named_files(location, "", is_own)
    listed = [file for file in listing.files if file.uri.endswith(_SUFFIXES)]
    head = latest.load()  # after the listing
    if head is None or head.reflected is None:
        return SweptTable(snapshots_expired=expired)
    strays = _select_others(listed, wanted | collect_references(head.table).list_names())
    if strays:
        fenced = latest.commit(head, head.reflected, add=(), remove=(), operation="fence-latest")
        if fenced is not None:  # else an update came first, and the next sweep looks again
            wanted |= {storage.get_name(file.uri) for file in strays}
        head = latest.load()
        if head is None:
            return SweptTable(snapshots_expired=expired)
    named = collect_references(head.table).list_names()
    gone = [file for file in _select_others(listed, named) if storage.get_name(file.uri) in wanted]
    gone = [file for file in gone if storage.delete(file.uri, below=location)]
    storage.sync_deletions(file.uri for file in gone)  # an erasure is through when its rows are gone for good
    storage.remove_emptied_folders((file.uri for file in gone), location)
    return SweptTable(len(gone), sum(file.size_bytes for file in gone), expired, listing.others)


def _select_others(files: Iterable[storage.FileEntry], names: set[str]) -> list[storage.FileEntry]:
    return [file for file in files if storage.get_name(file.uri) not in names]
