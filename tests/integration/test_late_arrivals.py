"""What deleted a record outranks it for as long as it may be late: checked against the appends alone, not an oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.surviving_records import compute_version
from tests.support.world import World, open_world
from winnow.pipeline.topics.definition import alter_topic
from winnow.values.model import Record
from winnow.values.strategies import Strategy

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

    def __init__(self, world: World, strategy: Strategy, *, age_hours: int = 30) -> None:
        self.world = world
        self.strategy = strategy
        self.age_ms = age_hours * HOUR_MS
        self.began_ms = world.clock()
        self.ahead_ms = self.began_ms
        self.written: list[Record] = []
        self.arrived_ms: list[int] = []
        self.covered_ms: list[int | None] = []

    def append(self, rows: list[tuple[bytes, bool, int]]) -> None:
        first = len(self.written)
        # Under timestamp the rank decides, not the moment; under header the moment is for min.compaction.lag.ms alone.
        stamp_ms = (self.began_ms if self.strategy is Strategy.TIMESTAMP else self.world.clock()) - self.age_ms
        records = [
            Record(
                first + number,
                key,
                None if deleted else b"value",
                stamp_ms + rank,
                ((HEADER, rank.to_bytes(8, "big")),),
            )
            for number, (key, deleted, rank) in enumerate(rows)
        ]
        self.world.ingest(records)
        self.written += records
        # A run that was simulated ahead of the present takes what arrives after it for as late as its as-of.
        self.arrived_ms += [max(self.world.clock(), self.ahead_ms)] * len(records)
        self.covered_ms += [None] * len(records)

    def compact(self, hours: int) -> None:
        as_of_ms = self.world.clock() + hours * HOUR_MS
        self.ahead_ms = max(self.ahead_ms, as_of_ms)
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
        return compute_version(record, self.strategy, HEADER)


def _topic(world: World, strategy: str, *, min_lag_hours: int = 0, delete_retention_hours: int = 0) -> None:
    """A topic of one partition that compacts whatever is closed, and closes everything at once."""
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


def _follow(world: World, strategy: str, steps: Sequence[tuple[str, object]], *, age_hours: int = 30) -> None:
    """Carry out ``steps``, and look after each compaction whether a record is read that another outranks."""
    witness = _Witness(world, Strategy(strategy), age_hours=age_hours)
    for action, argument in steps:
        if action == "append":
            witness.append(argument)  # type: ignore[arg-type]
        elif action == "tick":
            world.clock.now_ms += int(argument) * HOUR_MS  # type: ignore[call-overload]
        else:
            witness.compact(int(argument))  # type: ignore[call-overload]


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
@settings(max_examples=max(8, settings().max_examples // 10))
@given(steps=_steps, min_lag_hours=st.sampled_from([0, 3]), delete_retention_hours=st.sampled_from([0, 9]))
@pytest.mark.kafka("142")
def test_no_record_comes_back_that_arrived_in_time_to_lose(
    strategy: str, steps: list[tuple[str, object]], min_lag_hours: int, delete_retention_hours: int
) -> None:
    """Below the end of each run nothing is read that a record of its key outranks, dropped tombstones included."""
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder)) as world:
        _topic(world, strategy, min_lag_hours=min_lag_hours, delete_retention_hours=delete_retention_hours)
        # Young enough to be held back by the minimum lag, where there is one.
        age_hours = 1 if min_lag_hours else 30
        _follow(world, strategy, [*steps, ("tick", 20), ("compact", 0), ("compact", 0)], age_hours=age_hours)


A, OLD, DELETED = b"a", (b"a", False, 0), (b"a", True, 6)


@pytest.mark.kafka("142")
@pytest.mark.parametrize("strategy", ["timestamp", "header"])
def test_an_old_value_stays_away_after_the_run_that_removed_a_newer_one_and_could_have_dropped_its_tombstone(
    tmp_path: Path, strategy: str
) -> None:
    """Offset 3 arrived in time to lose to the tombstone, and when both were covered the tombstone's horizon was past.

    Were the tombstone dropped there, nothing would outrank offset 8, although readers have seen offset 3.
    """
    with open_world(tmp_path) as world:
        _topic(world, strategy)
        steps = [
            ("tick", 1), ("append", [OLD]), ("append", [DELETED]), ("compact", 0),
            ("tick", 3), ("append", [OLD]), ("append", [(A, False, 5), OLD, OLD, OLD]),
            ("tick", 1), ("append", [OLD]), ("tick", 2), ("tick", 1), ("compact", 0),
            ("append", [OLD]), ("compact", 0),
        ]  # fmt: skip
        _follow(world, strategy, steps)
        assert [each.offset for each in world.read()] == [1]
        assert world.state().history[0].cleaning_time_ms == world.clock()


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
def test_a_tombstone_waits_anew_from_the_last_run_in_which_it_superseded_a_record(
    tmp_path: Path, strategy: str
) -> None:
    """Also where its horizon is ahead in that run; then it goes in the first run after the wait, alone."""
    with open_world(tmp_path) as world:
        _topic(world, strategy)
        witness = _Witness(world, Strategy(strategy))
        witness.append([DELETED])
        witness.compact(0)
        world.clock.now_ms += LATE_MS - HOUR_MS
        witness.append([(A, False, 5)])
        witness.compact(0)
        for _ in range(int(LATE_MS / HOUR_MS) - 1):
            world.clock.now_ms += HOUR_MS
            assert world.compact() is None
        witness.append([(A, False, 4)])
        witness.compact(0)
        assert [each.offset for each in world.read()] == [0]
        world.clock.now_ms += LATE_MS - 1
        assert world.compact() is None
        world.clock.now_ms += 1
        assert world.compact() is not None
        assert world.read() == []
        assert world.compact() is None


def test_tombstones_go_in_time_beside_one_that_is_needed_in_every_run(tmp_path: Path) -> None:
    """Only what superseded a record waits longer, and the history does not grow with the runs."""
    with open_world(tmp_path) as world:
        _topic(world, "header")
        witness = _Witness(world, Strategy.HEADER)
        lengths = []
        for day in range(8):
            # Somebody sends an old version of one key again and again; other keys are deleted, one a day.
            witness.append([DELETED] if day == 0 else [OLD])
            witness.append([(b"day %d" % day, False, 1), (b"day %d" % day, True, 2), (b"live", False, day)])
            witness.compact(0)
            lengths.append(len(world.state().history))
            keys = {each.key for each in world.read()}
            assert keys == {A, b"live"} | {b"day %d" % at for at in range(max(0, day - 1), day + 1)}
            world.clock.now_ms += LATE_MS // 2
        assert max(lengths) == lengths[-1] == lengths[4]
        world.clock.now_ms += LATE_MS
        assert world.compact() is not None
        assert {each.key for each in world.read()} == {b"live"}


def test_nothing_waits_where_nothing_arrives_late(tmp_path: Path) -> None:
    """Under offset, and with winnow.late.arrival.ms=0, a tombstone that superseded a record goes as Kafka's does."""
    for number, config in enumerate(({}, {"compaction_strategy": "timestamp", "winnow_late_arrival_ms": "0"})):
        with open_world(tmp_path / str(number)) as world:
            world.create(1, segment_ms="1", delete_retention_ms="0", min_cleanable_dirty_ratio="0", **config)
            stamp_ms = world.clock() - 9 * HOUR_MS
            world.ingest([Record(0, A, None, stamp_ms)])
            assert world.compact() is not None
            world.ingest([Record(1, A, b"late", stamp_ms - 1)])
            assert world.compact() is not None
            assert [each.offset for each in world.read()] == ([1] if not config else [])


def test_a_strategy_that_changed_after_the_tombstone_was_covered_still_fends_off_late_versions(tmp_path: Path) -> None:
    """Its horizon was started under offset, without regard to late arrivals; under timestamp it waits for them."""
    with open_world(tmp_path) as world:
        world.create(1, segment_ms="1", delete_retention_ms="0", winnow_late_arrival_ms=str(LATE_MS))
        stamp_ms = world.clock() - 9 * HOUR_MS
        world.ingest([Record(0, b"k", None, stamp_ms)])
        assert world.compact() is not None
        alter_topic(world.installation, "orders", {"compaction.strategy": "timestamp"}, [])
        assert world.compact() is not None
        assert [each.offset for each in world.read()] == [0]
        late = replace(world.read()[0], offset=1, value=b"late", timestamp_ms=stamp_ms - 1)
        world.ingest([late])
        world.clock.now_ms += LATE_MS
        assert world.compact() is not None
        assert [each.offset for each in world.read()] == [0]
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
        assert [each.offset for each in world.read()] == [0, 2]
