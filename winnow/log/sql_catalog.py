"""PyIceberg's SQL catalog, for tables that keep many snapshots.

What a table's metadata file says never changes: every commit writes a new one, under a name nobody used before. So one
that was read, or was written by this very catalog, is not read again. The row that says which file counts is asked for
every time, and how a commit is decided is PyIceberg's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast
from uuid import UUID

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import CommitTableResponse, StagedTable, Table

from winnow.log.metadata_text import MetadataText, SnapshotsText
from winnow.log.transaction import head_alone, with_history

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

K = TypeVar("K")
V = TypeVar("V")

KEPT_FILES: Final = 8
"""So many metadata files are kept as they were parsed, and of so many tables the text: a few topics' newest."""


class LogSqlCatalog(SqlCatalog):
    """A SQL catalog whose commits cost what they change, not what the table has kept. Safe for threads."""

    _parsed: _Newest[str, TableMetadata]
    _texts: _Newest[UUID, SnapshotsText]

    @classmethod
    def over(cls, catalog: Catalog) -> Self:
        """PyIceberg's own SqlCatalog under this class; both share its database connections."""
        made = cls.__new__(cls)
        made.__dict__.update(catalog.__dict__)
        made._parsed, made._texts = _Newest(), _Newest()
        return made

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location
        metadata = self._parsed.get(location) if location else None
        if location is None or metadata is None:
            table = super()._convert_orm_to_iceberg(orm_table)
            self._parsed.keep(table.metadata_location, table.metadata)
            return table
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
        head = None if current_table is None else head_alone(current_table.metadata, updates)
        if current_table is None or head is None:
            return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        short = Table(table_identifier, head, current_table.metadata_location, current_table.io, self)
        staged = super()._update_and_stage_table(short, table_identifier, requirements, updates)
        staged.metadata = with_history(current_table.metadata, staged.metadata)
        return staged

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        text = MetadataText(metadata, self._texts.get(metadata.table_uuid))
        super()._write_metadata(cast(Any, text), io, metadata_path)
        if text.written is not None:
            self._texts.keep(metadata.table_uuid, text.written)


class _Newest(Generic[K, V]):
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

    def keep(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > KEPT_FILES:
                self._values.popitem(last=False)
