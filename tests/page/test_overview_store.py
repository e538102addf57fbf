"""The page's queries on both databases: states, search, filter, order, pages, histories."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import pytest
from sqlalchemy import event

from tests.page.sample_rows import (
    BIG,
    DAY_MS,
    HOUR_MS,
    NOW_MS,
    partition_picture,
    put,
    put_marks,
    put_run,
    put_verdict,
    topic_picture,
)
from winnow.report.metrics import compute_measurement
from winnow.store import RunState, Store
from winnow.store.rows import TopicFilter, TopicSort, Window
from winnow.values.model import Assessment, OverviewState, Reason, Severity
from winnow.values.topic_state import PartitionState, TopicState, Uncleanable

OVERDUE: dict[str, Any] = {"deadline_ms": NOW_MS - 1, "eligible": True}
DUE: dict[str, Any] = {"eligible": True, "deadline_ms": NOW_MS + HOUR_MS}


def names(store: Store, **asked: Any) -> list[str]:
    """The topics of one page, in its order."""
    asked.setdefault("window", Window())
    return [
        seen.overview.topic for seen in store.overview.list_topics(NOW_MS, asked.pop("window"), **asked).listed.rows
    ]


def test_a_picture_is_read_as_it_was_recorded(store: Store) -> None:
    """Every column of topic and partition comes back, 64 bits and fractions included."""
    topic, partition = topic_picture(dirty_ratio=0.1, size_bytes=BIG), partition_picture(dirty_ratio=0.1)
    assert store.overview.record(topic, [partition])
    seen = store.overview.find_topic("orders", NOW_MS)
    assert seen is not None
    assert seen.overview == topic == store.overview.find_recorded("orders")
    assert [each.overview for each in store.overview.list_partitions("orders", NOW_MS, Window()).rows] == [partition]


def test_a_later_picture_replaces_the_one_before_and_an_earlier_one_does_not(store: Store) -> None:
    """Two processes look at once; the one that looked first may come last, and changes nothing."""
    put(store, parts=[{}, {}], recorded_at_ms=NOW_MS)
    put(store, parts=[{"dirty_ratio": 0.75}], recorded_at_ms=NOW_MS + 1, dirty_ratio=0.75)
    assert not store.overview.record(topic_picture(recorded_at_ms=NOW_MS), [partition_picture()])
    seen = store.overview.list_partitions("orders", NOW_MS, Window())
    assert (seen.total, [each.overview.dirty_ratio for each in seen.rows]) == (1, [0.75])
    assert [each.overview.dirty_ratio for each in store.overview.list_topics(NOW_MS, Window()).listed.rows] == [0.75]


def test_ten_thousand_partitions_are_recorded_in_a_few_statements(store: Store) -> None:
    """One transaction, and no statement per partition."""
    statements: list[str] = []
    event.listen(store._database.engine, "before_cursor_execute", lambda *seen: statements.append(seen[2]))
    pictures = [partition_picture(partition=number) for number in range(10_000)]
    store.overview.record(topic_picture(partitions=10_000), pictures)
    written = [each for each in statements if each.lstrip().startswith(("INSERT", "DELETE", "UPDATE"))]
    assert len(written) <= 40
    assert store.overview.list_partitions("orders", NOW_MS, Window()).total == 10_000


def test_a_forgotten_topic_has_no_picture(store: Store) -> None:
    """Neither it nor its partitions nor its alerts; others stay."""
    put(store, "orders")
    put(store, "payments")
    store.alerts.remember("x:orders", NOW_MS, kind="x", topic="orders")
    store.projection.forget_topic("orders")
    assert names(store) == ["payments"]
    assert store.overview.find_topic("orders", NOW_MS) is None
    assert store.overview.list_partitions("orders", NOW_MS, Window()).total == 0
    assert store.quality.list_alerts(Window()).total == 0


@pytest.mark.parametrize(
    ("parts", "uncleanable", "paused", "state"),
    [
        ([{}, {}], (), (), OverviewState.HEALTHY),
        ([{}, DUE], (), (), OverviewState.DUE),
        ([DUE, OVERDUE], (), (), OverviewState.OVERDUE),
        ([OVERDUE, {}], (1,), (), OverviewState.UNCLEANABLE),
        ([{}, {}], (), (1,), OverviewState.PAUSED),
        ([DUE, {}], (), (1,), OverviewState.DUE),
        ([OVERDUE, {}], (), (0,), OverviewState.PAUSED),
        ([{"deadline_ms": NOW_MS}, {}], (), (), OverviewState.HEALTHY),
        ([OVERDUE, {}], (0,), (0,), OverviewState.UNCLEANABLE),
    ],
)
def test_state_of_a_topic_is_that_of_its_worst_partition(
    store: Store,
    parts: list[dict[str, Any]],
    uncleanable: tuple[int, ...],
    paused: tuple[int, ...],
    state: OverviewState,
) -> None:
    """Uncleanable before overdue before due before paused; who is paused misses no deadline."""
    put(store, parts=parts)
    put_marks(store, "orders", uncleanable=uncleanable, paused=paused, count=2)
    seen = store.overview.find_topic("orders", NOW_MS)
    assert seen is not None
    assert seen.state is state
    assert sum(seen.states.values()) == 2
    listed = store.overview.list_topics(NOW_MS, Window(), only=TopicFilter(state=state))
    assert (listed.listed.total, listed.counts[state]) == (1, 1)


CONDITIONS = list(product((False, True), (False, True), (NOW_MS - 1, NOW_MS), (False, True)))
"""Whether a partition is marked and paused, its deadline, and whether it would be compacted: every combination."""


def test_metrics_and_page_have_the_same_state_of_a_topic_for_every_two_partitions(store: Store) -> None:
    """One computes it from carried state and assessments, the other in SQL from recorded rows."""
    measured = {}
    for number, parts in enumerate(combinations_with_replacement(CONDITIONS, 2)):
        topic = f"t{number}"
        deadlines = [{"deadline_ms": deadline_ms, "eligible": eligible} for _, _, deadline_ms, eligible in parts]
        put(store, topic, deadlines)
        put_marks(
            store,
            topic,
            uncleanable=tuple(place for place, part in enumerate(parts) if part[0]),
            paused=tuple(place for place, part in enumerate(parts) if part[1]),
            count=2,
        )
        measured[topic] = find_measured_state(topic, parts)

    assert {topic: state for topic, (_, state) in store.overview.list_recorded(NOW_MS).items()} == measured
    assert set(measured.values()) == set(OverviewState)


def find_measured_state(topic: str, parts: Sequence[tuple[bool, bool, int, bool]]) -> OverviewState:
    """The state that the metrics of a topic have for partitions of these ``CONDITIONS``."""
    state = TopicState(
        topic,
        {
            number: PartitionState(
                uncleanable=Uncleanable("keys twice", since_ms=1) if marked else None,
                paused_since_ms=1 if paused else None,
            )
            for number, (marked, paused, _, _) in enumerate(parts)
        },
    )
    assessments = [
        Assessment(
            topic,
            number,
            eligible=eligible,
            reason=Reason.DIRTY_RATIO if eligible else Reason.NOT_DIRTY_ENOUGH,
            log_start_offset=0,
            first_dirty_offset=0,
            first_uncleanable_offset=9,
            log_end_offset=9,
            dirty_ratio=0.5,
            clean_bytes=50,
            cleanable_bytes=50,
            max_compaction_delay_ms=max(0, NOW_MS - deadline_ms),
            deadline_ms=deadline_ms,
        )
        for number, (_, _, deadline_ms, eligible) in enumerate(parts)
    ]
    found = compute_measurement(state, assessments, (), compacts=True, last_run_ms=None, as_of_ms=NOW_MS)
    (word,) = (word for word in OverviewState if getattr(found, f"topics_{word}"))
    return word


def test_deadline_of_a_topic_is_the_earliest_of_the_partitions_that_nobody_paused(store: Store) -> None:
    """A paused partition's deadline is nobody's."""
    put(store, parts=[{"deadline_ms": NOW_MS - 9}, {"deadline_ms": NOW_MS + 5}, {"deadline_ms": NOW_MS + 4}])
    put_marks(store, "orders", paused=(0,), count=3)
    seen = store.overview.find_topic("orders", NOW_MS)
    assert seen is not None
    assert seen.deadline_ms == NOW_MS + 4


def test_topics_are_listed_most_severe_first_and_within_that_by_deadline(store: Store) -> None:
    """The order of who is on call; without a deadline comes last."""
    put(store, "a-healthy")
    put(store, "b-due-later", [DUE | {"deadline_ms": NOW_MS + 9}])
    put(store, "c-due-sooner", [DUE | {"deadline_ms": NOW_MS + 8}])
    put(store, "d-due-never", [DUE | {"deadline_ms": None}])
    put(store, "e-overdue", [OVERDUE])
    put(store, "f-paused")
    put_marks(store, "f-paused", paused=(0,))
    put(store, "g-marked")
    put_marks(store, "g-marked", uncleanable=(0,))
    expected = ["g-marked", "e-overdue", "c-due-sooner", "b-due-later", "d-due-never", "f-paused", "a-healthy"]
    assert names(store) == expected
    assert names(store, descending=True) == [
        *("a-healthy", "f-paused", "c-due-sooner", "b-due-later", "d-due-never", "e-overdue", "g-marked")
    ]


@pytest.mark.parametrize(
    ("sort", "ascending", "descending"),
    [
        (TopicSort.TOPIC, "abc", "cba"),
        (TopicSort.DIRTY_RATIO, "bac", "cab"),
        (TopicSort.DEADLINE, "cab", "acb"),
        (TopicSort.RECLAIMABLE, "bca", "cba"),
        (TopicSort.SIZE, "cba", "abc"),
        (TopicSort.LAST_RUN, "acb", "cab"),
    ],
)
def test_topics_sort_both_ways_and_what_has_no_value_comes_last(
    store: Store, sort: TopicSort, ascending: str, descending: str
) -> None:
    """Nothing known is neither much nor little."""
    put(store, "a", [{"deadline_ms": NOW_MS + 2}], dirty_ratio=0.2, reclaimable_bytes=None, size_bytes=30)
    put(store, "b", [{"deadline_ms": None}], dirty_ratio=0.1, reclaimable_bytes=5, size_bytes=20)
    put(store, "c", [{"deadline_ms": NOW_MS + 1}], dirty_ratio=0.3, reclaimable_bytes=9, size_bytes=10)
    put_run(store, "p-a", "a", at_ms=NOW_MS - 2)
    put_run(store, "p-c", "c", at_ms=NOW_MS - 1)
    assert "".join(names(store, sort=sort)) == ascending
    assert "".join(names(store, sort=sort, descending=True)) == descending


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", ["Orders.v2", "a_b", "axb", "pay%ments"]),
        ("ORDERS", ["Orders.v2"]),
        ("_", ["a_b"]),
        ("%", ["pay%ments"]),
        ("a_b", ["a_b"]),
        (".v", ["Orders.v2"]),
        ("/", []),
        ("'; --", []),
        ("\\", []),
    ],
)
def test_search_takes_every_character_as_it_is(store: Store, search: str, found: list[str]) -> None:
    """No character is a pattern, and case does not matter."""
    for name in ("Orders.v2", "a_b", "axb", "pay%ments"):
        put(store, name)
    seen = store.overview.list_topics(NOW_MS, Window(), only=TopicFilter(search), sort=TopicSort.TOPIC)
    assert sorted(each.overview.topic for each in seen.listed.rows) == found
    assert (seen.listed.total, seen.counts[OverviewState.HEALTHY]) == (len(found), len(found))


def test_topics_are_sorted_by_the_value_of_the_numbers_in_their_names(store: Store) -> None:
    """As people read them: 2 before 10, capitals beside small letters, and punctuation counts on both databases."""
    ordered = ["a", "a-b", "a.b", "A1", "a02", "a2", "a10", "a10-3", "a10-20", "B1", "ba"]
    for name in reversed(ordered):
        put(store, name)
    assert names(store, sort=TopicSort.TOPIC) == ordered
    assert names(store) == ordered


def test_counts_follow_the_search_and_not_the_filter(store: Store) -> None:
    """So that the numbers beside the filter say what choosing another one would show."""
    put(store, "orders", [DUE])
    put(store, "orders-2")
    put(store, "payments", [OVERDUE])
    seen = store.overview.list_topics(NOW_MS, Window(), only=TopicFilter("orders", OverviewState.DUE))
    assert [each.overview.topic for each in seen.listed.rows] == ["orders"]
    assert seen.listed.total == 1
    assert {state.value: number for state, number in seen.counts.items() if number} == {"due": 1, "healthy": 1}


def test_pages_of_topics_join_without_gap_or_repetition(store: Store) -> None:
    """And beyond the last one is nothing."""
    for number in range(7):
        put(store, f"t{number}")
    pages = [names(store, window=Window(number, 3)) for number in (1, 2, 3, 4)]
    assert pages == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6"], []]


def test_a_topic_shows_its_last_run_and_its_last_publication(store: Store) -> None:
    """The run that moved last may have failed since."""
    put(store)
    put_run(store, "p-1", at_ms=NOW_MS - 10, published=True)
    put_run(store, "p-2", at_ms=NOW_MS - 5, state=RunState.VOID)
    seen = store.overview.find_topic("orders", NOW_MS)
    assert seen is not None
    assert seen.last_run is not None
    assert (seen.last_run.plan_id, seen.last_run.status, seen.last_published_ms) == ("p-2", RunState.VOID, NOW_MS - 10)


def test_partitions_carry_their_marks_and_the_names_that_paused_them(store: Store) -> None:
    """In the order of partitions; the filter is the state's."""
    put(store, parts=[{}, OVERDUE, {}])
    put_marks(store, "orders", uncleanable=(2,), paused=(0, 2), count=3)
    seen = store.overview.list_partitions("orders", NOW_MS, Window())
    assert [each.state.value for each in seen.rows] == ["paused", "overdue", "uncleanable"]
    first, second, third = seen.rows
    assert first.paused is not None
    assert (first.paused.since_ms, first.paused.by, first.uncleanable) == (NOW_MS - DAY_MS, ("zoe", "ops"), None)
    assert (second.paused, second.uncleanable) == (None, None)
    assert third.uncleanable is not None
    assert (third.uncleanable.reason, third.uncleanable.attempts) == ("keys twice", 3)
    only = store.overview.list_partitions("orders", NOW_MS, Window(1, 1), state=OverviewState.OVERDUE)
    assert (only.total, [each.overview.partition for each in only.rows]) == (1, [1])


