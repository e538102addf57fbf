"""The same records land once: whatever the format, however often, in one call or many."""

from __future__ import annotations

import gzip
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.world import TOPIC, World, build_versions, json_line, record, write_jsonl
from winnow.files.segments import ARROW_SCHEMA
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.read.records import read_batches
from winnow.values.model import Record

RECORDS = [
    record(0, b"a", b"1", headers=(("h", b"\x00"), ("h", None))),
    record(1, b"b", None),
    record(4, b"", b"", timestamp_ms=None, headers=()),
    record(5, b"a", b"2", timestamp_type=1),
]


def ingest(world: World, *paths: str, again: bool = False) -> IngestReport:
    return ingest_files(world.installation, TOPIC, list(paths), as_of_ms=world.clock(), again=again)


def parquet_file(path: Path, records: list[Record], *, with_offset: bool = True) -> str:
    """Records as the Parquet file that Spark's Kafka source would give."""
    table = pa.Table.from_pylist(
        [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp": None if each.timestamp_ms is None else each.timestamp_ms * 1000,
                "timestampType": each.timestamp_type,
                "key": each.key,
                "value": each.value,
                "headers": None if each.headers is None else [{"key": k, "value": v} for k, v in each.headers],
            }
            for each in records
        ],
        schema=ARROW_SCHEMA,
    )
    pq.write_table(table if with_offset else table.drop_columns(["offset"]), path)
    return str(path)


def test_a_file_with_offsets_ingested_twice_changes_nothing(world: World, tmp_path: Path) -> None:
    world.create(1)
    path = write_jsonl(tmp_path / "a.jsonl", RECORDS)
    first = ingest(world, path)
    before, snapshots, state = world.listing(), world.snapshot_ids(), world.head().state
    second = ingest(world, path)
    assert (first.records_appended, first.records_skipped) == (4, 0)
    assert (second.records_appended, second.records_skipped, second.snapshot_id) == (0, 4, None)
    assert (world.listing(), world.snapshot_ids(), world.head().state) == (before, snapshots, state)
    assert world.read() == RECORDS


def test_call_that_appends_nothing_leaves_nothing_for_a_sweep_to_look_for(world: World) -> None:
    world.create()
    world.ingest(RECORDS)
    world.ingest(RECORDS)
    assert world.installation.store.ingests.list_open(TOPIC) == []


def test_a_file_without_offsets_ingested_twice_changes_nothing_and_says_so(world: World, tmp_path: Path) -> None:
    world.create(1)
    path = write_jsonl(tmp_path / "a.jsonl", RECORDS, with_offset=False)
    ingest(world, path)
    before, snapshots = world.listing(), world.snapshot_ids()
    second = ingest(world, path)
    assert (second.records_appended, second.records_skipped, second.snapshot_id) == (0, 4, None)
    assert "skipped, its content was ingested before" in second.notices[0]
    assert (world.listing(), world.snapshot_ids()) == (before, snapshots)
    assert [each.offset for each in world.read()] == [0, 1, 2, 3]


@pytest.mark.parametrize("with_offset", [True, False])
def test_the_same_content_in_another_format_is_the_same_file(world: World, tmp_path: Path, with_offset: bool) -> None:
    """JSON lines, the same compressed, and Parquet: one identity."""
    world.create(1)
    plain = write_jsonl(tmp_path / "a.jsonl", RECORDS, with_offset=with_offset)
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(plain).read_bytes()))
    columns = parquet_file(tmp_path / "c.parquet", RECORDS, with_offset=with_offset)
    ingest(world, columns)
    read = world.read()
    for path in (plain, str(packed), columns):
        again = ingest(world, path)
        assert (again.records_appended, again.records_skipped, again.snapshot_id) == (0, 4, None)
    assert world.read() == read
    assert [replace(each, offset=0) for each in read] == [replace(each, offset=0) for each in RECORDS]


def test_again_appends_a_file_without_offsets_exactly_once_more(world: World, tmp_path: Path) -> None:
    world.create(1)
    path = write_jsonl(tmp_path / "a.jsonl", RECORDS, with_offset=False)
    ingest(world, path)
    assert ingest(world, path, again=True).records_appended == 4
    assert [(each.offset, each.value) for each in world.read()] == [(n, RECORDS[n % 4].value) for n in range(8)]
    assert ingest(world, path).records_appended == 0


