"""Finds the records of a key or at an offset, and which of them win now and won in the last run.

The log answers for existing records, receipts and ledgers for missing ones. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from winnow.engine.strategy_diff import RecordCoordinates, RecordOrder
from winnow.errors import UsageError
from winnow.files.partitioner import choose_partition
from winnow.pipeline.compaction.assess import assess_view
from winnow.pipeline.explain import why_answer
from winnow.pipeline.explain.removals import Absence, explain_absence, find_covering_runs, list_partition_runs
from winnow.pipeline.explain.why_answer import (
    FoundVerdict,
    LogBounds,
    LogSection,
    MisplacedKey,
    SeenRecord,
    SegmentBounds,
    TombstoneLife,
    WhyAnswer,
)
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.key_scan import KeyScan, find_segment
from winnow.pipeline.topics.topic_view import TopicView, load_topic_view
from winnow.planning.cleanable import PartitionLog, Rules, find_first_dirty_offset
from winnow.planning.eligibility import find_covering_entries, make_tombstone_expiry
from winnow.values.epochs import describe_offset
from winnow.values.strategies import Strategy

MAXIMUM_RECORDS = 100
"""Maximum records of a key that are listed, those with the highest offsets; all are counted."""


@dataclass(frozen=True, slots=True)
class PartitionOrders:
    """One partition with two orders: that of its last cleaning, and the current one."""

    log: PartitionLog
    bounds: LogBounds
    order: RecordOrder
    next_order: RecordOrder
    decided_below: int
    """Runs have decided between records below it; 0 without any run."""

    @property
    def headers(self) -> list[str]:
        """The headers that either order uses."""
        return [order.header for order in (self.order, self.next_order) if order.header is not None]

    @property
    def shown_header(self) -> str | None:
        """The header whose versions are shown."""
        return self.order.header or self.next_order.header

    def build_seen_record(self, found: RecordCoordinates) -> SeenRecord:
        """Return a record with the section of the log that it is in."""
        section = LogSection.NOT_YET_CLEANABLE
        if found.offset < self.bounds.first_dirty_offset:
            section = LogSection.CLEAN
        elif found.offset < self.bounds.first_uncleanable_offset:
            section = LogSection.DIRTY
        return SeenRecord(self.log.partition, found.offset, found.timestamp_ms, found.version, found.tombstone, section)


@dataclass(frozen=True, slots=True)
class KeyRecords:
    """The records of one key in one partition."""

    records: tuple[SeenRecord, ...]
    total: int
    not_yet_cleanable: int
    winner: SeenRecord | None
    next_winner: SeenRecord | None


def parse_order(text: str) -> RecordOrder:
    """Parse an order of the state: ``offset``, ``timestamp`` or ``header:NAME``."""
    strategy, _, header = text.partition(":")
    return RecordOrder(Strategy(strategy), header or None)


def build_partition_orders(
    installation: Installation, view: TopicView, log: PartitionLog, as_of_ms: int
) -> PartitionOrders:
    """Build the orders of one partition of the topic of ``view``."""
    (assessment,) = assess_view(installation, replace(view, partitions=(log,)), as_of_ms=as_of_ms)
    state = log.state
    return PartitionOrders(
        log=log,
        bounds=LogBounds(
            state.log_start_offset,
            assessment.first_dirty_offset,
            assessment.first_uncleanable_offset,
            state.log_end_offset,
        ),
        order=parse_order(state.strategy or view.rules.order),
        next_order=parse_order(view.rules.order),
        decided_below=find_first_dirty_offset(state) if state.strategy is not None else 0,
    )


def read_key_records(scan: KeyScan, orders: PartitionOrders) -> KeyRecords:
    """Read the records of the key that ``scan`` found last."""
    newest = scan.list_newest(MAXIMUM_RECORDS)
    winner = scan.find_winner(orders.order, orders.decided_below)
    next_winner = scan.find_winner(orders.next_order, orders.bounds.first_uncleanable_offset)
    wanted = {offset for offset in (*newest, winner, next_winner) if offset is not None}
    found = scan.read_coordinates(wanted, orders.shown_header)
    return KeyRecords(
        records=tuple(orders.build_seen_record(found[offset]) for offset in newest),
        total=scan.count_records(),
        not_yet_cleanable=scan.count_records(orders.bounds.first_uncleanable_offset),
        winner=_read_seen_record(orders, found, winner),
        next_winner=_read_seen_record(orders, found, next_winner),
    )


def _read_seen_record(
    orders: PartitionOrders, found: Mapping[int, RecordCoordinates], offset: int | None
) -> SeenRecord | None:
    return None if offset is None else orders.build_seen_record(found[offset])


Progress = Callable[[int, int], None]
"""Called with (bytes read, total bytes)."""


def explain_key(
    installation: Installation,
    topic: str,
    key: bytes,
    *,
    partition: int | None,
    everywhere: bool = False,
    as_of_ms: int,
    progress: Progress | None = None,
) -> WhyAnswer:
    """Find the records of ``key``, which of them won, and by which rule.

    Without ``partition``, the partition of Kafka's default partitioner comes first. The others are searched if the key
    is not there, if partitions were added to the topic, or with ``everywhere``: a custom partitioner may have chosen
    any.

    Raises:
        UsageError: no such topic or partition.
        DamagedSegmentError, ServiceError: a segment cannot be read.
    """
    view = load_topic_view(installation, topic)
    default = choose_partition(key, len(view.partitions))
    wanted = (
        [view.partitions[_get_checked_log(view, partition)]]
        if partition is not None
        else _sort_by_likelihood(view, default)
    )
    found: list[tuple[PartitionOrders, KeyRecords]] = []
    byte_progress = _ByteProgress(progress, sum(segment.size_bytes for log in wanted for segment in log.segments))
    searched = 0
    for log in wanted:
        searched += 1
        if log.segments:
            orders = build_partition_orders(installation, view, log, as_of_ms)
            with KeyScan(log, orders.headers, installation.budget) as scan:
                if scan.find(key, byte_progress):
                    found.append((orders, read_key_records(scan, orders)))
        if found and not everywhere and not view.head.state.partitions_added:
            break
    if not found:
        return _explain_missing_key(installation, view, wanted[0], default, searched)
    orders, records = found[0]
    elsewhere = tuple(
        MisplacedKey(other.log.partition, its.total, its.winner.offset if its.winner is not None else None)
        for other, its in found[1:]
    )
    answer = _explain_found_key(installation, view, orders, records, as_of_ms)
    answer = replace(answer, default_partition=default, partitions_searched=searched, elsewhere=elsewhere)
    answer = replace(answer, sentence=why_answer.describe_found_key(answer, len(view.partitions)))
    shown = answer.winner or answer.next_winner or (answer.records[-1] if answer.records else None)
    return answer if shown is None else _name_epoch(view, answer, shown.partition, shown.offset)


def explain_offset(
    installation: Installation,
    topic: str,
    partition: int,
    offset: int,
    *,
    as_of_ms: int,
    progress: Progress | None = None,
) -> WhyAnswer:
    """Explain whether ``offset`` of ``partition`` has a record, and what happens or happened to it.

    Raises:
        UsageError: no such topic or partition.
        DamagedSegmentError, ServiceError: a segment cannot be read.
    """
    view = load_topic_view(installation, topic)
    log = view.partitions[_get_checked_log(view, partition)]
    orders = build_partition_orders(installation, view, log, as_of_ms)
    with KeyScan(log, orders.headers, installation.budget) as scan:
        here = scan.read_coordinates([offset], orders.shown_header)
        if offset not in here or offset < log.state.log_start_offset:
            empty = _explain_empty_offset(installation, view, orders, offset, scan.find_offset_from(offset))
            return _name_epoch(view, empty, partition, offset)
        record = orders.build_seen_record(here[offset])
        key = scan.read_key(offset)
        if key is not None:
            scan.find(key, _ByteProgress(progress, scan.size_bytes))
        records = read_key_records(scan, orders)
    answer = _explain_record(installation, view, orders, record, records if key is not None else None, as_of_ms)
    return _name_epoch(view, answer, partition, offset)


def _name_epoch(view: TopicView, answer: WhyAnswer, partition: int, offset: int) -> WhyAnswer:
    """Add epoch and offset at the brokers of ``offset``, if the log has several epochs."""
    found = describe_offset(view.head.state.epochs, partition, offset)
    if not found:
        return answer
    epoch, source_offset = found["epoch"], found["source_offset"]
    sentence = f"{answer.sentence} Offset {offset} is of epoch {epoch}, offset {source_offset} at the brokers."
    return replace(answer, sentence=sentence, epoch=epoch, source_offset=source_offset)


def _get_checked_log(view: TopicView, partition: int) -> int:
    last = len(view.partitions) - 1
    if not 0 <= partition <= last:
        raise UsageError(f"Topic {view.log.topic} has partitions 0 to {last}; there is no partition {partition}.")
    return partition


def _sort_by_likelihood(view: TopicView, default: int) -> list[PartitionLog]:
    others = [log for log in view.partitions if log.partition != default]
    return [view.partitions[default], *others]


class _ByteProgress:
    """Adds up bytes for a progress bar."""

    def __init__(self, progress: Progress | None, total_bytes: int) -> None:
        self._progress = progress
        self._total_bytes = total_bytes
        self._done_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        if self._progress is not None:
            self._progress(self._done_bytes, self._total_bytes)


def _explain_found_key(
    installation: Installation, view: TopicView, orders: PartitionOrders, found: KeyRecords, as_of_ms: int
) -> WhyAnswer:
    decided = found.winner or found.next_winner
    runs = (
        find_covering_runs(list_partition_runs(installation, view, orders.log.partition), found.winner.offset)
        if found.winner is not None
        else []
    )
    verdict = FoundVerdict.UNDECIDED
    if found.winner is not None:
        verdict = FoundVerdict.TOMBSTONE if found.winner.tombstone else FoundVerdict.SURVIVED
    answer = _build_answer(view, orders, verdict, present=True)
    return replace(
        answer,
        winner=found.winner,
        next_winner=found.next_winner,
        records=found.records,
        records_total=found.total,
        tombstone=_build_tombstone_life(installation, view, orders, decided, as_of_ms),
        won_in=runs[-1] if runs else None,
        runs=tuple(runs),
    )


def _explain_record(
    installation: Installation,
    view: TopicView,
    orders: PartitionOrders,
    record: SeenRecord,
    found: KeyRecords | None,
    as_of_ms: int,
) -> WhyAnswer:
    runs = find_covering_runs(list_partition_runs(installation, view, orders.log.partition), record.offset)
    segment = find_segment(orders.log.segments, record.offset)
    assert segment is not None
    answer = replace(
        _build_answer(view, orders, _find_verdict(record, found, view.rules), present=True),
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
            tombstone=_build_tombstone_life(installation, view, orders, record, as_of_ms),
            won_in=runs[-1] if runs and is_winner else None,
        )
    return replace(answer, sentence=why_answer.describe_found_offset(answer))


def _find_verdict(record: SeenRecord, found: KeyRecords | None, rules: Rules) -> FoundVerdict:
    if not rules.compacts and record.section is not LogSection.CLEAN:
        return FoundVerdict.NOT_COMPACTED
    if found is None:
        return FoundVerdict.KEYLESS
    if record.section is LogSection.NOT_YET_CLEANABLE:
        return FoundVerdict.NOT_YET_CLEANABLE
    if found.next_winner is not None and found.next_winner.offset != record.offset:
        return FoundVerdict.SUPERSEDED_NEXT
    if found.winner is None or found.winner.offset != record.offset:
        return FoundVerdict.WINS_NEXT
    return FoundVerdict.TOMBSTONE if record.tombstone else FoundVerdict.SURVIVED


def _explain_empty_offset(
    installation: Installation, view: TopicView, orders: PartitionOrders, offset: int, next_offset: int | None
) -> WhyAnswer:
    why: Absence = explain_absence(installation, view, orders.log.partition, offset)
    answer = replace(
        _build_answer(view, orders, why.verdict, present=False),
        offset=offset,
        runs=why.runs,
        causes=tuple(cause.value for cause in why.causes),
        ingested=why.ingested.value if why.ingested is not None else None,
        next_offset=next_offset,
        erasures=why.erasures,
    )
    return replace(answer, sentence=why_answer.describe_missing_offset(answer, why))


def _explain_missing_key(
    installation: Installation, view: TopicView, log: PartitionLog, default: int, searched: int
) -> WhyAnswer:
    """Explain a missing key: in which runs of its likeliest partition tombstones expired or records were retired."""
    order = parse_order(log.state.strategy or view.rules.order)
    runs = tuple(
        r for r in list_partition_runs(installation, view, log.partition) if r.tombstones_expired or r.records_retired
    )
    answer = WhyAnswer(
        topic=view.log.topic,
        partition=log.partition if searched == 1 else None,
        offset=None,
        present=False,
        verdict=FoundVerdict.ABSENT.value,
        sentence="",
        rule=order.words,
        strategy=order.strategy.value,
        runs=runs,
        default_partition=default,
        partitions_searched=searched,
        erasures=tuple(each.erasure_id for each in view.head.state.erasures if not each.lifts),
    )
    return replace(answer, sentence=why_answer.describe_missing_key(answer, log.partition))


def _build_answer(view: TopicView, orders: PartitionOrders, verdict: StrEnum, *, present: bool) -> WhyAnswer:
    return WhyAnswer(
        topic=view.log.topic,
        partition=orders.log.partition,
        offset=None,
        present=present,
        verdict=verdict.value,
        sentence="",
        rule=orders.order.words,
        strategy=orders.order.strategy.value,
        next_rule=orders.next_order.words,
        bounds=orders.bounds,
    )


def _build_tombstone_life(
    installation: Installation, view: TopicView, orders: PartitionOrders, record: SeenRecord | None, as_of_ms: int
) -> TombstoneLife | None:
    if record is None or not record.tombstone:
        return None
    clock_ms = installation.cleaning_time_ms(as_of_ms)
    history = orders.log.state.history
    entry = find_covering_entries(record.offset, record.offset, history)[0]
    going = make_tombstone_expiry(orders.log, view.rules, orders.bounds.first_uncleanable_offset, clock_ms)
    horizon_ms = going.horizon_ms(entry)
    if entry is None or horizon_ms is None or entry.cleaning_time_ms is None:
        earliest_ms = clock_ms + max(view.config.delete_retention_ms, going.late_arrival_ms)
        return TombstoneLife(record.offset, False, None, earliest_ms, False, False)
    retained_ms = entry.cleaning_time_ms + view.config.delete_retention_ms
    goes = going.may_expire(entry)
    waits = view.rules.strategy is not Strategy.OFFSET and not goes and clock_ms >= retained_ms
    return TombstoneLife(record.offset, True, horizon_ms, horizon_ms, waits, goes)