def test_runs_are_found_by_topic_state_dag_and_dag_run(store: Store) -> None:
    """The newest first; a DAG's name is no pattern, and a DAG run's id may hold colons."""
    at = iter(range(NOW_MS, NOW_MS + 9))
    put_run(store, "p-1", at_ms=next(at), published=True)
    put_run(store, "p-2", "payments", at_ms=next(at), holder="airflow:compact_topics:scheduled__1")
    put_run(store, "p-3", at_ms=next(at), holder="airflow:compactXtopics:scheduled__1")
    put_run(store, "p-4", at_ms=next(at), holder="host:12:cafe", state=RunState.VOID)
    put_run(store, "p-5", at_ms=next(at), holder=None)

    def found(**asked: Any) -> list[str]:
        listed = store.run_history.list_runs(Window(), **asked)
        assert listed.total == len(listed.rows)
        return [each.run.plan_id for each in listed.rows]

    assert found() == ["p-5", "p-4", "p-3", "p-2", "p-1"]
    assert found(topic="payments") == ["p-2"]
    assert found(status=RunState.VOID) == ["p-4"]
    assert found(dag_id="compact_topics") == ["p-2", "p-1"]
    assert found(dag_id="compact_topics", dag_run_id="scheduled__1") == ["p-2"]
    assert found(dag_run_id="scheduled__1") == ["p-3", "p-2"]
    assert found(dag_run_id="manual__2026-09-21T00:00:00+00:00") == ["p-1"]
    assert found(dag_run_id="scheduled_%") == []
    assert found(dag_id="compact_topics", topic="payments", status=RunState.PUBLISHED) == []
    assert [each.receipt is not None for each in store.run_history.list_runs(Window()).rows] == [False] * 4 + [True]


