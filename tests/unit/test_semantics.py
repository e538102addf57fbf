"""The oracle, against the worked examples of the documents that it was written from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.log_model import LogModel
from oracle.model_values import ModelConfig
from oracle.surviving_records import (
    CleaningOutcome,
    advance_history,
    compute_survivors,
    compute_version,
    extend_tombstone_lives,
    find_delete_horizon,
    prune_history,
    read_header_version,
)
from winnow.values.model import Headers, Reason, Record
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Cleaning

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_000_000
LONG_AGO_MS = NOW_MS - 30 * DAY_MS
ALWAYS = ModelConfig(min_cleanable_dirty_ratio=0.0, segment_bytes=1)
"""Every file is a closed segment, and anything cleanable is reason enough."""


def never(_offset: int) -> bool:
    return False


def always(_offset: int) -> bool:
    return True


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def record(
    offset: int,
    key: str | None,
    value: str | None = "v",
    timestamp_ms: int | None = LONG_AGO_MS,
    headers: Headers | None = None,
) -> Record:
    return Record(
        offset=offset,
        key=None if key is None else key.encode(),
        value=None if value is None else value.encode(),
        timestamp_ms=timestamp_ms,
        headers=headers,
    )


def versioned(offset: int, key: str, number: int | None, value: str | None = "v") -> Record:
    return record(offset, key, value, headers=None if number is None else (("version", long(number)),))


def clean(
    records: Sequence[Record],
    end: int | None = None,
    strategy: Strategy = Strategy.OFFSET,
    header: str | None = None,
    expired: Callable[[int], bool] = never,
) -> CleaningOutcome:
    end = records[-1].offset + 1 if end is None else end
    return compute_survivors(records, next_first_dirty_offset=end, strategy=strategy, header=header, expired=expired)


def offsets(records: Sequence[Record]) -> list[int]:
    return [each.offset for each in records]


def log_of(*files: Sequence[Record], as_of_ms: int = LONG_AGO_MS, size_bytes: int | None = 100) -> LogModel:
    log = LogModel()
    for records in files:
        log.append(records, as_of_ms, size_bytes)
    return log


# Which record survives


def test_addresses_of_the_compacted_topic_example_keep_the_latest_of_each_user() -> None:
    """Aiven's table: six records of three users shrink to offsets 3, 4 and 6, values unchanged."""
    records = [
        record(1, "1001", "4 Privet Dr"),
        record(2, "1002", "221B Baker Street"),
        record(3, "1003", "Milkman Road"),
        record(4, "1002", "21 Jump St"),
        record(5, "1001", "Paper St"),
        record(6, "1001", "Paper Road 21"),
    ]
    outcome = clean(records)
    assert [(r.offset, r.value) for r in outcome.kept] == [
        (3, b"Milkman Road"),
        (4, b"21 Jump St"),
        (6, b"Paper Road 21"),
    ]
    assert outcome.superseded == [1, 2, 5]


def test_tail_and_head_of_the_compacted_topic_example_meet_over_two_cleanings() -> None:
    """Aiven's second example: a tail of three unique keys, then a head of three records, give the same result."""
    log = log_of([record(1, "1001"), record(2, "1002"), record(3, "1003")])
    first = log.compact(ALWAYS, NOW_MS, NOW_MS)
    assert first is not None
    assert offsets(first.kept) == [1, 2, 3]
    log.append([record(4, "1002"), record(5, "1001"), record(6, "1001")], LONG_AGO_MS)
    second = log.compact(ALWAYS, NOW_MS, NOW_MS)
    assert second is not None
    assert second.superseded == [1, 2, 5]
    assert offsets(log.read()) == [3, 4, 6]


def test_email_changes_of_one_user_keep_the_last_one() -> None:
    """Confluent's example: of several messages with one user id, the last update is retained, and only that."""
    outcome = clean([record(0, "123", "first"), record(1, "123", "second"), record(2, "123", "last")])
    assert [r.value for r in outcome.kept] == [b"last"]


def test_reading_from_a_removed_offset_gives_the_next_survivor() -> None:
    """Confluent: offsets 36, 37 and 38 are equivalent positions once 36 and 37 are gone; the log end offset stays."""
    log = log_of([record(35, "a"), record(36, "b"), record(37, "b"), record(38, "b")])
    log.compact(ALWAYS, NOW_MS, NOW_MS)
    assert [log.read(start)[0].offset for start in (36, 37, 38)] == [38, 38, 38]
    assert log.log_end_offset == 39


def test_records_at_or_above_the_end_of_the_cleaning_stay_with_all_their_duplicates() -> None:
    """What is not covered neither goes nor supersedes anything below, keyless records included."""
    records = [record(0, "a"), record(1, "a"), record(2, "a"), record(3, None), record(4, "a")]
    outcome = clean(records, end=2)
    assert offsets(outcome.kept) == [1, 2, 3, 4]
    assert (outcome.superseded, outcome.keyless) == ([0], [])


def test_keyless_records_below_the_end_leave_and_are_counted_on_their_own() -> None:
    """A keyless record is not superseded, whatever its value; an empty key is a key."""
    outcome = clean([record(0, None), record(1, None, None), record(2, ""), record(3, "")])
    assert outcome == CleaningOutcome(kept=[record(3, "")], superseded=[2], tombstones_expired=[], keyless=[0, 1])


def test_empty_value_and_text_null_are_values() -> None:
    """Only a null value deletes: an empty one and the text "null" survive where a tombstone would go."""
    outcome = clean([record(0, "a", ""), record(1, "b", "null"), record(2, "c", None)], expired=always)
    assert offsets(outcome.kept) == [0, 1]
    assert outcome.tombstones_expired == [2]


def test_tombstone_removes_the_values_before_it_in_the_cleaning_that_covers_both() -> None:
    """The value goes at once; the tombstone stays until it has expired."""
    outcome = clean([record(0, "a"), record(1, "a", None)])
    assert (offsets(outcome.kept), outcome.superseded) == ([1], [0])


def test_losing_tombstone_is_superseded_and_not_expired() -> None:
    """A tombstone with a later value behind it goes as any loser does."""
    outcome = clean([record(0, "a", None), record(1, "a")], expired=always)
    assert (outcome.superseded, outcome.tombstones_expired) == ([0], [])


