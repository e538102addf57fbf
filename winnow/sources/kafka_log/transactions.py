"""Follows the transactions of one partition's log: which were aborted, and up to where all are decided.

The control batches of a log decide every transaction that began and ended in it. The ``.txnindex`` of a segment lists
the aborted ones that ended there; it must agree, and stands in for a control batch that is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from winnow.sources.kafka_log.batches import BatchHeader, ControlType
from winnow.sources.kafka_log.files import AbortedTransaction


class ContradictionError(Exception):
    """Index and control batch disagree about a transaction. ``offset``: the control batch's."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(slots=True)
class AbortedRanges:
    """The aborted transactions of a log, by producer, in the order of their ends."""

    _first: dict[int, list[int]] = field(default_factory=dict)
    _last: dict[int, list[int]] = field(default_factory=dict)

    def add(self, producer_id: int, first: int, last: int) -> None:
        """Add a transaction from offset ``first`` to its control record at ``last``; ascending for each producer."""
        self._first.setdefault(producer_id, []).append(first)
        self._last.setdefault(producer_id, []).append(last)

    def has_batch(self, header: BatchHeader) -> bool:
        """Check whether the batch belongs to an aborted transaction."""
        if not header.is_transactional or header.producer_id not in self._first:
            return False
        place = bisect_right(self._first[header.producer_id], header.base_offset) - 1
        return place >= 0 and header.base_offset <= self._last[header.producer_id][place]

    def __len__(self) -> int:
        return sum(map(len, self._first.values()))


@dataclass(slots=True)
class _Open:
    first_offset: int
    records: int = 0


class TransactionTracker:
    """Sees the batches of a log in order. ``aborted_records``: those counted in transactions that were aborted."""

    def __init__(self) -> None:
        self.aborted = AbortedRanges()
        self.aborted_records = 0
        self._open: dict[int, _Open] = {}
        self._indexed: list[AbortedTransaction] = []

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the open transaction that began first, None if none is open."""
        return min((each.first_offset for each in self._open.values()), default=None)

    @property
    def open_transactions(self) -> int:
        """The number of transactions without an end."""
        return len(self._open)

    def add_index(self, entries: Iterable[AbortedTransaction]) -> None:
        """Add what the index of the segment that comes next says."""
        self._indexed = sorted([*self._indexed, *entries], key=lambda entry: entry.last_offset, reverse=True)

    def see_data(self, header: BatchHeader, records: int) -> None:
        """See a batch of data, ``records`` of which count."""
        self.see_end(header.base_offset)
        # The cleaner empties batches of decided transactions only.
        if header.is_transactional and header.record_count:
            self._open.setdefault(header.producer_id, _Open(header.base_offset)).records += records

    def see_control(self, header: BatchHeader, kind: int | None) -> None:
        """See a control batch; ``kind``: its type, None if the cleaner has emptied it.

        Raises:
            ContradictionError: it commits what the index calls aborted.
        """
        self.see_end(header.base_offset)
        if not header.is_transactional:
            return
        entry = self._take_indexed(header)
        if entry is not None and kind == ControlType.COMMIT:
            raise ContradictionError(header.base_offset)
        if entry is not None or kind == ControlType.ABORT:
            self._abort(header.producer_id, header.last_offset, entry)
        elif kind in (ControlType.COMMIT, None):
            # An emptied marker outlived every record of its transaction.
            self._open.pop(header.producer_id, None)

    def see_end(self, offset: int) -> None:
        """Apply what the index says of transactions that ended below ``offset`` without a control batch."""
        while self._indexed and self._indexed[-1].last_offset < offset:
            entry = self._indexed.pop()
            self._abort(entry.producer_id, entry.last_offset, entry)

    def _take_indexed(self, header: BatchHeader) -> AbortedTransaction | None:
        for place in range(len(self._indexed) - 1, -1, -1):
            entry = self._indexed[place]
            if entry.last_offset > header.last_offset:
                return None
            if entry.producer_id == header.producer_id:
                return self._indexed.pop(place)
        return None

    def _abort(self, producer_id: int, last: int, entry: AbortedTransaction | None) -> None:
        found = self._open.pop(producer_id, None)
        firsts = [each.first_offset for each in (found, entry) if each is not None]
        if firsts:
            self.aborted.add(producer_id, min(firsts), last)
        if found is not None:
            self.aborted_records += found.records
