"""Which offsets a call reads, and what it refuses, decided from a log's state and the brokers' offsets alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from winnow.errors import BadInputError, ServiceError, UsageError
from winnow.kafka.cluster import BrokerOffsets, BrokerTopic
from winnow.kafka.range_reader import BrokerRange
from winnow.pipeline.ingest.kafka.reading import ReadingRules, plan_reading, skip_known
from winnow.values.epochs import Epoch
from winnow.values.model import OffsetRange
from winnow.values.topic_state import PartitionState, TopicState

BEGINS = ReadingRules(begins_epoch=True)


def describe(*offsets: tuple[int, int], topic_id: str | None = "one") -> BrokerTopic:
    """A topic at its brokers: log start offset and last stable offset of each partition."""
    return BrokerTopic(
        "orders", topic_id, {number: BrokerOffsets(start, end, end) for number, (start, end) in enumerate(offsets)}
    )


def make_state(*ends: int, topic_id: str | None = "one") -> TopicState:
    """A log that has everything of the topic up to ``ends``."""
    partitions = {number: PartitionState(log_end_offset=end) for number, end in enumerate(ends)}
    return TopicState("orders", partitions, epochs=(Epoch("orders", topic_id, {}, dict(enumerate(ends)), "i1"),))


# ---------------------------------------------------------------------------------------------------------- gaps


def test_gap_of_one_record_is_refused_and_named() -> None:
    with pytest.raises(BadInputError, match="offsets lost: orders-0 from 10 to 10"):
        plan_reading(make_state(10), describe((11, 20)), ReadingRules())
    reading = plan_reading(make_state(10), describe((11, 20)), ReadingRules(accepts_gap=True))
    assert reading.gaps == {0: OffsetRange(10, 11)}


def test_log_start_at_the_position_is_no_gap() -> None:
    reading = plan_reading(make_state(10), describe((10, 20)), ReadingRules())
    assert (reading.ranges, reading.gaps) == ((BrokerRange("orders", 0, 10, 20),), {})


def test_first_offsets_of_a_partition_that_was_added_are_a_gap_when_they_are_deleted() -> None:
    state = replace(make_state(10), partitions={0: PartitionState(log_end_offset=10), 1: PartitionState()})
    with pytest.raises(BadInputError, match="orders-1 from 0 to 0"):
        plan_reading(state, describe((0, 10), (1, 5)), ReadingRules())
    reading = plan_reading(state, describe((0, 10), (1, 5)), ReadingRules(accepts_gap=True))
    assert reading.gaps == {1: OffsetRange(0, 1)}


def test_log_start_of_a_topic_that_is_looked_at_for_the_first_time_is_no_gap() -> None:
    state = TopicState("orders", {0: PartitionState(), 1: PartitionState()})
    reading = plan_reading(state, describe((3, 10), (0, 5)), ReadingRules())
    assert not reading.gaps
    assert reading.ranges == (BrokerRange("orders", 0, 3, 10), BrokerRange("orders", 1, 0, 5))


# ------------------------------------------------------------------------------------------ offsets that went back


@pytest.mark.parametrize("rules", [ReadingRules(), BEGINS])
def test_offset_set_back_by_one_is_refused_and_begins_no_epoch_of_the_same_topic(rules: ReadingRules) -> None:
    with pytest.raises(BadInputError, match=r"orders-0 ends at offset 9, .* up to offset 10") as told:
        plan_reading(make_state(10), describe((0, 9)), rules)
    assert "--new-epoch" not in str(told.value)


def test_new_epoch_of_the_same_topic_that_continues_is_refused() -> None:
    for end in (10, 15):
        with pytest.raises(UsageError, match="no new epoch"):
            plan_reading(make_state(10), describe((0, end)), BEGINS)


def test_offsets_set_back_where_brokers_give_no_topic_ids_may_begin_an_epoch() -> None:
    state, topic = make_state(10, topic_id=None), describe((0, 9), topic_id=None)
    with pytest.raises(BadInputError, match=r"were set back: orders-0 ends at offset 9.* --new-epoch"):
        plan_reading(state, topic, ReadingRules())
    reading = plan_reading(state, topic, BEGINS)
    assert reading.ranges == (BrokerRange("orders", 0, 0, 9, 10),)
    assert reading.begins_next_epoch


def test_partition_missing_from_the_answer_about_the_same_topic_is_run_again() -> None:
    with pytest.raises(ServiceError, match="partition 1 is missing"):
        plan_reading(make_state(10, 10), describe((0, 10)), BEGINS)
    with pytest.raises(BadInputError, match="another topic"):
        plan_reading(make_state(10, 10), describe((0, 10), topic_id="two"), ReadingRules())


# ------------------------------------------------------------------------------------------- what is here already


def test_what_is_skipped_leaves_the_offsets_of_the_epoch_as_they_are() -> None:
    reading = plan_reading(make_state(10, 10, 10), describe((2, 8), (0, 8), (0, 8), topic_id="two"), BEGINS)
    less = skip_known(reading, {0: 5, 1: 8})
    assert less.ranges == (BrokerRange("orders", 0, 5, 8, 10), BrokerRange("orders", 2, 0, 8, 10))
    assert less.skipped == {0: OffsetRange(2, 5), 1: OffsetRange(0, 8)}
    assert (less.epoch, less.is_due) == (reading.epoch, True)
    assert skip_known(reading, {}) == reading
