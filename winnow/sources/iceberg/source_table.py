"""Opens Iceberg tables of other programs, finds what was added to them, and reads their data files in bounded batches.

Only appended data files are records that arrived. What replaces files without changing rows (a rewrite, a compaction)
adds nothing; what removes or changes rows is refused, since a log cannot follow it.

The only module beside :mod:`winnow.log` that imports PyIceberg: a foreign table is a source of records, and
:mod:`winnow.log` knows Winnow's own tables only. PyIceberg's scan holds all rows of a data file in memory; here its
projection by field ids is applied to the batches of :mod:`winnow.sources.formats.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ResolveError
from pyiceberg.io.pyarrow import _get_column_projection_values, _to_requested_schema, pyarrow_to_schema
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.config import Config

from winnow.errors import BadInputError, ServiceError, UsageError, WinnowError
from winnow.files import object_store
from winnow.sources.formats.parquet import read_stream_batches, read_stream_schema
from winnow.sources.input_errors import NOTHING_INGESTED, make_file_error

if TYPE_CHECKING:
    from pyiceberg.table import Table

_LAST_VERSION_WITHOUT_NANOSECONDS = 2
_INTEGER_BYTES = 4
_NEW_TABLE_ADVICE = (
    "Write what the topic is to hold to a new table with Spark (CREATE TABLE ... AS SELECT), and ingest that one."
)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of a table, as its manifest tells."""

    uri: str
    size_bytes: int
    records: int
    entry: DataFile