def test_quality_counts_verdicts_by_day_and_expectations_by_how_often_they_failed(store: Store) -> None:
    """Days without a verdict are there; a verdict of the day before the window is not."""
    today = NOW_MS // DAY_MS * DAY_MS
    put_verdict(store, "p-1", at_ms=today - 3 * DAY_MS)
    put_verdict(store, "p-2", at_ms=today - 2 * DAY_MS, failures=())
    put_verdict(store, "p-3", "payments", at_ms=today + 5)
    put_verdict(store, "p-4", at_ms=today + 6, failures=(("amount", Severity.WARN),))
    put_verdict(store, "p-5", at_ms=today + 7, broken=True)
    seen = store.quality.summarize(NOW_MS, 3)
    assert [(each.day_ms, each.verdicts, each.failed, each.broken) for each in seen.series] == [
        (today - 2 * DAY_MS, 1, 0, 0),
        (today - DAY_MS, 0, 0, 0),
        (today, 3, 1, 1),
    ]
    assert [
        (each.expectation, each.failures, each.topics, each.last_ms, each.by_day) for each in seen.expectations
    ] == [("keys_are_unique", 2, 2, today + 7, (0, 0, 2)), ("amount", 1, 1, today + 6, (0, 0, 1))]


def test_failing_expectations_of_a_topic_leave_warnings_out(store: Store) -> None:
    """And what failed before the time that is asked about."""
    both = (("keys_are_unique", Severity.FAIL), ("amount", Severity.WARN))
    put_verdict(store, "p-1", at_ms=NOW_MS, failures=both)
    put_verdict(store, "p-2", at_ms=NOW_MS - DAY_MS, failures=both)
    put_verdict(store, "p-3", "payments", failures=both)
    assert store.run_history.list_failing_expectations("orders", NOW_MS - DAY_MS) == 2
    assert store.run_history.list_failing_expectations("orders", NOW_MS - DAY_MS + 1) == 1


