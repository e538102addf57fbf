"""What an implementation has to hold and Kafka's tests do not ask."""

from __future__ import annotations

import hashlib

import pytest

from tests.catalogue.log_builder import HOUR_MS
from tests.catalogue.record_samples import build_strategy_config, build_version_header, build_versioned_record
from tests.support.world import TOPIC, World, build_versions, define_world, record
from winnow.engine import staging
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.plan import pack_batches
from winnow.pipeline.topics.definition import alter_topic
from winnow.values.model import Reason, Record

world = define_world()


def create(world: World, topic: str = TOPIC, partitions: int = 1, **config: str) -> None:
    """A topic where every file is closed, and anything cleanable is reason enough."""
    world.create(partitions, topic=topic, **{"min_cleanable_dirty_ratio": "0", "internal_segment_bytes": "1"} | config)


def reason(world: World, topic: str = TOPIC) -> Reason:
    (found,) = assess_topics(world.installation, [topic], as_of_ms=world.clock(), record=False)
    return found.reason


def state_of_keys(world: World) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in world.read()]


# ----------------------------------------------------------------------------------------------------------- tombstones


@pytest.mark.kafka("134")
def test_a_tombstone_above_the_range_starts_no_horizon_before_its_older_value_is_gone(world: World) -> None:
    """The value is clean, the tombstone too young to be covered; it outlives the value by two more runs."""
    create(world, min_compaction_lag_ms=str(HOUR_MS), delete_retention_ms=str(HOUR_MS))
    old = world.clock() - HOUR_MS
    world.ingest([record(0, b"k", b"v", old), record(1, b"other", b"v", old)])
    world.ingest([record(2, b"k", None, world.clock()), record(3, b"other", b"w", world.clock())])
    world.compact()
    assert [entry.end_offset for entry in world.state().history] == [2]
    assert [r.offset for r in world.read()] == [0, 1, 2, 3]
    world.clock.now_ms += HOUR_MS
    world.compact()
    assert state_of_keys(world) == [(2, None), (3, b"w")]
    assert world.state().history[-1].delete_horizon_ms == world.clock() + HOUR_MS
    world.clock.now_ms += HOUR_MS - 1
    assert world.compact() is None
    world.clock.now_ms += 1
    world.compact()
    assert state_of_keys(world) == [(3, b"w")]


@pytest.mark.kafka("135")
def test_a_retention_of_zero_needs_two_runs(world: World) -> None:
    """The first starts the horizon, the second finds it passed."""
    create(world, delete_retention_ms="0")
    world.ingest([record(0, b"k", b"v"), record(1, b"k", None)])
    world.compact()
    assert state_of_keys(world) == [(1, None)]
    world.compact()
    assert state_of_keys(world) == []
    assert world.state().log_end_offset == 2


@pytest.mark.kafka("135")
@pytest.mark.parametrize(("first", "then"), [(HOUR_MS, 0), (HOUR_MS, 9 * HOUR_MS)], ids=["shorter", "longer"])
def test_a_changed_retention_moves_no_horizon_that_has_started(world: World, first: int, then: int) -> None:
    """It goes at the horizon of the run that covered it, to the millisecond."""
    create(world, delete_retention_ms=str(first))
    world.ingest([record(0, b"k", None)])
    world.compact()
    alter_topic(world.installation, TOPIC, {"delete.retention.ms": str(then)}, [])
    world.clock.now_ms += first - 1
    assert world.compact() is None
    world.clock.now_ms += 1
    world.compact()
    assert state_of_keys(world) == []


@pytest.mark.kafka("136", "G15")
def test_on_a_quiet_partition_tombstones_go_when_their_horizon_has_passed(world: World) -> None:
    """No new data, nothing dirty: the horizon is a reason of its own, once."""
    create(world, delete_retention_ms=str(HOUR_MS))
    world.ingest([record(0, b"a", b"v"), record(1, b"k", None), record(2, b"b", b"v")])
    world.compact()
    assert reason(world) is Reason.CLEAN
    world.clock.now_ms += HOUR_MS
    assert reason(world) is Reason.TOMBSTONES_EXPIRED
    world.compact()
    assert state_of_keys(world) == [(0, b"v"), (2, b"v")]
    world.clock.now_ms += HOUR_MS
    assert reason(world) is Reason.CLEAN


