"""Computes which record of each key survives a cleaning, and the cleaning history after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from winnow.values.model import Record
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Cleaning

_MISSING_TIMESTAMP_MS = -1

_LONG_BYTES = 8

# Which record survives


@dataclass(frozen=True, slots=True)
class CleaningOutcome:
    """What a cleaning keeps, and the offsets of what it removes, by cause; all in offset order.

    ``kept`` also holds every record at or above the end of the cleaning. ``retired``: what retention removed before.
    ``extended``: the offsets of tombstones that superseded a record, and so stay and live longer; none where nothing
    arrives late.
    """

    kept: list[Record]
    superseded: list[int]
    tombstones_expired: list[int]
    keyless: list[int]
    retired: list[int] = field(default_factory=list)
    extended: list[int] = field(default_factory=list)


def read_header_version(record: Record, header: str | None) -> int | None:
    """Read the version that ``record`` carries in ``header``, -2^63 to 2^63 - 1, or None where it counts as missing.

    Without a header name no record has a version (KIP-280: blank falls back to offset).
    """
    if not header:
        return None
    values = [value for name, value in record.headers or () if name == header]
    if not values or values[-1] is None or len(values[-1]) != _LONG_BYTES:
        return None
    return int.from_bytes(values[-1], "big", signed=True)


def compute_version(record: Record, strategy: Strategy, header: str | None) -> tuple[int, ...]:
    """Compute the place of ``record`` in the total order of ``strategy``; the greatest record of a key survives."""
    if strategy is Strategy.TIMESTAMP:
        timestamp_ms = _MISSING_TIMESTAMP_MS if record.timestamp_ms is None else record.timestamp_ms
        return (timestamp_ms, record.offset)
    if strategy is Strategy.HEADER:
        found = read_header_version(record, header)
        return (0, 0, record.offset) if found is None else (1, found, record.offset)
    return (record.offset,)


def compute_survivors(
    records: Sequence[Record],
    *,
    next_first_dirty_offset: int,
    strategy: Strategy,
    header: str | None,
    expired: Callable[[int], bool],
    late_arrivals: bool = False,
) -> CleaningOutcome:
    """Clean ``records``, one partition in offset order, up to ``next_first_dirty_offset`` (exclusive).

    ``expired`` decides by a tombstone's offset whether it may go if it won; the cleaning history decides that, and the
    history must be the one from before this cleaning. ``late_arrivals``: whether lower versions may still arrive
    (timestamp and header, winnow.late.arrival.ms above 0): then a tombstone that superseded a record stays.
    """
    winners: dict[bytes, Record] = {}
    for record in records:
        if record.offset < next_first_dirty_offset and record.key is not None:
            winner = winners.get(record.key)
            if winner is None or compute_version(record, strategy, header) > compute_version(winner, strategy, header):
                winners[record.key] = record

    with_losers = {
        record.key
        for record in records
        if record.offset < next_first_dirty_offset
        and record.key is not None
        and record.offset != winners[record.key].offset
    }

    outcome = CleaningOutcome(kept=[], superseded=[], tombstones_expired=[], keyless=[])
    for record in records:
        if record.offset >= next_first_dirty_offset:
            outcome.kept.append(record)
        elif record.key is None:
            outcome.keyless.append(record.offset)
        elif winners[record.key].offset != record.offset:
            outcome.superseded.append(record.offset)
        elif record.value is None and late_arrivals and record.key in with_losers:
            outcome.kept.append(record)
            outcome.extended.append(record.offset)
        elif record.value is None and expired(record.offset):
            outcome.tombstones_expired.append(record.offset)
        else:
            outcome.kept.append(record)
    return outcome


# The cleaning history


def find_history_entry(offset: int, history: Sequence[Cleaning]) -> Cleaning | None:
    """Find the entry that covers ``offset``; None where no cleaning covered it."""
    return next((entry for entry in history if offset < entry.end_offset), None)


def find_delete_horizon(offset: int, history: Sequence[Cleaning]) -> int | None:
    """Find the delete horizon (ms) of a tombstone at ``offset``; None: not covered, or at an unknown time."""
    entry = find_history_entry(offset, history)
    return None if entry is None else entry.delete_horizon_ms


def advance_history(
    history: Sequence[Cleaning], end_offset: int, cleaning_time_ms: int, delete_retention_ms: int
) -> tuple[Cleaning, ...]:
    """Advance the history by a cleaning of everything below ``end_offset``.

    The cleaning stamps the offsets that no earlier one covered at a known time: those past the last entry, and those of
    entries with unknown time. What is stamped once never moves, also when delete.retention.ms changes. The part of an
    unknown entry at or above ``end_offset`` (a checkpoint imported beyond the log end) stays unknown.
    """
    horizon_ms = cleaning_time_ms + delete_retention_ms
    advanced: list[Cleaning] = []
    covered_to = 0
    for entry in history:
        if entry.cleaning_time_ms is None and covered_to < end_offset:
            advanced.append(Cleaning(min(entry.end_offset, end_offset), cleaning_time_ms, horizon_ms))
        if entry.cleaning_time_ms is not None or entry.end_offset > end_offset:
            advanced.append(entry)
        covered_to = entry.end_offset
    if covered_to < end_offset:
        advanced.append(Cleaning(end_offset, cleaning_time_ms, horizon_ms))

    joined: list[Cleaning] = []
    for entry in advanced:
        if joined and replace(joined[-1], end_offset=entry.end_offset) == entry:
            joined.pop()
        joined.append(entry)
    return tuple(joined)


def extend_tombstone_lives(
    history: Sequence[Cleaning], offsets: Iterable[int], cleaning_time_ms: int
) -> tuple[Cleaning, ...]:
    """Extend the history by a cleaning in which the tombstones at ``offsets`` superseded something.

    Each has an entry of its own from then on, with that cleaning's time. A time that is later already stays, and so do
    delete horizons.
    """
    extended = tuple(history)
    for offset in offsets:
        entry = find_history_entry(offset, extended)
        if entry is None or entry.cleaning_time_ms is None or entry.cleaning_time_ms >= cleaning_time_ms:
            continue
        at = extended.index(entry)
        start = extended[at - 1].end_offset if at else 0
        pieces = [replace(entry, end_offset=offset + 1, cleaning_time_ms=cleaning_time_ms)]
        if start < offset:
            pieces.insert(0, replace(entry, end_offset=offset))
        if offset + 1 < entry.end_offset:
            pieces.append(entry)
        extended = (*extended[:at], *pieces, *extended[at + 1 :])
    return extended


def prune_history(history: Sequence[Cleaning], remaining_tombstone_offsets: Iterable[int]) -> tuple[Cleaning, ...]:
    """Remove the history entries that no remaining tombstone needs: those with none below their end.

    An entry's lower bound is its predecessor's end, so dropping one lets the next claim its offsets. That is safe.
    "None below its end" holds for all earlier entries too, so a prefix goes, never an entry in the middle; below the
    end of that prefix no tombstone remains, and none can come, since offsets below the log end are never appended. An
    emptied history is safe for the same reason: the next cleaning's entry begins at 0 and finds its first tombstone
    above the old checkpoint. A caller that knows only files may pass a file's first offset for its tombstones: that
    keeps more, never less.
    """
    lowest = min(remaining_tombstone_offsets, default=None)
    return tuple(entry for entry in history if lowest is not None and lowest < entry.end_offset)
