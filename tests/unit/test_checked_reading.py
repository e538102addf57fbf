"""Whatever byte of a segment changes, a reader gets the records that were written or an error; never others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from winnow.errors import DamagedSegmentError
from winnow.files.checked_reading import read_segment
from winnow.files.page_checksums import check_pages, read_page_header
from winnow.files.parquet_footer import ColumnChunk, read_footer
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter
from winnow.files.thrift_structs import ThriftReader
from winnow.values.model import Segment

RECORDS, GROUPS = 240, 2
BARE_FLIPS, BODY_FLIPS = 900, 150


def record(number: int, noise: random.Random) -> dict[str, object]:
    """Gaps between offsets, tombstones, several values of a key, headers with and without."""
    return {
        "partition": 3,
        "offset": number * 2 + 5,
        "timestamp": datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(seconds=number),
        "timestampType": 0,
        "key": b"k%d" % (number % 50),
        "value": None if number % 17 == 0 else noise.randbytes(number % 60),
        "headers": [{"key": "version", "value": bytes(8)}] if number % 3 else [],
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Segment:
    """A segment of several row groups as Winnow writes it."""
    noise = random.Random(1)
    path = tmp_path_factory.mktemp("segments") / "written.parquet"
    with SegmentWriter(partition=3, segment_bytes=1 << 30, name=lambda _: str(path)) as writer:
        for group in range(GROUPS):
            numbers = range(group * RECORDS // GROUPS, (group + 1) * RECORDS // GROUPS)
            writer.write(pa.RecordBatch.from_pylist([record(n, noise) for n in numbers], schema=ARROW_SCHEMA))
            writer.flush()
        (segment,) = writer.finish()
    return segment


def records_of(segment: Segment, start: int = 0) -> pa.Table:
    """What a reader gets."""
    return pa.Table.from_batches(list(read_segment(segment, start)), ARROW_SCHEMA)


def places(segment: Segment) -> tuple[list[int], list[int]]:
    """Positions whose bytes no page checksum covers (headers of pages, the footer), and those it covers."""
    data = Path(segment.path).read_bytes()
    covered: set[int] = set()
    check_pages(segment.path)
    for chunk in list_chunks(segment):
        at = chunk.start
        while at < chunk.end:
            size_bytes, body = page_at(data, at)
            covered.update(range(body, body + size_bytes))
            at = body + size_bytes
    return sorted(set(range(len(data))) - covered), sorted(covered)


def page_at(data: bytes, at: int) -> tuple[int, int]:
    """Size and begin of the body of the page whose header begins at ``at``."""
    reader = ThriftReader(data[at:])
    size_bytes, _, _ = read_page_header(reader)
    return size_bytes, at + reader.at


def list_chunks(segment: Segment) -> list[ColumnChunk]:
    with Path(segment.path).open("rb") as file:
        return read_footer(file).list_column_chunks()


def damaged_copies(segment: Segment, folder: Path) -> Iterator[tuple[str, Segment]]:
    """The segment with one byte changed: most of them outside of pages, where no checksum helps."""
    choose = random.Random(7)
    data = Path(segment.path).read_bytes()
    bare, covered = places(segment)
    assert len(bare) > BARE_FLIPS
    assert len(covered) > BODY_FLIPS
    path = folder / "damaged.parquet"
    for place in [*choose.sample(bare, BARE_FLIPS), *choose.sample(covered, BODY_FLIPS)]:
        damaged = bytearray(data)
        damaged[place] ^= choose.choice((1, 2, 4, 8, 16, 32, 64, 128, choose.randrange(1, 256)))
        path.write_bytes(damaged)
        yield f"byte {place} is {damaged[place]} instead of {data[place]}", replace(segment, path=str(path))


def test_segment_with_any_byte_changed_is_read_as_written_or_refused(written: Segment, tmp_path: Path) -> None:
    """Headers and footer have no checksum: a page that is passed over or read as another type must be noticed, too."""
    sound = records_of(written)
    refused = 0
    for what, segment in damaged_copies(written, tmp_path):
        try:
            found = records_of(segment)
        except DamagedSegmentError:
            refused += 1
        else:
            assert found.equals(sound), what
    assert refused > BODY_FLIPS


@pytest.mark.parametrize(
    ("column", "field", "value"),
    [("offset", b"\x15\x06\x15", b"\x15\x08\x15"), ("key", b"\x15\x06\x15", b"\x15\x08\x15")],
)
def test_levels_in_another_encoding_are_refused(
    written: Segment, tmp_path: Path, column: str, field: bytes, value: bytes
) -> None:
    """A byte of a page's header makes Arrow take nulls for values and gives no error; the counts do."""
    data = bytearray(Path(written.path).read_bytes())
    chunk = next(c for c in list_chunks(written) if c.column == column)
    at = data.index(field, chunk.start)
    data[at : at + len(field)] = value
    path = tmp_path / "damaged.parquet"
    path.write_bytes(data)
    with pytest.raises(DamagedSegmentError):
        records_of(replace(written, path=str(path)))
    with pytest.raises(DamagedSegmentError):
        check_pages(str(path))


def test_statistics_that_changed_hide_no_record_from_a_reader_in_the_middle(written: Segment, tmp_path: Path) -> None:
    """No checksum covers the footer, and a highest offset that sank would make a row group look passed."""
    start = written.first_offset + 2 * (RECORDS // GROUPS) - 2
    sound = records_of(written, start)
    data = Path(written.path).read_bytes()
    highest = (start).to_bytes(8, "little")
    footer = len(data) - 8 - pq.read_metadata(written.path).serialized_size
    places = [at for at in range(footer, len(data)) if data.startswith(highest, at)]
    assert places
    for at in places:
        path = tmp_path / "damaged.parquet"
        path.write_bytes(data[:at] + (start - 40).to_bytes(8, "little") + data[at + 8 :])
        assert records_of(replace(written, path=str(path)), start).equals(sound)


@pytest.mark.parametrize(
    "entry",
    [
        {"records": RECORDS - 1},
        {"first_offset": 7},
        {"last_offset": 1_000_000},
        {"tombstones": 3},
        {"keyless": 1},
        {"partition": 4},
        {"min_timestamp_ms": 0},
    ],
)
def test_segment_that_is_sound_but_another_than_its_manifest_entry_is_refused(
    written: Segment, entry: dict[str, int]
) -> None:
    with pytest.raises(DamagedSegmentError):
        records_of(replace(written, **entry))  # type: ignore[arg-type]
