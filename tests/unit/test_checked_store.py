"""DuckDB over an object store gets the bytes it asked for, however many threads ask, and none that changed."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from pathlib import Path
from urllib.parse import urlparse

import duckdb
import pyarrow as pa
import pytest
from pyarrow import fs

from winnow.files import duckdb_connection, storage
from winnow.files.checked_filesystem import CheckedFileSystem
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter

GROUPS, GROUP_RECORDS, VALUE_BYTES = 10, 1_500, 1_200
TIMES = 12


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many row groups of values that do not compress."""
    noise = random.Random(3)
    path = tmp_path_factory.mktemp("store") / "segment.parquet"
    with SegmentWriter(partition=0, segment_bytes=1 << 30, name=lambda _: str(path)) as writer:
        for group in range(GROUPS):
            rows = [
                {
                    "partition": 0,
                    "offset": group * GROUP_RECORDS + number,
                    "timestampType": 0,
                    "key": b"key-%d" % noise.randrange(1_000),
                    "value": noise.randbytes(VALUE_BYTES),
                }
                for number in range(GROUP_RECORDS)
            ]
            writer.write(pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA))
            writer.flush()
        writer.finish()
    return path


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> str:
    """A scheme that is no local one, behind which files of this machine are."""
    genuine = storage.open_filesystem

    def filesystem_for(uri: str) -> tuple[fs.FileSystem, str]:
        return (fs.LocalFileSystem(), urlparse(uri).path) if uri.startswith("lake://") else genuine(uri)

    monkeypatch.setattr(storage, "open_filesystem", filesystem_for)
    return "lake://"


def values_of(uri: str, spill: Path, threads: int) -> tuple[int, int]:
    """How many records a scan passes, and a number that follows from all their bytes."""
    connection = duckdb_connection.connect(
        memory_limit_bytes=1 << 29, threads=threads, spill_folder=str(spill), uris=[uri]
    )
    try:
        row = duckdb_connection.fetch_one_row(
            connection,
            f"SELECT count(*), bit_xor(hash(key, value)) FROM read_parquet({duckdb_connection.quote_file_list([uri])}) "
            f'WHERE "offset" < {GROUPS * GROUP_RECORDS - 5}',
        )
    finally:
        connection.close()
    assert row is not None
    return int(row[0]), int(row[1])


def test_threads_that_read_ahead_do_not_get_the_bytes_of_one_another(segment: Path, store: str, tmp_path: Path) -> None:
    """They share a file object; with one position for all of them, pages of another place are decoded, or fail to."""
    wanted = values_of(str(segment), tmp_path, 1)
    for number in range(TIMES):
        assert values_of(f"{store}{segment}", tmp_path, 1 + number % 4) == wanted


def test_each_thread_reads_from_where_it_has_sought(segment: Path) -> None:
    """Another thread seeks between the two calls that a read is made of."""
    content = segment.read_bytes()
    with closing(CheckedFileSystem(fs.LocalFileSystem()).open(str(segment))) as file:
        file.seek(4)
        other = threading.Thread(target=file.seek, args=(1_000,))
        other.start()
        other.join()
        assert file.read(16) == content[4:20]


def test_byte_that_changed_in_a_column_that_is_read_ends_the_query(segment: Path, store: str, tmp_path: Path) -> None:
    """DuckDB by itself compares no checksum; the same query over a local file gives a result."""
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(data)
    with pytest.raises(duckdb.Error, match=r"DamagedSegmentError: segment .* cannot be decoded"):
        values_of(f"{store}{damaged}", tmp_path, 2)
