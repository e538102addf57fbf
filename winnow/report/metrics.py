"""Computes Kafka's cleaner metrics for an archive, and some of Winnow's own. Pure.

A :class:`Measurement` holds the inputs of metrics, so that those of several topics are added up before anything is
divided: the total's recopy percentage is no mean of percentages. Figures of "the last run" are those of the last run of
each topic that compacted something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from winnow.values.model import STATES_HIDDEN_BY_PAUSE, Assessment, OverviewState, Reason, Status
from winnow.values.results import NO_FIGURES, Receipt, RunFigures, sum_figures
from winnow.values.topic_state import TopicState

Value = float | int | None
"""None: unknown, or nothing to measure; the metric is left out."""

RUN_STATES = ("published", "invalid", "broken", "spark_failed", "refused", "void", "unknown")
TOPIC_STATES = tuple(state.value for state in OverviewState)
"""The most severe first."""

_NOT_CONSIDERED = frozenset({Reason.IN_PROGRESS, Reason.PAUSED})


@dataclass(frozen=True, slots=True)
class Measurement:
    """Inputs of the metrics of one topic, or of several. ``topic`` None: all that were measured.

    ``max_delay_ms``: the most that a partition is over its deadline. ``max_dirty_ratio``: 0 to 1, before any threshold.
    ``next_deadline_ms``: from the as-of to the earliest deadline; negative when it has passed. ``records_behind``,
    ``behind_ms``, ``look_age_ms``: how far the log is behind its Kafka topic, and how old the look is that found it;
    None for a topic that was not ingested from brokers. ``records_uncommitted``, ``open_transaction_ms``: what open
    transactions held back at that look, and the age of the oldest of them; 0 without one, None where the look did not
    learn it and as above. ``latest_age_ms``, ``latest_late_ms``: the age of the oldest record that the table of the
    latest state lacks, and by how much that is too old; None without such a table, or a limit. ``last_run_ms``: when
    partitions were last selected. ``damaged``: segments in which a scrub found damage.
    ``figures``: those of the last run, summed over its partitions. ``seconds``: its engine time,
    summed likewise; ``longest_seconds``: of its slowest partition. ``runs_*``: runs by the state they are in now.
    ``topics_*``: topics by their state in one word;
    for one topic, one of them is 1.
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
    figures: RunFigures = NO_FIGURES
    seconds: float = 0.0
    longest_seconds: float = 0.0
    partitions: int = 0
    due: int = 0
    swept_bytes: int = 0
    runs_published: int = 0
    runs_invalid: int = 0
    runs_broken: int = 0
    runs_spark_failed: int = 0
    runs_refused: int = 0
    runs_void: int = 0
    runs_unknown: int = 0
    topics_healthy: int = 0
    topics_paused: int = 0
    topics_due: int = 0
    topics_overdue: int = 0
    topics_uncleanable: int = 0
    records_behind: int | None = None
    behind_ms: int | None = None
    look_age_ms: int | None = None
    records_uncommitted: int | None = None
    open_transaction_ms: int | None = None
    latest_age_ms: int | None = None
    latest_late_ms: int | None = None
    last_run_ms: int | None = None
    damaged: int = 0


