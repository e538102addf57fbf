"""Compares what the broker's cleaner did to one topic partition with what Winnow did: decisions, records, counts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from parity.archive import describe_record
from parity.cleaner_log import Cleaning, Look
from parity.differences import (
    BELOW_LOG_START,
    EARLIEST_RECORD,
    QUIET_TOMBSTONES,
    TRANSACTION_MARKERS,
    YOUNG_MARKERS,
    YOUNG_MARKERS_RETENTION,
    Difference,
)
from parity.random_topics import RandomTopic
from parity.segment_headers import BrokerSegment
from winnow.planning.cleanable import MAXIMUM_LONG, PartitionLog, Rules
from winnow.planning.eligibility import assess
from winnow.values.model import Assessment, Reason, Record, Segment
from winnow.values.results import PartitionReceipt
from winnow.values.strategies import Strategy
from winnow.values.topic_state import PartitionState

MAXIMUM_SHOWN: Final = 5


@dataclass
class Tally:
    """What was compared in a run, the listed differences that were met, and the findings that nothing explains."""

    compared: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    shown: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Differences by the topic that showed them."""
    unexplained: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what another part of the run found."""
        self.compared += other.compared
        self.differences += other.differences
        self.shown += other.shown
        self.unexplained += other.unexplained

    def add_difference(self, difference: Difference, topic: RandomTopic) -> None:
        """Count a listed difference."""
        self.differences[difference.id] += 1
        self.shown[difference.id, topic.name] += 1


@dataclass
class LogState:
    """What is known of one partition of a topic on both sides."""

    topic: RandomTopic
    partition: int
    ingested_end: int = 0
    """The broker's offset up to which Winnow has its segments."""
    live: list[int] = field(default_factory=list)
    """Offsets of the committed records that the broker has, below ``ingested_end``."""
    times: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    """Earliest and latest timestamp of the committed records of each segment, by its base offset."""
    begun: dict[int, Cleaning] = field(default_factory=dict)
    """The broker's cleanings, by the time of Winnow's in ms."""
    retentions: dict[int, int] = field(default_factory=dict)
    """delete.retention.ms at each of them."""
    log_start: int = 0
    checkpoint: int | None = None
    """The broker's first dirty offset before the round."""
    segments: list[BrokerSegment] = field(default_factory=list)
    """The broker's segments before the round, the active one last."""

    @property
    def name(self) -> str:
        """The topic partition, as Kafka writes it."""
        return f"{self.topic.name}-{self.partition}"

    def count_live(self, start: int, end: int) -> int:
        """Count committed records in [start, end)."""
        return bisect_left(self.live, end) - bisect_left(self.live, start)


@dataclass(frozen=True, slots=True)
class Release:
    """The settings under which the cleaner was released."""

    min_cleanable_dirty_ratio: float
    max_compaction_lag_ms: int = MAXIMUM_LONG


def build_rules(topic: RandomTopic, release: Release) -> Rules:
    """Build Winnow's rules for a round. Retention has no part in it: it was done before."""
    return Rules(
        compacts=True,
        strategy=Strategy.OFFSET,
        min_cleanable_dirty_ratio=release.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=release.max_compaction_lag_ms,
        segment_bytes=1 << 30,
        max_segment_ms=MAXIMUM_LONG,
    )


def build_partition_log(log: LogState) -> PartitionLog:
    """Build what Winnow decides on from the broker's own closed segments: their offsets, sizes and times."""
    closed = log.segments[:-1]
    segments = tuple(
        Segment(
            path=str(each.base_offset),
            partition=log.partition,
            first_offset=each.base_offset,
            last_offset=each.end_offset - 1,
            records=sum(batch.records for batch in each.batches),
            size_bytes=each.size_bytes,
            min_timestamp_ms=_find_earliest(log, each),
            max_timestamp_ms=each.largest_timestamp_ms,
            tombstones=0,
        )
        for each in closed
    )
    state = PartitionState(
        log_start_offset=log.log_start,
        log_end_offset=max(log.log_start, closed[-1].end_offset if closed else log.log_start),
        first_dirty_offset=log.checkpoint,
    )
    return PartitionLog(log.topic.name, log.partition, segments, state, closes_active=True)


def _find_earliest(log: LogState, segment: BrokerSegment) -> int | None:
    known = log.times.get(segment.base_offset)
    if known is not None and known[0] is not None:
        return known[0]
    return min((b.max_timestamp_ms for b in segment.batches if b.max_timestamp_ms > 0), default=None)


def compare_decision(log: LogState, release: Release, look: Look, cleaned: bool, tally: Tally, where: str) -> None:
    """Compare range and eligibility: Winnow decides on the broker's segments at the broker's time."""
    found = assess(
        build_partition_log(log), build_rules(log.topic, release), as_of_ms=look.now_ms, cleaning_time_ms=look.now_ms
    )
    tally.compared["decisions: first dirty and first uncleanable offset, eligibility"] += 1
    judge_range(look, found, tally, where)
    judge_eligibility(log, release, look, cleaned, found, tally, where)


