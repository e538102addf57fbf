"""Kafka's cleaner metrics for an archive, under Kafka's names, and a few of Winnow's own. Pure.

A :class:`Measurement` holds what metrics are made of, so that those of several topics add up before anything is
divided: the total's recopy percentage is no mean of percentages. Figures of "the last run" are those of the last run of
each topic that compacted something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from winnow.model import Assessment, Reason, Receipt, Status, TopicState

Value = float | int | None
"""None: nothing is known, or there is nothing to measure; the metric is left out."""

_NOT_CONSIDERED = frozenset({Reason.IN_PROGRESS, Reason.PAUSED})


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the metrics of one topic, or of several, are made of. ``topic`` None: all that were measured.

    ``max_delay_ms``: the most that a partition is over its deadline. ``max_dirty_ratio``: 0 to 1, before any threshold.
    ``next_deadline_ms``: from the as-of to the earliest deadline; negative when it has passed. ``seconds``: engine time
    of the last run, summed over its partitions; ``longest_seconds``: of the slowest of them.
    """

    topic: str | None
    max_delay_ms: int = 0
    max_dirty_ratio: float = 0.0
    next_deadline_ms: int | None = None
    since_last_run_ms: int | None = None
    overdue: int = 0
    paused: int = 0
    uncleanable: int = 0
    uncleanable_bytes: int = 0
    retired_bytes: int = 0
    runs: int = 0
    forced: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0
    keyless: int = 0
    headers_missing: int = 0
    headers_malformed: int = 0


def measure(
    state: TopicState,
    assessments: Sequence[Assessment],
    receipts: Iterable[Receipt],
    *,
    compacts: bool,
    last_run_ms: int | None,
    as_of_ms: int,
) -> Measurement:
    """What holds of one topic at ``as_of_ms``.

    Args:
        state: the carried state: marks, pauses, retired files.
        assessments: one per partition, made now and of this state.
        receipts: of the topic, in any order; only the newest that compacted something counts.
        compacts: whether the policy includes compact; a topic without it has no cleaner and no deadline.
        last_run_ms: when the topic was last looked at, whether or not a run came of it; None when it never was.
        as_of_ms: the present of every difference.
    """
    marked = {number for number, part in state.partitions.items() if part.uncleanable is not None}
    compacted = assessments if compacts else ()
    considered = [a for a in compacted if a.reason not in _NOT_CONSIDERED and a.partition not in marked]
    deadlines = [a.deadline_ms for a in compacted if a.deadline_ms is not None]
    measured = Measurement(
        topic=state.topic,
        max_delay_ms=max((a.max_compaction_delay_ms for a in compacted), default=0),
        max_dirty_ratio=max((a.dirty_ratio for a in considered), default=0.0),
        next_deadline_ms=min(deadlines) - as_of_ms if deadlines else None,
        since_last_run_ms=None if last_run_ms is None else max(0, as_of_ms - last_run_ms),
        overdue=sum(a.max_compaction_delay_ms > 0 for a in compacted),
        paused=sum(part.paused_since_ms is not None for part in state.partitions.values()),
        uncleanable=len(marked),
        uncleanable_bytes=sum(a.cleanable_bytes for a in assessments if a.partition in marked),
        retired_bytes=sum(file.size_bytes for file in state.retired),
    )
    last = _last_compaction(receipts)
    return measured if last is None else _with_run(measured, last)


def _last_compaction(receipts: Iterable[Receipt]) -> Receipt | None:
    compactions = [
        receipt
        for receipt in receipts
        if receipt.status is Status.PUBLISHED and any(part.bytes_in for part in receipt.partitions)
    ]
    return max(compactions, key=lambda receipt: receipt.finished_at_ms, default=None)


def _with_run(measured: Measurement, last: Receipt) -> Measurement:
    parts = last.partitions
    return replace(
        measured,
        runs=1,
        forced=sum(part.reason is Reason.MAX_COMPACTION_LAG for part in parts),
        bytes_in=sum(part.bytes_in for part in parts),
        bytes_out=sum(part.bytes_out for part in parts),
        seconds=math.fsum(part.seconds for part in parts),
        longest_seconds=max(part.seconds for part in parts),
        keyless=sum(part.records_keyless for part in parts),
        headers_missing=sum(part.headers_missing for part in parts),
        headers_malformed=sum(part.headers_malformed for part in parts),
    )