def test_verdicts_are_paged_by_topic_and_found_by_plan(store: Store) -> None:
    """The newest first."""
    put_verdict(store, "p-1", at_ms=NOW_MS, attempt="a-1")
    put_verdict(store, "p-1", at_ms=NOW_MS + 1, attempt="a-2")
    put_verdict(store, "p-2", at_ms=NOW_MS + 2)
    put_verdict(store, "p-3", "payments")
    listed = store.run_history.list_verdicts("orders", Window(1, 2))
    assert (listed.total, [each.plan_id for each in listed.rows]) == (3, ["p-2", "p-1"])
    assert [each.attempt for each in store.run_history.list_verdicts_of_plan("p-1")] == ["a-2", "a-1"]


def test_marks_are_listed_with_search_and_pages(store: Store) -> None:
    """Names are no patterns."""
    put_marks(store, "a_b", uncleanable=(0, 2), count=3)
    put_marks(store, "axb", uncleanable=(1,), count=2)
    assert [(each.topic, each.partition) for each in store.quality.list_uncleanable(Window()).rows] == [
        *(("a_b", 0), ("a_b", 2), ("axb", 1))
    ]
    found = store.quality.list_uncleanable(Window(2, 1), search="A_")
    assert (found.total, [(each.topic, each.partition) for each in found.rows]) == (2, [("a_b", 2)])


def test_alerts_are_listed_newest_first_with_what_they_were_told(store: Store) -> None:
    """Each has its kind, its partition and its message; a whole topic's has no partition."""
    store.alerts.remember("deadline_near:orders:", NOW_MS, kind="deadline_near", topic="orders")
    store.alerts.remember(
        "x:payments-1", NOW_MS + 1, kind="uncleanable_partition", topic="payments", partition=1, message="It failed."
    )
    seen = store.quality.list_alerts(Window())
    assert [(each.kind, each.partition, each.message) for each in seen.rows] == [
        ("uncleanable_partition", 1, "It failed."),
        ("deadline_near", None, ""),
    ]
    assert seen.total == 2
