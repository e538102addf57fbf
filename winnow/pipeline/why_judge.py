"""Who wins among the records of one key in one partition, by the order of the last run and by the one in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from winnow.eligibility import PartitionLog, find_first_dirty_offset
from winnow.engine.shadow_request import RecordCoordinates, RecordOrder
from winnow.model import Strategy
from winnow.pipeline.assess import TopicView, assess_view
from winnow.pipeline.context import Context
from winnow.pipeline.key_scan import KeyScan
from winnow.pipeline.why_answer import LogBounds, LogSection, SeenRecord

MAXIMUM_RECORDS = 100
"""Records of a key that are listed, those with the highest offsets; all are counted."""


@dataclass(frozen=True, slots=True)
class PartitionOrders:
    """One partition and the two orders that matter: the one it was last cleaned with, and the one in force."""

    log: PartitionLog
    bounds: LogBounds
    order: RecordOrder
    next_order: RecordOrder
    decided_below: int
    """Below it a run has decided between records; 0 where none ever did."""

    @property
    def headers(self) -> list[str]:
        """The headers that either order looks at."""
        return [order.header for order in (self.order, self.next_order) if order.header is not None]

    @property
    def shown_header(self) -> str | None:
        """The header whose versions are told."""
        return self.order.header or self.next_order.header

    def seen(self, found: RecordCoordinates) -> SeenRecord:
        """A record, with the section of the log that it lies in."""
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
    """The order that the state names: ``offset``, ``timestamp`` or ``header:NAME``."""
    strategy, _, header = text.partition(":")
    return RecordOrder(Strategy(strategy), header or None)


def build_partition_orders(ctx: Context, view: TopicView, log: PartitionLog, as_of_ms: int) -> PartitionOrders:
    """The judge of one partition of the topic that ``view`` shows."""
    (assessment,) = assess_view(ctx, replace(view, partitions=(log,)), as_of_ms=as_of_ms)
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


def read_key_records(scan: KeyScan, judge: PartitionOrders) -> KeyRecords:
    """The records of the key that ``scan`` found last."""
    newest = scan.newest(MAXIMUM_RECORDS)
    winner = scan.winner(judge.order, judge.decided_below)
    next_winner = scan.winner(judge.next_order, judge.bounds.first_uncleanable_offset)
    wanted = {offset for offset in (*newest, winner, next_winner) if offset is not None}
    found = scan.coordinates(wanted, judge.shown_header)
    return KeyRecords(
        records=tuple(judge.seen(found[offset]) for offset in newest),
        total=scan.count(),
        not_yet_cleanable=scan.count(judge.bounds.first_uncleanable_offset),
        winner=_read_seen_record(judge, found, winner),
        next_winner=_read_seen_record(judge, found, next_winner),
    )


def _read_seen_record(
    judge: PartitionOrders, found: Mapping[int, RecordCoordinates], offset: int | None
) -> SeenRecord | None:
    return None if offset is None else judge.seen(found[offset])
