"""What a restore reads of a log: up to an offset, or a time, and nothing beyond."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import NOW_MS, World, build_versions, open_world
from winnow.errors import UsageError
from winnow.pipeline.restore.open_restore import open_source
from winnow.pipeline.restore.source_log import RestoreBound, SourceLog
from winnow.pipeline.restore.verify_records import PartitionFigures
from winnow.values.model import OffsetRange


def open_log(world: World) -> SourceLog:
    log = world.installation.log.open("orders")
    return open_source(log, log.head())


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceLog]:
    """Two segments a partition; offsets 0 to 49 with times that go up and down, 50 to 59 at one later time."""
    with open_world(tmp_path_factory.mktemp("timed")) as world:
        world.create(2)
        for first, count in ((0, 50), (50, 10)):
            world.ingest(
                [
                    dataclasses.replace(each, timestamp_ms=NOW_MS + (1_000 if first else each.offset * 7 % 50))
                    for number in range(2)
                    for each in build_versions(first, count, partition=number)
                ]
            )
        yield open_log(world)


@pytest.mark.parametrize(
    ("bound", "ends"),
    [
        (RestoreBound(), {0: 60, 1: 60}),
        (RestoreBound(offset=20), {0: 20, 1: 20}),
        (RestoreBound(offset=1_000), {0: 60, 1: 60}),
        (RestoreBound(offsets={0: 5}), {0: 5, 1: 60}),
        # The first record of this time or later has offset 7 and exactly this time.
        (RestoreBound(time_ms=NOW_MS + 49), {0: 7, 1: 7}),
        (RestoreBound(time_ms=NOW_MS + 50), {0: 50, 1: 50}),
        (RestoreBound(time_ms=NOW_MS + 1_001), {0: 60, 1: 60}),
    ],
)
def test_bound_of_a_restore_is_before_an_offset_or_the_first_record_of_a_time(
    timed: SourceLog, bound: RestoreBound, ends: dict[int, int]
) -> None:
    assert timed.find_ranges(bound) == {number: OffsetRange(0, end) for number, end in ends.items()}


def test_bound_of_a_partition_that_is_not_there_is_refused(timed: SourceLog) -> None:
    with pytest.raises(UsageError, match="there is no partition 2"):
        timed.find_ranges(RestoreBound(offsets={2: 5}))


@pytest.mark.parametrize(("start", "end"), [(0, 60), (10, 20), (49, 51), (50, 60), (0, 50), (0, 49), (50, 59)])
def test_records_of_a_range_are_read_and_none_beside_it(timed: SourceLog, start: int, end: int) -> None:
    batches = list(timed.read(1, OffsetRange(start, end)))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(start, end))


def test_times_of_a_range_are_those_of_its_segments(timed: SourceLog) -> None:
    assert timed.find_lowest_timestamp_ms(0, OffsetRange(0, 60)) == NOW_MS
    assert timed.find_highest_timestamp_ms(0, OffsetRange(0, 60)) == NOW_MS + 1_000
    assert timed.find_highest_timestamp_ms(0, OffsetRange(0, 50)) == NOW_MS + 49
    assert timed.find_lowest_timestamp_ms(0, OffsetRange(50, 60)) == NOW_MS + 1_000


def test_what_a_restore_cannot_give_back_is_counted(tmp_path: Path) -> None:
    """Timestamps that Kafka's clients cannot write are those up to 1970-01-01, its first millisecond included."""
    zero, one, deleted, plain = build_versions(0, 4)
    rows = [
        dataclasses.replace(zero, timestamp_ms=0),
        dataclasses.replace(one, timestamp_ms=1),
        dataclasses.replace(deleted, value=None),
        plain,
    ]
    figures = PartitionFigures()
    with open_world(tmp_path) as world:
        world.create(1)
        world.ingest(rows)
        for batch in open_log(world).read(0, OffsetRange(0, 4)):
            figures.add(batch)
    assert (figures.records, figures.tombstones, figures.timestamps_dropped) == (4, 1, 1)