def total(measured: Sequence[Measurement]) -> Measurement:
    """Several topics as one: sums of counts, bytes and times, the worst of delays, ratios and deadlines."""
    deadlines = [m.next_deadline_ms for m in measured if m.next_deadline_ms is not None]
    runs = [m.since_last_run_ms for m in measured if m.since_last_run_ms is not None]
    return Measurement(
        topic=None,
        max_delay_ms=max((m.max_delay_ms for m in measured), default=0),
        max_dirty_ratio=max((m.max_dirty_ratio for m in measured), default=0.0),
        next_deadline_ms=min(deadlines, default=None),
        # Kafka: the last selection by any thread.
        since_last_run_ms=min(runs, default=None),
        overdue=sum(m.overdue for m in measured),
        paused=sum(m.paused for m in measured),
        uncleanable=sum(m.uncleanable for m in measured),
        uncleanable_bytes=sum(m.uncleanable_bytes for m in measured),
        retired_bytes=sum(m.retired_bytes for m in measured),
        runs=sum(m.runs for m in measured),
        forced=sum(m.forced for m in measured),
        bytes_in=sum(m.bytes_in for m in measured),
        bytes_out=sum(m.bytes_out for m in measured),
        seconds=math.fsum(m.seconds for m in measured),
        longest_seconds=max((m.longest_seconds for m in measured), default=0.0),
        keyless=sum(m.keyless for m in measured),
        headers_missing=sum(m.headers_missing for m in measured),
        headers_malformed=sum(m.headers_malformed for m in measured),
    )


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge: Kafka's name (or Winnow's in Kafka's manner), what it says, and how it comes out of a measurement."""

    name: str
    meaning: str
    value: Callable[[Measurement], Value]


def _of_last_run(value: Callable[[Measurement], Value]) -> Callable[[Measurement], Value]:
    return lambda m: value(m) if m.runs else None


def _seconds(ms: int | None) -> Value:
    return None if ms is None else ms / 1000


METRICS: tuple[Metric, ...] = (
    Metric(
        "max-compaction-delay-secs",
        "Seconds by which the most overdue partition is past its deadline (KIP-354), over all partitions",
        lambda m: _seconds(m.max_delay_ms),
    ),
    Metric(
        "num-logs-compacted-by-max-compaction-lag",
        "Partitions that the last run compacted because of max.compaction.lag.ms (KIP-354)",
        _of_last_run(lambda m: m.forced),
    ),
    Metric(
        "max-dirty-percent",
        "Highest dirty ratio, before any threshold, without partitions in progress, paused or uncleanable",
        lambda m: 100 * m.max_dirty_ratio,
    ),
    Metric(
        "cleaner-recopy-percent",
        "Bytes after the last run per bytes before it; low is effective",
        _of_last_run(lambda m: 100 * m.bytes_out / max(m.bytes_in, 1)),
    ),
    Metric(
        "max-clean-time-secs",
        "Engine seconds of the slowest partition of the last run",
        lambda m: m.longest_seconds if m.seconds else None,
    ),
    Metric(
        "cleaner-io",
        "Bytes that the last run read and left, per second of engine time",
        lambda m: (m.bytes_in + m.bytes_out) / m.seconds if m.seconds else None,
    ),
    Metric(
        "time-since-last-run-ms",
        "Milliseconds since partitions were last selected, also when none was due (KAFKA-3857)",
        lambda m: m.since_last_run_ms,
    ),
    Metric(
        "uncleanable-partitions-count",
        "Partitions that are marked uncleanable (KIP-346)",
        lambda m: m.uncleanable,
    ),
    Metric(
        "uncleanable-bytes",
        "Cleanable bytes of the partitions that are marked uncleanable (KIP-346)",
        lambda m: m.uncleanable_bytes,
    ),
    Metric(
        "no-key-compacted-topic-records",
        "Records without a key that the last run moved to the quarantine (Kafka: NoKeyCompactedTopicRecords)",
        _of_last_run(lambda m: m.keyless),
    ),
    Metric(
        "overdue-partitions-count",
        "Partitions past their deadline",
        lambda m: m.overdue,
    ),
    Metric(
        "next-deadline-secs",
        "Seconds to the earliest deadline; negative when it has passed",
        lambda m: _seconds(m.next_deadline_ms),
    ),
    Metric(
        "paused-partitions-count",
        "Partitions whose compaction is paused",
        lambda m: m.paused,
    ),
    Metric(
        "retired-bytes-waiting",
        "Bytes of replaced files that wait for their grace and the sweep",
        lambda m: m.retired_bytes,
    ),
    Metric(
        "header-missing-records",
        "Records of the last run without the version header of strategy header (KIP-280)",
        _of_last_run(lambda m: m.headers_missing),
    ),
    Metric(
        "header-malformed-records",
        "Records of the last run whose version header is no 8-byte long (KIP-280)",
        _of_last_run(lambda m: m.headers_malformed),
    ),
)


def values(measured: Measurement) -> dict[str, Value]:
    """Every metric by name, in the order of :data:`METRICS`; None where nothing is known."""
    return {metric.name: _rounded(metric.value(measured)) for metric in METRICS}


def _rounded(value: Value) -> Value:
    return round(value, 3) if isinstance(value, float) else value