@pytest.mark.parametrize(
    ("tail", "head", "survivor"),
    [(10, 5, 20), (5, 10, 100), (5, None, 20), (None, 5, 100), (5, 5, 100), (None, None, 100)],
)
def test_one_of_tail_and_head_survives_by_header_version(tail: int | None, head: int | None, survivor: int) -> None:
    """Every row of KIP-280's tail and head table leaves exactly one record; both missing falls back to the offset."""
    records = [versioned(20, "k", tail), versioned(100, "k", head)]
    outcome = clean(records, strategy=Strategy.HEADER, header="version")
    assert offsets(outcome.kept) == [survivor]


@pytest.mark.parametrize(
    ("tail_ms", "head_ms", "survivor"),
    [(10, 5, 20), (5, 10, 100), (5, None, 20), (None, 5, 100), (5, 5, 100), (None, None, 100), (0, None, 20)],
)
def test_one_of_tail_and_head_survives_by_timestamp(tail_ms: int | None, head_ms: int | None, survivor: int) -> None:
    """The same table under strategy timestamp: a missing timestamp loses to any real one, zero included."""
    records = [record(20, "k", timestamp_ms=tail_ms), record(100, "k", timestamp_ms=head_ms)]
    assert offsets(clean(records, strategy=Strategy.TIMESTAMP).kept) == [survivor]


def test_late_loser_does_not_stay_beside_the_winner_in_the_tail() -> None:
    """KIP-280 over two cleanings: v10 is clean, then v5 and later v7 arrive; v10 alone remains each time."""
    config = replace(ALWAYS, strategy=Strategy.HEADER, header="version")
    log = log_of([versioned(20, "k", 10)])
    log.compact(config, NOW_MS, NOW_MS)
    for offset, number in ((100, 5), (101, 7)):
        log.append([versioned(offset, "k", number)], LONG_AGO_MS)
        outcome = log.compact(config, NOW_MS, NOW_MS)
        assert outcome is not None
        assert outcome.superseded == [offset]
    assert offsets(log.read()) == [20]


@pytest.mark.parametrize("strategy", [Strategy.TIMESTAMP, Strategy.HEADER])
def test_tombstone_with_a_higher_version_wins_over_a_later_value(strategy: Strategy) -> None:
    """A tombstone takes part in the order like any record: the value that arrived later goes."""
    records = [
        replace(versioned(0, "k", 9, None), timestamp_ms=9),
        replace(versioned(1, "k", 3), timestamp_ms=3),
    ]
    outcome = clean(records, strategy=strategy, header="version")
    assert (offsets(outcome.kept), outcome.superseded) == ([0], [1])


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((("version", long(7)),), 7),
        ((("version", long(0)),), 0),
        ((("version", long(-3)),), -3),
        ((("version", long(2**63 - 1)),), 2**63 - 1),
        ((("version", b"\x00\x00\x00\x07"),), None),
        ((("version", b"\x00" * 9),), None),
        ((("version", b"7"),), None),
        ((("version", b""),), None),
        ((("version", None),), None),
        ((("Version", long(7)),), None),
        (((" version", long(7)),), None),
        ((("version", long(9)), ("version", long(7))), 7),
        ((("version", long(9)), ("version", b"")), None),
        ((("version", b""), ("other", long(1)), ("version", long(7))), 7),
        ((), None),
        (None, None),
    ],
)
def test_header_version_is_the_last_eight_byte_value_of_the_exact_name(
    headers: Headers | None, expected: int | None
) -> None:
    """Short, long, empty, null, wrong case and an unusable last occurrence all count as missing."""
    assert read_header_version(record(0, "k", headers=headers), "version") == expected


def test_negative_version_is_present_and_beats_a_missing_one() -> None:
    """Zero and negative versions are versions; only absence counts as missing."""
    records = [versioned(0, "k", -5), versioned(1, "k", None)]
    assert offsets(clean(records, strategy=Strategy.HEADER, header="version").kept) == [0]


@pytest.mark.parametrize("header", [None, ""])
def test_header_strategy_without_a_name_is_offset_order(header: str | None) -> None:
    """KIP-280: without a header name every version is missing, so the highest offset survives."""
    records = [versioned(0, "k", 9), versioned(1, "k", 3)]
    assert offsets(clean(records, strategy=Strategy.HEADER, header=header).kept) == [1]


# The cleaning history


def test_offset_belongs_to_the_entry_whose_end_lies_above_it() -> None:
    """Ends are exclusive: an entry covers from the previous end up to its own; above the last nothing is covered."""
    history = (Cleaning(10, 1, 101), Cleaning(20, 2, 52))
    assert [find_delete_horizon(offset, history) for offset in (0, 9, 10, 19, 20)] == [101, 101, 52, 52, None]


def test_history_grows_only_by_newly_covered_offsets() -> None:
    """A cleaning that reaches no further adds nothing, and a changed delete.retention.ms moves no stamped horizon."""
    history = advance_history((), 10, 1_000, 100)
    assert history == (Cleaning(10, 1_000, 1_100),)
    assert advance_history(history, 10, 5_000, 7) == history
    assert advance_history(history, 15, 5_000, 7) == (*history, Cleaning(15, 5_000, 5_007))


def test_imported_entry_of_unknown_time_is_stamped_by_the_cleaning_that_covers_it() -> None:
    """Unknown time counts as not yet covered: the whole range below the new end gets one horizon."""
    assert advance_history((Cleaning(10, None, None),), 15, 1_000, 100) == (Cleaning(15, 1_000, 1_100),)


def test_imported_entry_beyond_the_end_of_the_cleaning_stays_unknown_there() -> None:
    """Only what the cleaning covered is stamped; the rest waits for the cleaning that reaches it."""
    history = advance_history((Cleaning(20, None, None),), 15, 1_000, 100)
    assert history == (Cleaning(15, 1_000, 1_100), Cleaning(20, None, None))
    assert advance_history(history, 30, 2_000, 100) == (Cleaning(15, 1_000, 1_100), Cleaning(30, 2_000, 2_100))


def test_entry_goes_once_no_tombstone_below_its_end_remains() -> None:
    """Dropping a prefix leaves the horizon of every remaining tombstone as it was."""
    history = (Cleaning(10, 1, 11), Cleaning(20, 2, 12), Cleaning(30, 3, 13))
    assert prune_history(history, [25, 9]) == history
    assert prune_history(history, [25, 10]) == history[1:]
    assert prune_history(history, [40]) == ()
    assert prune_history(history, []) == ()


histories = st.lists(
    st.tuples(st.integers(1, 60), st.one_of(st.none(), st.integers(0, 9))), unique_by=lambda pair: pair[0], max_size=5
).map(lambda pairs: tuple(Cleaning(end, at, None if at is None else at + 100) for end, at in sorted(pairs)))


