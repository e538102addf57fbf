"""Reads segments and checks every record against checksums and the manifest entry.

Arrow compares each page with the checksum in its header. No checksum covers the page headers and the footer, and a
flipped bit there can make Arrow skip pages or read a column as another type. So the schema, the number of records of
each row group, and the order and bounds of the offsets are checked too; a segment that was read in full is also
compared with its manifest entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import BadInputError, DamagedSegmentError
from winnow.files import storage
from winnow.files.duckdb_connection import open_connection, quote_file_list
from winnow.files.page_checksums import check_pages
from winnow.files.parquet_footer import Footer, RowGroup, read_footer
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.files.segments import ARROW_SCHEMA, FileFigures, cast_to_segment_schema, read_offsets
from winnow.files.storage_health import describe_machine_fault
from winnow.values.model import Segment

BATCH_ROWS = 8_192
BATCH_BYTES = 16 << 20
"""Arrow bytes per batch, roughly: large records are read in smaller batches."""
PAGES_BYTES = 1 << 20
"""Bytes read of a column at a time where only the first records are wanted, instead of the whole column chunk."""
_PROBE_MEMORY_BYTES = 256 << 20
UNREADABLE_BY_DUCKDB = "cannot be decoded: a byte of its footer or of a page header is not the one that was written"
SCRUB_BUFFER_BYTES = 4 << 20
"""Bytes read of a column at a time where whole files are read only to check them."""


def read_segment(
    segment: Segment,
    start: int = 0,
    *,
    limit: int = -1,
    buffer_bytes: int = 0,
    on_progress: Callable[[int], None] = lambda size_bytes: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``segment`` from offset ``start`` on, row group by row group, with all checks.

    Args:
        segment: the manifest entry.
        start: the first offset that is wanted.
        limit: maximum number of records to decode and return; -1: all.
        buffer_bytes: bytes read of a column at a time; 0: a whole column chunk, or :data:`PAGES_BYTES` with ``limit``.
        on_progress: called before each row group with its bytes in the file.

    Raises:
        DamagedSegmentError: the file is not what was written; the message completes "segment …".
        FileNotFoundError: the file is missing.
        OSError: the disk cannot read it.
        ServiceError: the object store does not answer.
    """
    with translate_read_errors():
        filesystem, path = storage.open_filesystem(segment.path)
        with storage.translate_store_errors(segment.path), filesystem.open_input_file(path) as stream:
            if stream.size() != segment.size_bytes:
                raise DamagedSegmentError(f"has {stream.size():,} bytes instead of {segment.size_bytes:,}")
            buffered = buffer_bytes or (PAGES_BYTES if limit >= 0 else 0)
            footer = read_footer(stream)
            metadata = footer.read_metadata()
            file = pq.ParquetFile(stream, metadata=metadata, buffer_size=buffered, page_checksum_verification=True)
            groups = _list_checked_groups(file, footer, segment)
            yield from _read_batches(file, groups, segment, start, limit, on_progress)


