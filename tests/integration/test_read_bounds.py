"""Reading takes from a log what is asked for and holds a bounded part of it, however large it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.world import TOPIC, World, build_versions, open_world
from winnow.errors import DamagedSegmentError
from winnow.files import parquet_writer, storage
from winnow.files.checked_reading import BATCH_BYTES
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.read.records import read_batches

PEAK = """
import re, sys
from pathlib import Path
from winnow.cli import app
from winnow.cli.options import open_for_command
def peak_kib():  # of this program alone, which getrusage does not tell
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
with open_for_command() as installation:
    installation.log.open("orders").head()
before = peak_kib()
try:
    app(["read", "orders"])
finally:
    print((peak_kib() - before) >> 10, file=sys.stderr)
"""
"""Says by how many MiB the peak of a process grew while it read everything."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One partition in one segment of several row groups."""
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_BYTES", 1 << 18)
    with open_world(tmp_path) as opened:
        opened.create(1)
        opened.ingest(build_versions(0, 30_000))
        yield opened


def damage(world: World, group: int) -> None:
    """Overwrite the records of one row group; the footer stays as it is."""
    path = storage.parse_local_path(world.segments()[0].path)
    found = pq.ParquetFile(path).metadata.row_group(group)
    chunks = [found.column(index) for index in range(found.num_columns)]
    start = min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
    size = sum(chunk.total_compressed_size for chunk in chunks)
    data = path.read_bytes()
    path.write_bytes(data[:start] + b"\xff" * size + data[start + size :])


def test_row_groups_below_the_offset_asked_for_are_not_read(world: World) -> None:
    """The first one is damaged, which only a reader from the beginning notices."""
    damage(world, 0)
    found = [
        n
        for batch in read_batches(world.installation, TOPIC, from_offset=25_000)
        for n in batch.column("offset").to_pylist()
    ]
    assert found == list(range(25_000, 30_000))
    with pytest.raises(DamagedSegmentError):
        list(read_batches(world.installation, TOPIC))


def test_limit_decodes_no_more_records_than_it_gives(world: World) -> None:
    """Neither the next row group nor a batch more."""
    damage(world, 1)
    (batch,) = read_batches(world.installation, TOPIC, limit=3)
    assert batch.column("offset").to_pylist() == [0, 1, 2]
    # The batch as it was decoded, of which a limit above it would be a slice.
    assert batch.get_total_buffer_size() < 10_000
    with pytest.raises(DamagedSegmentError):
        list(read_batches(world.installation, TOPIC))


def test_first_record_is_out_before_the_next_row_group_is_read(world: World) -> None:
    """What follows may even be damaged."""
    damage(world, 1)
    first = next(read_batches(world.installation, TOPIC))
    assert first.column("offset")[0].as_py() == 0


def test_large_records_come_in_batches_bounded_by_bytes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading 256 MiB of one-megabyte values in two row groups takes less than 160 MiB at its peak."""
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_BYTES", 128 << 20)
    values, size = 256, 1 << 20
    path = tmp_path / "large.parquet"
    rows = {
        "partition": pa.array([0] * values, pa.int32()),
        "offset": pa.array(range(30_000, 30_000 + values), pa.int64()),
        "key": [b"k"] * values,
        "value": pa.array([bytes([n]) * size for n in range(values)], pa.binary()),
    }
    pq.write_table(pa.table(rows), path, compression="zstd", row_group_size=32)
    ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock())
    batches = read_batches(world.installation, TOPIC, from_offset=30_000)
    assert max(batch.nbytes for batch in batches) <= BATCH_BYTES + size
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PEAK],
        env={**os.environ, "WINNOW_HOME": str(world.installation.settings.home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    assert int(done.stderr.split()[-1]) < 160
