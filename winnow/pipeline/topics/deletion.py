"""Deletes topics, brings them back, and removes their files for good.

Three commits to the topic's own table decide: one deletes the topic, one restores it, and one, when the grace has
passed or on request, ends the time in which it can be restored. Only after that last one are files deleted. The entry
in the catalog goes after them, so no topic of the same name can be created while a sweep, however slow, still lists the
folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

from winnow.engine import staging
from winnow.engine.job_notes import sweep_jobs
from winnow.errors import DeletedTopicError, UnknownTopicError, UsageError, WinnowError
from winnow.files import storage
from winnow.files.file_names import is_attempt_file, is_ingest_file, is_latest_file, is_table_folder
from winnow.files.quarantine_files import INGEST_FOLDER_PREFIX, may_contain_ingest
from winnow.log.deleted_topics import forget_deleted, make_deleted_error, note_deleted
from winnow.log.head import Change, Head
from winnow.log.recorded_configuration import read_overrides
from winnow.log.reference_chains import list_ingest_references, list_receipt_references
from winnow.log.removable_files import TableFiles, find_latest_files, find_table_files, is_folder_of
from winnow.log.snapshot_expiry import find_state_path
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.older_worlds import UNCHANGED, OlderWorld
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.report.events import log_event
from winnow.store.audit import AuditAction


@dataclass(frozen=True, slots=True)
class TopicContents:
    """What goes with a deleted topic. ``files_waiting``: retired files that are still there besides the segments."""

    topic: str
    partitions: int
    records: int
    records_quarantined: int
    segments: int
    size_bytes: int
    files_waiting: int


@dataclass(frozen=True, slots=True)
class DeletionReport:
    """A deletion. ``restorable_until_ms`` None: the files are removed; until then the topic can be restored.

    ``unnamed``: what stays in its folders, because no record of it names it.
    """

    topic: str
    deleted_at_ms: int
    restorable_until_ms: int | None
    contents: TopicContents
    files_deleted: int = 0
    bytes_deleted: int = 0
    unnamed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemovedFiles:
    """Files that were deleted with their topic; those in its folders that no record of it names, which stay."""

    files_deleted: int
    bytes_deleted: int
    left: tuple[str, ...]


class _NothingToCommitError(Exception):
    """The topic is in the wanted state already."""


def describe_contents(installation: Installation, topic: str) -> TopicContents:
    """Describe what would go with ``topic``, which may be deleted already; nothing once its removal has begun."""
    log = installation.log.open(topic)
    head = log.head(even_deleted=True)
    if head.state.removed_at_ms is not None:  # and the files that list the others may be gone
        return TopicContents(topic, len(head.state.partitions), 0, 0, 0, 0, 0)
    segments = list(chain.from_iterable(log.segments(head).values()))
    quarantine = installation.log.quarantine(topic, head)
    visible = frozenset(head.state.quarantine_ingests)
    aside = [f for f in quarantine.files() if may_contain_ingest(f.path, quarantine.location, visible)]
    return TopicContents(
        topic=topic,
        partitions=len(head.state.partitions),
        records=sum(segment.records for segment in segments),
        records_quarantined=sum(file.records for file in aside),
        segments=len(segments),
        size_bytes=sum(segment.size_bytes for segment in segments) + sum(file.size_bytes for file in aside),
        files_waiting=len(head.state.waiting_files),
    )


def delete_topic(installation: Installation, topic: str, *, now: bool = False) -> DeletionReport:
    """Delete ``topic``: nobody lists, reads or writes it any more; until its grace has passed it can be restored.

    Repeating it changes nothing. ``now``: remove its files at once, for good.

    Raises:
        CommitConflictError, CommitUnknownError, ServiceError, UnknownTopicError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
        TopicBusyError: another run holds the topic, so its files are not removed now; it is deleted.
    """
    log = installation.log.open(topic)
    log.newest_head(even_deleted=True)
    contents = describe_contents(installation, topic)
    note_deleted(installation.log.deleted_notes, topic)

    def build(head: Head) -> Change:
        if head.state.deleted_at_ms is not None:
            raise _NothingToCommitError
        state = replace(head.state, deleted_at_ms=installation.now_ms())
        return Change(state=state, summary={"winnow.operation": "delete-topic"})

    try:
        committed = log.commit(build, even_deleted=True)
        log_event(
            "topic_deleted",
            topic,
            records=contents.records,
            bytes=contents.size_bytes,
            snapshot_id=str(committed.snapshot_id),
        )
        record_action(
            installation, AuditAction.DELETE, topic, detail=f"{contents.records:,} records, {contents.size_bytes:,} B"
        )
    except _NothingToCommitError:
        pass
    installation.store.projection.forget_overview(topic)
    note_deletion_seen(installation, log)
    head = log.head(even_deleted=True)
    state = head.state
    if state.deleted_at_ms is None:  # restored meanwhile
        raise UsageError(f"Topic {topic} was deleted and restored by another command meanwhile. It is there.")
    if not now:
        seen_ms = state.deletion_seen_ms or state.deleted_at_ms
        until_ms = seen_ms + find_grace_ms(log, head) if state.removed_at_ms is None else None
        return DeletionReport(topic, state.deleted_at_ms, until_ms, contents)
    with hold_lease(installation, topic):
        removed = remove_topic(installation, topic, deleted_before_ms=None)
    assert removed is not None
    record_action(installation, AuditAction.DELETE, topic, detail=f"for good: {removed.files_deleted:,} files removed")
    return DeletionReport(
        topic, state.deleted_at_ms, None, contents, removed.files_deleted, removed.bytes_deleted, removed.left
    )


def restore_topic(installation: Installation, topic: str, older: OlderWorld = UNCHANGED) -> bool:
    """Bring a deleted topic back as it was; return whether it was deleted. Repeating it changes nothing.

    ``older``: what the commit does again.

    Raises:
        UnknownTopicError: there is no such topic, or its files are removed.
        DeletedTopicError: its files are being removed.
        CommitConflictError, CommitUnknownError, ServiceError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    log = installation.log.open(topic)

    def build(head: Head) -> Change:
        if head.state.deleted_at_ms is None:
            raise _NothingToCommitError
        if head.state.removed_at_ms is not None:
            raise make_deleted_error(head.state)
        return Change(
            state=replace(head.state, deleted_at_ms=None, deletion_seen_ms=None),
            summary={"winnow.operation": "restore-topic"},
        )

    restored = True
    try:
        older.look(log, log.newest_head(even_deleted=True))
        committed = older.commit(log, build, even_deleted=True)
        log_event("topic_restored", topic, snapshot_id=str(committed.snapshot_id))
        record_action(installation, AuditAction.RESTORE, topic)
    except _NothingToCommitError:
        restored = False
    forget_deleted(installation.log.deleted_notes, topic)
    rebuild_store(installation, [topic])
    return restored


