"""Records that came as sinks write them are appended in one pass, others over the spool; the log is the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.world import TOPIC, World
from winnow.arrivals.spool import SpooledFile
from winnow.arrivals.write_range import PartitionAppender, PartitionResult
from winnow.errors import BadInputError, WinnowError
from winnow.files import storage
from winnow.pipeline.ingest import ingest, run_local
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.read.records import read_batches

Row = tuple[int, int]
"""Partition and offset."""


def value_of(partition: int, offset: int) -> bytes:
    return f"{partition}-{offset}-".encode() * 6


def write(path: Path, rows: Sequence[Row]) -> str:
    """Rows as Parquet, in the order given."""
    table = pa.table(
        {
            "partition": pa.array([partition for partition, _ in rows], pa.int32()),
            "offset": pa.array([offset for _, offset in rows], pa.int64()),
            "timestamp": pa.array([1_000 + offset for _, offset in rows], pa.int64()),
            "key": [f"k{offset % 100}".encode() for _, offset in rows],
            "value": [value_of(partition, offset) for partition, offset in rows],
        }
    )
    pq.write_table(table, path, row_group_size=20_000)
    return str(path)


def take(world: World, *paths: str) -> IngestReport:
    return ingest.ingest_files(world.installation, TOPIC, paths, as_of_ms=world.clock())


def contents(world: World) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every record, in the order of a reader."""
    return [
        (row["partition"], row["offset"], row["value"])
        for batch in read_batches(world.installation, TOPIC)
        for row in batch.select(["partition", "offset", "value"]).to_pylist()
    ]


def expected(rows: Sequence[Row]) -> list[tuple[int, int, bytes]]:
    return [(partition, offset, value_of(partition, offset)) for partition, offset in sorted(rows)]


def refuse_to_stream(*_: object) -> None:
    """Send the input over the spool."""
    raise run_local.NotStreamableError


def interleaved(partitions: int, each: int, start: int = 0) -> list[Row]:
    return [(partition, offset) for offset in range(start, start + each) for partition in range(partitions)]


