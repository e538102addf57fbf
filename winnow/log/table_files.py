"""Lists every file that a table's metadata lead to: what a copy of the table needs to be a table.

Nothing but the metadata says what belongs to a table: the snapshots with their manifests, the state that each
snapshot's summary names, and the receipts, ledgers and chains that the states name. Files are read through a function,
so that the same walk goes over a table where it is, and over a copy of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlparse

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from winnow.files import storage
from winnow.files.file_copies import compute_data_digest
from winnow.log.document_places import locate_copy
from winnow.log.file_checksums import make_damage_error, read_table_metadata
from winnow.log.manifests import list_live_manifests, read_live_sizes, reduce_garbage_collection
from winnow.log.state import STATE_PROPERTY, StateReference

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


class FileKind(StrEnum):
    """What a file of a table is."""

    METADATA = "metadata"
    EARLIER_METADATA = "earlier_metadata"
    MANIFEST_LIST = "manifest_list"
    MANIFEST = "manifest"
    DATA = "data"
    STATISTICS = "statistics"
    STATE = "state"
    RECEIPT = "receipt"
    LEDGER = "ledger"
    CHAIN = "chain"
    ERASURE = "erasure"
    SCHEMAS = "schemas"


DOCUMENTS: Final = frozenset(
    {FileKind.STATE, FileKind.RECEIPT, FileKind.LEDGER, FileKind.CHAIN, FileKind.ERASURE, FileKind.SCHEMAS}
)
"""Winnow's documents, of which there are copies outside of the table's folder."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that a table names: its path as it is named, and what is known of its content without opening it.

    ``copy``: of one of Winnow's documents, where its copy is.
    """

    path: str
    kind: FileKind
    size_bytes: int | None = None
    sha256: str | None = None
    copy: str | None = None


ReadFile = Callable[[str], bytes]
"""Returns the content of the file at a path as a table names it; raises FileNotFoundError."""


@dataclass(frozen=True)
class TableWalk:
    """A table's metadata file and everything that it leads to."""

    metadata: TableMetadata
    metadata_location: str
    read: ReadFile

    @property
    def location(self) -> str:
        """The table's folder."""
        return self.metadata.location.rstrip("/")

    @property
    def table_uuid(self) -> str:
        """The table's identity."""
        return str(self.metadata.table_uuid)

    @property
    def copies(self) -> str | None:
        """The folder of the copies of the table's documents, as its newest snapshot names it; None: it has none."""
        snapshot = self.metadata.current_snapshot()
        reference = None if snapshot is None else _find_state(snapshot)
        return None if reference is None else reference.copies

    def read_state(self) -> dict[str, Any] | None:
        """Read the state of the newest snapshot; None: there is none, or another program's snapshot.

        Raises:
            DamagedMetadataError: the state differs from the committed one.
            FileNotFoundError: it is gone.
        """
        snapshot = self.metadata.current_snapshot()
        reference = None if snapshot is None else _find_state(snapshot)
        return None if reference is None else self._read_document(_make_state(reference))

    def count_records(self) -> int:
        """Count the records of the newest snapshot from its manifests; raises as :meth:`read_state`."""
        snapshot = self.metadata.current_snapshot()
        if snapshot is None:
            return 0
        io = _ReadingIO(self.read)
        return sum(
            records
            for manifest in list_live_manifests(io, snapshot)
            for records, _ in read_live_sizes(io, manifest).values()
        )

    def list_files(self) -> Iterator[TableFile]:
        """List each file once, those that name others before these.

        Raises:
            DamagedMetadataError: a metadata file or a document differs from what was written.
            FileNotFoundError: one of them is gone: it is lost, or a sweep has removed it meanwhile.
        """
        seen: set[str] = set()
        with reduce_garbage_collection():
            for found in self._walk():
                if found.path not in seen:
                    seen.add(found.path)
                    yield found

    def _walk(self) -> Iterator[TableFile]:
        # First, because every commit removes the oldest one.
        for entry in self.metadata.metadata_log:
            yield TableFile(entry.metadata_file, FileKind.EARLIER_METADATA)
        yield TableFile(self.metadata_location, FileKind.METADATA)
        for statistics in (*self.metadata.statistics, *self.metadata.partition_statistics):
            yield TableFile(statistics.statistics_path, FileKind.STATISTICS, statistics.file_size_in_bytes)
        opened: set[str] = set()
        for snapshot in self.metadata.snapshots:
            yield from self._walk_snapshot(snapshot, opened)

    def _walk_snapshot(self, snapshot: Snapshot, opened: set[str]) -> Iterator[TableFile]:
        io = _ReadingIO(self.read)
        yield TableFile(snapshot.manifest_list, FileKind.MANIFEST_LIST)
        for manifest in list_live_manifests(io, snapshot):
            if manifest.manifest_path not in opened:
                opened.add(manifest.manifest_path)
                yield from _walk_manifest(io, manifest)
        reference = _find_state(snapshot)
        if reference is not None and reference.path not in opened:
            opened.add(reference.path)
            state = _make_state(reference)
            yield state
            yield from self._walk_state(self._read_document(state), reference.copies, opened)

    def _walk_state(self, state: Mapping[str, Any], copies: str | None, opened: set[str]) -> Iterator[TableFile]:
        for references, newest, kind in (
            (state["receipts"], state.get("older_receipts"), FileKind.RECEIPT),
            (state["ingests"], state.get("older_ingests"), FileKind.LEDGER),
        ):
            yield from (_make_document(each, kind, copies) for each in references)
            older = newest
            while older is not None and older["path"] not in opened:
                opened.add(older["path"])
                chain = _make_document(older, FileKind.CHAIN, copies)
                yield chain
                link = self._read_document(chain)
                yield from (_make_document(each, kind, copies) for each in link["references"])
                older = link.get("previous")
        for name, kind in (("erasures", FileKind.ERASURE), ("schemas", FileKind.SCHEMAS)):
            yield from (_make_document(each, kind, copies) for each in state.get(name, ()))

    def _read_document(self, file: TableFile) -> dict[str, Any]:
        """Read a document, or its copy where it is gone or damaged."""
        for path in (file.path, file.copy):
            data = None if path is None else _read_if_there(self.read, path)
            if data is not None and compute_data_digest(data).sha256 == file.sha256:
                document: dict[str, Any] = json.loads(data)
                return document
        self.read(file.path)  # raises if it is gone
        raise make_damage_error(file.path)


