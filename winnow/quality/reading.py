"""Reading segment files with Arrow's Parquet reader, page checksums verified, in batches of bounded size.

The rewrite reads with DuckDB; this is deliberately other code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import BadInputError, ServiceError
from winnow.files import storage
from winnow.files.schema import ARROW_SCHEMA

BATCH_ROWS = 131_072
BATCH_BYTES = 32 << 20
"""Target of decoded bytes in one batch, by the row group's average record."""
_PROBE_BYTES = 8 << 20


def read_batches(
    uri: str,
    columns: Sequence[str] | None = None,
    *,
    max_rows: int = BATCH_ROWS,
    threads: int = 1,
    schema: pa.Schema = ARROW_SCHEMA,
) -> Iterator[pa.RecordBatch]:
    """The records of a segment (or a file of another ``schema``) in file order; ``columns`` None reads all.

    Raises:
        BadInputError: the file is missing, truncated, damaged, or has other columns than it should.
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
        # Arrow reports damaged pages as OSError too: only reading the plain bytes tells a bad file from a bad store.
        check_readable(uri)
        raise BadInputError("The segment file cannot be decoded.") from problem


def check_readable(uri: str) -> None:
    """Read every byte of ``uri`` and forget it.

    Raises:
        BadInputError: the file is missing.
        ServiceError: the bytes cannot be had.
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
    """Size of the file, None when it is not there.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    try:
        return storage.read_size_bytes(uri)
    except OSError as problem:
        raise make_unreachable_error(uri, problem) from problem


def make_unreachable_error(uri: str, problem: OSError) -> ServiceError:
    """What to raise when the store of ``uri`` does not answer."""
    return ServiceError(
        f"The object store does not give {uri} ({problem}). Nothing was judged or published. "
        "Check its endpoint and credentials, then validate again."
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