class SourceTable:
    """A table at one moment: what is committed to it later is not seen.

    ``name``: as the user gave it. ``columns``: the top ones, with the members of those that are structs.
    """

    def __init__(self, name: str, table: Table) -> None:
        metadata = table.metadata
        self.name = name
        self.uuid = str(metadata.table_uuid)
        self.location = table.location().rstrip("/")
        self.metadata_location = table.metadata_location
        self.snapshot_id = metadata.current_snapshot_id
        self._table = table
        self._schema = metadata.schema()
        self._lacks_nanoseconds = metadata.format_version <= _LAST_VERSION_WITHOUT_NANOSECONDS
        self.columns = {field.name: _list_members(field) for field in self._schema.fields}

    def list_added_files(self, after: int | None = None) -> list[TableFile]:
        """List the data files that were appended after the snapshot ``after``; None: all that are live.

        Raises:
            BadInputError: rows were removed or changed, or what happened since ``after`` is not known.
            ServiceError: the table's storage cannot be reached.
        """
        current = self._table.current_snapshot()
        if current is None or current.snapshot_id == after:
            if current is None and after is not None:
                raise self._make_position_error(after)
            return []
        history = self._list_history(current, after)
        for snapshot in history:
            self._check_snapshot(snapshot, is_first=after is None)
        with self._translate_errors():
            if any(
                manifest.content == ManifestContent.DELETES
                and (manifest.existing_files_count != 0 or manifest.added_files_count != 0)
                for manifest in current.manifests(self._table.io)
            ):
                raise BadInputError(
                    f"Table {self.name} has delete files: rows were deleted from it, or updated.",
                    left=NOTHING_INGESTED,
                    next=f"A log cannot take records back. {_NEW_TABLE_ADVICE}",
                )
            scan = (
                self._table.scan(snapshot_id=current.snapshot_id)
                if after is None
                else self._table.incremental_append_scan(
                    from_snapshot_id_exclusive=after, to_snapshot_id_inclusive=current.snapshot_id
                )
            )
            entries = [task.file for task in scan.plan_files()]
        return [TableFile(e.file_path, e.file_size_in_bytes, e.record_count, e) for e in entries]

    def read(self, file: TableFile, columns: Sequence[str], batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a data file with ``columns``, found by field id; one that the file lacks is null.

        Raises:
            BadInputError: it is not Parquet, damaged, or has not the rows that its manifest tells.
            ServiceError: the table's storage cannot be reached.
        """
        if file.entry.file_format != FileFormat.PARQUET:
            raise make_file_error(
                file.uri,
                f"this data file of table {self.name} is {file.entry.file_format.value}",
                "only Parquet is read: rewrite the table's files with write.format.default=parquet",
            )
        wanted = Schema(*[field for field in self._schema.fields if field.name in columns])
        missing = file.records
        with self._open(file) as stream:
            stored = self._find_stored_schema(file, stream, wanted)
            absent = _get_column_projection_values(
                file.entry,
                wanted,
                self._schema,
                self._table.specs().get(file.entry.spec_id),
                stored.field_ids,
            )
            names = [field.name for field in stored.fields]
            for batch in read_stream_batches(file.uri, stream, batch_bytes, names):
                missing -= batch.num_rows
                with _translate_schema_errors(file.uri):
                    yield _to_requested_schema(
                        wanted,
                        stored,
                        batch,
                        downcast_ns_timestamp_to_us=self._lacks_nanoseconds,
                        projected_missing_fields=absent,
                        allow_timestamp_tz_mismatch=True,
                    )
        if missing:
            raise make_file_error(
                file.uri, "it has another number of rows than its manifest tells", "restore the table's files"
            )

    def find_extent(self, file: TableFile, path: Sequence[str]) -> tuple[int | None, int | None]:
        """Return bounds of a column of integers, or of timestamps in milliseconds, in ``file``; None if not known."""
        return self._read_bound(file.entry.lower_bounds, path), self._read_bound(file.entry.upper_bounds, path)

    def count_nulls(self, file: TableFile, path: Sequence[str]) -> int | None:
        """Return the number of null values of a column in ``file``; None if it is not known."""
        return (file.entry.null_value_counts or {}).get(self._schema.find_field(".".join(path)).field_id)

    def _read_bound(self, bounds: Mapping[int, bytes] | None, path: Sequence[str]) -> int | None:
        field = self._schema.find_field(".".join(path))
        found = (bounds or {}).get(field.field_id)
        if found is None:
            return None
        if isinstance(field.field_type, IntegerType | LongType):
            # A column that was widened since has bounds of the narrower type.
            return int(from_bytes(IntegerType() if len(found) == _INTEGER_BYTES else LongType(), found))
        if isinstance(field.field_type, TimestampType | TimestamptzType):
            return int(from_bytes(LongType(), found)) // 1000
        return None

    def _list_history(self, current: Snapshot, after: int | None) -> list[Snapshot]:
        """List the snapshots from ``current`` back to the one after ``after``, or as far as they are known."""
        known = {each.snapshot_id: each for each in self._table.metadata.snapshots}
        found: list[Snapshot] = []
        snapshot: Snapshot | None = current
        while snapshot is not None and snapshot.snapshot_id != after:
            found.append(snapshot)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else known.get(parent)
        if after is not None and snapshot is None:
            raise self._make_position_error(after)
        return found

    def _make_position_error(self, after: int) -> BadInputError:
        return BadInputError(
            f"Table {self.name} was ingested up to its snapshot {after}, which is no longer in the history of its "
            "newest one: it was expired, or the table was rolled back or replaced.",
            left=f"What was added since is not known. {NOTHING_INGESTED}",
            next="Ingest more often than snapshots expire. To begin anew: ingest the table into a new topic.",
        )

    def _check_snapshot(self, snapshot: Snapshot, *, is_first: bool) -> None:
        summary = snapshot.summary
        operation = None if summary is None else summary.operation
        if operation is None and is_first:
            return
        if operation == Operation.APPEND:
            return
        when = "" if is_first else " since it was ingested last"
        if operation == Operation.REPLACE and summary is not None:
            # Rewritten files hold the same rows.
            if int(summary.get("added-records") or 0) == int(summary.get("deleted-records") or 0):
                return
            done = "replaced files by such with another number of rows"
        elif operation is None:
            done = "does not say what it did"
        else:
            done = f"is of the operation {operation.value}, which removes rows or changes them"
        raise BadInputError(
            f"Snapshot {snapshot.snapshot_id} of table {self.name}{when} {done}.",
            left=NOTHING_INGESTED,
            next=f"Only appended rows are records that arrived; a log cannot take records back. {_NEW_TABLE_ADVICE}",
        )

    def _find_stored_schema(self, file: TableFile, stream: BinaryIO, wanted: Schema) -> Schema:
        """Return what the data file has of ``wanted``, under the names in the file."""
        physical = read_stream_schema(file.uri, stream).columns
        ids = {number for number in wanted.field_ids if not isinstance(wanted.find_type(number), MapType | ListType)}
        with _translate_schema_errors(file.uri):
            stored = pyarrow_to_schema(
                physical,
                self._table.name_mapping(),
                downcast_ns_timestamp_to_us=self._lacks_nanoseconds,
                format_version=self._table.metadata.format_version,
            )
            return prune_columns(stored, ids, select_full_types=False)

    @contextmanager
    def _open(self, file: TableFile) -> Iterator[BinaryIO]:
        with self._translate_errors(file.uri):
            stream = self._table.io.new_input(file.uri).open()
        with stream:
            yield cast(BinaryIO, stream)

    @contextmanager
    def _translate_errors(self, uri: str | None = None) -> Iterator[None]:
        try:
            yield
        except WinnowError:
            raise
        except FileNotFoundError:
            raise make_file_error(
                uri or self.metadata_location,
                f"a file of table {self.name} is not there",
                "if its snapshots were expired meanwhile, run it again; else restore the table's files",
            ) from None
        except Exception as problem:
            raise ServiceError(
                f"Table {self.name}: its storage cannot be read ({type(problem).__name__}).",
                left=NOTHING_INGESTED,
                next="Check the catalog's properties for it (s3.endpoint, s3.access-key-id ...), then run it again.",
            ) from problem


def open_source_table(name: str) -> SourceTable:
    """Open ``CATALOG.NAMESPACE.TABLE``, or the table at a path or URI: its folder or one of its metadata files.

    Catalogs are PyIceberg's: ``.pyiceberg.yaml``, or ``PYICEBERG_CATALOG__<NAME>__<PROPERTY>`` in the environment.

    Raises:
        UsageError: there is no such catalog or table.
        ServiceError: the catalog cannot be reached.
    """
    is_path = "/" in name or name.endswith(".metadata.json")
    try:
        return _open_path(name) if is_path else _open_name(name)
    except WinnowError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError):
        raise UsageError(
            f"There is no table {name}.",
            left=NOTHING_INGESTED,
            next="Check its name.",
        ) from None
    except FileNotFoundError:
        raise UsageError(
            f"There is no Iceberg table at {name}: it has no metadata/version-hint.text.",
            left=NOTHING_INGESTED,
            next="Name the newest of its files metadata/*.metadata.json, or CATALOG.NAMESPACE.TABLE.",
        ) from None
    except Exception as problem:
        raise ServiceError(
            f"Table {name} cannot be opened: its catalog or storage cannot be reached or understood "
            f"({type(problem).__name__}).",
            left=NOTHING_INGESTED,
            next="Check the catalog's properties, then run it again.",
        ) from problem


def _open_path(name: str) -> SourceTable:
    uri = name if "://" in name else str(Path(name).absolute())
    return SourceTable(uri, StaticTable.from_metadata(uri.rstrip("/"), object_store.add_store_properties({})))


def _open_name(name: str) -> SourceTable:
    catalog, _, table = name.partition(".")
    if "." not in table:
        raise UsageError(
            f"{ascii(name)[:80]} names no table: it is neither CATALOG.NAMESPACE.TABLE nor a path.",
            left=NOTHING_INGESTED,
        )
    configured = Config().get_catalog_config(catalog) or {}
    try:
        loaded = load_catalog(
            catalog, **object_store.add_store_properties({key: str(value) for key, value in configured.items()})
        )
    except ValueError:
        raise UsageError(
            f"There is no catalog {ascii(catalog)[:80]}.",
            left=NOTHING_INGESTED,
            next=(
                "Catalogs are PyIceberg's: write it into .pyiceberg.yaml, or set "
                f"PYICEBERG_CATALOG__{catalog.upper()}__URI."
            ),
        ) from None
    return SourceTable(name, loaded.load_table(table))


def _list_members(field: NestedField) -> tuple[str, ...]:
    kind = field.field_type
    return tuple(member.name for member in kind.fields) if isinstance(kind, StructType) else ()


@contextmanager
def _translate_schema_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError, NotImplementedError, ResolveError, pa.ArrowException):
        raise make_file_error(
            uri, "its columns cannot be matched with the table's by field ids or names", "rewrite the table's files"
        ) from None
