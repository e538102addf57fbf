"""What the store keeps for the page alone, on both databases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.page.sample_rows import (
    BIG,
    DAY_MS,
    HOUR_MS,
    NOW_MS,
    partition_picture,
    put,
    put_marks,
    put_run,
    receipt,
    topic_picture,
)
from tests.support import store_fixtures
from winnow.store import RunState, Store
from winnow.store.assessments import AssessedTopic
from winnow.store.deadlines import DeadlineDay, MissedDeadline, write_deadlines
from winnow.store.receipt_figures import RunRank
from winnow.store.rows import AppendedRecords, TopicSort, Window
from winnow.store.samples import ALL_TOPICS, Sample
from winnow.store.table_health import SizeClass, TableHealth

MINUTE_MS = 60_000
DAY = NOW_MS // DAY_MS * DAY_MS
"""When a day in UTC begins."""
HOUR = NOW_MS // HOUR_MS * HOUR_MS

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store


def test_one_sample_per_hour_holds_the_last_overview_and_all_topics_have_one_together(store: Store) -> None:
    put(store, "orders", size_bytes=1_000, recorded_at_ms=HOUR)
    put(store, "orders", size_bytes=3_000, recorded_at_ms=HOUR + 2 * MINUTE_MS)
    put(store, "users", size_bytes=500, recorded_at_ms=HOUR + 4 * MINUTE_MS, clean_bytes=0, cleanable_bytes=400)
    put(store, "orders", size_bytes=4_000, recorded_at_ms=HOUR + HOUR_MS)
    assert [(each.at_ms, each.size_bytes) for each in store.samples.list_samples("orders", HOUR)] == [
        (HOUR, 3_000),
        (HOUR + HOUR_MS, 4_000),
    ]
    totals = store.samples.list_samples(ALL_TOPICS, HOUR)
    assert [(each.topics, each.size_bytes, each.dirty_ratio) for each in totals] == [(2, 3_500, 0.5), (2, 4_500, 0.5)]
    assert totals[0].end_offsets > 2**62


def test_an_older_overview_changes_no_sample(store: Store) -> None:
    put(store, "orders", size_bytes=3_000, recorded_at_ms=HOUR + 9)
    put(store, "orders", size_bytes=1_000, recorded_at_ms=HOUR + 8)
    assert [each.size_bytes for each in store.samples.list_samples("orders", HOUR)] == [3_000]


def test_samples_begin_with_the_last_one_before_the_time_asked_for(store: Store) -> None:
    for hour in range(4):
        put(store, recorded_at_ms=HOUR + hour * HOUR_MS)
    found = store.samples.list_samples("orders", HOUR + 2 * HOUR_MS + 5)
    assert [each.at_ms for each in found] == [HOUR + 2 * HOUR_MS, HOUR + 3 * HOUR_MS]


def test_samples_older_than_two_weeks_become_one_a_day(store: Store) -> None:
    put_samples(store, "orders", range(0, 24 * 20, 6))
    put_samples(store, ALL_TOPICS, range(0, 24, 6))
    put_samples(store, "users", range(0, 24, 6))
    newest_ms = DAY + 20 * DAY_MS
    assert store.history.thin_samples("orders", newest_ms, rows_at_once=7) == 6 * 3 + 3
    left = [each.at_ms for each in store.samples.list_samples("orders", 0)]
    assert left[:7] == [*(DAY + day * DAY_MS + 18 * HOUR_MS for day in range(6)), DAY + 6 * DAY_MS]
    assert len(left) == 6 + 14 * 4
    assert len(store.samples.list_samples(ALL_TOPICS, 0)) == 1
    assert len(store.samples.list_samples("users", 0)) == 4
    assert store.history.thin_samples("orders", newest_ms) == 0


def test_samples_and_settled_deadlines_go_with_the_history_of_their_topic(store: Store) -> None:
    put_samples(store, "orders", range(3))
    settle(store, 0, deadline_ms=DAY + HOUR_MS, settled_at_ms=DAY)
    settle(store, 1, deadline_ms=DAY + HOUR_MS, settled_at_ms=None)
    before_ms = DAY + 2 * HOUR_MS
    assert sum(each.rows for each in store.history.prune("orders", before_ms)) > 2
    assert next(each.at_ms for each in store.samples.list_samples("orders", 0)) == before_ms
    missed = store.deadlines.list_missed(0, before_ms, grace_ms=0, limit=9)
    assert [(each.partition, each.settled_at_ms) for each in missed] == [(1, None)]


def test_a_deadline_is_kept_if_the_partition_was_compacted_before_it_and_missed_if_after(store: Store) -> None:
    settle(store, 0, deadline_ms=DAY + HOUR_MS, settled_at_ms=DAY + HOUR_MS)
    settle(store, 1, deadline_ms=DAY + HOUR_MS, settled_at_ms=DAY + HOUR_MS + 1)
    settle(store, 2, deadline_ms=DAY + HOUR_MS, settled_at_ms=None)
    settle(store, 3, deadline_ms=DAY + 9 * HOUR_MS, settled_at_ms=None)
    now_ms = DAY + 3 * HOUR_MS
    assert store.deadlines.count_by_day(DAY, now_ms, grace_ms=0) == [DeadlineDay(DAY, kept=1, missed=2)]
    assert store.deadlines.count_by_day(DAY, now_ms, grace_ms=5) == [DeadlineDay(DAY, kept=2, missed=1)]
    missed = store.deadlines.list_missed(DAY, now_ms, grace_ms=0, limit=9)
    assert [(each.partition, each.settled_at_ms) for each in missed] == [(2, None), (1, DAY + HOUR_MS + 1)]
    assert store.deadlines.count_by_day(DAY, now_ms, grace_ms=0, topic="users") == []


def test_a_deadline_that_moved_without_a_compaction_is_neither_kept_nor_missed(store: Store) -> None:
    look = {"first_dirty_offset": 5}
    put(store, parts=[{**look, "deadline_ms": DAY}], recorded_at_ms=DAY + 1)
    put(store, parts=[{**look, "deadline_ms": DAY}], recorded_at_ms=DAY + 2)
    assert store.deadlines.list_missed(0, DAY + 2, grace_ms=0, limit=9) == [MissedDeadline("orders", 0, DAY, None)]
    put(store, parts=[{**look, "deadline_ms": DAY + DAY_MS}], recorded_at_ms=DAY + 3)
    put(store, parts=[{**look, "deadline_ms": None}], recorded_at_ms=DAY + 4)
    assert store.deadlines.count_by_day(0, DAY + 4, grace_ms=0) == []


def test_a_paused_partition_misses_no_deadline_while_it_is_paused(store: Store) -> None:
    put_marks(store, "orders", paused=(0,))
    settle(store, 0, deadline_ms=DAY, settled_at_ms=None)
    assert store.deadlines.list_missed(0, DAY + DAY_MS, grace_ms=0, limit=9) == []
    put_marks(store, "orders")
    assert len(store.deadlines.list_missed(0, DAY + DAY_MS, grace_ms=0, limit=9)) == 1


def test_the_number_of_manifests_stays_where_nobody_counted_them(store: Store) -> None:
    counted = table_health(manifests=4, files=9)
    store.overview.record_topic(AssessedTopic(picture=topic_picture(), health=counted))
    assert store.table_health.find("orders") == counted
    later = table_health(manifests=None, files=10)
    store.overview.record_topic(AssessedTopic(picture=topic_picture(), health=later))
    assert store.table_health.find("orders") == table_health(manifests=4, files=10)
    assert store.table_health.find("users") is None


def test_runs_are_summed_by_day_and_ranked(store: Store) -> None:
    for number, (topic, at_ms) in enumerate([("orders", DAY), ("orders", DAY + HOUR_MS), ("users", DAY + DAY_MS)]):
        store.runs.open(f"plan-{number}", topic, as_of_ms=0, plan_uri="/p", now_ms=at_ms - number, attempt="a")
        store.projection.record_publication(receipt(f"plan-{number}", topic, finished_at_ms=at_ms), {}, [], at_ms)
    days = store.receipt_figures.sum_by_day(DAY)
    assert [(each.day_ms, each.runs, each.bytes_saved) for each in days] == [(DAY, 2, 6_166), (DAY + DAY_MS, 1, 3_083)]
    assert (days[0].bytes_read, days[0].bytes_written, days[0].records_removed) == (8_320, 2_176, 130)
    assert [each.runs for each in store.receipt_figures.sum_by_day(DAY, "users")] == [1]
    assert store.receipt_figures.sum_saved_bytes() == 3 * 3_083
    ranked = store.receipt_figures.list_ranked(RunRank.LONGEST, DAY + 1, 9)
    assert [(each.plan_id, each.duration_ms) for each in ranked] == [("plan-2", 2), ("plan-1", 1)]
    assert len(store.receipt_figures.list_ranked(RunRank.DEAREST, DAY, 2)) == 2


def test_what_was_appended_is_added_once_to_an_overview(store: Store) -> None:
    end = partition_picture().log_end_offset
    appended = [AppendedRecords(0, end, end + 5, records=5, files=1, size_bytes=100)]
    put(store)
    for _ in range(2):
        store.overview.add_appended("orders", appended)
    found = store.overview.list_partitions("orders", NOW_MS, Window()).rows[0].overview
    assert (found.log_end_offset, found.size_bytes, found.records, found.files) == (end + 5, 1_100, 17, 4)
    whole = store.overview.find_recorded("orders")
    assert whole is not None
    assert (whole.size_bytes, whole.records, whole.files, whole.end_offsets) == (1_100, 17, 4, BIG + 5)


def put_samples(store: Store, topic: str, hours: Iterable[int]) -> None:
    """Record a sample for each of ``hours`` after DAY."""
    store.samples.record(
        [
            Sample(topic, DAY + hour * HOUR_MS, DAY + hour * HOUR_MS, 1, 1, 1, 1, 1, 1, 0, 0.0, None, 0, hour, None)
            for hour in hours
        ]
    )


def settle(store: Store, partition: int, *, deadline_ms: int, settled_at_ms: int | None) -> None:
    """A deadline until which, or after which, the partition was compacted; None: it has passed."""
    after = (
        partition_picture("orders", partition, first_dirty_offset=5, deadline_ms=deadline_ms)
        if settled_at_ms is None
        else partition_picture("orders", partition, first_dirty_offset=6, deadline_ms=None)
    )
    before = {("orders", partition): (deadline_ms, 5)}
    with store._database.writing() as session:
        write_deadlines(session, before, [after], deadline_ms if settled_at_ms is None else settled_at_ms)


def table_health(**changed: Any) -> TableHealth:
    """The health of a table of one snapshot."""
    return TableHealth(
        **{
            "topic": "orders",
            "recorded_at_ms": NOW_MS,
            "segment_bytes": 1_000,
            "files": 9,
            "size_bytes": 900,
            "small_files": 8,
            "small_bytes": 100,
            "largest_bytes": 800,
            "file_sizes": (SizeClass(500, 8, 100), SizeClass(None, 1, 800)),
            "manifests": 4,
            "snapshots": 1,
            "oldest_snapshot_ms": NOW_MS - DAY_MS,
            "metadata_files": 2,
            "retired_files": 1,
            "retired_bytes": 70,
            "oldest_retired_ms": None,
            "condemned_files": 0,
            "condemned_bytes": 0,
            **changed,
        }
    )


def test_all_runs_are_read_once_while_runs_are_planned_and_move(store: Store) -> None:
    """By when they were planned, which never changes; pages by the latest activity would leave out what moves up."""
    for number in range(7):
        put_run(store, f"plan-{number}", at_ms=NOW_MS + number // 2)
    found = []
    for view in store.run_history.stream_runs(keys_at_once=2):
        found.append(view.run.plan_id)
        if len(found) == 1:
            put_run(store, "plan-new", at_ms=NOW_MS + 60)
            store.runs.set_state("plan-0", RunState.COMPACTING, NOW_MS + 70, attempt="a-1")
    assert found == ["plan-6", "plan-4", "plan-5", "plan-2", "plan-3", "plan-0", "plan-1"]
    moved = store.run_history.stream_runs(status=RunState.COMPACTING, keys_at_once=2)
    assert [view.run.plan_id for view in moved] == ["plan-0"]


def test_all_topics_are_read_once_while_topics_come_and_go(store: Store) -> None:
    """By name, with its numbers by their value."""
    for number in (1, 2, 9, 10, 11):
        put(store, f"orders-{number}")
    put(store, "Orders-2")
    found = []
    for summary in store.overview.stream_topics(NOW_MS, rows_at_once=2):
        found.append(summary.overview.topic)
        if len(found) == 1:
            put(store, "a-new-one")
    listed = store.overview.list_topics(NOW_MS, Window(1, 50), sort=TopicSort.TOPIC).listed.rows
    assert found == [each.overview.topic for each in listed if each.overview.topic != "a-new-one"]
    assert len(found) == 6