def test_again_does_not_double_a_file_with_offsets(world: World, tmp_path: Path) -> None:
    world.create(1)
    path = write_jsonl(tmp_path / "a.jsonl", RECORDS)
    ingest(world, path)
    assert ingest(world, path, again=True).records_appended == 0
    assert world.read() == RECORDS


@pytest.mark.parametrize("with_offset", [True, False])
def test_the_same_file_twice_in_one_call_counts_once(world: World, tmp_path: Path, with_offset: bool) -> None:
    world.create(1)
    path = write_jsonl(tmp_path / "a.jsonl", RECORDS, with_offset=with_offset)
    copy = write_jsonl(tmp_path / "copy.jsonl", RECORDS, with_offset=with_offset)
    report = ingest(world, path, copy)
    assert (report.records_appended, report.records_skipped) == (4, 4)
    assert "is in this call twice" in report.notices[0]
    assert len(world.read()) == 4


def test_a_file_that_overlaps_the_log_adds_only_what_is_new(world: World) -> None:
    world.create(1)
    world.ingest(build_versions(0, 6))
    report = world.ingest(build_versions(3, 6))
    assert (report.records_appended, report.records_skipped) == (3, 3)
    assert world.read() == build_versions(0, 9)


def test_one_call_is_one_snapshot_whatever_it_holds(world: World, tmp_path: Path) -> None:
    world.create(2)
    paths = [
        write_jsonl(tmp_path / f"{partition}-{n}.jsonl", build_versions(n * 5, 5, partition=partition))
        for n in range(3)
        for partition in range(2)
    ]
    report = ingest(world, *paths)
    assert report.records_appended == 30
    assert world.snapshot_ids() == [report.snapshot_id]


def test_interleaved_partitions_are_told_apart_and_keep_their_order(world: World, tmp_path: Path) -> None:
    """Partitions alternate record by record over two files, in the second without repeating offsets."""
    world.create(5)
    records = [record(n // 5, f"k{n % 7}".encode(), str(n).encode(), partition=n * 3 % 5) for n in range(100)]
    mixed = [write_jsonl(tmp_path / "a.jsonl", records[:50]), write_jsonl(tmp_path / "b.jsonl", records[50:])]
    report = ingest(world, *mixed)
    assert report.records_appended == 100
    assert world.read() == sorted(records, key=lambda each: (each.partition, each.offset))
    assert [(p.partition, p.first_offset, p.log_end_offset, p.records_appended) for p in report.partitions] == [
        (partition, 0, 20, 20) for partition in range(5)
    ]


def test_the_log_starts_at_the_first_offset_of_the_first_append(world: World) -> None:
    world.create(2)
    world.ingest(build_versions(70, 3))
    world.ingest(build_versions(90, 2))
    assert (world.state(0).log_start_offset, world.state(0).log_end_offset) == (70, 92)
    assert (world.state(1).log_start_offset, world.state(1).log_end_offset) == (0, 0)
    assert [each.offset for each in world.read(from_offset=73)] == [90, 91]


def test_segment_bytes_rolls_several_segments_in_one_call(world: World) -> None:
    """Each of the segments is closed near its size, offset ranges are disjoint, and nothing is lost between them."""
    world.create(1, segment_bytes="50000")
    noise = [bytes((n * 31 + i * i) % 251 for i in range(40)) * 2 for n in range(256)]
    records = [record(n, str(n).encode(), noise[n % 256] + str(n * 7919).encode()) for n in range(40_000)]
    world.ingest(records)
    segments = world.segments()
    assert len(segments) > 2
    assert all(a.last_offset + 1 == b.first_offset for a, b in pairwise(segments))
    assert sum(segment.records for segment in segments) == len(records)
    assert sum(batch.num_rows for batch in read_batches(world.installation, TOPIC)) == len(records)


def test_what_was_read_makes_the_same_log_elsewhere_and_changes_nothing_here(world: World, tmp_path: Path) -> None:
    world.create(1, min_cleanable_dirty_ratio="0")
    world.ingest(RECORDS)
    world.ingest(build_versions(10, 9))
    world.compact()
    exported = tmp_path / "export.jsonl"
    exported.write_text("".join(json_line(each) + "\n" for each in world.read()))
    world.create(1, topic="copy")
    ingest_files(world.installation, "copy", [str(exported)], as_of_ms=world.clock())
    assert world.read(topic="copy") == world.read()
    read, segments = world.read(), world.segments()
    assert ingest(world, str(exported)).records_appended == 0
    assert (world.read(), world.segments()) == (read, segments)
    before = world.listing()
    assert ingest(world, str(exported)).snapshot_id is None
    assert world.listing() == before
