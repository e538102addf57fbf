"""The folder that holds backups: what is where in it, and the documents that say what each backup consists of.

Layout below the folder::

  winnow-backup.json       whose backups these are
  backups/ID.json          a backup, written last: what is not named there is no part of any
  lists/DIGEST.jsonl       the files of a topic with sizes and digests; shared where it did not change
  files/PATH               the files, below the path that their table has in the warehouse; shared by all backups
  store/DIGEST.jsonl       rows of a table of the metadata store; shared where they did not change
  going/ID.json            a backup that is being deleted: its document, until the last of its files is gone

Every name holds a digest, or belongs to a file that never changes, so nothing is ever written over by something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from winnow.clock import format_ms
from winnow.errors import (
    DamagedBackupError,
    FormatVersionError,
    RunAgainError,
    ServiceError,
    UsageError,
    WinnowError,
)
from winnow.files import storage
from winnow.files.file_copies import FileDigest, compute_data_digest, compute_file_digest
from winnow.log.table_pointers import TableRole
from winnow.values import documents

FORMAT: Final = 1
MARKER: Final = "winnow-backup.json"
_ID: Final = re.compile(r"\d{6}-\d{8}T\d{9}Z-[0-9a-f]{16}")
_DIGEST_DIGITS: Final = 32
ROWS_OF_PART: Final = 10_000
"""Maximum rows of the metadata store in a document, so that a document fits into memory."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose backups a folder holds. ``namespace``: of its topics. ``installation`` None: one without an id."""

    warehouse: str
    namespace: str
    installation: str | None = None
    format_version: int = FORMAT

    def is_same(self, other: Owner) -> bool:
        """Check whether both are one installation; before its first commit it has no id."""
        known = {self.installation, other.installation} - {None}
        return (self.warehouse, self.namespace) == (other.warehouse, other.namespace) and len(known) <= 1


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a backup. ``path``: below ``files``."""

    path: str
    kind: str
    size_bytes: int
    sha256: str

    @property
    def digest(self) -> FileDigest:
        """What it has to hold."""
        return FileDigest(self.size_bytes, self.sha256)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document that a backup names. ``path``: below the folder; ``entries``: its lines; ``size_bytes``: its size."""

    path: str
    sha256: str
    size_bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of a topic, as the catalog had it.

    ``location``: the table's folder. ``folder``: the same below ``files``. ``records``: of its newest snapshot.
    ``copies``: the folder of the copies of its documents.
    """

    role: TableRole
    table_uuid: str
    location: str
    folder: str
    metadata_location: str
    snapshot_id: int | None
    records: int
    copies: str | None = None


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """A topic of a backup. ``size_bytes``: of all its files together."""

    topic: str
    tables: tuple[CopiedTable, ...]
    files: StoredDocument
    size_bytes: int

    @property
    def log(self) -> CopiedTable:
        """The table of its log."""
        return next(table for table in self.tables if table.role is TableRole.LOG)

    def list_pointers(self) -> dict[TableRole, str]:
        """Return the metadata file of each table."""
        return {table.role: table.metadata_location for table in self.tables}


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """The rows of a table of the metadata store, in parts of at most :data:`ROWS_OF_PART`."""

    table: str
    parts: tuple[StoredDocument, ...]


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup. ``left_out``: topics that could not be copied, and why."""

    created_at_ms: int
    winnow_version: str
    owner: Owner
    store_revision: str
    topics: tuple[CopiedTopic, ...]
    store: tuple[CopiedRows, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    format_version: int = FORMAT


class BackupPlace:
    """A folder of backups, local or in an object store."""

    def __init__(self, destination: str) -> None:
        """Make it; ``destination`` may be a path below the current folder."""
        is_path = "://" not in destination and not destination.startswith("file:")
        self.uri = (str(Path(destination).absolute()) if is_path else destination).rstrip("/")

    def locate(self, path: str) -> str:
        """Return the place of a document."""
        return storage.join(self.uri, path)

    def locate_file(self, path: str) -> str:
        """Return the place of a copied file."""
        return storage.join(self.uri, "files", path)

    def list_sizes(self, folder: str) -> dict[str, int]:
        """List what lies below a table's folder in ``files``: sizes by path."""
        top = self.locate_file(folder)
        return {f"{folder}/{entry.uri[len(top) + 1 :]}": entry.size_bytes for entry in storage.list_files(top)}

    def claim(self, owner: Owner) -> None:
        """Make this the folder of the backups of ``owner``, which it may be already.

        Raises:
            UsageError: it holds something else, or another installation's backups; nothing was written.
        """
        found = self._read_owner()
        if found is None:
            if any(True for _ in storage.list_files(self.uri)):
                raise UsageError(
                    f"{self.uri} holds files and is not a folder of Winnow's backups, so nothing was written there.",
                    next="Name an empty folder, or one that is not there yet.",
                )
            storage.write_bytes(self.locate(MARKER), documents.dump_json(owner))
        elif not found.is_same(owner):
            raise UsageError(
                f"{self.uri} holds the backups of another installation, of the namespace {found.namespace} in the "
                f"warehouse {found.warehouse}, so nothing was written there.",
                next="Name another folder; after a restore, too, since what was restored is another installation.",
            )

    def require_owner(self, owner: Owner) -> None:
        """Check that the folder holds backups of ``owner``.

        Raises:
            UsageError: it does not.
        """
        found = self._read_owner()
        if found is None or not found.is_same(owner):
            raise UsageError(
                f"{self.uri} holds no backups of this installation.", next="Name the folder that backups were made in."
            )

    def _read_owner(self) -> Owner | None:
        try:
            return documents.load_json(Owner, storage.read_bytes(self.locate(MARKER)))
        except FileNotFoundError:
            return None
        except FormatVersionError:
            raise
        except WinnowError as problem:
            if isinstance(problem, ServiceError):
                raise
            raise make_damage_error(self.locate(MARKER), "cannot be read") from problem

    def list_ids(self) -> list[str]:
        """List the complete backups, oldest first."""
        return self._list_documents("backups")

    def _list_documents(self, folder: str) -> list[str]:
        names = (storage.get_name(entry.uri) for entry in storage.list_files(self.locate(folder)))
        ids = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(backup_id for backup_id in ids if _ID.fullmatch(backup_id))

    def choose(self, backup_id: str | None) -> str:
        """Return ``backup_id`` if there is such a backup; None: the newest.

        Raises:
            UsageError: there is none.
        """
        there = self.list_ids()
        if not there:
            raise UsageError(
                f"There is no complete backup in {self.uri}.",
                next=f"Make one with: winnow backup create {self.uri}",
            )
        if backup_id is not None and backup_id not in there:
            raise UsageError(
                f"There is no backup {backup_id} in {self.uri}.", next=f"There are: {', '.join(there[-5:])}."
            )
        return backup_id or there[-1]

    def read(self, backup_id: str) -> Backup:
        """Read a backup's document.

        Raises:
            DamagedBackupError: it is not the one that was written.
            FormatVersionError: a newer Winnow wrote it.
        """
        return self._read_document("backups", backup_id)

    def mark_going(self, backup_id: str) -> None:
        """Write on record that a backup is being deleted; before the first of its files goes.

        Raises:
            RunAgainError: the backup is gone.
        """
        try:
            data = storage.read_bytes(self.locate(f"backups/{backup_id}.json"))
        except FileNotFoundError:
            raise RunAgainError(
                f"Another call has deleted the backup {backup_id} in {self.uri} meanwhile.",
                left="This call deleted nothing.",
                next=f"See what is left: winnow backup erase {self.uri} --list",
            ) from None
        storage.write_bytes(self.locate(f"going/{backup_id}.json"), data)

    def unmark_going(self, backup_id: str) -> None:
        """Remove the record: nothing of the backup is left, or it stays."""
        storage.delete(self.locate(f"going/{backup_id}.json"), below=self.uri)

    def delete_document(self, backup_id: str) -> None:
        """Delete a backup's document, so that it is none any more; on disk when this returns."""
        uri = self.locate(f"backups/{backup_id}.json")
        storage.delete(uri, below=self.uri)
        storage.sync_deletions([uri])

    def list_going(self) -> set[str]:
        """List the backups that are being deleted."""
        return set(self._list_documents("going"))

    def read_going(self) -> dict[str, Backup]:
        """Read the records of backups that are being deleted, by id; raises as :meth:`read`."""
        return {backup_id: self._read_document("going", backup_id) for backup_id in self._list_documents("going")}

    def _read_document(self, folder: str, backup_id: str) -> Backup:
        uri = self.locate(f"{folder}/{backup_id}.json")
        try:
            data = storage.read_bytes(uri)
        except FileNotFoundError as problem:
            raise make_damage_error(uri, "is missing") from problem
        if not backup_id.endswith(compute_data_digest(data).sha256[:16]):
            raise make_damage_error(uri, "is not what was written")
        return documents.load_json(Backup, data)

    def write(self, backup: Backup) -> str:
        """Write a backup's document, after everything it names; return its id, which sorts behind all earlier ones."""
        data = documents.dump_json(backup)
        newest = max(self.list_ids(), default="0-")
        time = re.sub(r"[-:.]", "", format_ms(backup.created_at_ms))
        backup_id = f"{int(newest.partition('-')[0]) + 1:06}-{time}-{compute_data_digest(data).sha256[:16]}"
        storage.write_bytes(self.locate(f"backups/{backup_id}.json"), data)
        return backup_id

    def write_list(self, files: Iterable[CopiedFile]) -> StoredDocument:
        """Write the list of a topic's files."""
        ordered = sorted(files, key=lambda each: each.path)
        return self._write_lines("lists", [documents.dump_json(file) for file in ordered])

    def write_rows(self, rows: Sequence[Mapping[str, object]]) -> StoredDocument:
        """Write rows of a table of the metadata store."""
        return self._write_lines("store", [json.dumps(row, sort_keys=True).encode() for row in rows])

    def _write_lines(self, folder: str, lines: Sequence[bytes]) -> StoredDocument:
        data = b"".join(line + b"\n" for line in lines)
        digest = compute_data_digest(data)
        path = f"{folder}/{digest.sha256[:_DIGEST_DIGITS]}.jsonl"
        uri = self.locate(path)
        if storage.read_size_bytes(uri) != digest.size_bytes or compute_file_digest(uri) != digest:
            storage.write_bytes(uri, data)
        return StoredDocument(path, digest.sha256, digest.size_bytes, len(lines))

    def read_list(self, document: StoredDocument) -> dict[str, CopiedFile]:
        """Read a list of files, by path.

        Raises:
            DamagedBackupError: it is missing, or is not what was written.
        """
        files = (documents.load_json(CopiedFile, line) for line in self.read_lines(document))
        return {file.path: file for file in files}

    def read_lines(self, document: StoredDocument) -> Iterator[bytes]:
        """Read the lines of a document that a backup names; raises as :meth:`read_list`, before the first one."""
        uri = self.locate(document.path)
        try:
            data = storage.read_bytes(uri)
        except FileNotFoundError as problem:
            raise make_damage_error(uri, "is missing") from problem
        if compute_data_digest(data) != FileDigest(document.size_bytes, document.sha256):
            raise make_damage_error(uri, "is not what was written")
        return iter(data.splitlines())

    def read_rows(self, rows: CopiedRows) -> Iterator[dict[str, object]]:
        """Read rows of the metadata store; raises as :meth:`read_list`, before the first row of a part."""
        for part in rows.parts:
            yield from map(json.loads, self.read_lines(part))


def make_damage_error(uri: str, wrong: str) -> DamagedBackupError:
    """Make the error about a file of a backup."""
    return DamagedBackupError(
        f"The backup's file {uri} {wrong}.",
        left="Nothing was changed.",
        next=(
            "Bring it back from a copy of the backup, or choose an earlier backup with --backup. If the installation "
            "is still there: delete that file, and winnow backup create copies it once more."
        ),
    )
