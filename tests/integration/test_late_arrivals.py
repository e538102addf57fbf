"""What deleted a record outranks it for as long as it may be late: checked against the appends alone, not an oracle."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.world import World, open_world
from winnow.model import Record, Strategy
from winnow.pipeline.topics import alter_topic
from winnow.semantics import version

HOUR_MS = 3_600_000
LATE_MS = 6 * HOUR_MS
HEADER = "v"

_rows = st.lists(
    st.tuples(st.sampled_from([b"a", b"b"]), st.booleans(), st.integers(0, 6)),
    min_size=1,
    max_size=4,
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _rows),
        st.tuples(st.just("tick"), st.integers(1, 4)),
        st.tuples(st.just("compact"), st.integers(-1, 2)),
    ),
    min_size=6,
    max_size=16,
)


class _Witness:
    """Remembers what was appended when, and when a run first covered each offset."""

    def __init__(self, world: World, strategy: Strategy) -> None:
        self.world = world
        self.strategy = strategy
        self.written: list[Record] = []
        self.arrived_ms: list[int] = []
        self.covered_ms: list[int | None] = []

    def append(self, rows: list[tuple[bytes, bool, int]]) -> None:
        first = len(self.written)
        records = [
            Record(
                first + number,
                key,
                None if deleted else b"value",
                self.world.clock() - 30 * HOUR_MS + rank,
                ((HEADER, rank.to_bytes(8, "big")),),
            )
            for number, (key, deleted, rank) in enumerate(rows)
        ]
        self.world.ingest(records)
        self.written += records
        self.arrived_ms += [self.world.clock()] * len(records)
        self.covered_ms += [None] * len(records)

    def compact(self, hours: int) -> None:
        as_of_ms = self.world.clock() + hours * HOUR_MS
        receipt = self.world.compact(as_of_ms)
        if receipt is None:
            return
        (part,) = receipt.partitions
        for offset in range(part.next_first_dirty_offset):
            if self.covered_ms[offset] is None:
                self.covered_ms[offset] = self.world.clock()
        self.check(part.next_first_dirty_offset)

    def check(self, end_offset: int) -> None:
        for seen in self.world.read():
            if seen.offset >= end_offset or seen.value is None:
                continue
            for other in self.written[:end_offset]:
                outranked = other.key == seen.key and self._rank(other) > self._rank(seen)
                covered_ms = self.covered_ms[other.offset]
                in_time = covered_ms is None or self.arrived_ms[seen.offset] < covered_ms + LATE_MS
                assert not (outranked and in_time), (
                    f"offset {seen.offset} is read although offset {other.offset} of its key outranks it"
                )

    def _rank(self, record: Record) -> tuple[int, ...]:
        return version(record, self.strategy, HEADER)


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
@settings(max_examples=max(8, settings().max_examples // 10))
@given(steps=_steps, min_lag_hours=st.sampled_from([0, 3]), delete_retention_hours=st.sampled_from([0, 9]))
@pytest.mark.kafka("142")
def test_no_record_comes_back_that_arrived_in_time_to_lose(
    strategy: str, steps: list[tuple[str, object]], min_lag_hours: int, delete_retention_hours: int
) -> None:
    """Below the end of each run nothing is read that a record of its key outranks, dropped tombstones included."""
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder)) as world:
        world.create(
            1,
            compaction_strategy=strategy,
            compaction_strategy_header=HEADER,
            segment_ms="1",
            min_cleanable_dirty_ratio="0",
            min_compaction_lag_ms=str(min_lag_hours * HOUR_MS),
            delete_retention_ms=str(delete_retention_hours * HOUR_MS),
            winnow_late_arrival_ms=str(LATE_MS),
        )
        witness = _Witness(world, Strategy(strategy))
        for action, argument in [*steps, ("tick", 20), ("compact", 0), ("compact", 0)]:
            if action == "append":
                witness.append(argument)  # type: ignore[arg-type]
            elif action == "tick":
                world.clock.now_ms += int(argument) * HOUR_MS  # type: ignore[call-overload]
            else:
                witness.compact(int(argument))  # type: ignore[call-overload]


def test_a_strategy_that_changed_after_the_tombstone_was_covered_still_fends_off_late_versions(tmp_path: Path) -> None:
    """Its horizon was started under offset, without regard to late arrivals; under timestamp it waits for them."""
    with open_world(tmp_path) as world:
        world.create(1, segment_ms="1", delete_retention_ms="0", winnow_late_arrival_ms=str(LATE_MS))
        stamp_ms = world.clock() - 9 * HOUR_MS
        world.ingest([Record(0, b"k", None, stamp_ms)])
        assert world.compact() is not None
        alter_topic(world.ctx, "orders", {"compaction.strategy": "timestamp"}, [])
        assert world.compact() is not None
        assert [each.offset for each in world.read()] == [0]
        late = replace(world.read()[0], offset=1, value=b"late", timestamp_ms=stamp_ms - 1)
        world.ingest([late])
        world.clock.now_ms += LATE_MS
        assert world.compact() is not None
        assert world.read() == []


def test_an_append_with_a_future_as_of_counts_as_of_its_arrival(tmp_path: Path) -> None:
    """Otherwise the tombstone would think that the late record came after its horizon, and leave before meeting it."""
    with open_world(tmp_path) as world:
        world.create(
            1,
            segment_ms="1",
            compaction_strategy="timestamp",
            delete_retention_ms="0",
            min_cleanable_dirty_ratio="0",
            min_compaction_lag_ms=str(LATE_MS),
            winnow_late_arrival_ms=str(LATE_MS),
        )
        now_ms = world.clock()
        world.ingest([Record(0, b"k", None, now_ms - 9 * HOUR_MS)])
        assert world.compact() is not None
        late = [Record(1, b"k", b"late", now_ms - 10 * HOUR_MS), Record(2, b"young", b"v", now_ms + LATE_MS)]
        world.ingest(late, as_of_ms=now_ms + 99 * HOUR_MS)
        world.clock.now_ms += LATE_MS
        assert world.compact() is None
        world.clock.now_ms += LATE_MS
        assert world.compact() is not None
        assert [each.offset for each in world.read()] == [2]