def judge_range(look: Look, found: Assessment, tally: Tally, where: str) -> None:
    """Judge the range that Winnow found by the broker's look."""
    # Where the log start lies inside a segment that may not be cleaned, the cleaner logs the segment's beginning, and
    # takes the range as empty.
    ranges = (look.first_dirty_offset, max(look.first_dirty_offset, look.first_uncleanable_offset))
    if ranges != (found.first_dirty_offset, found.first_uncleanable_offset):
        tally.unexplained.append(
            f"{where}: the broker's range is {list(ranges)}, Winnow's "
            f"[{found.first_dirty_offset}, {found.first_uncleanable_offset}]"
        )


def judge_eligibility(
    log: LogState, release: Release, look: Look, cleaned: bool, found: Assessment, tally: Tally, where: str
) -> None:
    """Judge whether Winnow would clean by whether the broker did."""
    if found.eligible == cleaned:
        return
    dirty = [each for each in log.segments[:-1] if each.end_offset > look.first_dirty_offset]
    firsts = [
        each.batches[0].max_timestamp_ms for each in dirty if each.batches and each.batches[0].max_timestamp_ms > 0
    ]
    inside = all(first >= look.now_ms - release.max_compaction_lag_ms for first in firsts)
    if found.reason is Reason.MAX_COMPACTION_LAG and not cleaned and inside:
        tally.add_difference(EARLIEST_RECORD, log.topic)
        return
    tally.unexplained.append(
        f"{where}: the broker {'cleaned' if cleaned else 'did not clean'} it, Winnow says {found.reason} at ratio "
        f"{found.dirty_ratio!r}, threshold {release.min_cleanable_dirty_ratio!r}"
    )


def compare_records(log: LogState, theirs: Sequence[Record], ours: Sequence[Record], tally: Tally, where: str) -> None:
    """Compare every record below what Winnow has, field by field."""
    expected = [record for record in theirs if record.offset < log.ingested_end]
    tally.compared["records, field by field"] += len(expected)
    if list(ours) == expected:
        return
    by_offset = {record.offset: record for record in expected}
    mine = {record.offset: record for record in ours}
    findings = (
        ("kept by the broker alone", [o for o in by_offset if o not in mine], by_offset),
        ("kept by Winnow alone", [o for o in mine if o not in by_offset], mine),
        ("different", [o for o in mine if o in by_offset and mine[o] != by_offset[o]], mine),
    )
    for what, offsets, records in findings:
        if offsets:
            shown = "; ".join(describe_record(records[offset]) for offset in offsets[:MAXIMUM_SHOWN])
            tally.unexplained.append(f"{where}: {len(offsets)} records {what}: {shown}")


def compare_checkpoint(log: LogState, theirs: int, ours: int | None, tally: Tally, where: str) -> None:
    """Compare the first dirty offsets after a cleaning."""
    tally.compared["first dirty offsets after a cleaning"] += 1
    if ours == theirs:
        return
    low, high = sorted((theirs, log.log_start if ours is None else ours))
    if log.topic.transactional and not log.count_live(low, high):
        tally.add_difference(TRANSACTION_MARKERS, log.topic)
        return
    tally.unexplained.append(f"{where}: the broker's first dirty offset is {theirs}, Winnow's {ours}")


def compare_counts(
    log: LogState,
    cleaning: Cleaning,
    receipt: PartitionReceipt,
    kept: int,
    after: Sequence[BrokerSegment],
    tally: Tally,
    where: str,
) -> None:
    """Compare the numbers of records before and after: with the broker's files, and with what its cleaner says.

    ``kept``: committed records that the broker has below the end of the cleaning.
    """
    end, start = cleaning.end_offset, log.log_start
    for what, committed, ours, theirs, segments in (
        ("before", log.count_live(start, end), receipt.records_in, cleaning.messages_before, log.segments),
        ("after", kept, receipt.records_kept, cleaning.messages_after, after),
    ):
        tally.compared["numbers of records before and after a cleaning"] += 1
        stored = sum(b.records for each in segments if each.base_offset < end for b in each.batches)
        if ours != committed:
            tally.unexplained.append(f"{where}: {committed} committed records {what}, Winnow counts {ours}")
        elif theirs != ours:
            _explain_count(log, ours, theirs, stored, tally, f"{where}: {what}")


def _explain_count(log: LogState, ours: int, theirs: int, stored: int, tally: Tally, where: str) -> None:
    starts_inside = bool(log.segments) and log.segments[0].base_offset < log.log_start
    if log.topic.transactional and ours < theirs <= stored:
        tally.add_difference(TRANSACTION_MARKERS, log.topic)
    elif not log.topic.transactional and starts_inside and ours < theirs == stored:
        tally.add_difference(BELOW_LOG_START, log.topic)
    else:
        tally.unexplained.append(f"{where}: the broker counts {theirs} messages ({stored} stored), Winnow {ours}")