def open_table_walk(read: ReadFile, metadata_location: str) -> TableWalk:
    """Read a table's metadata file and check it.

    Raises:
        DamagedMetadataError: it is damaged.
        FileNotFoundError: it is gone.
    """
    metadata = read_table_metadata(_ReadingIO(read), metadata_location)
    return TableWalk(metadata, metadata_location, read)


def _walk_manifest(io: FileIO, manifest: ManifestFile) -> Iterator[TableFile]:
    yield TableFile(manifest.manifest_path, FileKind.MANIFEST, manifest.manifest_length)
    for path, (_, size_bytes) in read_live_sizes(io, manifest).items():
        yield TableFile(path, FileKind.DATA, size_bytes)


def _make_state(reference: StateReference) -> TableFile:
    return _make_document({"path": reference.path, "sha256": reference.sha256}, FileKind.STATE, reference.copies)


def _make_document(reference: Mapping[str, Any], kind: FileKind, copies: str | None) -> TableFile:
    path = reference["path"]
    copy = None if copies is None else locate_copy(copies, path)
    return TableFile(path, kind, sha256=reference["sha256"], copy=copy)


def _find_state(snapshot: Snapshot) -> StateReference | None:
    summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    return StateReference.from_summary("", summary) if summary.get(STATE_PROPERTY) else None


def _read_if_there(read: ReadFile, path: str) -> bytes | None:
    try:
        return read(path)
    except FileNotFoundError:
        return None


class _ReadingIO(FileIO):
    """PyIceberg's access to files, over a function that reads them."""

    def __init__(self, read: ReadFile) -> None:
        super().__init__()
        self._read = read

    def new_input(self, location: str) -> InputFile:
        """Return a file that is read whole."""
        return _WholeFile(location, self._read)

    def new_output(self, location: str) -> OutputFile:
        """Refuse: a walk only reads."""
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: a walk only reads."""
        raise NotImplementedError


class _WholeFile(InputFile):
    def __init__(self, location: str, read: ReadFile) -> None:
        super().__init__(location)
        self._read = read

    def __len__(self) -> int:
        return len(self._read(self.location))

    def exists(self) -> bool:
        """Check whether it can be read."""
        try:
            self._read(self.location)
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """Open its content."""
        return BytesIO(self._read(self.location))


def find_path_below(folder: str, path: str) -> str | None:
    """Return the part of ``path`` behind ``folder``, with its leading slash left out; None: it is not below.

    A catalog may write the same place another way (``file:/`` for ``file:///``, ``s3a`` for ``s3``).
    """
    prefix = f"{folder.rstrip('/')}/"
    if path.startswith(prefix):
        below = path[len(prefix) :]
    else:
        top, place = _split_place(prefix), _split_place(path)
        if top[0] != place[0] or not place[1].startswith(top[1]):
            return None
        below = place[1][len(top[1]) :]
        below = quote(below) if urlparse(folder).scheme == "file" else below
    return None if _leaves_folder(below) else below


def _leaves_folder(below: str) -> bool:
    return ".." in below.split("/")


def _split_place(uri: str) -> tuple[str, str]:
    if storage.is_local(uri):
        return "", str(storage.parse_local_path(uri)) + ("/" if uri.endswith("/") else "")
    scheme, _, rest = uri.partition("://")
    return {"s3a": "s3", "gcs": "gs"}.get(scheme, scheme), rest
