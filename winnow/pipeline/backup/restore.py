"""Restores a backup into an empty place: files first, then the store, then the catalog's entries, the logs last.

What is restored is readable only once its tables are in the catalog, so a restore that was killed has changed nothing
that anybody reads; a note in the warehouse says which backup it is, and the next call goes on. Each topic's first
commit raises its fence, so that no process of the installation that was backed up can publish into what is restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from winnow.errors import DamagedMetadataError, UsageError, WinnowError, join_first
from winnow.files import storage
from winnow.files.file_copies import ContentDiffersError, compute_file_digest, copy_file
from winnow.log.deleted_topics import note_deleted
from winnow.log.document_places import locate_copy
from winnow.log.fence import make_fence_change
from winnow.log.head import Change, Head
from winnow.log.restore_notes import RestoreNote, read_restore_note
from winnow.log.table_files import DOCUMENTS, find_path_below, open_table_walk
from winnow.log.table_pointers import TableRole, find_namespace, list_registered, register_table
from winnow.log.table_recovery import ChosenMetadata, land_as_new_entry
from winnow.log.warehouse_survey import read_metadata
from winnow.pipeline.backup.backup_place import (
    Backup,
    BackupPlace,
    CopiedFile,
    CopiedTable,
    CopiedTopic,
    make_damage_error,
)
from winnow.pipeline.backup.topic_copies import Watcher
from winnow.pipeline.backup.verify import DIFFERENT, MISSING, find_copy
from winnow.pipeline.erase.later_erasures import LaterErasures
from winnow.pipeline.erase.older_states import finish_older_state
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import iterate_parallel
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.store.audit import AuditAction
from winnow.values import documents

MAXIMUM_NAMED: Final = 3
"""Things named by a refusal."""


@dataclass(frozen=True, slots=True)
class RestoredTopic:
    """A topic that was restored. ``records``: those that a reader sees. ``notice``: what is to be known of it."""

    topic: str
    records: int
    files: int
    size_bytes: int
    notice: str = ""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """A finished restore. ``left_out``: topics that the backup does not have, and why."""

    backup_id: str
    created_at_ms: int
    topics: tuple[RestoredTopic, ...]
    store_rows: int
    left_out: dict[str, str]


def restore_backup(
    installation: Installation,
    destination: str,
    backup_id: str | None = None,
    watch: Watcher = lambda what, done, total: None,
) -> RestoreReport:
    """Restore a backup (None: the newest) into the ``installation``, which must be empty, or go on with it.

    Raises:
        UsageError: there is no such backup, the place is not empty, or it is another warehouse than the backup's.
        DamagedBackupError: a file of the backup is damaged. No topic is there; the next call goes on.
        FormatVersionError: a newer Winnow made the backup.
        RunAgainError: another process entered one of its tables into the catalog. The next call goes on.
        ServiceError: the store, the catalog or an object store cannot be reached. The next call goes on.
    """
    place = BackupPlace(destination)
    chosen = place.choose(backup_id)
    return _Restore(installation, place, chosen, place.read(chosen), watch).run()


class _Restore:
    def __init__(
        self, installation: Installation, place: BackupPlace, backup_id: str, backup: Backup, watch: Watcher
    ) -> None:
        self._installation = installation
        self._place = place
        self._backup_id = backup_id
        self._backup = backup
        self._watch = watch
        self._later: dict[str, LaterErasures] = {}
        self._reading = ""
        self._note = RestoreNote(backup_id, place.uri)

    def run(self) -> RestoreReport:
        """Restore everything."""
        self._require_same_warehouse()
        topics = [self._look_for_erasures(topic) for topic in self._backup.topics]
        registered = self._begin()
        for topic in topics:
            if (TableRole.LOG, topic.topic) not in registered:  # else all were there, and a sweep has deleted some
                self._restore_files(topic)
        begun = read_restore_note(self._installation.log.restore_note)
        if not registered and not (begun is not None and begun.has_store):
            self._watch("Restoring the metadata store", 0, 0)
            rows = ((table.table, self._place.read_rows(table)) for table in self._backup.store)
            self._installation.store.portable_rows.replace_all(rows)
            # From now on it also has rows of files that this restore writes.
            self._write_note(replace(self._note, has_store=True))
        for topic in topics:
            self._register(topic, registered)
        report = self._make_report([self._open(topic) for topic in topics])
        detail = f"{self._backup_id}: {len(report.topics):,} topics"
        record_action(self._installation, AuditAction.RESTORE_BACKUP, "", detail=detail)
        storage.delete(self._installation.log.restore_note)
        return report

    def _require_same_warehouse(self) -> None:
        theirs, ours = self._backup.owner.warehouse, self._installation.settings.warehouse.rstrip("/")
        if theirs != ours and find_path_below(theirs, f"{ours}/x") != "x":
            raise UsageError(
                f"The backup is of the warehouse {theirs}, and this installation's is {ours}. The files of a table "
                "name each other by their full paths, so they can be restored only to the same one: set "
                "WINNOW_WAREHOUSE to it (a local folder may be a mount or a link to another disk), with an empty "
                "catalog and an empty store.",
                left="Nothing was restored.",
            )

    def _look_for_erasures(self, topic: CopiedTopic) -> CopiedTopic:
        """Look which erasures came after the backup; such a topic's table of the latest state is not restored.

        Raises:
            ConfigurationError: the topic has erasures, and the register has none of it; or their secret is not here.
            DamagedBackupError: a file of the backup is damaged.
        """
        later = LaterErasures(self._installation, topic.topic, f"winnow backup restore {self._backup_id}")
        try:
            state = open_table_walk(partial(self._read_copy, topic.log), topic.log.metadata_location).read_state()
        except (DamagedMetadataError, FileNotFoundError) as problem:
            raise make_damage_error(self._reading, DIFFERENT) from problem
        known = {str(each["erasure_id"]): str(each["key_id"]) for each in (state or {}).get("erasures", ())}
        if not later.find(topic.log.table_uuid, known):
            return topic
        self._later[topic.topic] = later
        return replace(topic, tables=tuple(table for table in topic.tables if table.role is not TableRole.LATEST))

    def _read_copy(self, table: CopiedTable, path: str) -> bytes:
        found = find_copy(table, path)
        self._reading = path if found is None else self._place.locate_file(found)
        if found is None:
            raise FileNotFoundError(path)
        return storage.read_bytes(self._reading)

    def _begin(self) -> set[tuple[TableRole, str]]:
        """Check that the place is empty or this restore's own; return the tables that it has registered already."""
        registered = list_registered(self._installation.log)
        begun = read_restore_note(self._installation.log.restore_note)
        if begun is None:
            self._require_empty(registered)
            self._write_note(self._note)
            return registered
        if begun.backup_id != self._backup_id:
            raise UsageError(
                f"A restore of the backup {begun.backup_id} has begun here and not ended.",
                left="Nothing was changed.",
                next=f"Complete it with: {begun.command}",
            )
        own = {(table.role, topic.topic) for topic in self._backup.topics for table in topic.tables}
        if registered - own:
            self._raise_occupied([self._name_table(*table) for table in sorted(registered - own)])
        return registered

    def _write_note(self, note: RestoreNote) -> None:
        storage.write_bytes(self._installation.log.restore_note, documents.dump_json(note))

    def _require_empty(self, registered: set[tuple[TableRole, str]]) -> None:
        found = [self._name_table(*table) for table in sorted(registered)]
        found += [f"rows of {table} in the metadata store" for table in self._find_rows()]
        found += [f"the file {uri}" for uri in self._find_files()]
        if found:
            self._raise_occupied(found)

    def _name_table(self, role: TableRole, name: str) -> str:
        return f"the table {find_namespace(self._installation.log, role)}.{name} in the catalog"

    def _find_rows(self) -> list[str]:
        return self._installation.store.portable_rows.find_filled_tables()

    def _find_files(self) -> Iterator[str]:
        spaces = (find_namespace(self._installation.log, role) for role in TableRole)
        folders = {storage.join(self._installation.settings.warehouse, namespace) for namespace in spaces}
        tables = [table for topic in self._backup.topics for table in topic.tables]
        folders |= {folder for table in tables for folder in (table.location, table.copies) if folder is not None}
        for folder in sorted(folders):
            for entry in storage.list_files(folder)[:1]:
                yield entry.uri

    def _raise_occupied(self, found: Sequence[str]) -> None:
        raise UsageError(
            f"A backup is restored into an empty place only, and here is {join_first(found, MAXIMUM_NAMED)}.",
            left="Nothing was changed.",
            next="Point WINNOW_HOME (or warehouse, catalog and store) at an empty place, or move what is there away.",
        )

    def _restore_files(self, topic: CopiedTopic) -> None:
        files = self._place.read_list(topic.files)
        folders = tuple(f"{table.folder}/" for table in topic.tables)
        files = {path: file for path, file in files.items() if path.startswith(folders)}
        places = {path: _list_places(topic, file) for path, file in files.items()}
        what, done_bytes = f"Restoring {topic.topic}", 0
        self._watch(what, 0, topic.size_bytes)
        for file, _ in iterate_parallel(lambda file: self._restore_file(file, places[file.path]), files.values()):
            done_bytes += file.size_bytes
            self._watch(what, done_bytes, topic.size_bytes)
        storage.sync(place for both in places.values() for place in both)

    def _restore_file(self, file: CopiedFile, places: Sequence[str]) -> None:
        """Copy a file to its places, unless it is there from a call that was killed."""
        for place in places:
            self._restore_at(file, place)

    def _restore_at(self, file: CopiedFile, target: str) -> None:
        warehouse = self._installation.settings.warehouse
        root = warehouse if find_path_below(warehouse, target) is not None else target.rpartition("/")[0]
        if storage.read_size_bytes(target) == file.size_bytes and compute_file_digest(target) == file.digest:
            return
        source = self._place.locate_file(file.path)
        try:
            copy_file(source, target, file.digest, below=root)
        except FileNotFoundError as problem:
            raise make_damage_error(source, MISSING) from problem
        except ContentDiffersError as problem:
            raise make_damage_error(source, DIFFERENT) from problem

    def _register(self, topic: CopiedTopic, registered: set[tuple[TableRole, str]]) -> None:
        """Enter the tables of a topic into the catalog, its log last."""
        if (TableRole.LOG, topic.topic) in registered:
            return
        state = open_table_walk(storage.read_bytes, topic.log.metadata_location).read_state()
        if state is not None and state.get("deleted_at_ms") is not None:
            note_deleted(self._installation.log.deleted_notes, topic.topic)
        by_role = {table.role: table for table in topic.tables}
        for role in TableRole:
            if role not in by_role or (role, topic.topic) in registered:
                continue
            if role is TableRole.LOG and topic.topic in self._later:
                self._land_without_erased(topic, self._later[topic.topic])
            else:
                register_table(self._installation.log, role, topic.topic, by_role[role].metadata_location)

    def _land_without_erased(self, topic: CopiedTopic, later: LaterErasures) -> None:
        """Enter a log into the catalog with its first commit made already, which applies the erasures that it lacks."""
        logs = self._installation.log
        identifier, io = logs.identify(topic.topic), logs.open_files(topic.log.location)
        found = read_metadata(io, topic.log.location, topic.log.metadata_location)
        land = land_as_new_entry(logs.catalog, identifier, io, found.number + 1)
        log = logs.open_over(ChosenMetadata(logs.catalog, identifier, found, io, land, later), topic.topic)
        later.look(log, log.head(even_deleted=True))
        later.commit(log, self._make_first_change, even_deleted=True)

    def _open(self, topic: CopiedTopic) -> RestoredTopic:
        """Raise the fence of a restored topic and complete its rows in the store."""
        notice = ""
        try:
            if topic.topic not in self._later:  # else it was landed with that commit
                self._installation.log.open(topic.topic).commit(self._make_first_change, even_deleted=True)
            if topic.topic not in self._installation.log.list_deleted():
                rebuild_store(self._installation, [topic.topic])
                finish_older_state(self._installation, topic.topic)
        except WinnowError as problem:  # it is as it was when the backup was made
            notice = str(problem)
        return RestoredTopic(topic.topic, topic.log.records, topic.files.entries, topic.size_bytes, notice)

    def _make_first_change(self, head: Head) -> Change:
        """Make the commit behind which nothing that was prepared before the restore can be published or ingested.

        Nobody knows how far fence and ingest number rose after the backup was made. Both rise with commits and calls,
        of which there is less than one in a millisecond, so the time that has passed since is above them.
        """
        state = head.state
        passed_ms = max(self._installation.now_ms() - self._backup.created_at_ms, 0)
        numbers = [each.number for each in self._installation.store.ingests.list_open(state.topic)]
        first_valid = max([state.first_valid_ingest, *numbers]) + passed_ms + 1
        raised = replace(head, state=replace(state, first_valid_ingest=first_valid))
        return make_fence_change(raised, [head.fence + passed_ms], operation="restore-backup")

    def _make_report(self, topics: Sequence[RestoredTopic]) -> RestoreReport:
        rows = sum(part.entries for table in self._backup.store for part in table.parts)
        backup = self._backup
        return RestoreReport(self._backup_id, backup.created_at_ms, tuple(topics), rows, dict(backup.left_out))


def _list_places(topic: CopiedTopic, file: CopiedFile) -> list[str]:
    """List where a file belongs: below the folder of the table that it is of; a document to its copy's place, too."""
    table = next(table for table in topic.tables if file.path.startswith(f"{table.folder}/"))
    place = storage.join(table.location, file.path[len(table.folder) + 1 :])
    if file.kind in DOCUMENTS and table.copies is not None:
        return [place, locate_copy(table.copies, place)]
    return [place]