@given(history=histories, tombstones=st.lists(st.integers(0, 70)))
def test_pruning_changes_no_horizon_of_a_tombstone_that_remains(
    history: tuple[Cleaning, ...], tombstones: list[int]
) -> None:
    """Whatever goes, each remaining tombstone finds the horizon that it had."""
    pruned = prune_history(history, tombstones)
    assert [find_delete_horizon(t, pruned) for t in tombstones] == [find_delete_horizon(t, history) for t in tombstones]


@given(history=histories, end_offset=st.integers(0, 70))
def test_advancing_stamps_what_had_no_horizon_below_the_end_and_nothing_else(
    history: tuple[Cleaning, ...], end_offset: int
) -> None:
    """Known horizons never move, unknown ones below the end start now, and ends keep rising."""
    advanced = advance_history(history, end_offset, 1_000, 500)
    for offset in range(75):
        before = find_delete_horizon(offset, history)
        expected = 1_500 if before is None and offset < end_offset else before
        assert find_delete_horizon(offset, advanced) == expected
    ends = [entry.end_offset for entry in advanced]
    assert ends == sorted(set(ends))


# Tombstones over several cleanings


def test_tombstone_goes_in_the_first_cleaning_at_or_after_its_horizon() -> None:
    """The horizon is the cleaning time + delete.retention.ms; one millisecond before it the tombstone stays."""
    config = replace(ALWAYS, delete_retention_ms=DAY_MS)
    log = log_of([record(0, "a"), record(1, "a", None)])
    assert log.compact(config, NOW_MS, NOW_MS) is not None
    assert offsets(log.read()) == [1]
    assert log.history == (Cleaning(2, NOW_MS, NOW_MS + DAY_MS),)

    early = log.assess(config, NOW_MS + DAY_MS - 1, NOW_MS)
    assert (early.eligible, early.reason) == (False, Reason.CLEAN)
    due = log.assess(config, NOW_MS + DAY_MS, NOW_MS)
    assert (due.eligible, due.reason, due.first_uncleanable_offset) == (True, Reason.TOMBSTONES_EXPIRED, 2)

    outcome = log.compact(config, NOW_MS + DAY_MS, NOW_MS)
    assert outcome is not None
    assert outcome.tombstones_expired == [1]
    assert not log.read()
    assert not log.history
    assert (log.first_dirty_offset, log.log_end_offset) == (2, 2)


def test_delete_retention_of_zero_needs_two_cleanings() -> None:
    """The cleaning that starts the horizon never drops the tombstone; the next one, at the same time, does."""
    config = replace(ALWAYS, delete_retention_ms=0)
    log = log_of([record(0, "a", None)])
    first = log.compact(config, NOW_MS, NOW_MS)
    second = log.compact(config, NOW_MS, NOW_MS)
    assert first is not None
    assert second is not None
    assert (first.tombstones_expired, second.tombstones_expired) == ([], [0])
    assert log.compact(config, NOW_MS, NOW_MS) is None


def test_changed_delete_retention_moves_no_horizon_that_has_started() -> None:
    """Tombstones of two cleanings with different settings go one after the other, each at its own horizon."""
    log = log_of([record(0, "a", None)])
    log.compact(replace(ALWAYS, delete_retention_ms=10_000), NOW_MS, NOW_MS)
    short = replace(ALWAYS, delete_retention_ms=100)
    log.append([record(1, "b", None)], LONG_AGO_MS)
    log.compact(short, NOW_MS + 1, NOW_MS)

    assert log.compact(short, NOW_MS + 101, NOW_MS) is not None
    assert offsets(log.read()) == [0]
    assert log.compact(short, NOW_MS + 9_999, NOW_MS) is None
    assert log.compact(short, NOW_MS + 10_000, NOW_MS) is not None
    assert log.read() == []


def test_cleaning_time_is_the_later_of_as_of_and_now() -> None:
    """A backfill in the past never shortens a tombstone's life for a reader of today."""
    log = log_of([record(0, "a", None)])
    log.compact(replace(ALWAYS, delete_retention_ms=1_000), NOW_MS - DAY_MS, NOW_MS)
    assert log.history == (Cleaning(1, NOW_MS, NOW_MS + 1_000),)


def test_record_times_never_decide_when_a_tombstone_goes() -> None:
    """KAFKA-4529: a value with a future timestamp and a tombstone from the distant past; the tombstone stays."""
    log = log_of([record(0, "a", timestamp_ms=NOW_MS + 365 * DAY_MS), record(1, "a", None, timestamp_ms=1)])
    log.compact(ALWAYS, NOW_MS, NOW_MS)
    for later_ms in (1, 2):
        log.append([record(log.log_end_offset, "other")], LONG_AGO_MS)
        assert log.compact(ALWAYS, NOW_MS + later_ms, NOW_MS) is not None
    assert 1 in offsets(log.read())


def test_quiet_file_waits_until_all_its_horizons_have_passed() -> None:
    """A clean file over two entries is due at the later horizon; a cleaning for another reason need not wait."""
    log = LogModel()
    log.append([record(0, "a", None), record(1, "b", None)], LONG_AGO_MS)
    log.first_dirty_offset = 2
    log.history = (Cleaning(1, NOW_MS, NOW_MS + 100), Cleaning(2, NOW_MS, NOW_MS + 50))
    assert not log.assess(ALWAYS, NOW_MS + 99, NOW_MS).eligible
    assert log.assess(ALWAYS, NOW_MS + 100, NOW_MS).reason is Reason.TOMBSTONES_EXPIRED
    log.append([record(2, "c")], LONG_AGO_MS)
    outcome = log.compact(ALWAYS, NOW_MS + 50, NOW_MS)
    assert outcome is not None
    assert outcome.tombstones_expired == [1]


def test_tombstones_under_an_imported_checkpoint_make_the_log_eligible_once() -> None:
    """Their horizon is unknown, so one cleaning starts it, and only the cleaning after the horizon drops them."""
    log = log_of([record(0, "a"), record(1, "b", None)])
    log.import_checkpoint(2)
    assert log.assess(ALWAYS, NOW_MS, NOW_MS).reason is Reason.TOMBSTONES_EXPIRED
    first = log.compact(ALWAYS, NOW_MS, NOW_MS)
    assert first is not None
    assert first.tombstones_expired == []
    assert log.assess(ALWAYS, NOW_MS, NOW_MS).reason is Reason.CLEAN
    second = log.compact(ALWAYS, NOW_MS + DAY_MS, NOW_MS)
    assert second is not None
    assert second.tombstones_expired == [1]


