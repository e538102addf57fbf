"""Column chunks and bounds by the footer are those that Arrow tells; no footer, whatever it says, ends the process."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from winnow.errors import BadInputError, WinnowError
from winnow.files.checked_reading import read_segment
from winnow.files.page_checksums import check_pages
from winnow.files.parquet_footer import read_footer
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter
from winnow.log import quarantine
from winnow.sources.formats.parquet import read_footer_offsets
from winnow.values.model import Segment


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 2_500])
def test_chunks_and_bounds_are_those_that_arrow_tells(rows: int, *, statistics: bool) -> None:
    choose = random.Random(rows)
    table = pa.table(
        {
            "offset": pa.array(sorted(choose.randrange(-(1 << 62), 1 << 62) for _ in range(rows)), pa.int64()),
            "partition": pa.array([n % 3 for n in range(rows)], pa.int32()),
            "holes": pa.array([n if n % 5 else None for n in range(rows)], pa.int64()),
            "key": pa.array([b"k%d" % n for n in range(rows)], pa.binary()),
            "headers": pa.array([[{"key": "a", "value": b"b"}] * (n % 3) for n in range(rows)], HEADERS),
        }
    )
    written = io.BytesIO()
    pq.write_table(table, written, row_group_size=1_000, write_statistics=statistics)
    metadata = pq.read_metadata(written)
    groups = read_footer(written).groups
    assert len(groups) == metadata.num_row_groups
    for number, group in enumerate(groups):
        told_group = metadata.row_group(number)
        assert (group.rows, group.decoded_bytes) == (told_group.num_rows, told_group.total_byte_size)
        assert len(group.chunks) == metadata.num_columns
        for place, chunk in enumerate(group.chunks):
            told = told_group.column(place)
            begin = told.dictionary_page_offset or told.data_page_offset
            assert (chunk.path, chunk.start, chunk.size_bytes, chunk.values) == (
                *(told.path_in_schema, begin),
                *(told.total_compressed_size, told.num_values),
            )
            numbers = told.statistics is not None and told.statistics.has_min_max and "INT" in told.physical_type
            assert chunk.bounds == ((told.statistics.min, told.statistics.max) if numbers else None)
            assert chunk.nulls == (told.statistics.null_count if told.statistics is not None else None)


ENDS_WITHIN_S = 120
"""A process that a library ends may hang in its threads instead."""
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"\x19" * 500 + b"\xf4\1\0\0PAR1"])
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    with pytest.raises(BadInputError):
        read_footer(io.BytesIO(content))


def test_footer_that_is_longer_than_the_first_read_is_read_whole() -> None:
    written = io.BytesIO()
    pq.write_table(pa.table({f"column-{n}" * 20: [n] for n in range(400)}), written)
    (group,) = read_footer(written).groups
    assert [chunk.bounds for chunk in group.chunks] == [(n, n) for n in range(400)]


def test_threads_that_share_a_file_of_arrow_read_its_footer_at_once(tmp_path: Path) -> None:
    """DuckDB's threads do, and read the file's columns meanwhile: the file has one position for all."""
    path = tmp_path / "shared.parquet"
    pq.write_table(pa.table({f"column-{n}" * 20: [n] for n in range(400)}), path)
    with fs.LocalFileSystem().open_input_file(str(path)) as file, ThreadPoolExecutor(4) as threads:
        file.seek(17)
        footers = list(threads.map(lambda _: read_footer(file).groups, range(60)))
        assert file.tell() == 17
    assert all(groups == footers[0] for groups in footers)


def test_a_changed_byte_of_a_footer_never_ends_the_process(tmp_path: Path) -> None:
    """Arrow's own description of a column chunk does at one of 90: nothing catches an exception of its library."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.test_parquet_footer", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    refused, read = map(int, done.stdout.split())
    assert refused > read > 0


def make_row(number: int) -> dict[str, object]:
    return {
        "partition": 0,
        "offset": number,
        "timestamp": 1_760_000_000_000_000 + number,
        "timestampType": 0,
        "key": b"key-%d" % (number % 9),
        "value": b"value" * number if number % 7 else None,
        "headers": [{"key": "trace", "value": b"x"}] * (number % 3),
    }


def read_all_ways(folder: Path) -> None:
    """Print how many of the files with a changed byte were refused by some reader, and how many by none."""
    path = folder / "segment.parquet"
    with SegmentWriter(partition=0, segment_bytes=1 << 30, name=lambda _: str(path)) as writer:
        rows = [make_row(n) for n in range(40)]
        writer.write(pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA))
        (segment,) = writer.finish()
    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    choose = random.Random(11)
    refused = flips = 0
    for place in range(begin, len(data)):
        for bit in {0, choose.randrange(8)}:
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            refused += is_refused(path, segment)
            flips += 1
    print(refused, flips - refused)


def is_refused(path: Path, segment: Segment) -> bool:
    """Whether one of the ways of reading refuses the file; all are tried."""
    failures = 0
    for read in (
        lambda: check_pages(str(path)),
        lambda: list(read_segment(segment)),
        lambda: read_footer_offsets(str(path), None, 1),
        lambda: list(quarantine._read_rows("orders", str(path), pc.field("offset") > 5)),
    ):
        try:
            read()
        except WinnowError:
            failures += 1
    return failures > 0


if __name__ == "__main__":
    read_all_ways(Path(sys.argv[1]))
