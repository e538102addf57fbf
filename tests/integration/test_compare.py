"""``winnow compare`` against the oracle: both choices over random logs, what is covered, and what is never written."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import surviving_records
from oracle.surviving_records import CleaningOutcome
from tests.support.random_logs import HEADER, Row, build_records, version_headers, write_segment_file
from tests.support.world import NOW_MS, TOPIC, World, record
from winnow.engine.strategy_diff import DiffPartition, DiffRequest, DiffResult, DiffSide, RecordOrder, compare_partition
from winnow.engine.task_resources import TaskBudget
from winnow.errors import ConfigurationError, UnknownTopicError, UsageError
from winnow.log.topic_configuration import set_config
from winnow.pipeline.explain.compare import Comparison, compare_strategies
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import Progress
from winnow.values.model import OffsetRange, Record, Segment
from winnow.values.strategies import Strategy

DAY_MS = 86_400_000

_rows = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.none() | st.sampled_from([b"", b"a", b"b", b"c"]),
        st.none() | st.just(b"x"),
        st.none() | st.integers(0, 3),
        version_headers,
    ),
    min_size=1,
    max_size=20,
)


def in_process(installation: Installation, request: DiffRequest, progress: Progress | None) -> DiffResult:
    """The engine without Spark."""
    found = [compare_partition(request, partition, budget=installation.budget) for partition in request.partitions]
    return DiffResult(request.plan_id, request.topic, tuple(found))


def shadow(world: World, strategy: Strategy, **options: object) -> Comparison:
    defaults: dict[str, object] = {"header": None, "as_of_ms": world.clock(), "sample": 10, "run": in_process}
    return compare_strategies(world.installation, TOPIC, strategy=strategy, **(defaults | options))  # type: ignore[arg-type]


def _oracle(
    records: Sequence[Record], order: RecordOrder, end: int, expired_below: int, *, late: bool = False
) -> CleaningOutcome:
    return surviving_records.compute_survivors(
        records,
        next_first_dirty_offset=end,
        strategy=order.strategy,
        header=order.header,
        expired=lambda offset: offset < expired_below,
        late_arrivals=late,
    )


def _winners(records: Sequence[Record], order: RecordOrder) -> dict[bytes, Record]:
    """Whoever survives when no tombstone may go."""
    end = records[-1].offset + 1 if records else 0
    kept = _oracle(records, order, end, 0).kept
    return {each.key: each for each in kept if each.key is not None}


def _check_side(side: DiffSide, outcome: CleaningOutcome, segments: Sequence[Segment]) -> None:
    assert (side.records_kept, side.tombstones_expired) == (len(outcome.kept), len(outcome.tombstones_expired))
    kept = [sum(s.first_offset <= each.offset <= s.last_offset for each in outcome.kept) for s in segments]
    assert side.estimated_bytes == sum(s.size_bytes * n // s.records for s, n in zip(segments, kept, strict=True))


_orders = st.sampled_from(
    [RecordOrder(Strategy.OFFSET), RecordOrder(Strategy.TIMESTAMP), RecordOrder(Strategy.HEADER, HEADER)]
)


@given(
    rows=_rows,
    cuts=st.sets(st.integers(1, 19), max_size=3),
    orders=st.tuples(_orders, _orders),
    expired=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    bounds=st.tuples(st.integers(0, 10), st.integers(0, 60)),
    late=st.booleans(),
)
def test_both_choices_over_random_logs_are_the_oracles(
    rows: list[Row],
    cuts: set[int],
    orders: tuple[RecordOrder, RecordOrder],
    expired: tuple[int, int],
    bounds: tuple[int, int],
    late: bool,
) -> None:
    """Winners, survivors, tombstones that expired or wait, anomalies, estimated bytes, for any log start and end."""
    everything = build_records(rows)
    start, end = bounds[0], bounds[0] + bounds[1]
    records = [each for each in everything if start <= each.offset < end]
    edges = [0, *sorted(cut for cut in cuts if cut < len(everything)), len(everything)]
    with tempfile.TemporaryDirectory() as folder:
        segments = [
            write_segment_file(folder, number, everything[first:last])
            for number, (first, last) in enumerate(itertools.pairwise(edges))
        ]
        present, other = ((OffsetRange(0, below),) if below else () for below in expired)
        waiting = [end if late and order.strategy is not Strategy.OFFSET else 0 for order in orders]
        partition = DiffPartition(0, start, end, tuple(segments), present, other, *waiting)
        request = DiffRequest("c", "t", 0, *orders, 100, (partition,))
        found = compare_partition(request, partition, budget=TaskBudget(1 << 28, 1, str(Path(folder) / "spill")))

    mine, theirs = (_winners(records, order) for order in orders)
    differing = sorted((mine[key].offset, theirs[key].offset) for key in mine if mine[key] != theirs[key])
    assert (found.records, found.keys, found.keys_differing) == (len(records), len(mine), len(differing))
    assert found.records_keyless == sum(each.key is None for each in records)
    assert [(key.present.offset, key.other.offset) for key in found.sample] == differing
    by_offset = {each.offset: each for each in records}
    for key in found.sample:
        for told in (key.present, key.other):
            true = by_offset[told.offset]
            assert (told.timestamp_ms, told.tombstone) == (true.timestamp_ms, true.value is None)
            assert told.version == surviving_records.read_header_version(true, request.header)
    for side, winners, place in ((found.present, mine, 0), (found.other, theirs, 1)):
        tombstones = sum(mine[key] != theirs[key] and winners[key].value is None for key in winners)
        assert side.differing_tombstones == tombstones
        _check_side(side, _oracle(records, orders[place], end, expired[place], late=waiting[place] > 0), segments)
    keyed = [each for each in records if each.key is not None] if request.header else []
    without = [each for each in keyed if surviving_records.read_header_version(each, request.header) is None]
    missing = [each for each in without if request.header not in [name for name, _ in each.headers or ()]]
    assert (found.headers_missing, found.headers_malformed) == (len(missing), len(without) - len(missing))


def test_comparison_with_a_rate_takes_as_long_as_its_bytes_need(tmp_path: Path) -> None:
    """Whole segments count once, as a compaction counts its scan for winners."""
    segment = write_segment_file(str(tmp_path), 0, [record(n, b"%d" % n, b"value") for n in range(100)])
    partition = DiffPartition(0, 0, 100, (segment,))
    request = DiffRequest("c", "t", 0, RecordOrder(Strategy.OFFSET), RecordOrder(Strategy.TIMESTAMP), 1, (partition,))
    rate = segment.size_bytes * 2.0
    found = compare_partition(request, partition, budget=TaskBudget(1 << 28, 1, str(tmp_path / "spill"), rate))
    assert found.seconds >= segment.size_bytes / rate


def _late(offset: int, timestamp_ms: int, **more: object) -> Record:
    return record(offset, b"secret-key", f"secret-value-{offset}".encode(), timestamp_ms, **more)


def test_idle_partition_is_compared_up_to_the_first_uncleanable_offset(world: World) -> None:
    """Never compacted because it is not dirty enough; what is too young stays out of the choice."""
    world.create(1, min_cleanable_dirty_ratio="1", segment_bytes="14", min_compaction_lag_ms=str(DAY_MS))
    old_ms = NOW_MS - 3 * DAY_MS
    world.ingest([_late(0, old_ms + 50), _late(1, old_ms + 10)])
    world.ingest([_late(2, NOW_MS)])

    found = shadow(world, Strategy.TIMESTAMP)

    assert world.compact() is None
    assert (found.records, found.keys, found.keys_differing) == (2, 1, 1)
    (partition,) = found.partitions
    assert (partition.log_start_offset, partition.first_uncleanable_offset) == (0, 2)
    (key,) = found.sample
    assert (key.present.offset, key.other.offset) == (1, 0)
    assert (key.present.timestamp_ms, key.other.timestamp_ms) == (old_ms + 10, old_ms + 50)
    assert found.sentence == (
        "Under strategy timestamp instead of strategy offset, 1 of 1 keys of orders would have another winner."
    )


def test_what_retention_takes_in_the_same_run_takes_no_part(world: World) -> None:
    """A compaction retires the oldest segments first; the choice is between the others."""
    world.create(1, cleanup_policy="compact,delete", segment_ms="1", retention_ms=str(DAY_MS))
    world.ingest([_late(0, NOW_MS - 3 * DAY_MS)])
    world.ingest([_late(1, NOW_MS - 10), _late(2, NOW_MS - 20)])

    found = shadow(world, Strategy.TIMESTAMP)

    (partition,) = found.partitions
    assert (partition.log_start_offset, partition.records, partition.keys_differing) == (1, 2, 1)


def test_comparison_writes_nothing_and_tells_no_user_byte(world: World) -> None:
    """The same files, the same snapshots, and nothing of keys and values in what comes back."""
    world.create(2, segment_ms="1")
    world.ingest([_late(0, 50), _late(1, 10), record(0, b"secret-key", None, 10, partition=1)])
    before, snapshots = world.listing(), world.snapshot_ids()

    found = shadow(world, Strategy.TIMESTAMP)

    assert (world.listing(), world.snapshot_ids()) == (before, snapshots)
    assert found.keys == 2
    assert "secret" not in repr(found)


def test_sample_is_the_lowest_offsets_of_the_present_winners(world: World) -> None:
    """Over all partitions, and the same each time."""
    world.create(2, segment_ms="1")
    records = [
        record(2 * n + place, f"key-{n}".encode(), b"x", 100 - place, partition=partition)
        for partition in (0, 1)
        for n in range(4)
        for place in (0, 1)
    ]
    world.ingest(records)

    found = shadow(world, Strategy.TIMESTAMP, sample=3)

    assert [(key.partition, key.present.offset) for key in found.sample] == [(0, 1), (1, 1), (0, 3)]
    assert shadow(world, Strategy.TIMESTAMP, sample=3) == found
    assert found.keys_differing == 8
    assert shadow(world, Strategy.TIMESTAMP, sample=0).sample == ()


def test_tombstone_among_the_differing_winners_is_counted_on_its_side(world: World) -> None:
    """By offset the late value wins, by timestamp the deletion."""
    world.create(1, segment_ms="1")
    world.ingest([record(0, b"a", None, 90), record(1, b"a", b"late", 10)])

    found = shadow(world, Strategy.TIMESTAMP)

    assert (found.present.differing_tombstones, found.other.differing_tombstones) == (0, 1)
    (key,) = found.sample
    assert (key.present.tombstone, key.other.tombstone) == (False, True)


def test_header_anomalies_are_counted_apart(world: World) -> None:
    """Two records without the header, one with a value that is no 8-byte long; both kinds lose to a version."""
    world.create(1, segment_ms="1")
    version = (7).to_bytes(8, "big")
    world.ingest(
        [
            record(0, b"a", b"x", headers=(("v", version),)),
            record(1, b"a", b"x"),
            record(2, b"a", b"x", headers=(("V", version),)),
            record(3, b"a", b"x", headers=(("v", version), ("v", b"7"))),
        ]
    )

    found = shadow(world, Strategy.HEADER, header="v")

    assert (found.headers_missing, found.headers_malformed) == (2, 1)
    (key,) = found.sample
    assert (key.present.offset, key.present.version, key.other.offset, key.other.version) == (3, None, 0, 7)


def test_cleaned_partitions_are_named_because_removed_records_cannot_take_part(world: World) -> None:
    """After a compaction by offset no strategy brings the loser back, and the comparison says so."""
    world.create(1, segment_ms="1")
    world.ingest([_late(0, 50), _late(1, 10)])
    assert shadow(world, Strategy.TIMESTAMP).notices == ()
    world.compact()

    found = shadow(world, Strategy.TIMESTAMP)

    assert (found.keys_differing, found.partitions_cleaned_before) == (0, 1)
    (notice,) = found.notices
    assert "cleaned before: records that earlier compactions removed cannot take part" in notice


def test_empty_topic_has_nothing_to_compare_and_asks_no_engine(world: World) -> None:
    """No Spark application is started for nothing."""
    world.create(1)

    def never(installation: Installation, request: DiffRequest, progress: Progress | None) -> DiffResult:
        raise AssertionError

    found = shadow(world, Strategy.TIMESTAMP, run=never)

    assert (found.keys, found.partitions) == (0, ())
    assert "nothing to compare" in found.sentence


def test_header_strategy_takes_the_topics_own_header_or_asks_for_one(world: World) -> None:
    """Named on the command line, else configured, else refused with KIP-280's sentence."""
    world.create(1)
    with pytest.raises(ConfigurationError, match=r"^compaction\.strategy\.header must be specified\."):
        shadow(world, Strategy.HEADER)
    set_config(world.installation.log.open(TOPIC), {"compaction.strategy.header": "own"}, [])
    assert shadow(world, Strategy.HEADER).other.header == "own"
    assert shadow(world, Strategy.HEADER, header="given").other.header == "given"


