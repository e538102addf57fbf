"""Verifies a backup: reads every file of it, compares digests, and opens each table from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from winnow.errors import DamagedBackupError, DamagedMetadataError
from winnow.files import storage
from winnow.files.file_copies import compute_file_digest
from winnow.log.table_files import FileKind, find_path_below, open_table_walk
from winnow.pipeline.backup.backup_place import BackupPlace, CopiedFile, CopiedTable, CopiedTopic
from winnow.pipeline.backup.topic_copies import Watcher
from winnow.pipeline.parallel import iterate_parallel

MISSING: Final = "is missing"
DIFFERENT: Final = "is not what was written"


@dataclass(frozen=True, slots=True)
class BackupFinding:
    """What is wrong with a file of a backup. ``topic`` empty: the file belongs to no single one."""

    topic: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class VerifiedTopic:
    """A topic of a verified backup; the numbers are those that were found."""

    topic: str
    records: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found in a backup. ``findings``: none if all of it can be restored."""

    destination: str
    backup_id: str
    created_at_ms: int
    topics: tuple[VerifiedTopic, ...]
    store_rows: int
    left_out: dict[str, str]
    findings: tuple[BackupFinding, ...]


def verify_backup(
    destination: str, backup_id: str | None = None, watch: Watcher = lambda what, done, total: None
) -> VerifyReport:
    """Read all files of a backup (None: the newest) and compare them with what was written.

    Raises:
        UsageError: there is no such backup.
        DamagedBackupError: the backup's own document is damaged.
        FormatVersionError: a newer Winnow wrote it.
        ServiceError: the object store cannot be reached.
    """
    place = BackupPlace(destination)
    chosen = place.choose(backup_id)
    backup = place.read(chosen)
    findings: list[BackupFinding] = []
    topics = []
    for topic in backup.topics:
        check = _TopicCheck(place, topic, watch)
        topics.append(check.run())
        findings += check.findings
    rows = 0
    for table in backup.store:
        try:
            rows += sum(1 for _ in place.read_rows(table))
        except DamagedBackupError as problem:
            findings.append(BackupFinding("", table.table, str(problem)))
    return VerifyReport(place.uri, chosen, backup.created_at_ms, tuple(topics), rows, backup.left_out, tuple(findings))


class _TopicCheck:
    def __init__(self, place: BackupPlace, topic: CopiedTopic, watch: Watcher) -> None:
        self._place = place
        self._topic = topic
        self._watch = watch
        self.findings: list[BackupFinding] = []

    def run(self) -> VerifiedTopic:
        """Compare every file, then open the tables if none is damaged."""
        name = self._topic.topic
        try:
            files = self._place.read_list(self._topic.files)
        except DamagedBackupError as problem:
            self._add(self._topic.files.path, str(problem))
            return VerifiedTopic(name, 0, 0, 0)
        self._compare(files)
        records = 0 if self.findings else self._open_all(files)
        return VerifiedTopic(name, records, len(files), sum(file.size_bytes for file in files.values()))

    def _compare(self, files: Mapping[str, CopiedFile]) -> None:
        done_bytes, total_bytes = 0, self._topic.size_bytes
        what = f"Verifying {self._topic.topic}"
        self._watch(what, 0, total_bytes)
        for file, wrong in iterate_parallel(self._find_difference, files.values()):
            if wrong is not None:
                self._add(f"files/{file.path}", wrong)
            done_bytes += file.size_bytes
            self._watch(what, done_bytes, total_bytes)

    def _find_difference(self, file: CopiedFile) -> str | None:
        uri = self._place.locate_file(file.path)
        try:
            # Where the size differs already, nothing needs to be read.
            if storage.read_size_bytes(uri) != file.size_bytes:
                return MISSING if storage.read_size_bytes(uri) is None else DIFFERENT
            return None if compute_file_digest(uri) == file.digest else DIFFERENT
        except FileNotFoundError:
            return MISSING

    def _open_all(self, files: Mapping[str, CopiedFile]) -> int:
        counted = {table.role: self._open(table, files) for table in self._topic.tables}
        return counted[self._topic.log.role]

    def _open(self, table: CopiedTable, files: Mapping[str, CopiedFile]) -> int:
        """Open a table from the backup; return its records, and note what it names and the backup has not."""
        try:
            walk = open_table_walk(lambda path: self._read(table, path), table.metadata_location)
            records = walk.count_records()
            for named in walk.list_files():
                path = find_copy(table, named.path)
                if named.kind is not FileKind.EARLIER_METADATA and (path is None or path not in files):
                    self._add(named.path, "is named by the table, and the backup does not have it")
        except (DamagedMetadataError, FileNotFoundError) as problem:
            self._add(table.metadata_location, f"does not open a whole table: {problem}")
            return 0
        if (records, walk.table_uuid) != (table.records, table.table_uuid):
            self._add(table.metadata_location, f"has {records:,} records where {table.records:,} were copied")
        return records

    def _read(self, table: CopiedTable, path: str) -> bytes:
        found = find_copy(table, path)
        if found is None:
            raise FileNotFoundError(path)
        return storage.read_bytes(self._place.locate_file(found))

    def _add(self, path: str, text: str) -> None:
        self.findings.append(BackupFinding(self._topic.topic, path, text))


def find_copy(table: CopiedTable, path: str) -> str | None:
    """Return the path below ``files`` of a file that ``table`` names; None: it is outside of the table's folder."""
    below = find_path_below(table.location, path)
    return None if below is None else f"{table.folder}/{below}"
