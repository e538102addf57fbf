"""What counts as an answer of brokers about a topic: an offset that is none proves nothing. Pure.

Clients hand out special numbers where they know no offset (librdkafka: -1001 for none, -1 for the end), and a partition
without a leader has nobody who could say. Such a topic is asked again later; nothing is concluded about its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from winnow.errors import ServiceError, join_first
from winnow.kafka.client import NOTHING_CHANGED

MAXIMUM_NAMED = 5
"""Maximum partitions that a message names."""


def is_offset(offset: object) -> bool:
    """Check whether ``offset`` is one; booleans, fractions and the special numbers of clients are none."""
    return isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0


def find_leaderless(
    servers: str, topic: str, leaders: Mapping[int, int | None], *, left: str = NOTHING_CHANGED
) -> ServiceError | None:
    """Make the error about partitions of ``topic`` that have no leader, or are missing; None if there are none.

    ``leaders``: the ids of the leading brokers by partition; None or negative where there is none. ``left``: what the
    call left behind; empty: the caller says that.
    """
    missing = sorted(set(range(max(leaders, default=0) + 1)) - leaders.keys())
    without = sorted(number for number, leader in leaders.items() if leader is None or leader < 0)
    if without:
        return _make_answer_error(servers, topic, without, "no broker leads it", left)
    if missing:
        return _make_answer_error(servers, topic, missing, "it is missing from the brokers' answer", left)
    return None


def check_offsets(
    servers: str,
    topic: str,
    partitions: Iterable[int],
    starts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    *,
    left: str = NOTHING_CHANGED,
) -> ServiceError | None:
    """Make the error about partitions of ``topic`` whose offsets are no valid answer; None if all are valid.

    ``starts``, ``ends``: log start offsets and last stable offsets by topic and partition. Valid are numbers from 0 on,
    of which the end is not below the start. ``left``: as of :func:`find_leaderless`.
    """
    numbers = list(partitions)
    missing = [number for number in numbers if (topic, number) not in starts or (topic, number) not in ends]
    if missing:
        return _make_answer_error(servers, topic, missing, "its offsets are missing from the brokers' answer", left)
    pairs = {number: (starts[topic, number], ends[topic, number]) for number in numbers}
    invalid = [number for number, (start, end) in pairs.items() if not is_offset(start) or not is_offset(end)]
    if invalid:
        start, end = pairs[invalid[0]]
        return _make_answer_error(
            servers, topic, invalid, f"its offsets are no valid answer (start {start}, end {end})", left
        )
    crossed = [number for number, (start, end) in pairs.items() if end < start]
    if crossed:
        start, end = pairs[crossed[0]]
        return _make_answer_error(servers, topic, crossed, f"its end {end} is below its start {start}", left)
    return None


def _make_answer_error(servers: str, topic: str, partitions: Sequence[int], reason: str, left: str) -> ServiceError:
    named = join_first([f"{topic}-{number}" for number in partitions], MAXIMUM_NAMED, ", ", last=" and ")
    return ServiceError(
        f"Kafka at {servers} gave no valid answer about {named}: {reason}. This says nothing about the records.",
        left,
        "Run it again." if left else "",
    )