def compare_horizons(
    log: LogState,
    theirs: Sequence[Record],
    after: Sequence[BrokerSegment],
    state: PartitionState,
    end_offset: int,
    tally: Tally,
    where: str,
) -> None:
    """Compare the delete horizons of tombstones below ``end_offset``: stamped into batches, and in Winnow's history."""
    batches = [batch for segment in after for batch in segment.batches]
    bases = [batch.base_offset for batch in batches]
    starts = [0, *(entry.end_offset for entry in state.history)]
    for record in theirs:
        if record.value is not None or record.offset >= min(end_offset, log.ingested_end):
            continue
        stamped_ms = batches[bisect_right(bases, record.offset) - 1].delete_horizon_ms
        number = bisect_right(starts, record.offset) - 1
        entry = state.history[number] if number < len(state.history) else None
        horizon_ms = None if entry is None else entry.delete_horizon_ms
        if stamped_ms is None or horizon_ms is None or entry is None or entry.cleaning_time_ms not in log.begun:
            missing = " and ".join(
                name for name, time_ms in (("the broker", stamped_ms), ("Winnow", horizon_ms)) if time_ms is None
            )
            if missing:
                tally.unexplained.append(
                    f"{where}: the tombstone at {record.offset} has no delete horizon at {missing}"
                )
            continue
        tally.compared["delete horizons, tombstone by tombstone"] += 1
        cleaning = log.begun[entry.cleaning_time_ms]
        retention_ms = log.retentions[entry.cleaning_time_ms]
        if horizon_ms != entry.cleaning_time_ms + retention_ms:
            tally.unexplained.append(
                f"{where}: Winnow's delete horizon of the tombstone at {record.offset} is "
                f"{horizon_ms - entry.cleaning_time_ms} ms after its cleaning, and should be {retention_ms}"
            )
        # The cleaner reads the clock that it stamps with between its look at the log and the line that says it begins.
        cleaned_ms = stamped_ms - retention_ms
        if not cleaning.look.now_ms <= cleaned_ms <= cleaning.begun_ms:
            tally.unexplained.append(
                f"{where}: the delete horizon of the tombstone at {record.offset} is that of a cleaning "
                f"{cleaned_ms - cleaning.begun_ms} ms after the broker's, which began at most "
                f"{cleaning.begun_ms - cleaning.look.now_ms} ms before it said so"
            )


def compare_quiet_log(
    log: LogState,
    theirs: Sequence[Record],
    ours: Sequence[Record],
    segments: Sequence[BrokerSegment],
    now_ms: int,
    tally: Tally,
    where: str,
) -> None:
    """Compare after Winnow alone has looked at a log without new records: expired tombstones may be gone."""
    expected = [record for record in theirs if record.offset < log.ingested_end]
    tally.compared["records, field by field"] += len(expected)
    mine = {record.offset: record for record in ours}
    horizons = [(b.base_offset, b.last_offset, b.delete_horizon_ms) for each in segments for b in each.batches]
    bases = [base for base, _, _ in horizons]
    for record in expected:
        if record.offset in mine:
            if mine.pop(record.offset) != record:
                tally.unexplained.append(f"{where}: a record differs: {describe_record(record)}")
            continue
        horizon_ms = horizons[bisect_right(bases, record.offset) - 1][2]
        if record.value is None and horizon_ms is not None and horizon_ms <= now_ms:
            tally.add_difference(QUIET_TOMBSTONES, log.topic)
        else:
            tally.unexplained.append(f"{where}: kept by the broker alone: {describe_record(record)}")
    if mine:
        tally.unexplained.append(f"{where}: kept by Winnow alone: offsets {sorted(mine)[:MAXIMUM_SHOWN]}")


def is_held_back_by_markers(log: LogState, segment: BrokerSegment, now_ms: int, tally: Tally) -> bool:
    """Check whether only a marker or an aborted record makes ``segment`` too young for the minimum lag or retention."""
    latest_ms = log.times.get(segment.base_offset, (None, None))[1]
    if not log.topic.transactional or (latest_ms is None and log.count_live(segment.base_offset, segment.end_offset)):
        return False  # without timestamps both count from when the records were written
    for difference, age_ms in (
        (YOUNG_MARKERS, log.topic.min_compaction_lag_ms or None),
        (YOUNG_MARKERS_RETENTION, log.topic.retention_ms),
    ):
        limit_ms = None if age_ms is None else now_ms - age_ms
        if limit_ms is not None and segment.largest_timestamp_ms > limit_ms and (latest_ms or 0) <= limit_ms:
            tally.add_difference(difference, log.topic)
            return True
    return False