def test_header_beside_another_strategy_and_unknown_topics_are_refused(world: World) -> None:
    """Nothing is compared."""
    world.create(1)
    with pytest.raises(UsageError, match="--header goes with --strategy header"):
        shadow(world, Strategy.TIMESTAMP, header="v")
    with pytest.raises(UnknownTopicError):
        compare_strategies(
            world.installation,
            "missing",
            strategy=Strategy.TIMESTAMP,
            header=None,
            as_of_ms=0,
            sample=1,
            run=in_process,
        )


def test_comparison_predicts_what_the_other_strategy_keeps(world: World) -> None:
    """The winners told for timestamp are the survivors of a compaction after the switch."""
    world.create(1, segment_ms="1")
    rows = [record(n, f"key-{n % 5}".encode(), b"x", (n * 7) % 11) for n in range(40)]
    world.ingest(rows)
    found = shadow(world, Strategy.TIMESTAMP)
    set_config(world.installation.log.open(TOPIC), {"compaction.strategy": "timestamp"}, [])

    receipt = world.compact()

    assert receipt is not None
    kept = {each.offset for each in world.read()}
    assert len(kept) == found.other.records_kept == receipt.partitions[0].records_kept
    assert found.keys_differing > 0
    for key in found.sample:
        assert key.other.offset in kept
        assert key.present.offset not in kept
