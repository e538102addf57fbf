"""Reads segments and staged files in bounded batches, with page checksums verified.

Deliberately independent of the rewrite, which reads with DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import BadInputError, ServiceError
from winnow.files import object_store, storage
from winnow.files.segments import ARROW_SCHEMA, FileFigures, Offsets, read_offsets
from winnow.values.model import Segment

BATCH_ROWS = 131_072

BATCH_BYTES = 32 << 20
"""Target of decoded bytes per batch, by the row group's average record."""

_PROBE_BYTES = 8 << 20


def read_batches(
    uri: str,
    columns: Sequence[str] | None = None,
    *,
    max_rows: int = BATCH_ROWS,
    threads: int = 1,
    schema: pa.Schema = ARROW_SCHEMA,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment (or a file of another ``schema``) in file order; ``columns`` None reads all.

    Raises:
        BadInputError: the file is missing, truncated or damaged, or lacks columns.
        ServiceError: the object store cannot be reached.
    """
    wanted = list(schema.names if columns is None else columns)
    try:
        filesystem, path = storage.open_filesystem(uri)
        with filesystem.open_input_file(path) as stream:
            source = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
            _check_columns(source.schema_arrow, wanted, schema)
            rows = _compute_batch_rows(source.metadata, max_rows)
            for batch in source.iter_batches(rows, columns=wanted, use_threads=threads > 1):
                yield batch.select(wanted)
    except pa.ArrowMemoryError:
        raise
    except FileNotFoundError as problem:
        raise BadInputError("The segment file is missing.") from problem
    except pa.ArrowException as problem:
        raise BadInputError("The segment file cannot be decoded.") from problem
    except OSError as problem:
        # The store's own errors say nothing about the file, also if it gives the bytes a moment later.
        if object_store.is_store_error(problem):
            raise make_unreachable_error(uri, problem) from problem
        # Arrow reports damaged pages as OSError too: reading the plain bytes tells a bad file from a bad store.
        check_readable(uri)
        raise BadInputError("The segment file cannot be decoded.") from problem


def read_readable_batches(
    segments: Iterable[Segment], columns: Sequence[str], threads: int, unreadable: set[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of ``segments``; paths of unreadable ones are added to ``unreadable``."""
    for segment in segments:
        try:
            for batch in read_batches(segment.path, columns, threads=threads):
                read_offsets(batch)
                yield batch
        except BadInputError:
            unreadable.add(segment.path)


def check_readable(uri: str) -> None:
    """Read every byte of ``uri`` and discard it.

    Raises:
        BadInputError: the file is missing.
        ServiceError: the bytes cannot be read.
    """
    try:
        filesystem, path = storage.open_filesystem(uri)
        with filesystem.open_input_stream(path) as stream:
            while stream.read(_PROBE_BYTES):
                continue
    except FileNotFoundError as problem:
        raise BadInputError("The segment file is missing.") from problem
    except OSError as problem:
        raise make_unreachable_error(uri, problem) from problem


def read_size_bytes(uri: str) -> int | None:
    """Return the size of the file, None when it is missing.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    try:
        return storage.read_size_bytes(uri)
    except OSError as problem:
        raise make_unreachable_error(uri, problem) from problem


def make_unreachable_error(uri: str, problem: OSError) -> ServiceError:
    """Make the error for an object store that does not answer."""
    return ServiceError(
        f"The object store does not give {uri} ({problem}).",
        left="Nothing was judged or published.",
        next="Check its endpoint and credentials, then validate again.",
    )


def _check_columns(found: pa.Schema, wanted: Sequence[str], schema: pa.Schema) -> None:
    for name in wanted:
        expected = schema.field(name).type
        if name not in found.names or not found.field(name).type.equals(expected):
            raise BadInputError(f"The segment file has no column {name} of type {expected}.")


def _compute_batch_rows(metadata: pq.FileMetaData, max_rows: int) -> int:
    heaviest = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        heaviest = max(heaviest, group.total_byte_size // max(1, group.num_rows))
    return int(max(1, min(max_rows, BATCH_BYTES // heaviest)))


@dataclass(slots=True)
class StagedFigures:
    """Figures of the staged files of one partition."""

    unreadable_files: int = 0
    mismatched_files: int = 0
    wrong_partition: int = 0
    order_violations: int = 0
    bytes_read: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Lowest and highest offset of each file that has records."""

    def add(self, other: StagedFigures) -> None:
        """Add the figures of more files."""
        self.unreadable_files += other.unreadable_files
        self.mismatched_files += other.mismatched_files
        self.wrong_partition += other.wrong_partition
        self.order_violations += other.order_violations
        self.bytes_read += other.bytes_read
        self.spans += other.spans


def read_staged_files(
    segments: Iterable[Segment],
    partition: int,
    *,
    threads: int,
    each: Callable[[Segment, pa.RecordBatch, Offsets], None],
) -> StagedFigures:
    """Read every staged file to its end, calling ``each`` with every batch.

    A file that is missing, damaged or different from its manifest entry is counted; nothing is raised.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    found = StagedFigures()
    for segment in segments:
        figures = FileFigures()
        try:
            for batch in read_batches(segment.path, threads=threads):
                each(segment, batch, figures.add(batch, partition))
        except BadInputError:
            found.unreadable_files += 1
        else:
            size_bytes = read_size_bytes(segment.path)
            found.bytes_read += size_bytes or 0
            if size_bytes != segment.size_bytes or segment.partition != partition or not figures.agrees_with(segment):
                found.mismatched_files += 1
        found.wrong_partition += figures.wrong_partition
        found.order_violations += figures.order_violations
        if figures.lowest_offset is not None and figures.highest_offset is not None:
            found.spans.append((figures.lowest_offset, figures.highest_offset))
    return found