def compute_measurement(
    state: TopicState,
    assessments: Sequence[Assessment],
    receipts: Iterable[Receipt],
    *,
    compacts: bool,
    last_run_ms: int | None,
    as_of_ms: int,
    runs_by_state: Mapping[str, int] = MappingProxyType({}),
    swept_bytes: int = 0,
    damaged: int = 0,
) -> Measurement:
    """Measure one topic at ``as_of_ms``.

    Args:
        state: the carried state: marks, pauses, retired files.
        assessments: one per partition, made now and of this state.
        receipts: of the topic, in any order; only the newest that compacted something counts.
        compacts: whether the policy includes compact; a topic without it has no cleaner and no deadline.
        last_run_ms: when the topic was last assessed, with or without a run; None if it never was.
        as_of_ms: the present, from which every difference is computed.
        runs_by_state: how many runs of the topic are published, invalid, and so on.
        swept_bytes: bytes that sweeps of the topic have removed so far.
        damaged: segments in which a scrub found damage.
    """
    marked = {number for number, part in state.partitions.items() if part.uncleanable is not None}
    compacted = assessments if compacts else ()
    considered = [a for a in compacted if a.reason not in _NOT_CONSIDERED and a.partition not in marked]
    deadlines = [a.deadline_ms for a in compacted if a.deadline_ms is not None]
    counted: dict[str, Any] = {f"runs_{word}": runs_by_state.get(word, 0) for word in RUN_STATES}
    counted[f"topics_{_find_state(state, assessments, compacted)}"] = 1
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
        retired_bytes=sum(file.size_bytes for file in state.waiting_files),
        partitions=len(state.partitions),
        due=sum(a.eligible for a in assessments),
        swept_bytes=swept_bytes,
        last_run_ms=last_run_ms,
        damaged=damaged,
        **counted,
    )
    last = _find_last_compaction(receipts)
    return measured if last is None else _add_run(measured, last)


def _find_state(state: TopicState, assessments: Sequence[Assessment], compacted: Sequence[Assessment]) -> OverviewState:
    """Find the state of a topic in one word: that of its worst partition.

    The same conditions as :func:`winnow.store.overview.make_partition_rank`, over carried state instead of recorded
    rows; order and what a pause hides are in :mod:`winnow.values.model`, and a test compares every combination.
    """
    paused = {number for number, part in state.partitions.items() if part.paused_since_ms is not None}
    holding = {
        OverviewState.UNCLEANABLE: {n for n, part in state.partitions.items() if part.uncleanable is not None},
        OverviewState.OVERDUE: {a.partition for a in compacted if a.max_compaction_delay_ms > 0},
        OverviewState.DUE: {a.partition for a in assessments if a.eligible},
        OverviewState.PAUSED: paused,
    }
    for word in OverviewState:
        if holding.get(word, set()) - (paused if word in STATES_HIDDEN_BY_PAUSE else set()):
            return word
    return OverviewState.HEALTHY


def _find_last_compaction(receipts: Iterable[Receipt]) -> Receipt | None:
    compactions = [
        receipt
        for receipt in receipts
        if receipt.status is Status.PUBLISHED and any(part.bytes_in for part in receipt.partitions)
    ]
    return max(compactions, key=lambda receipt: receipt.finished_at_ms, default=None)


def _add_run(measured: Measurement, last: Receipt) -> Measurement:
    parts = last.partitions
    return replace(
        measured,
        runs=1,
        forced=sum(part.reason is Reason.MAX_COMPACTION_LAG for part in parts),
        figures=sum_figures(parts),
        seconds=math.fsum(part.seconds for part in parts),
        longest_seconds=max(part.seconds for part in parts),
    )


def sum_measurements(measured: Sequence[Measurement]) -> Measurement:
    """Sum up several topics: sums of counts, bytes and times, the worst of delays, ratios and deadlines."""
    deadlines = [m.next_deadline_ms for m in measured if m.next_deadline_ms is not None]
    runs = [m.since_last_run_ms for m in measured if m.since_last_run_ms is not None]
    followed = [m for m in measured if m.records_behind is not None]
    return Measurement(
        topic=None,
        max_delay_ms=max((m.max_delay_ms for m in measured), default=0),
        max_dirty_ratio=max((m.max_dirty_ratio for m in measured), default=0.0),
        next_deadline_ms=min(deadlines, default=None),
        # Kafka: the last selection by any thread.
        since_last_run_ms=min(runs, default=None),
        figures=sum_figures(m.figures for m in measured),
        seconds=math.fsum(m.seconds for m in measured),
        longest_seconds=max((m.longest_seconds for m in measured), default=0.0),
        records_behind=sum(m.records_behind or 0 for m in followed) if followed else None,
        behind_ms=max((m.behind_ms or 0 for m in followed), default=None),
        look_age_ms=max((m.look_age_ms or 0 for m in followed), default=None),
        records_uncommitted=sum(m.records_uncommitted or 0 for m in followed) if followed else None,
        open_transaction_ms=_find_oldest_transaction(followed),
        latest_age_ms=max((m.latest_age_ms for m in measured if m.latest_age_ms is not None), default=None),
        latest_late_ms=max((m.latest_late_ms for m in measured if m.latest_late_ms is not None), default=None),
        last_run_ms=max((m.last_run_ms for m in measured if m.last_run_ms is not None), default=None),
        **{name: sum(getattr(m, name) for m in measured) for name in _SUMMED},
    )