def note_deletion_seen(installation: Installation, log: TopicLog) -> None:
    """Commit that the topic's deletion is seen by now, unless that is known: its grace counts from then.

    A process that was paused in its commit deletes the topic later than it says.

    Raises:
        CommitConflictError, CommitUnknownError, ServiceError, UnknownTopicError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """

    def build(head: Head) -> Change:
        state = head.state
        if state.deleted_at_ms is None or state.deletion_seen_ms is not None or state.removed_at_ms is not None:
            raise _NothingToCommitError
        seen = replace(state, deletion_seen_ms=installation.now_ms())
        return Change(state=seen, summary={"winnow.operation": "note-deletion"})

    with suppress(_NothingToCommitError):
        log.commit(build, even_deleted=True)


def remove_topic(installation: Installation, topic: str, *, deleted_before_ms: int | None) -> RemovedFiles | None:
    """Remove a deleted topic for good: its files, then its entry in the catalog, then its rows in the store.

    Killed at any line, the next call completes it. ``deleted_before_ms``: only if the deletion was seen by then, else
    None is returned; None: in any case.

    Raises:
        UsageError: the topic is not deleted, or was restored meanwhile.
        CommitConflictError, CommitUnknownError, ServiceError, UnknownTopicError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    log = installation.log.open(topic)

    def build(head: Head) -> Change:
        state = head.state
        if state.deleted_at_ms is None:
            raise UsageError(f"Topic {topic} is not deleted, so nothing of it was removed.")
        waits = deleted_before_ms is not None and (
            state.deletion_seen_ms is None or state.deletion_seen_ms > deleted_before_ms
        )
        if state.removed_at_ms is not None or waits:
            raise _NothingToCommitError
        return Change(
            state=replace(state, removed_at_ms=installation.now_ms()), summary={"winnow.operation": "remove-topic"}
        )

    with suppress(_NothingToCommitError):
        log.commit(build, even_deleted=True)
    head = log.newest_head(even_deleted=True)
    if head.state.removed_at_ms is None:
        return None
    removed = _remove_files(installation, log, head)
    forget_deleted(installation.log.deleted_notes, topic)
    log_event("topic_removed", topic, files_deleted=removed.files_deleted, bytes_deleted=removed.bytes_deleted)
    return removed


def withdraw_topics(installation: Installation, created: Mapping[str, str]) -> list[str]:
    """Remove the topics that a refused ingest had created, and return a sentence about each; never raises.

    ``created``: the uuid of the table of each topic.
    """
    sentences = []
    for topic, table_uuid in sorted(created.items()):
        try:
            gone = withdraw_topic(installation, topic, table_uuid)
            text = "is removed again." if gone else "stays: it is in use."
        except WinnowError as problem:
            text = f"stays: {problem} To remove it: winnow topics delete {topic} --now"
        sentences.append(f"Topic {topic}, which this call had created, {text}")
    return sentences


def withdraw_topic(installation: Installation, topic: str, table_uuid: str) -> bool:
    """Remove a topic for good that this process has just created and not used; return whether it is gone.

    Nothing happens if it is another one by now, if anything was committed to it, or if another process prepares an
    ingest for it. The removal is a commit, so that of a commit of another process and this one only one lands.

    Raises:
        CommitConflictError, CommitUnknownError, ServiceError, TopicBusyError: it stays.
    """
    log = installation.log.open(topic)

    def build(head: Head) -> Change:
        others = [each for each in installation.store.ingests.list_open(topic) if each.holder != installation.holder]
        if head.table_uuid != table_uuid or head.snapshot_id is not None or others:
            raise _NothingToCommitError
        now_ms = installation.now_ms()
        state = replace(head.state, deleted_at_ms=now_ms, removed_at_ms=now_ms)
        return Change(state=state, summary={"winnow.operation": "remove-topic"})

    try:
        with hold_lease(installation, topic):
            note_deleted(installation.log.deleted_notes, topic)
            log.commit(build)
            removed = remove_topic(installation, topic, deleted_before_ms=None)
    except (_NothingToCommitError, UnknownTopicError):
        forget_deleted(installation.log.deleted_notes, topic)
        return False
    record_action(installation, AuditAction.DELETE, topic, detail="for good: its ingest was refused, and it was empty")
    return removed is not None


@dataclass(frozen=True, slots=True)
class _GoingTable:
    """A table that goes with its topic. ``opening``: the files without which it could not be opened; they go last."""

    location: str
    listing: storage.Listing
    opening: frozenset[str]
    drop: Callable[[], None]


def _remove_files(installation: Installation, log: TopicLog, head: Head) -> RemovedFiles:
    """Delete what is listed while the catalog still names the removed topic's table; then drop the entry.

    What was listed before the entry was seen once more belongs to this table, and every name is used only once. So a
    process that is paused here for any time deletes nothing of a later topic with the same name. Of each table the
    files that open it, and its entry, go last: until then its metadata tell the next call what is left.
    """
    topic = log.topic
    runs = installation.store.runs.list_runs(topic)
    beside = [_list_quarantine(installation, head), *_list_latest(installation, head)]
    beside.append(_list_copies(head))
    own = _list_log(installation, log, head)
    now = log.newest_head(even_deleted=True)
    if now.table_uuid != head.table_uuid or now.state.removed_at_ms is None:
        raise DeletedTopicError(
            f"Topic {topic} was removed by another process meanwhile.",
            next="Nothing is left to do.",
        )
    installation.guard.require_own()
    left: list[str] = []
    for run in runs:
        attempts = installation.store.runs.list_attempts(run.plan_id)
        left += staging.delete_plan(installation.settings.staging, topic, run.plan_id, run.plan_uri, attempts)
    left += sweep_jobs(installation.settings.staging, topic, installation.now_ms(), None).unnamed
    gone: list[storage.FileEntry] = []
    for table in (*beside, own):
        left += table.listing.others
        gone += _remove_table(table, left)
    return RemovedFiles(len(gone), sum(file.size_bytes for file in gone), tuple(left))


def _remove_table(table: _GoingTable, left: list[str]) -> list[storage.FileEntry]:
    """Delete the files of a table, data first; drop its entry before those that open it. Return what is gone."""
    last = [file for file in table.listing.files if storage.get_name(file.uri) in table.opening]
    first = [file for file in table.listing.files if storage.get_name(file.uri) not in table.opening]
    gone = _delete_files(table, sorted(first, key=lambda file: _rank(file.uri)), left)
    storage.remove_emptied_folders((file.uri for file in first), table.location)
    storage.sync_deletions(file.uri for file in first)
    table.drop()
    gone += _delete_files(table, last, left)
    storage.remove_emptied_folders((file.uri for file in last), table.location)
    for folder in _FOLDERS:
        storage.remove_empty_folders(table.location, folder, partial(_is_own_folder, folder))
    storage.remove_empty_root(table.location)
    return gone


def _delete_files(table: _GoingTable, files: Iterable[storage.FileEntry], left: list[str]) -> list[storage.FileEntry]:
    gone = []
    for file in files:
        if storage.delete(file.uri, below=table.location):
            gone.append(file)
        else:
            left.append(file.uri)
    return gone


def _is_own_folder(top: str, path: str) -> bool:
    return is_table_folder(f"{top}/{path}")


_FOLDERS: Final = ("data", "metadata", "_winnow")


def _rank(uri: str) -> int:
    """Order files so that those that name others go after them: a call that is killed leaves the names of the rest."""
    name = storage.get_name(uri)
    if not name.endswith((".avro", ".json")):
        return 0
    return 1 if "-m" in name and name.endswith(".avro") else 2


def _list_log(installation: Installation, log: TopicLog, head: Head) -> _GoingTable:
    found = find_table_files(head.table, _make_folder_filter(installation, head, quarantined=False), head.state)
    snapshot = head.table.current_snapshot()
    # By their names, which nothing else has: a catalog may write the same place another way (file:/ for file:///).
    opening = {storage.get_name(head.table.metadata_location)}
    if snapshot is not None:
        opening.add(storage.get_name(find_state_path(head.table, snapshot) or ""))

    def drop() -> None:
        installation.store.projection.forget_topic(log.topic, table_uuid=head.table_uuid)
        installation.log.drop(log.topic, head.table.metadata_location)

    return _GoingTable(head.location, _list_files(found), frozenset(opening), drop)


def _list_quarantine(installation: Installation, head: Head) -> _GoingTable:
    quarantine = installation.log.quarantine(head.state.topic, head)
    is_recorded = _make_folder_filter(installation, head, quarantined=True)
    table = quarantine.table()
    if table is not None:
        opening = frozenset({storage.get_name(table.metadata_location)})
        found = find_table_files(table, is_recorded)
        return _GoingTable(
            found.location, _list_files(found), opening, partial(quarantine.drop, table.metadata_location)
        )
    # Nothing names its metadata any more: an earlier call died before it had deleted the last of them.
    found = TableFiles(quarantine.location, set(), is_recorded, is_folder_of(quarantine.location, head.table_uuid))
    return _GoingTable(found.location, _list_files(found), frozenset(), lambda: None)


def _list_copies(head: Head) -> _GoingTable:
    """List the copies of the log's documents, in a folder that has the table's uuid in its name."""
    found = TableFiles(head.copies, is_alone=is_folder_of(head.copies, head.table_uuid))
    return _GoingTable(found.location, _list_files(found), frozenset(), lambda: None)


def _list_latest(installation: Installation, head: Head) -> Iterator[_GoingTable]:
    latest = installation.log.latest_table(head.state.topic, head)
    table = latest.table()
    if table is None:
        if is_folder_of(latest.location, head.table_uuid):
            found = TableFiles(latest.location, set(), is_latest_file, is_alone=True)
            yield _GoingTable(found.location, _list_files(found), frozenset(), lambda: None)
    elif latest.owns(table):
        opening = frozenset({storage.get_name(table.metadata_location)})
        found = find_latest_files(table, head.table_uuid)
        yield _GoingTable(found.location, _list_files(found), opening, partial(latest.drop, table.metadata_location))


def _make_folder_filter(installation: Installation, head: Head, *, quarantined: bool) -> Callable[[str], bool]:
    """Make the check whether a path lies in the folder of a recorded run or ingest call, under a name of its tasks."""
    state = head.state
    plans = {run.plan_id for run in installation.store.runs.list_runs(state.topic)}
    ingests = {each.ingest_id for each in installation.store.ingests.list_open(state.topic)}
    ingests |= {each.ingest_id for each in state.voided_ingests} | set(state.quarantine_ingests)
    with suppress(WinnowError, OSError):  # what is damaged names nothing
        plans |= {reference.plan_id for reference in list_receipt_references(state)}
    with suppress(WinnowError, OSError):
        ingests |= {reference.ingest_id for reference in list_ingest_references(state)}

    def is_recorded(path: str) -> bool:
        top, _, below = path.partition("/")
        folder, _, name = below.partition("/")
        if top != "data":
            return False
        if folder.startswith(INGEST_FOLDER_PREFIX):
            known = folder.removeprefix(INGEST_FOLDER_PREFIX) in ingests
            return known and is_ingest_file(name, quarantined=quarantined)
        return folder in plans and is_attempt_file(name, quarantined=quarantined)

    return is_recorded


def _list_files(files: TableFiles) -> storage.Listing:
    return files.list_files()


def find_grace_ms(log: TopicLog, head: Head) -> int:
    """Return for how long the files of a deleted topic stay; of a topic that another tool changed, as committed."""
    overrides = (head.state.configuration or {}) if head.configuration_differences else head.table.properties
    return log.parse(read_overrides(overrides)).retired_grace_ms