def test_null_values_in_the_file_that_holds_the_first_dirty_offset_are_no_reason() -> None:
    """They may lie in its dirty part, where no horizon can have started: the log would be eligible for ever."""
    log = log_of([record(0, "a"), record(1, "b", None, timestamp_ms=NOW_MS)])
    log.import_checkpoint(1)
    assessed = log.assess(replace(ALWAYS, min_compaction_lag_ms=HOUR_MS), NOW_MS, NOW_MS)
    assert assessed.reason is Reason.INSIDE_MIN_LAG


def test_imported_checkpoint_never_replaces_one_that_is_there() -> None:
    """Importing twice, or after a cleaning, changes nothing."""
    log = log_of([record(0, "a"), record(1, "b", None)])
    log.compact(ALWAYS, NOW_MS, NOW_MS)
    history = log.history
    log.import_checkpoint(1)
    assert (log.first_dirty_offset, log.history) == (2, history)


def test_late_lower_version_does_not_resurrect_a_deleted_key() -> None:
    """Under timestamp a tombstone outlives delete.retention.ms, and waits for all that came before its horizon."""
    config = replace(ALWAYS, strategy=Strategy.TIMESTAMP, delete_retention_ms=DAY_MS, late_arrival_ms=7 * DAY_MS)
    log = log_of([record(0, "k", None, timestamp_ms=LONG_AGO_MS)])
    log.compact(config, NOW_MS, NOW_MS)
    horizon_ms = NOW_MS + 7 * DAY_MS
    assert not log.assess(config, horizon_ms - 1, NOW_MS).eligible

    held_back = replace(config, min_compaction_lag_ms=8 * DAY_MS)
    log.append([record(1, "other", timestamp_ms=horizon_ms)], horizon_ms - 1)
    log.append([record(2, "k", timestamp_ms=LONG_AGO_MS - 1)], horizon_ms - 1)
    assert log.assess(held_back, horizon_ms, NOW_MS).reason is Reason.INSIDE_MIN_LAG

    outcome = log.compact(config, horizon_ms, NOW_MS)
    assert outcome is not None
    assert (outcome.superseded, outcome.tombstones_expired, outcome.extended) == ([2], [], [0])
    outcome = log.compact(config, horizon_ms + 7 * DAY_MS, NOW_MS)
    assert outcome is not None
    assert outcome.tombstones_expired == [0]


def test_tombstone_that_superseded_a_record_has_an_entry_of_its_own_from_then_on() -> None:
    """Its neighbours keep their times, delete horizons do not move, and a later time stays."""
    history = (Cleaning(4, 10, 15), Cleaning(9, 20, 25), Cleaning(12, None, None))
    assert extend_tombstone_lives(history, [2, 4, 10], 30) == (
        Cleaning(2, 10, 15),
        Cleaning(3, 30, 15),
        Cleaning(4, 10, 15),
        Cleaning(5, 30, 25),
        Cleaning(9, 20, 25),
        Cleaning(12, None, None),
    )
    assert extend_tombstone_lives(history, [5], 20) == history


@pytest.mark.parametrize(
    ("strategy", "delete_retention_ms", "late_arrival_ms", "lives_ms"),
    [
        (Strategy.OFFSET, 5, 9, 5),
        (Strategy.TIMESTAMP, 5, 9, 9),
        (Strategy.HEADER, 5, 9, 9),
        (Strategy.TIMESTAMP, 9, 5, 9),
    ],
)
def test_tombstone_lives_for_the_longer_of_both_times_unless_the_offset_decides(
    strategy: Strategy, delete_retention_ms: int, late_arrival_ms: int, lives_ms: int
) -> None:
    """From the cleaning that first covered it; its delete horizon itself is Kafka's."""
    config = ModelConfig(
        strategy=strategy,
        header="v",
        delete_retention_ms=delete_retention_ms,
        late_arrival_ms=late_arrival_ms,
        segment_ms=1,
    )
    log = LogModel()
    log.append([Record(0, b"k", None, NOW_MS - 10)], NOW_MS - 10)
    assert log.compact(config, NOW_MS, NOW_MS) is not None
    assert [entry.delete_horizon_ms for entry in log.history] == [NOW_MS + delete_retention_ms]
    assert log.compact(config, NOW_MS + lives_ms - 1, NOW_MS + lives_ms - 1) is None
    assert log.compact(config, NOW_MS + lives_ms, NOW_MS + lives_ms) is not None
    assert log.read() == []


def test_record_appended_at_the_horizon_does_not_hold_a_tombstone_back() -> None:
    """Only what was appended before the horizon has a claim on the tombstone."""
    config = replace(ALWAYS, strategy=Strategy.TIMESTAMP, late_arrival_ms=DAY_MS, segment_bytes=1_000)
    log = log_of([record(0, "k", None)], size_bytes=1_000)
    log.compact(config, NOW_MS, NOW_MS)
    horizon_ms = NOW_MS + DAY_MS
    log.append([record(1, "k", timestamp_ms=horizon_ms)], horizon_ms, 1)
    assert log.assess(config, horizon_ms, NOW_MS).reason is Reason.TOMBSTONES_EXPIRED


# The cleanable range, the ratio, the lags


def test_six_equal_segments_give_the_ratio_of_the_worked_example() -> None:
    """Two clean, two cleanable, two held back by the minimum lag: ratio one half, which is not above one half."""
    old = [[record(offset, "k")] for offset in range(4)]
    young = [[record(offset, "k", timestamp_ms=NOW_MS)] for offset in (4, 5)]
    log = log_of(*old, *young)
    log.first_dirty_offset = 2
    config = ModelConfig(segment_bytes=100, min_compaction_lag_ms=HOUR_MS)
    assessed = log.assess(config, NOW_MS, NOW_MS)
    assert (assessed.first_dirty_offset, assessed.first_uncleanable_offset) == (2, 4)
    assert (assessed.clean_bytes, assessed.cleanable_bytes, assessed.dirty_ratio) == (200, 200, 0.5)
    assert (assessed.eligible, assessed.reason) == (False, Reason.NOT_DIRTY_ENOUGH)
    assert log.assess(replace(config, min_cleanable_dirty_ratio=0.49), NOW_MS, NOW_MS).reason is Reason.DIRTY_RATIO


