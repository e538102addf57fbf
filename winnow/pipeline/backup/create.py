"""Makes a backup while everything runs: the store first, then what the catalog says, then the files it leads to.

Each part may be older than the next one and never newer: a store that is behind its catalog is completed from the
tables, and a catalog that is behind its warehouse names only files that are there. Files never change and no name is
used twice, so what was copied for an earlier backup is not read again. If a sweep removes a file before it is copied,
the topic is copied once more as it is by then. The backup's document is written last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from winnow import __version__
from winnow.config.masking import mask
from winnow.errors import (
    DamagedBackupError,
    DamagedMetadataError,
    ForeignTableError,
    RunAgainError,
    TopicBusyError,
    UsageError,
)
from winnow.log.catalog_access import wait_before_retry
from winnow.log.table_files import find_path_below
from winnow.log.table_pointers import TopicPointers, read_pointers
from winnow.pipeline.backup.backup_place import (
    ROWS_OF_PART,
    Backup,
    BackupPlace,
    CopiedRows,
    CopiedTopic,
    Owner,
)
from winnow.pipeline.backup.topic_copies import TopicCopy, Watcher
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.leases import hold_lease
from winnow.store.audit import AuditAction
from winnow.values.counts import format_count

T = TypeVar("T")

MAXIMUM_TRIES: Final = 12
"""How often a topic is copied anew because a sweep removed files meanwhile."""
TRIES_WITHOUT_LEASE: Final = 3
"""After so many tries the topic's lease is taken, so that no sweep runs meanwhile."""


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A backup that was made. ``files_copied``, ``bytes_copied``: what no earlier backup had."""

    destination: str
    backup_id: str
    topics: int
    records: int
    files: int
    size_bytes: int
    files_copied: int
    bytes_copied: int
    store_rows: int
    left_out: dict[str, str]


def create_backup(
    installation: Installation, destination: str, watch: Watcher = lambda what, done, total: None
) -> BackupReport:
    """Make a backup of all topics and the metadata store.

    Topics that cannot be copied are left out and named; all others are in the backup.

    Raises:
        UsageError: the folder holds something else, or lies in the warehouse or around it. Or nothing was ever
            committed here, and the newest backup has topics.
        DamagedBackupError: the folder's own document is damaged.
        RunAgainError: a topic changed faster than it was copied, or backups are being deleted in the folder. What was
            copied stays; no backup was made.
        ServiceError: the store, the catalog or an object store cannot be reached; as before.
    """
    return _Creation(installation, BackupPlace(destination), watch).run()


class _Creation:
    def __init__(self, installation: Installation, place: BackupPlace, watch: Watcher) -> None:
        self._installation = installation
        self._place = place
        self._watch = watch
        self._files_copied = self._bytes_copied = 0

    def run(self) -> BackupReport:
        owner = make_owner(self._installation)
        _require_apart(self._place.uri, owner.warehouse)
        self._place.claim(owner)
        self._require_none_going("No backup was made.")
        earlier = self._find_earlier()
        created_at_ms = self._installation.now_ms()
        store = self._copy_store()
        found = read_pointers(self._installation.log)
        if earlier and not found and owner.installation is None:
            raise _make_nothing_error(self._place.uri, len(earlier))
        topics: list[CopiedTopic] = []
        left_out: dict[str, str] = {}
        for pointers in found:
            try:
                copied = self._copy_topic(pointers, earlier.get(pointers.topic))
            except (DamagedMetadataError, ForeignTableError) as problem:
                left_out[pointers.topic] = str(problem)
                continue
            topics += [copied] if copied is not None else []
        revision = self._installation.store.portable_rows.revision
        backup = Backup(created_at_ms, __version__, owner, revision, tuple(topics), store, left_out)
        backup_id = self._place.write(backup)
        try:
            self._require_none_going("No backup was made; what was copied stays.")
        except RunAgainError:
            # Its files may be among those that are being deleted.
            self._place.delete_document(backup_id)
            raise
        return self._finish(backup_id, backup)

    def _require_none_going(self, left: str) -> None:
        going = self._place.read_going()
        if going:
            raise RunAgainError(
                f"Backups are being deleted in {self._place.uri}: {', '.join(sorted(going)[:5])}.",
                left=left,
                next=f"Run it again when that has ended. If it was killed: winnow backup erase {self._place.uri}",
            )

    def _find_earlier(self) -> Mapping[str, CopiedTopic]:
        """Return the topics of the newest backup here; what is damaged of it is copied anew."""
        ids = self._place.list_ids()
        with suppress(DamagedBackupError):
            return {topic.topic: topic for topic in self._place.read(ids[-1]).topics} if ids else {}
        return {}

    def _copy_store(self) -> tuple[CopiedRows, ...]:
        self._watch("Copying the metadata store", 0, 0)
        return tuple(
            CopiedRows(table, tuple(self._place.write_rows(part) for part in _split(rows, ROWS_OF_PART)))
            for table, rows in self._installation.store.portable_rows.read_tables()
        )

    def _copy_topic(self, pointers: TopicPointers, earlier: CopiedTopic | None) -> CopiedTopic | None:
        """Copy a topic, as it is by the time that no file is removed meanwhile; None: it is gone for good."""
        topic = pointers.topic
        for attempt in range(MAXIMUM_TRIES):
            try:
                with hold_lease(self._installation, topic) if attempt >= TRIES_WITHOUT_LEASE else nullcontext():
                    return self._try_to_copy(pointers, earlier)
            except TopicBusyError:
                wait_before_retry(attempt)
            except FileNotFoundError as problem:
                newer = self._look_again(pointers, problem)
                if newer is None:
                    return None
                pointers = newer
        raise RunAgainError(
            f"Topic {topic} was swept {MAXIMUM_TRIES} times while it was copied.",
            left="No backup was made; what was copied stays, and the next call goes on with it.",
            next="Run it again, or raise winnow.retired.grace.ms of the topic.",
        )

    def _try_to_copy(self, pointers: TopicPointers, earlier: CopiedTopic | None) -> CopiedTopic | None:
        copy = TopicCopy(self._place, self._installation.settings.warehouse, pointers, earlier, self._watch)
        try:
            return copy.run()
        finally:
            self._files_copied += copy.files_copied
            self._bytes_copied += copy.bytes_copied

    def _look_again(self, pointers: TopicPointers, gone: FileNotFoundError) -> TopicPointers | None:
        newer = next(iter(read_pointers(self._installation.log, pointers.topic)), None)
        if newer == pointers:
            raise DamagedMetadataError(
                f"A file of topic {pointers.topic} is gone, and its tables still refer to it ({gone}).",
                next=(
                    "Restore it from an earlier backup or the object store's versions. Look at the topic with: winnow "
                    f"scrub {pointers.topic}"
                ),
            ) from gone
        return newer

    def _finish(self, backup_id: str, backup: Backup) -> BackupReport:
        rows = sum(part.entries for table in backup.store for part in table.parts)
        report = BackupReport(
            destination=self._place.uri,
            backup_id=backup_id,
            topics=len(backup.topics),
            records=sum(topic.log.records for topic in backup.topics),
            files=sum(topic.files.entries for topic in backup.topics),
            size_bytes=sum(topic.size_bytes for topic in backup.topics),
            files_copied=self._files_copied,
            bytes_copied=self._bytes_copied,
            store_rows=rows,
            left_out=backup.left_out,
        )
        copied = f"{report.topics:,} topics, {report.files:,} files, {report.files_copied:,} of them new"
        detail = f"{backup_id} in {mask('backup', report.destination)}: {copied}"
        record_action(self._installation, AuditAction.BACK_UP, "", detail=detail)
        return report


def make_owner(installation: Installation) -> Owner:
    """Return whose backups those of this installation are."""
    found = installation.store.installation.find()
    installation_id = None if found is None else found.installation_id
    return Owner(installation.settings.warehouse.rstrip("/"), installation.log.namespaces.topics, installation_id)


def _require_apart(destination: str, warehouse: str) -> None:
    if destination == warehouse or find_path_below(warehouse, destination) or find_path_below(destination, warehouse):
        raise UsageError(
            f"{destination} and the warehouse {warehouse} lie within one another, so nothing was written. A backup "
            "belongs on another disk or in another bucket; name a folder there."
        )


def _make_nothing_error(uri: str, topics: int) -> UsageError:
    """Make the error of an empty place: where a lake was lost, an empty backup would be the newest, to be restored."""
    return UsageError(
        f"There is no topic here, and nothing was ever committed; the newest backup in {uri} has "
        f"{format_count(topics, 'topic')}.",
        left="No backup was made.",
        next=f"If the lake was lost: winnow backup restore {uri}. Else look at WINNOW_HOME, the catalog and the store.",
    )


def _split(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(rows)
    while part := list(islice(iterator, size)):
        yield part