@pytest.mark.parametrize("in_one_pass", [True, False], ids=["in one pass", "over the spool"])
def test_bytes_and_records_are_reported_while_they_are_read(
    world: World, tmp_path: Path, in_one_pass: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records also within a file; in the end all of both."""
    if not in_one_pass:
        monkeypatch.setattr(run_local.StreamingAppender, "read", refuse_to_stream)
    world.create(1)
    rows = interleaved(1, 50_000)
    paths = [write(tmp_path / "1.parquet", rows[:40_000]), write(tmp_path / "2.parquet", rows[40_000:])]
    seen: list[tuple[int, int, int]] = []
    report = ingest.ingest_files(
        world.installation,
        TOPIC,
        paths,
        as_of_ms=world.clock(),
        progress=lambda *each: seen.append(each),
    )
    assert report.records_appended == 50_000
    total_bytes = sum(Path(path).stat().st_size for path in paths)
    assert seen[-1] == (total_bytes, total_bytes, 50_000)
    assert [records for done_bytes, _, records in seen if done_bytes == 0 and records > 0]
    assert {total for _, total, _ in seen} == {total_bytes}


def test_interleaved_partitions_are_streamed_and_every_record_lands_once(
    world: World, tmp_path: Path, spooled: list[str]
) -> None:
    """Two files, many batches of each, eight partitions at a time."""
    world.create(8)
    first, second = interleaved(8, 12_000), interleaved(8, 500, start=12_000)
    report = take(world, write(tmp_path / "1.parquet", first), write(tmp_path / "2.parquet", second))
    assert (report.records_appended, report.files) == (100_000, 2)
    assert [part.log_end_offset for part in report.partitions] == [12_500] * 8
    assert contents(world) == expected([*first, *second])
    assert spooled == []
    assert [append.records for append in world.state(3).appends] == [12_000, 500]


def test_writer_that_is_slower_than_the_reader_loses_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are closed when everything that was read is written, not when everything is read."""
    genuine = run_local.StreamingAppender._write

    def slow(self: run_local.StreamingAppender, batch: pa.RecordBatch) -> None:
        time.sleep(0.05)
        genuine(self, batch)

    monkeypatch.setattr(run_local.StreamingAppender, "_write", slow)
    world.create(4)
    assert take(world, write(tmp_path / "1.parquet", interleaved(4, 10_000))).records_appended == 40_000
    assert contents(world) == expected(interleaved(4, 10_000))


def test_what_is_not_new_goes_over_the_spool_and_adds_only_the_rest(
    world: World, tmp_path: Path, spooled: list[str]
) -> None:
    """The second file begins with what the first one brought."""
    world.create(2)
    take(world, write(tmp_path / "1.parquet", interleaved(2, 10)))
    report = take(world, write(tmp_path / "2.parquet", interleaved(2, 15)))
    assert (report.records_appended, report.records_skipped) == (10, 20)
    assert spooled == [TOPIC]
    assert contents(world) == expected(interleaved(2, 15))


def test_order_broken_after_many_records_is_refused_with_its_row_and_leaves_no_file(
    world: World, tmp_path: Path
) -> None:
    """Row groups were written by then; all of them are gone again."""
    world.create(2)
    before = world.listing()
    rows = [*interleaved(2, 30_000), (1, 29_999)]
    with pytest.raises(BadInputError, match=r"row 60001 \(partition 1, offset 29999\): offsets must increase"):
        take(world, write(tmp_path / "broken.parquet", rows))
    assert world.listing() == before


@pytest.mark.parametrize(("rows", "way"), [(sorted(interleaved(5, 50)), []), (interleaved(5, 50), [TOPIC])])
def test_more_partitions_than_may_be_open_are_streamed_only_one_after_another(
    world: World,
    tmp_path: Path,
    spooled: list[str],
    monkeypatch: pytest.MonkeyPatch,
    rows: list[Row],
    way: list[str],
) -> None:
    """A partition that comes back after it was closed is one for the spool; the log is the same."""
    monkeypatch.setattr(run_local, "MAXIMUM_OPEN_PARTITIONS", 2)
    monkeypatch.setattr("winnow.files.record_batch.MAXIMUM_BATCH_ROWS", 40)
    monkeypatch.setattr("winnow.sources.formats.batches.MAXIMUM_BATCH_ROWS", 40)
    world.create(5)
    assert take(world, write(tmp_path / "1.parquet", rows)).records_appended == 250
    assert spooled == way
    assert contents(world) == expected(rows)
    assert len(world.listing(below=f"{world.log_folder()}/data")) == 5


def test_what_is_held_back_for_all_partitions_together_is_bounded(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the bound the largest is written early, as a row group of its own, into the same segment."""
    monkeypatch.setattr(run_local, "ROW_GROUP_BYTES", 1 << 20)
    most = 0
    add = PartitionAppender.add
    kept: set[PartitionAppender] = set()

    def noted(self: PartitionAppender, batch: pa.RecordBatch) -> None:
        nonlocal most
        kept.add(self)
        most = max(most, sum(appender.held_bytes for appender in kept))
        add(self, batch)

    monkeypatch.setattr(PartitionAppender, "add", noted)
    monkeypatch.setattr(type(world.installation.settings.engine), "memory_bytes", 1 << 20, raising=False)
    world.create(4)
    through = run_local.StreamingAppender
    monkeypatch.setattr(
        run_local, "StreamingAppender", lambda *a, **named: through(*a, **{**named, "held_bytes": 1 << 20})
    )
    rows = interleaved(4, 20_000)
    take(world, write(tmp_path / "1.parquet", rows))
    batch_bytes = 20_000 * 150
    assert 0 < most <= (1 << 20) + batch_bytes
    groups = [pq.ParquetFile(storage.parse_local_path(world.segments(p)[0].path)).num_row_groups for p in range(4)]
    assert sum(groups) > 4
    assert [len(world.segments(p)) for p in range(4)] == [1] * 4
    assert contents(world) == expected(rows)


def test_call_that_would_lose_a_record_lands_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of the input are counted against those that are placed, whatever went wrong between."""
    make_result = PartitionAppender.make_result

    def forgetful(self: PartitionAppender, files: Sequence[SpooledFile]) -> PartitionResult:
        return PartitionResult() if self.partition == 1 else make_result(self, files)

    monkeypatch.setattr(PartitionAppender, "make_result", forgetful)
    world.create(3)
    before = world.listing()
    with pytest.raises(WinnowError, match="30 records were read for topic orders, but 20 would be accounted for"):
        take(world, write(tmp_path / "1.parquet", interleaved(3, 10)))
    assert world.listing() == before


def test_record_with_neither_key_nor_partition_is_refused_without_a_quarantine(world: World, tmp_path: Path) -> None:
    """No partition is its own, and dropping it would lose it."""
    world.create(2, cleanup_policy="delete")
    path = tmp_path / "homeless.jsonl"
    path.write_text('{"partition": 1, "key": null, "value": "YQ=="}\n{"key": null, "value": "YQ=="}\n')
    before = world.listing()
    with pytest.raises(BadInputError, match="row 2: a record with neither key nor partition"):
        take(world, str(path))
    assert world.listing() == before
