"""An answer of brokers that is none is told apart from one that says something about records."""

from __future__ import annotations

import pytest

from winnow.errors import ServiceError
from winnow.kafka.answers import check_offsets, find_leaderless
from winnow.kafka.cluster import BrokerOffsets, BrokerTopic, TopicDescriptions

NO_OFFSET = -1001
"""What librdkafka hands out where it knows no offset."""


@pytest.mark.parametrize(
    ("start", "end"), [(0, NO_OFFSET), (NO_OFFSET, 5), (-1, 5), (0, -1), (0, None), (False, 5), (0, 2.5)]
)
def test_number_that_is_no_offset_makes_the_topic_run_again(start: object, end: object) -> None:
    problem = check_offsets(
        "h:1",
        "orders",
        [0, 1],
        {("orders", 0): 0, ("orders", 1): start},  # type: ignore[dict-item]
        {("orders", 0): 5, ("orders", 1): end},  # type: ignore[dict-item]
    )
    assert isinstance(problem, ServiceError)
    assert "orders-1: its offsets are no valid answer" in str(problem)
    assert problem.exit_code == 6


def test_end_below_the_start_is_no_answer() -> None:
    problem = check_offsets("h:1", "orders", [0], {("orders", 0): 6}, {("orders", 0): 5})
    assert "orders-0: its end 5 is below its start 6" in str(problem)


def test_partition_that_an_answer_leaves_out_is_named() -> None:
    problem = check_offsets("h:1", "orders", [0, 1], {("orders", 0): 0}, {("orders", 0): 5, ("orders", 1): 5})
    assert "orders-1: its offsets are missing" in str(problem)


def test_valid_offsets_are_an_answer_also_of_an_empty_partition() -> None:
    starts, ends = {("orders", 0): 0, ("orders", 1): 7}, {("orders", 0): 0, ("orders", 1): 7}
    assert check_offsets("h:1", "orders", [0, 1], starts, ends) is None


@pytest.mark.parametrize("leader", [None, -1])
def test_partition_without_a_leader_is_named(leader: int | None) -> None:
    assert "orders-1: no broker leads it" in str(find_leaderless("h:1", "orders", {0: 1, 1: leader}))
    assert find_leaderless("h:1", "orders", {0: 1, 1: 0}) is None


def test_partition_that_a_description_leaves_out_is_named() -> None:
    assert "orders-1: it is missing" in str(find_leaderless("h:1", "orders", {0: 1, 2: 1}))
    assert "orders-0: it is missing" in str(find_leaderless("h:1", "orders", {}))


def test_topic_without_a_valid_answer_is_never_taken_for_one_that_is_not_there() -> None:
    topic = BrokerTopic("orders", None, {0: BrokerOffsets(0, 1, 1)})
    found = TopicDescriptions({"orders": topic}, {"payments": ServiceError("no leader")})
    assert dict(found) == {"orders": topic}
    assert found.get("unknown") is None
    with pytest.raises(ServiceError, match="no leader"):
        found.get("payments")
    with pytest.raises(ServiceError, match="no leader"):
        assert "payments" not in found
