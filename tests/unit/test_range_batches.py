"""Messages of Kafka's client as record batches: what a timestamp is, and what is none."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import BrokerRange, RangeReader, make_batch

ZERO = (TIMESTAMP_CREATE_TIME, 0)


@pytest.mark.parametrize(
    ("stamp", "time_ms", "kind"),
    [
        (ZERO, 0, 0),
        ((TIMESTAMP_CREATE_TIME, 1), 1, 0),
        ((TIMESTAMP_LOG_APPEND_TIME, 0), 0, 1),
        ((TIMESTAMP_CREATE_TIME, -1), None, 0),
        ((TIMESTAMP_NOT_AVAILABLE, 0), None, 0),
    ],
)
def test_timestamp_of_0_is_a_time_and_a_missing_one_is_none(
    stamp: tuple[int, int], time_ms: int | None, kind: int
) -> None:
    message = Message(topic="orders", partition=0, offset=4, key=b"k", value=b"v", timestamp=stamp)
    (row,) = make_batch([message], BrokerRange("orders", 0, 4, 5, 10)).to_pylist()
    assert (row["offset"], row["timestamp"], row["timestampType"]) == (14, time_ms, kind)


@pytest.mark.parametrize(
    ("offsets", "taken", "done"), [([3, 4], [3, 4], False), ([4, 5, 7], [4], True), ([5], [], True), ([], [], False)]
)
def test_record_at_the_end_of_a_range_ends_it_and_is_not_of_it(
    offsets: list[int], taken: list[int], *, done: bool
) -> None:
    """The client asks no broker for this: nothing is assigned to it."""
    messages = [Message(topic="orders", partition=0, offset=offset, key=b"k", value=b"v") for offset in offsets]
    with RangeReader(ClientSettings("127.0.0.1:1")) as reader:
        found, has_ended = reader._take(messages, BrokerRange("orders", 0, 3, 5))
    assert ([message.offset() for message in found], has_ended) == (taken, done)