def read_segment_columns(segment: Segment, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of all records of ``segment``, in offset order; pages and numbers of records are checked.

    Raises:
        DamagedSegmentError, FileNotFoundError, OSError, ServiceError: as :func:`read_segment`.
    """
    with translate_read_errors():
        filesystem, path = storage.open_filesystem(segment.path)
        with storage.translate_store_errors(segment.path), filesystem.open_input_file(path) as stream:
            if stream.size() != segment.size_bytes:
                raise DamagedSegmentError(f"has {stream.size():,} bytes instead of {segment.size_bytes:,}")
            footer = read_footer(stream)
            file = pq.ParquetFile(stream, metadata=footer.read_metadata(), page_checksum_verification=True)
            for number, group in enumerate(_list_checked_groups(file, footer, segment)):
                decoded = 0
                for batch in file.iter_batches(row_groups=[number], columns=list(columns)):
                    decoded += batch.num_rows
                    yield batch
                if decoded != group.rows:
                    raise DamagedSegmentError(f"holds {decoded:,} records in a row group of {group.rows:,}")


def check_segment_offsets(segment: Segment) -> None:
    """Check size, footer and all offsets of ``segment`` against its manifest entry; no key or value is read.

    Raises:
        DamagedSegmentError, FileNotFoundError, OSError, ServiceError: as :func:`read_segment`.
    """
    last = -1
    first: int | None = None
    for batch in read_segment_columns(segment, ["offset"]):
        offsets = read_offsets(batch)
        if not len(offsets):
            continue
        first = int(offsets[0]) if first is None else first
        if offsets[0] <= last or (np.diff(offsets) <= 0).any():
            raise DamagedSegmentError("holds offsets that do not rise")
        last = int(offsets[-1])
    if (first, last) != (segment.first_offset, segment.last_offset):
        raise DamagedSegmentError("holds other offsets than its manifest entry says")


def _read_batches(
    file: pq.ParquetFile,
    groups: Sequence[RowGroup],
    segment: Segment,
    start: int,
    limit: int,
    on_progress: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    first_wanted = _find_row_group(file, groups, segment, start)
    figures = FileFigures()
    remaining = limit
    for number, group in enumerate(groups):
        if group.rows == 0 or number < first_wanted:
            continue
        on_progress(group.size_bytes)
        rows = _compute_batch_rows(group, limit if segment.first_offset >= start else -1)
        for batch in _read_group(file, number, group, rows):
            _check_batch(figures, batch, segment)
            wanted = batch
            if segment.first_offset < start:
                wanted = batch.slice(int(np.searchsorted(read_offsets(batch), start)))
            remaining -= wanted.num_rows
            if wanted.num_rows:
                yield wanted
            if remaining <= 0 <= limit:
                return  # what follows is not decoded, so nothing is known of it
    if figures.records == segment.records and not figures.agrees_with(segment):
        raise DamagedSegmentError("holds other records than its manifest entry says")


def _list_checked_groups(file: pq.ParquetFile, footer: Footer, segment: Segment) -> tuple[RowGroup, ...]:
    """Return the row groups, after checking the footer against the manifest entry."""
    # A footer in which a column has another type, or cannot be null, is read without an error.
    if not file.schema_arrow.equals(ARROW_SCHEMA):
        raise DamagedSegmentError("has other columns than a segment")
    groups = _list_row_groups(file, footer)
    records = sum(group.rows for group in groups)
    if records != segment.records or file.metadata.num_rows != records:
        raise DamagedSegmentError(f"holds {records:,} records instead of {segment.records:,}")
    return groups


def _list_row_groups(file: pq.ParquetFile, footer: Footer) -> tuple[RowGroup, ...]:
    """Return the row groups of ``file``, which has this footer, if no two columns have the same bytes."""
    footer.list_column_chunks()
    if len(footer.groups) != file.num_row_groups:
        raise BadInputError("The footer of the file is damaged.")
    return footer.groups


def _compute_batch_rows(group: RowGroup, limit: int) -> int:
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES * group.rows // max(1, group.decoded_bytes)))
    return rows if limit < 0 else max(1, min(rows, limit))


def _read_group(file: pq.ParquetFile, number: int, group: RowGroup, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of one row group and check their number: Arrow skips pages of an unknown type."""
    decoded = 0
    for batch in file.iter_batches(batch_size=rows, row_groups=[number], columns=ARROW_SCHEMA.names):
        decoded += batch.num_rows
        yield cast_to_segment_schema(batch.select(ARROW_SCHEMA.names))
    if decoded != group.rows:
        raise DamagedSegmentError(f"holds {decoded:,} records in a row group of {group.rows:,}")


def _check_batch(figures: FileFigures, batch: pa.RecordBatch, segment: Segment) -> None:
    figures.add(batch, segment.partition)
    if figures.order_violations:
        raise DamagedSegmentError("holds offsets that do not increase")
    if figures.wrong_partition:
        raise DamagedSegmentError(f"holds records of another partition than {segment.partition}")
    lowest, highest = figures.lowest_offset, figures.highest_offset
    if lowest is None or highest is None:
        return
    if lowest < segment.first_offset or highest > segment.last_offset:
        raise DamagedSegmentError(f"holds offsets outside {segment.first_offset} to {segment.last_offset}")


@contextmanager
def translate_read_errors() -> Iterator[None]:
    """Turn the errors of a reader about a changed file into a DamagedSegmentError.

    Raises:
        DamagedSegmentError: with the fault as text that completes "segment …".
    """
    try:
        yield
    except pa.ArrowMemoryError:
        raise  # says nothing about the file
    except (pa.ArrowException, UnicodeDecodeError, EOFError, BadInputError) as problem:
        raise DamagedSegmentError("cannot be decoded") from problem
    except FileNotFoundError:
        raise
    except OSError as problem:
        # Errors of the operating system have a number; one without is Arrow's about a page.
        if problem.errno is not None:
            raise
        raise DamagedSegmentError("cannot be decoded: a page is not the one that was written") from problem


def _find_row_group(file: pq.ParquetFile, groups: Sequence[RowGroup], segment: Segment, start: int) -> int:
    """Return the number of the last row group that does not begin above ``start``; earlier ones are not needed.

    Reads offsets themselves. No checksum covers the statistics in the footer, so a changed one would hide records, and
    PyArrow crashes the process on one whose length changed.
    """
    filled = [number for number, group in enumerate(groups) if group.rows]
    if start <= segment.first_offset or not filled:
        return 0
    low, high = 0, len(filled) - 1
    while low < high:
        middle = (low + high + 1) // 2
        first = next(iter(file.iter_batches(batch_size=1, row_groups=[filled[middle]], columns=["offset"])), None)
        if first is None or not first.num_rows:
            raise DamagedSegmentError("has a row group without records")
        if int(read_offsets(first)[0]) <= start:
            low = middle
        else:
            high = middle - 1
    return filled[low]


def check_before_duckdb(topic: str, segments: Iterable[Segment], columns: Collection[str], *, after: str) -> None:
    """Check the pages that DuckDB, which compares no checksums, is about to read.

    Only for segments on a local disk, where the second read is served from memory; on an object store it would be a
    second transfer, so :mod:`winnow.files.checked_filesystem` checks them there while they are read.

    Args:
        topic: the topic of the segments.
        segments: the segments about to be read.
        columns: the top-level columns that the query names.
        after: sentences for the error: what was left behind.

    Raises:
        DamagedSegmentError: naming topic partition and file.
        OSError: a file cannot be read.
    """
    for segment in segments:
        if storage.is_local(segment.path):
            try:
                check_pages(segment.path, columns=columns)
            except DamagedSegmentError as problem:
                wrong = "cannot be decoded: a page is not the one that was written"
                raise make_damage_error(topic, segment, wrong, after) from problem


def find_damaged_segment(topic: str, segments: Iterable[Segment], problem: Exception, *, after: str) -> None:
    """Find the damaged segment behind an error of DuckDB; an error of the machine is ignored.

    DuckDB passes on the error of :mod:`winnow.files.checked_filesystem` as text only, and misses a column whose name in
    a footer was damaged, which no page tells.

    Raises:
        DamagedSegmentError: naming topic partition and file.
        ServiceError: the object store does not answer.
    """
    if DamagedSegmentError.__name__ not in str(problem) and describe_machine_fault(problem) is not None:
        return
    segments = list(segments)
    for segment in segments:
        try:
            for _ in read_segment(segment, buffer_bytes=SCRUB_BUFFER_BYTES):
                continue
        except DamagedSegmentError as found:
            raise make_damage_error(topic, segment, str(found), after) from problem
    for segment in segments:
        if not is_readable_by_duckdb(segment.path):
            raise make_damage_error(topic, segment, UNREADABLE_BY_DUCKDB, after) from problem


def is_readable_by_duckdb(uri: str) -> bool:
    """Check whether DuckDB, too, reads every value of a file: it minds bytes of the footer that Arrow passes over.

    A file that Arrow reads whole and DuckDB does not is damaged where no checksum reaches. True also where the machine
    is to blame, and of an object store, whose absence DuckDB does not tell from damage.
    """
    import duckdb

    if not storage.is_local(uri):
        return True
    try:
        with open_connection(memory_limit_bytes=_PROBE_MEMORY_BYTES, spill_folder=None) as connection:
            connection.execute(f"SELECT max(hash(r)) FROM read_parquet({quote_file_list([uri])}) AS r").fetchall()
    except duckdb.Error as problem:
        return describe_machine_fault(problem) is not None
    return True


def make_damage_error(topic: str, segment: Segment, wrong: str, after: str) -> DamagedSegmentError:
    """Make the error about a segment; ``wrong`` completes "a segment …", ``after`` says what was left behind."""
    return DamagedSegmentError(
        f"A segment of {topic}-{segment.partition} {wrong}: {segment.path}.",
        left=after,
        next=(
            "Restore that file from a backup or the object store's versions. What else of the topic is damaged: "
            f"winnow scrub {topic}"
        ),
    )


def check_quarantine_file(
    uri: str, records: int, size_bytes: int, on_progress: Callable[[int], None] = lambda size_bytes: None
) -> None:
    """Read a file of quarantined records in full.

    Raises:
        DamagedSegmentError: the file is not what was written; the message completes "a file …".
        FileNotFoundError: the file is missing.
        ServiceError: the object store does not answer.
    """
    with translate_read_errors():
        filesystem, path = storage.open_filesystem(uri)
        with storage.translate_store_errors(uri), filesystem.open_input_file(path) as stream:
            if stream.size() != size_bytes:
                raise DamagedSegmentError(f"has {stream.size():,} bytes instead of {size_bytes:,}")
            footer = read_footer(stream)
            metadata = footer.read_metadata()
            file = pq.ParquetFile(
                stream, metadata=metadata, buffer_size=SCRUB_BUFFER_BYTES, page_checksum_verification=True
            )
            if file.schema_arrow.names != QUARANTINE_SCHEMA.names:
                raise DamagedSegmentError("has other columns than quarantined records")
            found = 0
            for number, group in enumerate(_list_row_groups(file, footer)):
                on_progress(group.size_bytes)
                found += sum(batch.num_rows for batch in file.iter_batches(BATCH_ROWS, row_groups=[number]))
            if found != records:
                raise DamagedSegmentError(f"holds {found:,} records instead of {records:,}")
