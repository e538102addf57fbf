"""A segment is what was written, page by page; whatever bit of a page flips is noticed without decoding anything."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from winnow.errors import DamagedSegmentError
from winnow.files.page_checksums import check_pages

FLIPS = 40


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Values that nothing compresses and keys that have a dictionary, in several row groups of several pages."""
    noise = random.Random(7)
    rows = pa.table({
        "key": [b"key-%d" % (n % 9) for n in range(3_000)],
        "value": [noise.randbytes(100) if n % 7 else None for n in range(3_000)],
        "offset": list(range(3_000)),
    })  # fmt: skip
    path = tmp_path / "segment.parquet"
    pq.write_table(rows, path, compression="zstd", row_group_size=1_000, data_page_size=8_192, write_page_checksum=True)
    return path


def pages_of(path: Path) -> list[tuple[int, int]]:
    """Where the chunks of all columns are."""
    metadata = pq.read_metadata(path)
    columns = [
        metadata.row_group(group).column(number)
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
    ]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    return [(start, start + column.total_compressed_size) for start, column in zip(starts, columns, strict=True)]


def test_sound_segment_passes_and_every_byte_of_its_pages_is_told(segment: Path) -> None:
    told: list[int] = []
    check_pages(segment.as_uri(), told.append)
    assert sum(told) == sum(end - start for start, end in pages_of(segment))


@pytest.mark.parametrize("seed", range(FLIPS))
def test_bit_that_flips_in_the_second_half_of_a_chunk_is_noticed(segment: Path, seed: int) -> None:
    """There the bytes are those of pages; in a page's header a flip may touch what nobody reads."""
    choose = random.Random(seed)
    start, end = choose.choice(pages_of(segment))
    damaged = bytearray(segment.read_bytes())
    place = end - 1 - choose.randrange(min(40, (end - start) // 2))
    damaged[place] ^= 1 << choose.randrange(8)
    segment.write_bytes(damaged)
    with pytest.raises(DamagedSegmentError, match=r"segment\.parquet cannot be decoded: a page is not the one"):
        check_pages(segment.as_uri())


def test_segment_that_is_cut_off_is_damaged(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:5_000])
    with pytest.raises(DamagedSegmentError):
        check_pages(segment.as_uri())


def test_segment_without_checksums_passes(segment: Path) -> None:
    """Files that other writers left have none, and nothing can be said of them."""
    pq.write_table(pq.read_table(segment), segment, write_page_checksum=False)
    check_pages(segment.as_uri())


def test_missing_segment_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_pages((tmp_path / "gone.parquet").as_uri())
