"""Which life of a topic an offset is of, and under which leaders the records of a partition were written."""

from __future__ import annotations

import pytest

from winnow.values.epochs import (
    MAXIMUM_LEADER_EPOCHS,
    Epoch,
    LeaderEpoch,
    append_leader_epochs,
    describe_offset,
    drop_epochs_of,
    find_epoch,
    find_epoch_end,
    format_topic_id,
    locate_offset,
    restore_offset,
    shorten_leader_epochs,
)

FIRST = Epoch("orders", "A", {}, {0: 70})
LEFT_AT_40 = Epoch("orders", "A", {0: 30}, {0: 90}, begins={0: 70})
"""The brokers lost what they had from offset 40 on, and had been read up to 70."""
CREATED_AGAIN = Epoch("orders", "B", {0: 90})


@pytest.mark.parametrize(
    ("offset", "number", "at_brokers"), [(39, 1, 39), (69, 1, 69), (70, 2, 40), (89, 2, 59), (90, 3, 0), (95, 3, 5)]
)
def test_offset_of_the_log_has_an_epoch_and_an_offset_at_the_brokers(offset: int, number: int, at_brokers: int) -> None:
    epochs = (FIRST, LEFT_AT_40, CREATED_AGAIN)
    assert find_epoch(epochs, 0, offset) == number
    assert restore_offset(epochs, 0, offset) == at_brokers
    assert find_epoch_end(epochs, 1, 0) == 70


@pytest.mark.parametrize(("at_brokers", "offset"), [(0, 0), (39, 39), (40, 70), (59, 89)])
def test_offset_at_the_brokers_is_in_the_life_that_they_have_it_of(at_brokers: int, offset: int) -> None:
    assert locate_offset((FIRST, LEFT_AT_40), 0, at_brokers) == offset


def test_offsets_of_a_topic_that_was_created_again_are_never_those_of_the_one_before() -> None:
    assert locate_offset((FIRST, LEFT_AT_40, CREATED_AGAIN), 0, 5) == 95
    assert locate_offset((FIRST, Epoch("orders", "B", {0: 90}, begins={0: 95})), 0, 2) == 92
    assert locate_offset((), 0, 5) == 5


def test_leader_epochs_are_kept_where_they_change() -> None:
    known = append_leader_epochs((), [LeaderEpoch(0, 0, 10), LeaderEpoch(0, 12, 20)], joins=True)
    assert known == (LeaderEpoch(0, 0, 20),)
    known = append_leader_epochs(known, [LeaderEpoch(0, 20, 25), LeaderEpoch(3, 26, 27)], joins=True)
    assert known == (LeaderEpoch(0, 0, 25), LeaderEpoch(3, 26, 27))
    assert append_leader_epochs(known, (), joins=False) == known


def test_leader_epochs_begin_again_behind_records_of_another_source() -> None:
    known = (LeaderEpoch(3, 0, 25),)
    assert append_leader_epochs(known, [LeaderEpoch(3, 30, 31)], joins=False) == (LeaderEpoch(3, 30, 31),)


def test_leader_epochs_are_bounded() -> None:
    observed = [LeaderEpoch(number, number, number + 1) for number in range(100)]
    assert append_leader_epochs((), observed, joins=True) == tuple(observed[-MAXIMUM_LEADER_EPOCHS:])


@pytest.mark.parametrize(
    ("end", "left"), [(30, ((0, 0, 20), (3, 20, 30))), (25, ((0, 0, 20), (3, 20, 25))), (20, ((0, 0, 20),)), (0, ())]
)
def test_leader_epochs_end_with_the_log(end: int, left: tuple[tuple[int, int, int], ...]) -> None:
    known = (LeaderEpoch(0, 0, 20), LeaderEpoch(3, 20, 30))
    assert shorten_leader_epochs(known, end) == tuple(LeaderEpoch(*part) for part in left)


def test_undone_call_takes_only_its_own_epoch_back() -> None:
    epochs = (Epoch("orders", "A", ingest_id="one"), Epoch("orders", "B", {0: 90}, ingest_id="two"))
    assert drop_epochs_of(epochs, "two") == epochs[:1]
    assert drop_epochs_of(epochs, "one") == epochs[1:]


def test_epoch_of_an_offset_is_shown_once_there_are_two() -> None:
    assert describe_offset((FIRST,), 0, 75) == {}
    assert describe_offset((FIRST, LEFT_AT_40), 0, 75) == {"epoch": 2, "source_offset": 45}


def test_topic_id_is_written_as_kafka_writes_it() -> None:
    assert format_topic_id("a+b/c+d/") == "a-b_c-d_"