@pytest.mark.kafka("142")
@pytest.mark.parametrize("strategy", ["timestamp", "header"])
def test_a_late_lower_version_does_not_bring_a_deleted_key_back(world: World, strategy: str) -> None:
    """It is appended before the horizon and covered after it: the tombstone meets it, and waits anew from then on."""
    create(
        world,
        min_compaction_lag_ms=str(HOUR_MS),
        delete_retention_ms="0",
        winnow_late_arrival_ms=str(HOUR_MS),
        **build_strategy_config(strategy),  # type: ignore[arg-type]
    )
    start = world.clock()
    value, tombstone = build_versioned_record(0, 5, strategy), build_versioned_record(1, 6, strategy, value=None)
    world.ingest([value, tombstone])
    world.compact()
    assert world.read() == [tombstone]
    assert world.state().history[-1].delete_horizon_ms == start
    world.clock.now_ms = start + HOUR_MS // 2
    fresh = Record(3, b"fresh", b"v", world.clock(), build_version_header(1))
    world.ingest([build_versioned_record(2, 4, strategy, value=b"late"), fresh])
    world.clock.now_ms = start + HOUR_MS
    assert reason(world) is Reason.INSIDE_MIN_LAG
    world.clock.now_ms = start + HOUR_MS // 2 + HOUR_MS
    receipt = world.compact()
    assert receipt is not None
    assert (receipt.partitions[0].records_superseded, receipt.partitions[0].tombstones_expired) == (1, 0)
    assert world.read() == [tombstone, fresh]
    world.clock.now_ms += HOUR_MS
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].tombstones_expired == 1
    assert world.read() == [fresh]


# ----------------------------------------------------------------------------------------------------------------- lags


@pytest.mark.kafka("137", "G10")
def test_on_a_quiet_partition_data_older_than_the_maximum_lag_is_compacted(world: World) -> None:
    """One append, all of it active, and then nothing but time."""
    world.create(1, min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms=str(6 * HOUR_MS))
    world.ingest([record(n, b"k", b"%d" % n, world.clock()) for n in range(5)])
    world.clock.now_ms += 6 * HOUR_MS
    assert reason(world) is Reason.NO_CLOSED_SEGMENT
    world.clock.now_ms += 1
    assert reason(world) is Reason.MAX_COMPACTION_LAG
    world.compact()
    assert state_of_keys(world) == [(4, b"4")]


@pytest.mark.kafka("139")
def test_a_partition_past_its_maximum_lag_comes_before_a_dirtier_one(world: World) -> None:
    """Partition 1 is dirtier and larger, partition 0 overdue; both are in the plan, and topics keep that order."""
    world.create(2, min_cleanable_dirty_ratio="0.5", max_compaction_lag_ms=str(HOUR_MS), internal_segment_bytes="1")
    world.ingest([record(n, b"k%d" % n, b"x" * 500, world.clock() - 9 * HOUR_MS) for n in range(50)])
    world.compact()
    world.ingest([record(50, b"k0", b"overdue", world.clock() - 2 * HOUR_MS)])
    world.ingest([record(n, b"k%d" % n, b"y" * 900, world.clock(), partition=1) for n in range(200)])
    create(world, "calm")
    world.ingest(build_versions(0, 6), topic="calm")
    by_partition = {
        a.partition: a for a in assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    }
    assert {n: a.reason for n, a in by_partition.items()} == {0: Reason.MAX_COMPACTION_LAG, 1: Reason.DIRTY_RATIO}
    assert by_partition[0].dirty_ratio < 0.5 < by_partition[1].dirty_ratio
    calm, orders = world.plan(world.clock(), topic="calm"), world.plan(world.clock())
    assert calm is not None
    assert orders is not None
    assert [part.partition for part in staging.read_plan(orders.uri).partitions] == [0, 1]
    assert [plan.topic for batch in pack_batches([calm, orders]) for plan in batch.plans] == [TOPIC, "calm"]
    world.compact()
    assert [world.state(n).first_dirty_offset for n in (0, 1)] == [51, 200]


# ----------------------------------------------------------------------------------------------------------------- keys


COLLIDING = tuple(
    bytes.fromhex("".join(text))
    for text in (
        (
            "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a",
            "085125e8f7cdc99fd91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0",
            "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70",
        ),
        (
            "d131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f8955ad340609f4b30283e4888325f1415a",
            "085125e8f7cdc99fd91dbd7280373c5bd8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0",
            "e99f33420f577ee8ce54b67080280d1ec69821bcb6a8839396f965ab6ff72a70",
        ),
    )
)
"""The pair that Wang, Feng, Lai and Yu published in 2004: 128 bytes each, one MD5."""


@pytest.mark.kafka("144")
def test_two_keys_with_the_same_hash_are_two_keys(world: World) -> None:
    """Kafka's cleaner would take the first for an older record of the second."""
    one, other = COLLIDING
    assert (hashlib.md5(one).digest(), one != other) == (hashlib.md5(other).digest(), True)
    create(world)
    world.ingest([record(0, one, b"one"), record(1, other, b"other"), record(2, one, b"one again")])
    world.compact()
    assert [(r.key, r.value) for r in world.read()] == [(other, b"other"), (one, b"one again")]
    world.ingest([record(3, other, None)])
    world.compact()
    assert [(r.key, r.value) for r in world.read()] == [(one, b"one again"), (other, None)]