def test_dirty_ratio_of_one_never_fires_and_zero_fires_for_any_cleanable_byte() -> None:
    """The threshold is strict at both ends of its range."""
    log = log_of([record(0, "a")])
    config = ModelConfig(segment_bytes=1, min_cleanable_dirty_ratio=1.0)
    assert log.assess(config, NOW_MS, NOW_MS).reason is Reason.NOT_DIRTY_ENOUGH
    assert log.assess(replace(config, min_cleanable_dirty_ratio=0.0), NOW_MS, NOW_MS).reason is Reason.DIRTY_RATIO


def test_file_that_holds_the_first_dirty_offset_counts_as_clean_and_as_cleanable() -> None:
    """A fully dirty looking log with an imported checkpoint inside its first file reads less than one, as Kafka's."""
    log = log_of([record(0, "a"), record(1, "a")], [record(2, "a")], [record(3, "a")])
    log.import_checkpoint(1)
    assessed = log.assess(ALWAYS, NOW_MS, NOW_MS)
    assert (assessed.clean_bytes, assessed.cleanable_bytes, assessed.dirty_ratio) == (100, 300, 0.75)


@pytest.mark.parametrize(("checkpoint", "expected"), [(None, 10), (5, 10), (200, 10), (10, 10), (11, 11), (12, 12)])
def test_checkpoint_outside_the_log_falls_back_to_the_log_start(checkpoint: int | None, expected: int) -> None:
    """KAFKA-6266: below the log start and above the log end the whole log is dirty; the log end itself is valid."""
    log = log_of([record(9, "a"), record(10, "a"), record(11, "b")])
    log.delete_records_before(10)
    log.first_dirty_offset = checkpoint
    assert log.assess(ALWAYS, NOW_MS, NOW_MS).first_dirty_offset == expected


def test_files_join_the_open_segment_until_its_bytes_reach_the_limit() -> None:
    """Three files of 100 bytes under segment.bytes=200: the first two close together, the third is active."""
    log = log_of(*[[record(offset, "k", timestamp_ms=NOW_MS)] for offset in range(3)], as_of_ms=NOW_MS)
    assessed = log.assess(ModelConfig(segment_bytes=200), NOW_MS, NOW_MS)
    assert (assessed.first_uncleanable_offset, assessed.cleanable_bytes) == (2, 200)
    log = log_of(*[[record(offset, "k", timestamp_ms=NOW_MS)] for offset in range(3)], as_of_ms=NOW_MS)
    assert log.assess(ModelConfig(segment_bytes=301), NOW_MS, NOW_MS).reason is Reason.NO_CLOSED_SEGMENT


@pytest.mark.parametrize(("age_ms", "closed"), [(HOUR_MS, False), (HOUR_MS + 1, True)])
@pytest.mark.parametrize("timestamped", [True, False])
@pytest.mark.parametrize(
    "config",
    [ModelConfig(segment_ms=HOUR_MS), ModelConfig(max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=1.0)],
)
def test_clock_alone_closes_the_active_segment(
    age_ms: int, closed: bool, timestamped: bool, config: ModelConfig
) -> None:
    """Strictly older than the lesser of segment.ms and max.compaction.lag.ms; without timestamps the append counts."""
    written_ms = NOW_MS - age_ms
    log = log_of([record(0, "a", timestamp_ms=written_ms if timestamped else None)], as_of_ms=written_ms)
    assessed = log.assess(config, NOW_MS, NOW_MS)
    assert assessed.first_uncleanable_offset == (1 if closed else 0)
    assert assessed.eligible is closed
    if not closed:
        assert assessed.reason is Reason.NO_CLOSED_SEGMENT


def test_active_segment_takes_its_age_from_its_oldest_file() -> None:
    """An old file joined by a young one closes both only up to the old one: the young one opens a new segment."""
    log = log_of([record(0, "a", timestamp_ms=LONG_AGO_MS)], [record(1, "a", timestamp_ms=NOW_MS)])
    assert log.assess(ModelConfig(), NOW_MS, NOW_MS).first_uncleanable_offset == 1
    log = log_of([record(0, "a", timestamp_ms=NOW_MS)], [record(1, "a", timestamp_ms=LONG_AGO_MS)])
    assert log.assess(ModelConfig(), NOW_MS, NOW_MS).first_uncleanable_offset == 2


@pytest.mark.parametrize(("age_ms", "cleanable"), [(HOUR_MS - 1, False), (HOUR_MS, True)])
@pytest.mark.parametrize("timestamped", [True, False])
def test_file_exactly_as_old_as_the_minimum_lag_is_cleanable(age_ms: int, cleanable: bool, timestamped: bool) -> None:
    """Equality is cleanable; a file without timestamps has the age of its append."""
    written_ms = NOW_MS - age_ms
    log = log_of([record(0, "a", timestamp_ms=written_ms if timestamped else None)], as_of_ms=written_ms)
    assessed = log.assess(replace(ALWAYS, min_compaction_lag_ms=HOUR_MS), NOW_MS, NOW_MS)
    assert assessed.reason is (Reason.DIRTY_RATIO if cleanable else Reason.INSIDE_MIN_LAG)


def test_one_future_timestamp_blocks_everything_after_it() -> None:
    """The scan stops at the first young file: older files behind it wait as well."""
    log = log_of([record(0, "a")], [record(1, "a", timestamp_ms=NOW_MS + DAY_MS)], [record(2, "a")])
    config = replace(ALWAYS, min_compaction_lag_ms=1)
    assert log.assess(config, NOW_MS, NOW_MS).first_uncleanable_offset == 1
    assert log.assess(ALWAYS, NOW_MS, NOW_MS).first_uncleanable_offset == 3


