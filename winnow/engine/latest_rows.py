"""How the side table of the latest state holds the log's records: as they are, or as rows of typed columns.

Typed rows have no key of their own that could be compared: what is the row of a key is told by its offset, from the
log that the table reflects.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.engine.key_changes import LogExtent
from winnow.engine.task_resources import TaskBudget, open_connection
from winnow.engine.winners import build_scan_sql
from winnow.files import storage
from winnow.files.duckdb_connection import fetch_one_row, quote_file_list
from winnow.files.page_checksums import check_local_pages
from winnow.files.placed_files import PlacedFileWriter, PlaceValues, RowPlacement
from winnow.files.segments import FIELD_IDS, SegmentWriter, cast_to_segment_schema
from winnow.files.typed_files import OFFSET_COLUMN, TypedFileWriter, fit_rows, read_typed_rows
from winnow.values.model import Segment

Offsets = npt.NDArray[np.int64]
SortRows = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Sorts rows of one topic partition in another order than that of offsets."""

FILE_BYTES: Final = 64 << 20
"""Size to which files of the side table are written: the smaller, the less is written again for a changed row."""


class FileWriter(Protocol):
    """Writes rows in offset order into files of one partition."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def finish(self) -> tuple[Segment, ...]:
        """Close the open file and return all."""

    def abandon(self) -> list[str]:
        """Close the open file early and return the URIs of everything written."""


@dataclass(slots=True)
class RecordForm:
    """The rows are the records. ``dropped``, ``learns``, ``sort``: as of the other form; always empty, false, None."""

    dropped: list[int] = field(default_factory=list)
    learns: bool = False
    sort: SortRows | None = None

    def group_files(self, rows: Sequence[Segment]) -> list[list[Segment]]:
        """Group the files ``rows`` by what may be in one file: all may."""
        return [list(rows)]

    def build_offsets_sql(self, rows: Sequence[Segment]) -> str:
        """Build a query for ``offset`` of the rows in the files ``rows``."""
        return f'SELECT "offset" FROM {build_scan_sql(rows)}'

    def build_rows_sql(self, rows: Sequence[Segment], before: LogExtent) -> str:
        """Build a query for ``name, key, offset`` of the rows: their file's, their record's, and their place."""
        files = quote_file_list(segment.path for segment in rows)
        return f'SELECT parse_filename(filename) AS name, key, "offset" FROM read_parquet({files}, filename = true)'

    def check_keys(self, rows: Sequence[Segment], before: LogExtent) -> None:
        """Check the local files that these two queries read.

        Raises:
            DamagedSegmentError: one is not what was written.
        """
        check_local_pages((segment.path for segment in rows), ("key", "offset"))

    def open_writer(self, partition: int, folder: str) -> FileWriter:
        """Open a writer of files below ``folder``."""
        return SegmentWriter(
            partition=partition,
            segment_bytes=FILE_BYTES,
            name=lambda _: _name_file(folder),
            below=find_root(folder),
        )

    def make_rows(self, records: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``records``, which have segments' columns, in their order."""
        return map(cast_to_segment_schema, records)


