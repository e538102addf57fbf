"""Forecasts which partitions will miss their deadline at the present pace (KIP-354). Pure.

The forecast is the best case: from now on everything that has a deadline is compacted without a pause, the earliest
deadline first, so overdue ones before all others. A partition that is still late needs more parallelism or another
max.compaction.lag.ms, and no schedule helps.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from winnow.values.model import Status
from winnow.values.results import Receipt


class Outlook(StrEnum):
    """How a deadline will end."""

    OVERDUE = "overdue"
    """It has passed."""
    BLOCKED = "blocked"
    """The partition is paused or uncleanable, so nothing works towards it."""
    NOT_INGESTED = "not_ingested"
    """Records that are due then are still at the brokers."""
    LATE = "late"
    """It passes before the work is done, even in the best case."""
    IN_TIME = "in_time"
    UNKNOWN = "unknown"
    """The pace is unknown: no earlier run measured it."""


@dataclass(frozen=True, slots=True)
class PendingPartition:
    """One partition with a deadline, and the bytes that its compaction reads.

    ``blocked``: no run takes it. ``missing``: the deadline is that of records that are not in the log yet.
    """

    topic: str
    partition: int
    deadline_ms: int
    size_bytes: int
    blocked: bool = False
    missing: bool = False


@dataclass(frozen=True, slots=True)
class DeadlineForecast:
    """The forecast for one partition. ``done_at_ms``: earliest time of completion; None when it is not known."""

    topic: str
    partition: int
    outlook: Outlook
    deadline_ms: int
    size_bytes: int
    done_at_ms: int | None

    @property
    def late_by_ms(self) -> int | None:
        """How long (ms) after its deadline it is done; 0 when in time."""
        return None if self.done_at_ms is None else max(0, self.done_at_ms - self.deadline_ms)


def measure_pace(receipts: Iterable[Receipt]) -> float | None:
    """Compute the bytes that one engine task reads per second, over all of ``receipts``; None if none has a time."""
    timed = [
        part
        for receipt in receipts
        if receipt.status is Status.PUBLISHED
        for part in receipt.partitions
        if part.seconds > 0 and part.bytes_in > 0
    ]
    seconds = math.fsum(part.seconds for part in timed)
    return sum(part.bytes_in for part in timed) / seconds if timed else None


def forecast_deadlines(
    work: Sequence[PendingPartition], *, bytes_per_second: float | None, parallelism: int, as_of_ms: int
) -> list[DeadlineForecast]:
    """Forecast every partition of ``work``, the earliest deadline first.

    Args:
        work: partitions with a deadline.
        bytes_per_second: the pace of one task (:func:`measure_pace`); None: unknown.
        parallelism: tasks at a time, at least 1. One partition is one task.
        as_of_ms: when the work begins.
    """
    free_at_ms = [float(as_of_ms)] * max(1, parallelism)
    prospects = []
    for each in sorted(work, key=lambda w: (w.deadline_ms, -w.size_bytes, w.topic, w.partition)):
        done_at_ms: int | None = None
        if bytes_per_second and not each.blocked and not each.missing:
            done = heapq.heappop(free_at_ms) + 1000 * each.size_bytes / bytes_per_second
            heapq.heappush(free_at_ms, done)
            done_at_ms = math.ceil(done)
        outlook = _classify_outlook(each, done_at_ms, as_of_ms)
        prospects.append(
            DeadlineForecast(each.topic, each.partition, outlook, each.deadline_ms, each.size_bytes, done_at_ms)
        )
    return prospects


def _classify_outlook(work: PendingPartition, done_at_ms: int | None, as_of_ms: int) -> Outlook:
    if work.deadline_ms < as_of_ms:
        return Outlook.OVERDUE
    if work.blocked:
        return Outlook.BLOCKED
    if work.missing:
        return Outlook.NOT_INGESTED
    if done_at_ms is None:
        return Outlook.UNKNOWN
    return Outlook.LATE if done_at_ms > work.deadline_ms else Outlook.IN_TIME