@pytest.mark.parametrize(("age_ms", "delay_ms"), [(HOUR_MS, 0), (HOUR_MS + 1, 1), (3 * HOUR_MS, 2 * HOUR_MS)])
def test_maximum_lag_is_strict_and_overrides_the_ratio(age_ms: int, delay_ms: int) -> None:
    """Exactly as old as max.compaction.lag.ms is not due; a millisecond more is, whatever the ratio."""
    log = log_of([record(0, "a", timestamp_ms=NOW_MS - age_ms)])
    config = ModelConfig(segment_bytes=1, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    assessed = log.assess(config, NOW_MS, NOW_MS)
    assert assessed.max_compaction_delay_ms == delay_ms
    assert assessed.reason is (Reason.MAX_COMPACTION_LAG if delay_ms else Reason.NOT_DIRTY_ENOUGH)
    assert assessed.deadline_ms == NOW_MS - age_ms + HOUR_MS


def test_minimum_lag_dominates_the_maximum() -> None:
    """A file held back by a young record cannot be forced, though its delay is reported."""
    records = [record(0, "a", timestamp_ms=NOW_MS - 2 * HOUR_MS), record(1, "a", timestamp_ms=NOW_MS)]
    config = replace(ALWAYS, min_compaction_lag_ms=HOUR_MS, max_compaction_lag_ms=HOUR_MS)
    assessed = log_of(records).assess(config, NOW_MS, NOW_MS)
    assert (assessed.reason, assessed.max_compaction_delay_ms) == (Reason.INSIDE_MIN_LAG, HOUR_MS)


def test_earliest_timestamp_is_the_exact_minimum_over_all_dirty_files() -> None:
    """Neither the first file nor the first record decides, and clean files do not count."""
    log = log_of(
        [record(0, "a", timestamp_ms=1)],
        [record(1, "a", timestamp_ms=NOW_MS - HOUR_MS)],
        [record(2, "a", timestamp_ms=NOW_MS), record(3, "a", timestamp_ms=NOW_MS - 5 * HOUR_MS)],
    )
    log.first_dirty_offset = 1
    config = replace(ALWAYS, max_compaction_lag_ms=2 * HOUR_MS)
    assert log.assess(config, NOW_MS, NOW_MS).max_compaction_delay_ms == 3 * HOUR_MS


def test_timestamps_at_or_below_zero_never_trigger_the_maximum_lag() -> None:
    """Kafka ignores such values; a log that has no others is never overdue and has no deadline."""
    log = log_of([record(0, "a", timestamp_ms=0)])
    config = replace(ALWAYS, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    assessed = log.assess(config, NOW_MS, NOW_MS)
    assert (assessed.reason, assessed.deadline_ms) == (Reason.NOT_DIRTY_ENOUGH, None)


def test_first_dirty_file_without_timestamps_is_estimated_from_its_append() -> None:
    """KIP-354, 2a: the append's as-of minus the longest time that a segment may stay open."""
    log = log_of([record(0, "a", timestamp_ms=None)], as_of_ms=NOW_MS)
    config = replace(ALWAYS, segment_ms=HOUR_MS, max_compaction_lag_ms=2 * HOUR_MS)
    assert log.assess(config, NOW_MS, NOW_MS).deadline_ms == NOW_MS + HOUR_MS
    short = replace(ALWAYS, segment_ms=DAY_MS, max_compaction_lag_ms=2 * HOUR_MS)
    assert log.assess(short, NOW_MS, NOW_MS).deadline_ms == NOW_MS


@pytest.mark.parametrize(
    ("previous_ms", "expected_ms"), [(NOW_MS - 3 * HOUR_MS, NOW_MS - 3 * HOUR_MS), (None, NOW_MS - 5 * HOUR_MS)]
)
def test_later_file_without_timestamps_is_estimated_from_the_file_before_it(
    previous_ms: int | None, expected_ms: int
) -> None:
    """KIP-354, 2b: the previous file's largest timestamp, or the as-of of its append."""
    lag_ms = 10 * HOUR_MS
    log = LogModel()
    log.append([record(0, "a", timestamp_ms=previous_ms)], NOW_MS - 5 * HOUR_MS, 100)
    log.append([record(1, "a", timestamp_ms=None)], NOW_MS, 100)
    with_it = log.assess(replace(ALWAYS, segment_ms=1, max_compaction_lag_ms=lag_ms), NOW_MS, NOW_MS).deadline_ms
    first_ms = NOW_MS - 5 * HOUR_MS - 1 if previous_ms is None else previous_ms
    assert with_it == min(first_ms, expected_ms) + lag_ms


def test_estimate_from_the_file_before_counts_where_that_file_is_ignored() -> None:
    """The previous file's smallest timestamp is zero and ignored, its largest still dates the file behind it."""
    log = LogModel()
    log.append([record(0, "a", timestamp_ms=0), record(1, "a", timestamp_ms=NOW_MS - HOUR_MS)], NOW_MS, 100)
    log.append([record(2, "a", timestamp_ms=None)], NOW_MS, 100)
    assessed = log.assess(replace(ALWAYS, max_compaction_lag_ms=2 * HOUR_MS), NOW_MS, NOW_MS)
    assert assessed.deadline_ms == NOW_MS + HOUR_MS


def test_deadline_covers_the_active_segment_and_is_absent_without_a_limit() -> None:
    """The oldest dirty record sets it even while it is active; the default lag sets none."""
    log = log_of([record(0, "a", timestamp_ms=NOW_MS - 1_000)])
    config = ModelConfig(max_compaction_lag_ms=HOUR_MS)
    assessed = log.assess(config, NOW_MS, NOW_MS)
    assert (assessed.reason, assessed.deadline_ms) == (Reason.NO_CLOSED_SEGMENT, NOW_MS - 1_000 + HOUR_MS)
    assert log.assess(ModelConfig(), NOW_MS, NOW_MS).deadline_ms is None


def test_delay_counts_closed_files_only() -> None:
    """An old record that arrived last but is still active sets the deadline, not yet the delay."""
    log = log_of([record(0, "a", timestamp_ms=NOW_MS)], [record(1, "a", timestamp_ms=NOW_MS - HOUR_MS)])
    log.append([record(2, "a", timestamp_ms=NOW_MS - 2 * HOUR_MS)], NOW_MS, 10)
    config = ModelConfig(segment_bytes=100, max_compaction_lag_ms=2 * HOUR_MS)
    assessed = log.assess(config, NOW_MS, NOW_MS)
    assert (assessed.first_uncleanable_offset, assessed.max_compaction_delay_ms, assessed.deadline_ms) == (2, 0, NOW_MS)


def test_maximum_lag_holds_on_an_idle_partition() -> None:
    """Kafka never rolls a segment without an append; here time alone makes the last records due and compacts them."""
    log = log_of([record(0, "a", timestamp_ms=NOW_MS), record(1, "a", timestamp_ms=NOW_MS)], as_of_ms=NOW_MS)
    config = ModelConfig(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    assert log.compact(config, NOW_MS + HOUR_MS, NOW_MS) is None
    assert log.compact(config, NOW_MS + HOUR_MS + 1, NOW_MS) is not None
    assert offsets(log.read()) == [1]


def test_gap_at_the_beginning_of_the_log_closes_nothing() -> None:
    """The only file is active and begins above the first dirty offset: there is still no closed segment."""
    log = log_of([record(5, "a", timestamp_ms=NOW_MS)])
    assessed = log.assess(ModelConfig(min_cleanable_dirty_ratio=0.0), NOW_MS, NOW_MS)
    assert (assessed.reason, assessed.first_uncleanable_offset) == (Reason.NO_CLOSED_SEGMENT, 5)


def test_gap_before_the_active_segment_is_jumped_by_the_checkpoint() -> None:
    """KAFKA-8764: the next first dirty offset is where the active segment begins, not the last record + 1."""
    log = log_of([record(0, "a")], [record(50, "a", timestamp_ms=NOW_MS)], size_bytes=100)
    config = ModelConfig(min_cleanable_dirty_ratio=0.0)
    assert log.compact(config, NOW_MS, NOW_MS) is not None
    assert (log.first_dirty_offset, offsets(log.read())) == (50, [0, 50])


# Reasons


def test_reasons_are_looked_at_in_their_fixed_order() -> None:
    """Each obstacle, once removed, uncovers the next one."""
    log = log_of([record(0, "a", timestamp_ms=NOW_MS - 2 * HOUR_MS)])
    log.in_progress = log.uncleanable = log.paused = True
    config = replace(ALWAYS, compacts=False, max_compaction_lag_ms=HOUR_MS)

    def reason() -> Reason:
        return log.assess(config, NOW_MS, NOW_MS).reason

    assert reason() is Reason.IN_PROGRESS
    log.in_progress = False
    assert reason() is Reason.UNCLEANABLE
    log.uncleanable = False
    assert reason() is Reason.PAUSED
    log.paused = False
    assert reason() is Reason.POLICY_DELETE_ONLY
    config = replace(config, compacts=True)
    log.cleaned_with = (Strategy.TIMESTAMP, None)
    assert reason() is Reason.STRATEGY_CHANGED
    log.cleaned_with = None
    assert reason() is Reason.MAX_COMPACTION_LAG
    config = replace(config, max_compaction_lag_ms=DAY_MS)
    assert reason() is Reason.DIRTY_RATIO
    config = replace(config, min_cleanable_dirty_ratio=1.0)
    assert reason() is Reason.NOT_DIRTY_ENOUGH
    log.files.clear()
    assert reason() is Reason.EMPTY


def test_log_start_inside_the_active_segment_is_not_eligible() -> None:
    """Nothing is cleanable and nothing loops when the first dirty offset lies inside the only, active file."""
    log = log_of([record(0, "a", timestamp_ms=NOW_MS), record(1, "a", timestamp_ms=NOW_MS)])
    log.delete_records_before(1)
    assessed = log.assess(ModelConfig(), NOW_MS, NOW_MS)
    assert (assessed.reason, assessed.cleanable_bytes) == (Reason.NO_CLOSED_SEGMENT, 0)
    assert (assessed.first_dirty_offset, assessed.first_uncleanable_offset) == (1, 1)


def test_changed_strategy_makes_the_whole_log_dirty_once() -> None:
    """Clean files count as cleanable again, small and young as they are, and the next cleaning judges all of them."""
    files = [[record(0, "k", timestamp_ms=NOW_MS - 1)], [record(1, "k", timestamp_ms=NOW_MS - 9)]]
    by_offset = ModelConfig(min_cleanable_dirty_ratio=0.0, segment_bytes=100)
    by_timestamp = ModelConfig(strategy=Strategy.TIMESTAMP)
    log = log_of(*files)
    log.compact(by_offset, NOW_MS, NOW_MS)
    log.append([record(2, "k", timestamp_ms=NOW_MS - 5)], NOW_MS, 100)
    assessed = log.assess(by_timestamp, NOW_MS, NOW_MS)
    assert (assessed.reason, assessed.first_dirty_offset, assessed.clean_bytes) == (Reason.STRATEGY_CHANGED, 0, 0)
    assert assessed.first_uncleanable_offset == 2
    assert log.compact(by_timestamp, NOW_MS, NOW_MS) is not None
    assert log.assess(by_timestamp, NOW_MS, NOW_MS).reason is Reason.NO_CLOSED_SEGMENT


def test_changed_header_name_is_a_changed_strategy_and_an_unused_one_is_not() -> None:
    """The name counts only where the strategy reads it."""
    log = log_of([record(0, "k")])
    log.compact(replace(ALWAYS, strategy=Strategy.HEADER, header="version"), NOW_MS, NOW_MS)
    renamed = replace(ALWAYS, strategy=Strategy.HEADER, header="epoch")
    assert log.assess(renamed, NOW_MS, NOW_MS).reason is Reason.STRATEGY_CHANGED
    log = log_of([record(0, "k")])
    log.compact(replace(ALWAYS, header="version"), NOW_MS, NOW_MS)
    assert log.assess(replace(ALWAYS, header="epoch"), NOW_MS, NOW_MS).reason is Reason.CLEAN


def test_records_below_the_log_start_supersede_nothing() -> None:
    """What cannot be read does not win: under timestamp the readable, older record survives."""
    config = replace(ALWAYS, strategy=Strategy.TIMESTAMP)
    log = log_of([record(0, "k", timestamp_ms=9), record(1, "k", timestamp_ms=5)])
    log.delete_records_before(1)
    outcome = log.compact(config, NOW_MS, NOW_MS)
    assert outcome is not None
    assert (offsets(outcome.kept), outcome.superseded) == ([1], [])


# Guarantees, over arbitrary logs

keys = st.one_of(st.none(), st.sampled_from(["", "a", "b", "c"]))
values = st.sampled_from([None, "", "null", "v"])
header_values = st.one_of(st.none(), st.binary(max_size=9), st.integers(-2, 2).map(long))
header_lists = st.one_of(
    st.none(), st.lists(st.tuples(st.sampled_from(["version", "Version"]), header_values), max_size=3).map(tuple)
)
strategies = st.sampled_from(list(Strategy))


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    gaps = draw(st.lists(st.integers(1, 3), max_size=12))
    records = []
    offset = -1
    for gap in gaps:
        offset += gap
        timestamp_ms = draw(st.one_of(st.none(), st.integers(0, 3)))
        records.append(record(offset, draw(keys), draw(values), timestamp_ms, draw(header_lists)))
    return records


ends = st.integers(0, 40)
expired_sets = st.frozensets(st.integers(0, 40))


def judge(records: list[Record], end: int, strategy: Strategy, gone: frozenset[int]) -> CleaningOutcome:
    return clean(records, end, strategy, "version", gone.__contains__)


@given(records=logs(), end=ends, strategy=strategies, gone=expired_sets)
def test_result_is_a_subsequence_of_the_log_and_accounts_for_every_record(
    records: list[Record], end: int, strategy: Strategy, gone: frozenset[int]
) -> None:
    """G2, G3: nothing is created, changed or reordered; in = kept + superseded + expired + keyless."""
    outcome = judge(records, end, strategy, gone)
    kept = set(offsets(outcome.kept))
    assert outcome.kept == [each for each in records if each.offset in kept]
    removed = [*outcome.superseded, *outcome.tombstones_expired, *outcome.keyless]
    assert sorted([*kept, *removed]) == offsets(records)


@given(records=logs(), end=ends, strategy=strategies, gone=expired_sets)
def test_nothing_at_or_above_the_end_is_removed(
    records: list[Record], end: int, strategy: Strategy, gone: frozenset[int]
) -> None:
    """G7: above the first uncleanable offset the log is the one before."""
    outcome = judge(records, end, strategy, gone)
    assert [r for r in outcome.kept if r.offset >= end] == [r for r in records if r.offset >= end]


@given(records=logs(), end=ends, strategy=strategies, gone=expired_sets)
def test_keys_are_unique_below_the_end(
    records: list[Record], end: int, strategy: Strategy, gone: frozenset[int]
) -> None:
    """G6: at most one record of a key remains, and no keyless one."""
    below = [r.key for r in judge(records, end, strategy, gone).kept if r.offset < end]
    assert None not in below
    assert len(below) == len(set(below))


@given(records=logs(), end=ends, gone=expired_sets)
def test_latest_value_of_every_key_stays_under_offset(records: list[Record], end: int, gone: frozenset[int]) -> None:
    """G1, G14: a key whose last record is a value keeps it; one whose last is a tombstone keeps no value."""
    last: dict[bytes, Record] = {r.key: r for r in records if r.key is not None and r.offset < end}
    kept = judge(records, end, Strategy.OFFSET, gone).kept
    for key, latest in last.items():
        remaining = [r for r in kept if r.key == key and r.offset < end]
        if latest.value is not None:
            assert remaining == [latest]
        else:
            assert all(r.value is None for r in remaining)


@given(records=logs(), end=ends, strategy=strategies)
def test_every_superseded_record_is_beaten_by_a_survivor_that_nothing_beats(
    records: list[Record], end: int, strategy: Strategy
) -> None:
    """G24: without expiry the survivor of a key is its maximum in the total order, pair by pair."""
    outcome = judge(records, end, strategy, frozenset())
    survivor = {r.key: r for r in outcome.kept if r.offset < end}
    for each in records:
        if each.key is not None and each.offset < end:
            assert not beats(each, survivor[each.key], strategy)
            assert each.offset not in outcome.superseded or beats(survivor[each.key], each, strategy)


def beats(left: Record, right: Record, strategy: Strategy) -> bool:
    """KIP-280's pairwise wording, written without tuples."""
    if strategy is Strategy.TIMESTAMP and left.timestamp_ms != right.timestamp_ms:
        if left.timestamp_ms is None or right.timestamp_ms is None:
            return right.timestamp_ms is None
        return left.timestamp_ms > right.timestamp_ms
    if strategy is Strategy.HEADER:
        ours, theirs = read_header_version(left, "version"), read_header_version(right, "version")
        if ours != theirs:
            if ours is None or theirs is None:
                return theirs is None
            return ours > theirs
    return left.offset > right.offset


@given(records=logs(), strategy=strategies)
def test_equal_version_leaves_the_higher_offset(records: list[Record], strategy: Strategy) -> None:
    """G25: two records that differ in nothing but the offset are ordered by it."""
    for each in records:
        later = replace(each, offset=each.offset + 1)
        assert compute_version(later, strategy, "version") > compute_version(each, strategy, "version")


@given(records=logs(), end=ends, strategy=strategies)
def test_only_a_null_value_ever_expires(records: list[Record], end: int, strategy: Strategy) -> None:
    """G16: with every horizon passed, each key's winner goes if its value is null and stays in all other cases."""
    waiting = judge(records, end, strategy, frozenset())
    due = judge(records, end, strategy, frozenset(range(100)))
    by_offset = {r.offset: r for r in records}
    assert all(by_offset[offset].value is None for offset in due.tombstones_expired)
    assert due.superseded == waiting.superseded
    assert [r for r in waiting.kept if r.offset < end and r.value is not None] == [
        r for r in due.kept if r.offset < end
    ]


@given(records=logs(), end=ends, strategy=strategies, gone=expired_sets)
def test_cleaning_again_changes_nothing(
    records: list[Record], end: int, strategy: Strategy, gone: frozenset[int]
) -> None:
    """G22: a second cleaning to the same offset finds nothing to remove."""
    once = judge(records, end, strategy, gone)
    twice = judge(once.kept, end, strategy, gone)
    assert twice == CleaningOutcome(kept=once.kept, superseded=[], tombstones_expired=[], keyless=[])


@given(records=logs(), strategy=strategies, cuts=st.lists(ends, max_size=3))
def test_cleaning_step_by_step_gives_what_one_cleaning_gives(
    records: list[Record], strategy: Strategy, cuts: list[int]
) -> None:
    """While no tombstone expires, the way in which the checkpoint rose does not show in the result."""
    stepwise = records
    for end in [*sorted(cuts), 50]:
        stepwise = judge(stepwise, end, strategy, frozenset()).kept
    assert stepwise == judge(records, 50, strategy, frozenset()).kept


@given(records=logs(), strategy=strategies, width=st.integers(1, 5))
def test_log_settles_on_the_winning_values_once_all_horizons_have_passed(
    records: list[Record], strategy: Strategy, width: int
) -> None:
    """G15, G22 on the whole model: two cleanings empty it of tombstones, the third finds it clean, offsets stand."""
    config = replace(ALWAYS, strategy=strategy, header="version")
    log = LogModel()
    for start in range(0, len(records), width):
        log.append(records[start : start + width], NOW_MS)
    end_offset = log.log_end_offset
    winners: dict[bytes, list[Record]] = defaultdict(list)
    for each in records:
        if each.key is not None:
            winners[each.key].append(each)
    expected = [max(group, key=lambda r: compute_version(r, strategy, "version")) for group in winners.values()]

    log.compact(config, NOW_MS, NOW_MS)
    assert log.read() == sorted(expected, key=lambda r: r.offset)
    log.compact(config, NOW_MS + 10 * DAY_MS, NOW_MS)
    assert log.read() == sorted((r for r in expected if r.value is not None), key=lambda r: r.offset)
    assert log.history == ()
    assert log.compact(config, NOW_MS + 20 * DAY_MS, NOW_MS) is None
    assert log.log_end_offset == end_offset
