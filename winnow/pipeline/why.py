"""``winnow why``: is this record here, and if not, why. Coordinates only; no byte of a key or a value leaves.

The log answers for what is there, receipts and ledgers for what is not. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from winnow.eligibility import PartitionLog, Rules, covering_entries, outliving
from winnow.errors import UsageError
from winnow.model import Strategy
from winnow.partitioner import partition_for_key
from winnow.pipeline import why_words
from winnow.pipeline.assess import TopicView, view_topic
from winnow.pipeline.context import Context
from winnow.pipeline.key_scan import KeyScan, segment_at
from winnow.pipeline.removals import Absence, absence, covering, runs_of
from winnow.pipeline.why_answer import (
    Answer,
    Found,
    KeyElsewhere,
    Section,
    SeenRecord,
    SegmentBounds,
    TombstoneLife,
)
from winnow.pipeline.why_judge import Judge, KeyRecords, judge_of, look, order_of

Progress = Callable[[int, int], None]
"""Told (bytes looked through, bytes in all)."""


def why_key(
    ctx: Context,
    topic: str,
    key: bytes,
    *,
    partition: int | None,
    everywhere: bool = False,
    as_of_ms: int,
    progress: Progress | None = None,
) -> Answer:
    """Where the records of ``key`` are, which of them won, and by which rule.

    Without ``partition`` the one comes first where Kafka's default partitioner puts the key. The others are looked
    through when it is not there, when partitions were added to the topic, or ``everywhere``: a custom partitioner may
    have put it anywhere.

    Raises:
        UsageError: no such topic or partition.
        DamagedSegmentError, ServiceError: a segment cannot be read.
    """
    view = view_topic(ctx, topic)
    default = partition_for_key(key, len(view.partitions))
    wanted = [view.partitions[_checked(view, partition)]] if partition is not None else _by_likelihood(view, default)
    found: list[tuple[Judge, KeyRecords]] = []
    told = _Told(progress, sum(segment.size_bytes for log in wanted for segment in log.segments))
    searched = 0
    for log in wanted:
        searched += 1
        if log.segments:
            judge = judge_of(ctx, view, log, as_of_ms)
            with KeyScan(log, judge.headers, ctx.budget) as scan:
                if scan.find(key, told):
                    found.append((judge, look(scan, judge)))
        if found and not everywhere and not view.head.state.partitions_added:
            break
    if not found:
        return _no_record(ctx, view, wanted[0], default, searched)
    judge, records = found[0]
    elsewhere = tuple(
        KeyElsewhere(other.log.partition, its.total, its.winner.offset if its.winner is not None else None)
        for other, its in found[1:]
    )
    answer = _about_key(ctx, view, judge, records, as_of_ms)
    answer = replace(answer, default_partition=default, partitions_searched=searched, elsewhere=elsewhere)
    return replace(answer, sentence=why_words.key_found(answer, len(view.partitions)))


def why_offset(
    ctx: Context, topic: str, partition: int, offset: int, *, as_of_ms: int, progress: Progress | None = None
) -> Answer:
    """Whether there is a record at ``offset`` of ``partition``; what becomes of it, or what became of it.

    Raises:
        UsageError: no such topic or partition.
        DamagedSegmentError, ServiceError: a segment cannot be read.
    """
    view = view_topic(ctx, topic)
    log = view.partitions[_checked(view, partition)]
    judge = judge_of(ctx, view, log, as_of_ms)
    with KeyScan(log, judge.headers, ctx.budget) as scan:
        here = scan.coordinates([offset], judge.shown_header)
        if offset not in here or offset < log.state.log_start_offset:
            return _gone(ctx, view, judge, offset, scan.at_or_after(offset))
        record = judge.seen(here[offset])
        key = scan.key_at(offset)
        if key is not None:
            scan.find(key, _Told(progress, scan.size_bytes))
        records = look(scan, judge)
    return _at_offset(ctx, view, judge, record, records if key is not None else None, as_of_ms)


def _checked(view: TopicView, partition: int) -> int:
    last = len(view.partitions) - 1
    if not 0 <= partition <= last:
        raise UsageError(f"Topic {view.log.topic} has partitions 0 to {last}; there is no partition {partition}.")
    return partition


def _by_likelihood(view: TopicView, default: int) -> list[PartitionLog]:
    others = [log for log in view.partitions if log.partition != default]
    return [view.partitions[default], *others]


class _Told:
    """Adds up bytes for a progress bar."""

    def __init__(self, progress: Progress | None, total_bytes: int) -> None:
        self._progress = progress
        self._total_bytes = total_bytes
        self._done_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        if self._progress is not None:
            self._progress(self._done_bytes, self._total_bytes)


def _about_key(ctx: Context, view: TopicView, judge: Judge, found: KeyRecords, as_of_ms: int) -> Answer:
    decided = found.winner or found.next_winner
    runs = covering(runs_of(ctx, view, judge.log.partition), found.winner.offset) if found.winner is not None else []
    verdict = Found.UNDECIDED
    if found.winner is not None:
        verdict = Found.TOMBSTONE if found.winner.tombstone else Found.SURVIVED
    answer = _start(view, judge, verdict, present=True)
    return replace(
        answer,
        winner=found.winner,
        next_winner=found.next_winner,
        records=found.records,
        records_total=found.total,
        tombstone=_life(ctx, view, judge, decided, as_of_ms),
        won_in=runs[-1] if runs else None,
        runs=tuple(runs),
    )


def _at_offset(
    ctx: Context, view: TopicView, judge: Judge, record: SeenRecord, found: KeyRecords | None, as_of_ms: int
) -> Answer:
    runs = covering(runs_of(ctx, view, judge.log.partition), record.offset)
    segment = segment_at(judge.log.segments, record.offset)
    assert segment is not None
    answer = replace(
        _start(view, judge, _verdict(record, found, view.rules), present=True),
        offset=record.offset,
        record=record,
        runs=tuple(runs),
        segment=SegmentBounds(segment.path, segment.first_offset, segment.last_offset, segment.records),
    )
    if found is not None:
        is_winner = found.winner is not None and found.winner.offset == record.offset
        answer = replace(
            answer,
            winner=found.winner,
            next_winner=found.next_winner,
            records=found.records,
            records_total=found.total,
            tombstone=_life(ctx, view, judge, record, as_of_ms),
            won_in=runs[-1] if runs and is_winner else None,
        )
    return replace(answer, sentence=why_words.offset_found(answer))


def _verdict(record: SeenRecord, found: KeyRecords | None, rules: Rules) -> Found:
    if not rules.compacts and record.section is not Section.CLEAN:
        return Found.NOT_COMPACTED
    if found is None:
        return Found.KEYLESS
    if record.section is Section.NOT_YET_CLEANABLE:
        return Found.NOT_YET_CLEANABLE
    if found.next_winner is not None and found.next_winner.offset != record.offset:
        return Found.SUPERSEDED_NEXT
    if found.winner is None or found.winner.offset != record.offset:
        return Found.WINS_NEXT
    return Found.TOMBSTONE if record.tombstone else Found.SURVIVED


def _gone(ctx: Context, view: TopicView, judge: Judge, offset: int, next_offset: int | None) -> Answer:
    why: Absence = absence(ctx, view, judge.log.partition, offset)
    answer = replace(
        _start(view, judge, why.verdict, present=False),
        offset=offset,
        runs=why.runs,
        causes=tuple(cause.value for cause in why.causes),
        ingested=why.ingested.value if why.ingested is not None else None,
        next_offset=next_offset,
    )
    return replace(answer, sentence=why_words.offset_gone(answer, why))


def _no_record(ctx: Context, view: TopicView, log: PartitionLog, default: int, searched: int) -> Answer:
    """No record of a key: the runs of the likeliest partition in which tombstones expired, or records were retired."""
    order = order_of(log.state.strategy or view.rules.order)
    runs = tuple(r for r in runs_of(ctx, view, log.partition) if r.tombstones_expired or r.records_retired)
    answer = Answer(
        topic=view.log.topic,
        partition=log.partition if searched == 1 else None,
        offset=None,
        present=False,
        verdict=Found.ABSENT.value,
        sentence="",
        rule=order.words,
        strategy=order.strategy.value,
        runs=runs,
        default_partition=default,
        partitions_searched=searched,
    )
    return replace(answer, sentence=why_words.key_absent(answer, log.partition))


def _start(view: TopicView, judge: Judge, verdict: StrEnum, *, present: bool) -> Answer:
    return Answer(
        topic=view.log.topic,
        partition=judge.log.partition,
        offset=None,
        present=present,
        verdict=verdict.value,
        sentence="",
        rule=judge.order.words,
        strategy=judge.order.strategy.value,
        next_rule=judge.next_order.words,
        bounds=judge.bounds,
    )


def _life(
    ctx: Context, view: TopicView, judge: Judge, record: SeenRecord | None, as_of_ms: int
) -> TombstoneLife | None:
    if record is None or not record.tombstone:
        return None
    clock_ms = ctx.cleaning_time_ms(as_of_ms)
    history = judge.log.state.history
    entry = covering_entries(record.offset, record.offset, history)[0]
    going = outliving(judge.log, view.rules, judge.bounds.first_uncleanable_offset, clock_ms)
    horizon_ms = going.horizon_ms(entry)
    if entry is None or horizon_ms is None or entry.cleaning_time_ms is None:
        earliest_ms = clock_ms + max(view.config.delete_retention_ms, going.late_arrival_ms)
        return TombstoneLife(record.offset, False, None, earliest_ms, False, False)
    retained_ms = entry.cleaning_time_ms + view.config.delete_retention_ms
    goes = going.may_go(entry)
    waits = view.rules.strategy is not Strategy.OFFSET and not goes and clock_ms >= retained_ms
    return TombstoneLife(record.offset, True, horizon_ms, horizon_ms, waits, goes)
