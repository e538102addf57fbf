"""PyIceberg's SQL catalog, for tables that keep many snapshots.

What a table's metadata file says never changes: every commit writes a new one, under a name nobody used before. So one
that was read, or was written by this very catalog, is not read again. The row that says which file counts is asked for
every time, and how a commit is decided is PyIceberg's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast
from uuid import UUID

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io import load_file_io
from pyiceberg.serializers import NOOP_COMPRESSOR, Compressor, FromByteStream
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.utils.config import Config
from sqlalchemy import event

from winnow.log.file_checksums import make_checksum_name, make_damage_error, read_checked
from winnow.log.metadata_text import MetadataText, SnapshotsText
from winnow.log.transaction import keep_head_only, restore_history

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier
    from sqlalchemy import Engine

K = TypeVar("K")
V = TypeVar("V")

MAXIMUM_CACHED_FILES: Final = 8
"""So many metadata files are kept as they were parsed, and of so many tables the text: a few topics' newest."""


class LogSqlCatalog(SqlCatalog):
    """A SQL catalog whose commits cost what they change, not what the table has kept. Safe for threads."""

    _parsed: _RecentValues[str, TableMetadata]
    _texts: _RecentValues[UUID, SnapshotsText]
    _staged: _RecentValues[str, MetadataText]

    @classmethod
    def over(cls, catalog: Catalog) -> Self:
        """PyIceberg's own SqlCatalog under this class; both share its database connections."""
        made = cls.__new__(cls)
        made.__dict__.update(catalog.__dict__)
        made._parsed, made._texts, made._staged = _RecentValues(), _RecentValues(), _RecentValues()
        _sync_commits(made.engine)
        return made

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location
        metadata = self._parsed.get(location) if location else None
        if location is None:
            return super()._convert_orm_to_iceberg(orm_table)
        if metadata is None:
            metadata = _read_metadata(load_file_io(self.properties, location), location)
            self._parsed.keep(location, metadata)
        return Table(
            identifier=(*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table; as PyIceberg's."""
        response = super().commit_table(table, requirements, updates)
        self._parsed.keep(response.metadata_location, response.metadata)
        return response

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        head = None if current_table is None else keep_head_only(current_table.metadata, updates)
        if current_table is None or head is None:
            staged = super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        else:
            short = Table(table_identifier, head, current_table.metadata_location, current_table.io, self)
            staged = super()._update_and_stage_table(short, table_identifier, requirements, updates)
            staged.metadata = restore_history(current_table.metadata, staged.metadata)
        text = MetadataText(staged.metadata, self._texts.get(staged.metadata.table_uuid))
        # The name holds a checksum, so the content is made before PyIceberg tells the catalog the name.
        if Compressor.get_compressor(staged.metadata_location) is NOOP_COMPRESSOR:
            exclude_none = not Config().get_bool("legacy-current-snapshot-id")  # as PyIceberg writes it
            content = text.model_dump_json(exclude_none=exclude_none).encode()
            staged.metadata_location = make_checksum_name(staged.metadata_location, content)
            self._staged.keep(staged.metadata_location, text)
        return staged

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        text = self._staged.pop(metadata_path) or MetadataText(metadata, self._texts.get(metadata.table_uuid))
        super()._write_metadata(cast(Any, text), io, metadata_path)
        if text.written is not None:
            self._texts.keep(metadata.table_uuid, text.written)


def _sync_commits(engine: Engine) -> None:
    """Let a commit to a SQLite file survive a power cut.

    SQLite ends a transaction by removing its journal. Unless it is told, it leaves that to the kernel, and a journal
    that is there again after a power cut takes back the commit that it belonged to.
    """
    if engine.dialect.name != "sqlite" or engine.url.database in (None, "", ":memory:"):
        return

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        connection.execute("PRAGMA synchronous = EXTRA")

    engine.dispose()  # the connections so far know nothing of it


def _read_metadata(io: FileIO, location: str) -> TableMetadata:
    """The metadata in a table's metadata file, checked.

    Raises:
        DamagedMetadataError: it is damaged.
        FileNotFoundError: it is not there.
    """
    data = read_checked(io, location)
    try:
        return FromByteStream.table_metadata(
            cast(Any, BytesIO(data)), compression=Compressor.get_compressor(location=location)
        )
    except Exception as problem:  # whatever PyIceberg makes of a text that is no table's
        raise make_damage_error(location) from problem


class _RecentValues(Generic[K, V]):
    """The values that were used last, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def pop(self, key: K) -> V | None:
        with self._lock:
            return self._values.pop(key, None)

    def keep(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > MAXIMUM_CACHED_FILES:
                self._values.popitem(last=False)