def _find_oldest_transaction(followed: Sequence[Measurement]) -> int | None:
    """Find the age of the oldest open transaction; one whose age is not known is not taken for none."""
    ages = [m.open_transaction_ms for m in followed]
    oldest = max((age for age in ages if age is not None), default=None)
    return None if oldest == 0 and None in ages else oldest


_NOT_SUMMED = {
    "topic", "max_delay_ms", "max_dirty_ratio", "next_deadline_ms", "since_last_run_ms", "figures", "seconds",
    "longest_seconds", "records_behind", "behind_ms", "look_age_ms", "records_uncommitted",
    "open_transaction_ms", "latest_age_ms", "latest_late_ms", "last_run_ms",
}  # fmt: skip
_SUMMED = tuple(each.name for each in fields(Measurement) if each.name not in _NOT_SUMMED)


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge: Kafka's name (or one in Kafka's style), its description, and how to compute it from a measurement.

    ``total_only``: it is defined for all topics together only.
    """

    name: str
    meaning: str
    value: Callable[[Measurement], Value]
    total_only: bool = False


def _read_last_run(value: Callable[[Measurement], Value]) -> Callable[[Measurement], Value]:
    return lambda m: value(m) if m.runs else None


def _convert_to_seconds(ms: int | None) -> Value:
    return None if ms is None else ms / 1000


METRICS: tuple[Metric, ...] = (
    Metric(
        "max-compaction-delay-secs",
        "Seconds by which the most overdue partition is past its deadline (KIP-354), over all partitions",
        lambda m: _convert_to_seconds(m.max_delay_ms),
    ),
    Metric(
        "num-logs-compacted-by-max-compaction-lag",
        "Partitions that the last run compacted because of max.compaction.lag.ms (KIP-354)",
        _read_last_run(lambda m: m.forced),
    ),
    Metric(
        "max-dirty-percent",
        "Highest dirty ratio, before any threshold, without partitions in progress, paused or uncleanable",
        lambda m: 100 * m.max_dirty_ratio,
    ),
    Metric(
        "cleaner-recopy-percent",
        "Bytes after the last run per bytes before it; low is effective",
        _read_last_run(lambda m: 100 * m.figures.bytes_out / max(m.figures.bytes_in, 1)),
    ),
    Metric(
        "max-clean-time-secs",
        "Engine seconds of the slowest partition of the last run",
        lambda m: m.longest_seconds if m.seconds else None,
    ),
    Metric(
        "cleaner-io",
        "Bytes before and after the last run, per second of engine time",
        lambda m: (m.figures.bytes_in + m.figures.bytes_out) / m.seconds if m.seconds else None,
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
        _read_last_run(lambda m: m.figures.records_keyless),
    ),
    Metric(
        "overdue-partitions-count",
        "Partitions past their deadline",
        lambda m: m.overdue,
    ),
    Metric(
        "next-deadline-secs",
        "Seconds to the earliest deadline; negative when it has passed",
        lambda m: _convert_to_seconds(m.next_deadline_ms),
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
        _read_last_run(lambda m: m.figures.headers_missing),
    ),
    Metric(
        "header-malformed-records",
        "Records of the last run whose version header is not an 8-byte long (KIP-280)",
        _read_last_run(lambda m: m.figures.headers_malformed),
    ),
    Metric("partitions-count", "Partitions", lambda m: m.partitions),
    Metric("due-partitions-count", "Partitions that the next run would compact", lambda m: m.due),
    Metric(
        "swept-bytes",
        "Bytes of replaced files that sweeps have removed, as far back as history is kept",
        lambda m: m.swept_bytes,
    ),
    Metric(
        "ingest-lag-records",
        "Offsets between the log and Kafka's last stable offset at the last look, over all partitions",
        lambda m: m.records_behind,
    ),
    Metric(
        "ingest-lag-secs",
        "Seconds since the time up to which the log has everything of its Kafka topic, over all partitions",
        lambda m: _convert_to_seconds(m.behind_ms),
    ),
    Metric(
        "ingest-look-age-secs",
        "Seconds since the brokers were asked last, over all partitions",
        lambda m: _convert_to_seconds(m.look_age_ms),
    ),
    Metric(
        "ingest-uncommitted-records",
        "Offsets between Kafka's last stable offset and its high watermark at the last look: held by open transactions",
        lambda m: m.records_uncommitted,
    ),
    Metric(
        "ingest-open-transaction-secs",
        "Age of the oldest open transaction at the last look, in seconds, over all partitions; 0 without one",
        lambda m: _convert_to_seconds(m.open_transaction_ms),
    ),
    Metric(
        "latest-age-secs",
        "Seconds since the oldest record that the table of the latest state does not show yet; 0: it shows all",
        lambda m: _convert_to_seconds(m.latest_age_ms),
    ),
    Metric(
        "latest-late-secs",
        "Seconds by which that record is past winnow.latest.max.age.ms",
        lambda m: _convert_to_seconds(m.latest_late_ms),
    ),
    Metric(
        "last-run-timestamp-secs",
        "Unix time at which partitions were last selected; unlike an age it shows a value that nobody renews",
        lambda m: _convert_to_seconds(m.last_run_ms),
    ),
    Metric("damaged-segments-count", "Segments in which the last scrub found damage", lambda m: m.damaged),
    Metric("published-runs-count", "Runs that are published", lambda m: m.runs_published),
    Metric("invalid-runs-count", "Runs that failed validation; nothing was published", lambda m: m.runs_invalid),
    Metric("broken-runs-count", "Open runs in which a check raised an error", lambda m: m.runs_broken),
    Metric("spark-failed-runs-count", "Runs whose plan Spark could not carry out", lambda m: m.runs_spark_failed),
    Metric("refused-runs-count", "Runs refused because the log changed after planning", lambda m: m.runs_refused),
    Metric("void-runs-count", "Runs that ended before they published anything", lambda m: m.runs_void),
    Metric("unknown-runs-count", "Runs whose commit may or may not have landed", lambda m: m.runs_unknown),
    Metric("healthy-topics-count", "Topics in none of the other states", lambda m: m.topics_healthy, total_only=True),
    Metric(
        "paused-topics-count", "Topics with a paused partition, nothing due", lambda m: m.topics_paused, total_only=True
    ),
    Metric(
        "due-topics-count", "Topics with a partition that is due, none overdue", lambda m: m.topics_due, total_only=True
    ),
    Metric(
        "overdue-topics-count",
        "Topics with a partition past its deadline that is not paused, none uncleanable",
        lambda m: m.topics_overdue,
        total_only=True,
    ),
    Metric(
        "uncleanable-topics-count",
        "Topics with a partition that is marked uncleanable",
        lambda m: m.topics_uncleanable,
        total_only=True,
    ),
)


def list_metric_values(measured: Measurement) -> dict[str, Value]:
    """List every metric by name, in the order of :data:`METRICS`; None where unknown.

    Metrics of all topics together are left out of the values of one topic.
    """
    return {
        metric.name: _round_value(metric.value(measured))
        for metric in METRICS
        if measured.topic is None or not metric.total_only
    }


def _round_value(value: Value) -> Value:
    return round(value, 3) if isinstance(value, float) else value