@dataclass(slots=True)
class TypedForm:
    """The rows have the columns that ``convert`` makes of records.

    ``convert``: makes rows of a batch of records in segments' schema, fewer where a record is no row; every row has the
    offset of its record, and the columns only ever grow. ``get_schema``: the columns so far, with their field ids.
    ``dropped``: the offsets of records that are no row, of the partition that is written. ``learn``: takes note of what
    columns a batch needs; where it is given, nothing is made of records but that. ``placement``: which rows may be in
    one file; None: all of a topic partition. ``sort``: None: files are in offset order.
    """

    convert: Callable[[pa.RecordBatch], pa.RecordBatch]
    get_schema: Callable[[], pa.Schema]
    dropped: list[int] = field(default_factory=list)
    learn: Callable[[pa.RecordBatch], None] | None = None
    placement: RowPlacement | None = None
    sort: SortRows | None = None

    @property
    def learns(self) -> bool:
        """Whether no row is made."""
        return self.learn is not None

    def group_files(self, rows: Sequence[Segment]) -> list[list[Segment]]:
        """Group the files ``rows`` by what may be in one file."""
        if self.placement is None:
            return [list(rows)]
        groups: dict[PlaceValues, list[Segment]] = {}
        for segment in rows:
            groups.setdefault(self.placement.places[segment.path].values, []).append(segment)
        return list(groups.values())

    @staticmethod
    def build_offsets_sql(rows: Sequence[Segment]) -> str:
        """Build a query for ``offset`` of the rows in the files ``rows``."""
        return f'SELECT "offset" FROM {_scan_offsets(rows)}'

    def build_rows_sql(self, rows: Sequence[Segment], before: LogExtent) -> str:
        """Build a query for ``name, key, offset`` of the rows; ``before``: the log that the table reflects."""
        return (
            f'SELECT parse_filename(held.filename) AS name, log.key, log."offset" FROM {_scan_offsets(rows)} AS held '
            f'JOIN {build_scan_sql(before.list_readable())} AS log USING ("offset") WHERE {before.condition}'
        )

    def check_keys(self, rows: Sequence[Segment], before: LogExtent) -> None:
        """Check the local files that these two queries read.

        Raises:
            DamagedSegmentError: one is not what was written.
        """
        check_local_pages((segment.path for segment in rows), (OFFSET_COLUMN,))
        check_local_pages((segment.path for segment in before.list_readable()), ("key", "offset"))

    def open_writer(self, partition: int, folder: str) -> FileWriter:
        """Open a writer of files below ``folder``."""
        if self.placement is not None:
            return PlacedFileWriter(
                self.placement,
                partition=partition,
                file_bytes=FILE_BYTES,
                name=lambda: _name_file(folder),
                below=find_root(folder),
            )
        return TypedFileWriter(
            partition=partition,
            file_bytes=FILE_BYTES,
            name=lambda: _name_file(folder),
            below=find_root(folder),
        )

    def make_rows(self, records: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``records``, which have segments' columns, in their order."""
        for batch in records:
            if self.learn is not None:
                self.learn(cast_to_segment_schema(batch))
                continue
            rows = self.convert(cast_to_segment_schema(batch))
            if rows.num_rows < batch.num_rows:
                self.dropped += np.setdiff1d(
                    _read_offsets(batch, "offset"), _read_offsets(rows, OFFSET_COLUMN)
                ).tolist()
            yield rows

    def merge_rows(
        self, kept: Sequence[Segment], gone: Offsets, fresh: Iterator[pa.RecordBatch], rows_per_batch: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the files ``kept`` but those at ``gone``, sorted, and the ``fresh`` ones, all by offset.

        A file is opened when its first row may be the next, and closed behind its last.
        """
        sources = [_Source(-1, _drop_empty(fresh))]
        sources += [
            _Source(segment.first_offset, self._read_file(segment, gone, rows_per_batch))
            for segment in sorted(kept, key=lambda segment: segment.first_offset)
        ]
        waiting, at_work = sources[1:], [source for source in sources[:1] if source.advance()]
        while waiting or at_work:
            limit = min((source.last for source in at_work), default=None)
            if waiting and (limit is None or waiting[0].first <= limit):
                source = waiting.pop(0)
                if source.advance():
                    at_work.append(source)
                continue
            assert limit is not None
            parts = [part for source in at_work if (part := source.take_to(limit)).num_rows]
            at_work = [source for source in at_work if source.batch.num_rows or source.advance()]
            yield from _sort_parts(parts, self.get_schema())

    def read_files(self, kept: Sequence[Segment], gone: Offsets, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the files ``kept`` but those at ``gone``, sorted, one file after the other."""
        return chain.from_iterable(self._read_file(segment, gone, rows_per_batch) for segment in kept)

    def _read_file(self, segment: Segment, gone: Offsets, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        for batch in read_typed_rows(segment.path, self.get_schema(), rows_per_batch):
            offsets = _read_offsets(batch, OFFSET_COLUMN)
            places = np.searchsorted(gone, offsets)
            is_gone = np.append(gone, -1)[places] == offsets
            kept = batch.filter(pa.array(~is_gone)) if is_gone.any() else batch
            if kept.num_rows:
                yield kept


class _Source:
    """Sorted batches of one origin, taken up to an offset."""

    def __init__(self, first: int, batches: Iterator[pa.RecordBatch]) -> None:
        self.first = first
        self._batches = batches
        self.batch: pa.RecordBatch = None
        self._offsets: Offsets = np.empty(0, np.int64)

    @property
    def last(self) -> int:
        """The highest offset of the present batch."""
        return int(self._offsets[-1])

    def advance(self) -> bool:
        """Go on to the next batch, if there is one."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        self.batch, self._offsets = batch, _read_offsets(batch, OFFSET_COLUMN)
        return True

    def take_to(self, offset: int) -> pa.RecordBatch:
        """Take the rows up to ``offset`` out of the present batch."""
        count = int(np.searchsorted(self._offsets, offset, side="right"))
        taken = self.batch.slice(0, count)
        self.batch, self._offsets = self.batch.slice(count), self._offsets[count:]
        return taken


def _sort_parts(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Fresh rows may have brought columns since the others were read.
    table = pa.Table.from_batches([fit_rows(part, schema) for part in parts], schema)
    if len(parts) > 1:
        table = table.sort_by(OFFSET_COLUMN)
    yield from table.combine_chunks().to_batches()


def _drop_empty(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _scan_offsets(rows: Sequence[Segment]) -> str:
    """Build the scan of the column of offsets, which is found by its field id whatever else the files have."""
    files = quote_file_list(segment.path for segment in rows)
    column = f"MAP {{{FIELD_IDS['offset']}: {{name: 'offset', type: 'BIGINT', default_value: NULL}}}}"
    return f"read_parquet({files}, filename = true, schema = {column})"


def _read_offsets(batch: pa.RecordBatch, column: str) -> Offsets:
    offsets: Offsets = batch.column(column).to_numpy(zero_copy_only=True)
    return offsets


def find_root(folder: str) -> str:
    """Return the table's folder, of ``folder`` in its data folder."""
    return folder.rsplit("/", 2)[0]


def _name_file(folder: str) -> str:
    return storage.join(folder, f"{uuid.uuid4().hex}.parquet")


def write_rows(
    form: RecordForm | TypedForm, partition: int, folder: str, *runs: Iterable[pa.RecordBatch]
) -> tuple[Segment, ...]:
    """Write ``runs``, each in offset order or to be sorted, into files below ``folder``, no two runs into one file.

    The files are complete, but not synced yet. On an exception what was written is deleted again.
    """
    written: list[Segment] = []
    for rows in runs:
        writer = form.open_writer(partition, folder)
        try:
            for batch in rows if form.sort is None else form.sort(rows):
                writer.write(batch)
            written += writer.finish()
        except BaseException:
            uris = [*(segment.path for segment in written), *writer.abandon()]
            storage.delete_unreferenced(uris, below=find_root(folder))
            raise
    return tuple(written)


def count_rows_without_record(rows: Sequence[Segment], log: LogExtent, budget: TaskBudget) -> int:
    """Count the rows of a partition's files of typed columns whose record is not in ``log``, or a tombstone there.

    Raises:
        DamagedSegmentError: a file on a local disk is not what was written.
        duckdb.Error, OSError: a file cannot be read.
    """
    readable = log.list_readable()
    check_local_pages((segment.path for segment in rows), (OFFSET_COLUMN,))
    check_local_pages((segment.path for segment in readable), ("offset", "value"))
    query = f"SELECT count(*) FROM ({TypedForm.build_offsets_sql(rows)}) AS held"
    if readable:
        values = f"{build_scan_sql(readable)} WHERE {log.condition} AND value IS NOT NULL"
        query += f' ANTI JOIN (SELECT "offset" FROM {values}) AS log USING ("offset")'
    with open_connection(budget, [*rows, *readable]) as connection:
        row = fetch_one_row(connection, query)
    assert row is not None
    return int(row[0])
