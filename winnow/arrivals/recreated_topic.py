"""Recognises that the offsets of a source topic began again: it was deleted and created again, or is a mirror.

Then records that come later have smaller offsets than those of the log, and other bytes. Producers set timestamps, so
they are evidence for a message only: such records are refused either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.model import Segment

_SENTENCE = (
    "the topic was deleted and created again, or this is a mirror of it: its offsets begin again, with later records. "
    f"{NOTHING_INGESTED} Continuing such a log is not possible yet; create another topic for what comes after"
)


def find_newest_timestamp(segments: Sequence[Segment]) -> int | None:
    """Return the newest timestamp of the records of a partition; None if no record has one."""
    return max((each.max_timestamp_ms for each in segments if each.max_timestamp_ms is not None), default=None)


def describe_new_beginning(topic: str, partition: int, offset: int) -> str:
    """Say why a record below the log end is refused, and what to do."""
    return (
        f"the log of {topic}-{partition} is beyond offset {offset}, and its records are older than this one: "
        f"{_SENTENCE}: winnow topics create NAME --partitions N, then ingest into it."
    )


def describe_two_beginnings(partition: int, offset: int) -> str:
    """Say why two records with one offset are refused where one comes after the other's end."""
    return (
        f"(partition {partition}, offset {offset}): two different records have the same offset, and one is later than "
        f"all records of the other object: {_SENTENCE}. Ingest the objects from before and after into two topics; "
        "--exclude GLOB leaves those of one out."
    )


def describe_other_topic_id(topic: str, partition: int, before: str, found: str) -> str:
    """Say why the log of another topic id is refused."""
    return (
        f"The log directory of partition {partition} is of another topic than what {topic} holds (topic id {found}, "
        f"{before} before): {_SENTENCE}: winnow topics create NAME --partitions N, then ingest into it."
    )
