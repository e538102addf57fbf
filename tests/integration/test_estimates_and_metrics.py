"""Explanation, metrics and forecast against a real log: what was estimated beside what a real run then keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.world import TOPIC, World, build_versions, define_world, record
from winnow.errors import UnknownTopicError
from winnow.files import storage
from winnow.log.head import Change
from winnow.pipeline.explain.explain import Explanation, PartitionExplanation, explain_compaction
from winnow.pipeline.monitor.metrics import compute_forecast, load_deadlines, measure_topic
from winnow.pipeline.topics.definition import alter_topic
from winnow.planning.estimates import Basis, Memory
from winnow.report.forecast import Outlook
from winnow.report.metrics import list_metric_values
from winnow.report.receipts import format_receipt
from winnow.values.model import Reason
from winnow.values.topic_state import Uncleanable

HOUR_MS = 3_600_000


world = define_world(1, min_cleanable_dirty_ratio="0", segment_ms="1")
"""A topic of which everything that is closed is compacted."""


def explained(world: World) -> PartitionExplanation:
    found: Explanation = explain_compaction(world.installation, TOPIC, as_of_ms=world.clock())
    return found.partitions[0]


def test_third_run_is_estimated_from_the_second_and_lies_between_its_bounds(world: World) -> None:
    """10 keys, then 10 records of 5 old and 5 new keys, twice: half of what is dirty brings a key of its own."""
    world.ingest(build_versions(0, 20, keys=10))
    assert (explained(world).expected_records_kept, explained(world).basis) == (None, Basis.UNKNOWN)
    world.compact()
    world.ingest([record(n, f"key-{n - 15}".encode(), b"v") for n in range(20, 30)])
    world.compact()
    world.ingest([record(n, f"key-{n - 20}".encode(), b"v") for n in range(30, 40)])
    found = explained(world)
    assert (found.records, found.at_most_keys, found.basis) == (25, 25, Basis.PARTITION)
    assert (found.at_least_records_kept, found.expected_records_kept, found.at_most_records_kept) == (15, 20, 25)
    assert found.memory is Memory.FITS
    assert found.reclaimed_bytes == found.bytes_to_read - (found.expected_bytes_out or 0)
    receipt = world.compact()
    assert receipt is not None
    (part,) = receipt.partitions
    assert (part.records_kept, part.expected_records_kept, part.expected_bytes_out) == (
        20,
        20,
        found.expected_bytes_out,
    )
    assert "The plan expected 20 records to be kept (it was +0.0 %)" in format_receipt(receipt)


def test_tombstones_past_their_horizon_are_expected_to_go(world: World) -> None:
    """A quiet partition that only loses its tombstones: the manifests say exactly what stays."""
    world.ingest([*build_versions(0, 9), record(9, b"gone", None)])
    world.compact()
    world.clock.now_ms += 2 * 24 * HOUR_MS
    found = explained(world)
    assert (found.reason, found.tombstones_in_expired_ranges) == (Reason.TOMBSTONES_EXPIRED, 1)
    assert (found.basis, found.expected_records_kept) == (Basis.MANIFEST, 3)
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].records_kept == 3


def test_changed_strategy_is_told_with_the_one_before(world: World) -> None:
    """And what is clean stays at one record per key under the new order, too."""
    world.ingest(build_versions(0, 9))
    world.compact()
    alter_topic(world.installation, TOPIC, {"compaction.strategy": "timestamp"}, [])
    found = explained(world)
    assert (found.reason, found.strategy_before) == (Reason.STRATEGY_CHANGED, "offset")
    assert (found.expected_records_kept, found.basis) == (3, Basis.MANIFEST)


def test_segments_that_retention_takes_are_told(world: World) -> None:
    """With their records and bytes, apart from what is read."""
    world.ingest([record(n, b"k", b"v", timestamp_ms=1_000) for n in range(5)])
    world.ingest([record(n, b"k", b"v", timestamp_ms=world.clock() - HOUR_MS) for n in range(5, 9)])
    old, young = world.segments()
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact,delete", "retention.ms": str(24 * HOUR_MS)}, [])
    found = explained(world)
    assert (found.segments_retired, found.records_retired, found.bytes_retired) == (1, 5, old.size_bytes)
    assert (found.segments, found.records, found.bytes_to_read) == (1, 4, young.size_bytes)


def test_keyless_records_of_a_former_delete_policy_are_told(world: World) -> None:
    """They are no keys, and will move to the quarantine."""
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    world.ingest([record(0, None, b"v"), record(1, b"k", b"v"), record(2, None, b"v")])
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact"}, [])
    found = explained(world)
    assert (found.records_to_quarantine, found.at_most_keys, found.at_most_records_kept) == (2, 1, 1)


def test_metrics_need_no_data_file_and_change_nothing(world: World) -> None:
    """From manifests, state and store alone; no assessment is recorded either."""
    world.ingest(build_versions(0, 9))
    world.compact()
    world.ingest(build_versions(9, 3))
    for segment in world.segments():
        storage.parse_local_path(segment.path).unlink()
    before, recorded = world.listing(), world.installation.store.assessments.list_latest([TOPIC])
    told = list_metric_values(measure_topic(world.installation, TOPIC, as_of_ms=world.clock()))
    assert (world.listing(), world.installation.store.assessments.list_latest([TOPIC])) == (before, recorded)
    receipt = world.installation.store.projection.list_receipts(TOPIC)[0].partitions[0]
    assert told["cleaner-recopy-percent"] == round(100 * receipt.bytes_out / receipt.bytes_in, 3)
    assert told["retired-bytes-waiting"] == receipt.bytes_in
    dirty = [s.size_bytes for s in world.segments() if s.first_offset >= 9]
    assert told["max-dirty-percent"] == round(100 * sum(dirty) / sum(s.size_bytes for s in world.segments()), 3)


def test_delay_follows_the_clock_and_ends_with_the_compaction(world: World) -> None:
    """Never stale: of this moment, whatever was selected last; G30 to the millisecond."""
    alter_topic(
        world.installation, TOPIC, {"max.compaction.lag.ms": str(HOUR_MS), "min.cleanable.dirty.ratio": "1"}, []
    )
    world.ingest([record(n, b"k", b"v", timestamp_ms=world.clock()) for n in range(3)])
    born_ms = world.clock()

    def told() -> tuple[object, object, object]:
        found = list_metric_values(measure_topic(world.installation, TOPIC, as_of_ms=world.clock()))
        return found["max-compaction-delay-secs"], found["overdue-partitions-count"], found["next-deadline-secs"]

    world.clock.now_ms = born_ms + HOUR_MS
    assert told() == (0, 0, 0)
    world.clock.now_ms += 1
    assert told() == (0.001, 1, -0.001)
    world.clock.now_ms = born_ms + 80 * 365 * 24 * HOUR_MS
    assert told()[0] == (80 * 365 * 24 - 1) * 3600
    world.compact()
    assert told() == (0, 0, None)
    found = list_metric_values(measure_topic(world.installation, TOPIC, as_of_ms=world.clock()))
    assert found["num-logs-compacted-by-max-compaction-lag"] == 1
    assert found["time-since-last-run-ms"] == 0


def test_time_since_the_last_run_counts_from_a_selection_that_found_nothing_too(world: World) -> None:
    """Who looks and finds nothing due is alive; who measures has not looked."""

    def told() -> object:
        return list_metric_values(measure_topic(world.installation, TOPIC, as_of_ms=world.clock()))[
            "time-since-last-run-ms"
        ]

    assert told() is None
    assert world.plan(world.clock()) is None
    world.clock.now_ms += 5_000
    assert (told(), told()) == (5_000, 5_000)


def test_forecast_counts_every_byte_of_a_partition_at_the_pace_of_its_runs(world: World) -> None:
    """Before the first run nothing is known; after it the next deadline is, unless the partition is uncleanable."""
    lag_ms = 50 * HOUR_MS
    alter_topic(world.installation, TOPIC, {"max.compaction.lag.ms": str(lag_ms)}, [])
    world.ingest([record(n, b"k", b"v", timestamp_ms=world.clock()) for n in range(3)])

    def prospects() -> list[tuple[Outlook, int, int]]:
        found = compute_forecast(
            world.installation,
            [load_deadlines(world.installation, TOPIC, as_of_ms=world.clock())],
            as_of_ms=world.clock(),
        )
        return [(p.outlook, p.deadline_ms, p.size_bytes) for p in found.prospects]

    (before,) = prospects()
    assert before == (Outlook.UNKNOWN, world.clock() + lag_ms, sum(s.size_bytes for s in world.segments()))
    world.clock.now_ms += 2
    world.compact()
    assert prospects() == []
    world.ingest([record(n, b"k", b"v", timestamp_ms=world.clock()) for n in range(3, 6)])
    (after,) = prospects()
    assert after == (Outlook.IN_TIME, world.clock() + lag_ms, sum(s.size_bytes for s in world.segments()))
    _mark_uncleanable(world)
    assert [p[0] for p in prospects()] == [Outlook.BLOCKED]
    world.clock.now_ms += lag_ms + 1
    assert [p[0] for p in prospects()] == [Outlook.OVERDUE]


def _mark_uncleanable(world: World) -> None:
    mark = Uncleanable("corrupt", since_ms=world.clock())

    def marked(head: object) -> Change:
        state = world.head().state
        part = replace(state.partitions[0], uncleanable=mark)
        return Change(state=replace(state, partitions={0: part}), summary={"winnow.operation": "mark"})

    world.installation.log.open(TOPIC).commit(marked)


def test_topic_without_a_deadline_brings_nothing_into_the_forecast(world: World) -> None:
    """max.compaction.lag.ms is as long as time itself, by default."""
    world.ingest(build_versions(0, 9))
    assert load_deadlines(world.installation, TOPIC, as_of_ms=world.clock()).work == ()


def test_unknown_topic_is_refused(world: World) -> None:
    """By metrics and forecast alike."""
    for call in (measure_topic, load_deadlines):
        with pytest.raises(UnknownTopicError):
            call(world.installation, "missing", as_of_ms=0)
