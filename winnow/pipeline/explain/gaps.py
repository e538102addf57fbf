"""Explains the gaps between the records of a partition as ranges of offsets that have one answer each.

Nothing of a record is read: receipts, ledgers of ingest calls and erasures answer, the newest ones, a bounded number of
each. What they do not tell is not known, and :mod:`winnow.pipeline.explain.why` has no such bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from winnow.errors import DamagedMetadataError
from winnow.log.reference_chains import list_ingest_references, list_receipt_references
from winnow.pipeline.explain.removals import (
    Absence,
    AbsenceVerdict,
    PartitionHistory,
    RemovalRun,
    decide_absence,
    list_erasure_ends,
    list_partition_runs,
    read_slices,
)
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.topic_view import TopicView
from winnow.values.topic_state import Append, IngestReference, TopicState

MAXIMUM_RECEIPTS: Final = 500
MAXIMUM_RECEIPT_ENTRIES: Final = 100_000
"""Receipts have an entry per partition: of topics with many partitions fewer receipts are read."""
MINIMUM_RECEIPTS: Final = 20
MAXIMUM_CALLS: Final = 1_000
"""Ingest calls among which those of the gaps are looked for."""
MAXIMUM_LEDGERS: Final = 64
MAXIMUM_RANGES: Final = 8
"""Ranges of one gap: if there are more, neighbours that differ in their runs only become one."""
NOT_KNOWN: Final = "not_known"


@dataclass(frozen=True, slots=True)
class GapRun:
    """A run that may have removed records of a gap."""

    plan_id: str | None
    finished_at_ms: int


@dataclass(frozen=True, slots=True)
class ExplainedGap:
    """Why none of the offsets from ``first_offset`` to ``last_offset`` has a record.

    ``verdict``: one of :class:`~winnow.pipeline.explain.removals.AbsenceVerdict`, or ``not_known``; ``outcome`` and
    ``reason`` say it in words. ``runs``: the first and the last of ``runs_total`` runs, one of which removed each.
    """

    first_offset: int
    last_offset: int
    verdict: str
    outcome: str
    reason: str
    causes: tuple[str, ...] = ()
    runs: tuple[GapRun, ...] = ()
    runs_total: int = 0
    erasures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """The part of a partition's history that was read.

    Its slices are all that there are of the offsets from ``first_offset`` to below ``end_offset``. ``has_all_runs``:
    there are no older runs than its own. ``has_quarantine``: records of the topic were set aside.
    """

    history: PartitionHistory
    first_offset: int
    end_offset: int
    has_all_runs: bool
    has_quarantine: bool


@dataclass(frozen=True, slots=True)
class _Range:
    first_offset: int
    last_offset: int
    absence: Absence | None

    @property
    def rule(self) -> tuple[object, ...]:
        """What neighbours share that have one answer but for their runs."""
        why = self.absence
        return (None,) if why is None else (why.verdict, why.causes, why.erasures, bool(why.runs))

    @property
    def answer(self) -> tuple[object, ...]:
        """What neighbours share that have one answer."""
        return (*self.rule, () if self.absence is None else self.absence.runs)


def find_gaps(offsets: Iterable[int], start: int, end: int) -> list[tuple[int, int]]:
    """Find what is missing from [``start``, ``end``) in ascending ``offsets``: first and last offset of each gap."""
    found: list[tuple[int, int]] = []
    expected = start
    for offset in (*offsets, end):
        if offset > expected:
            found.append((expected, offset - 1))
        expected = max(expected, offset + 1)
    return found


def explain_gaps(
    installation: Installation, view: TopicView, partition: int, gaps: Sequence[tuple[int, int]]
) -> list[ExplainedGap]:
    """Explain ``gaps`` of ``partition``, each by its first and last offset, in offset order.

    A damaged receipt or ledger leaves them not known: records can be read without it.

    Raises:
        ServiceError: the object store or the metadata store does not answer.
    """
    if not gaps:
        return []
    try:
        known = _read_history(installation, view, partition, gaps[0][0], gaps[-1][1])
    except DamagedMetadataError:
        return [ExplainedGap(first, last, NOT_KNOWN, "not known", _DAMAGED) for first, last in gaps]
    return [part for first, last in gaps for part in explain_gap(known, first, last)]


def explain_gap(known: KnownHistory, first: int, last: int) -> list[ExplainedGap]:
    """Explain why no offset from ``first`` to ``last`` has a record, as few ranges in offset order."""
    starts = sorted({first, *(offset for offset in _list_turns(known) if first < offset <= last)})
    ends = [*(start - 1 for start in starts[1:]), last]
    ranges = [_Range(start, end, _decide(known, start)) for start, end in zip(starts, ends, strict=True)]
    merged = [_merge(list(same)) for _, same in groupby(ranges, key=lambda part: part.answer)]
    if len(merged) > MAXIMUM_RANGES:
        merged = [_merge(list(same)) for _, same in groupby(merged, key=lambda part: part.rule)]
    return [_describe(part, known.has_quarantine) for part in merged]


def _list_turns(known: KnownHistory) -> Iterator[int]:
    """Yield the offsets at which the answer may become another one."""
    history = known.history
    yield from (known.first_offset, known.end_offset, history.log_start_offset, history.log_end_offset)
    for run in history.runs:
        yield from (run.next_first_dirty_offset, run.log_start_offset or 0)
    for entry in history.slices:
        yield from (entry.first_offset, entry.last_offset + 1)
    yield from (end for _, end in history.erasures)


def _decide(known: KnownHistory, offset: int) -> Absence | None:
    if not known.first_offset <= offset < known.end_offset:
        return None
    absence = decide_absence(known.history, offset)
    # An older run may have removed what a call brought; what none brought needs no run.
    return absence if known.has_all_runs or absence.slice is None else None


def _merge(ranges: Sequence[_Range]) -> _Range:
    """Join neighbours; their runs, oldest first, are those of any of them."""
    first, last = ranges[0], ranges[-1]
    if first.absence is None:
        return replace(first, last_offset=last.last_offset)
    runs: dict[RemovalRun, None] = {}
    for part in ranges:
        assert part.absence is not None
        runs |= dict.fromkeys(part.absence.runs)
    ordered = tuple(sorted(runs, key=lambda run: run.finished_at_ms))
    return _Range(first.first_offset, last.last_offset, replace(first.absence, runs=ordered))


_RULES: Final = {
    AbsenceVerdict.SUPERSEDED: "superseded by another record of the key",
    AbsenceVerdict.TOMBSTONE_EXPIRED: "an expired tombstone",
    AbsenceVerdict.KEYLESS: "without a key, set aside in the quarantine",
    AbsenceVerdict.ERASED: "of an erased key",
}
_SOURCE_GAP: Final = (
    "no ingest brought it, such as a transaction's marker, an aborted record, or what the source had lost"
)
_QUARANTINE: Final = "; or it is in the quarantine, without a key"
_DAMAGED: Final = "a receipt or ledger of the log is damaged"
_TOO_MUCH: Final = "the log has a longer history than is read for this list"


def _describe(part: _Range, has_quarantine: bool) -> ExplainedGap:
    why = part.absence
    if why is None:
        return ExplainedGap(part.first_offset, part.last_offset, NOT_KNOWN, "not known", _TOO_MUCH)
    quarantine = _QUARANTINE if has_quarantine else ""
    rules = " or ".join(_RULES[cause] for cause in why.causes)
    outcome, reason = "removed", rules
    if why.verdict is AbsenceVerdict.NEVER_INGESTED:
        outcome, reason = "never ingested", _SOURCE_GAP + quarantine
    elif why.verdict is AbsenceVerdict.NOT_WRITTEN:
        outcome, reason = "not written yet", "the log ends before"
    elif why.verdict is AbsenceVerdict.BELOW_LOG_START:
        reason = "retention" if why.runs else "the log start was raised (delete-records)"
    elif why.verdict is AbsenceVerdict.REMOVED_OR_NEVER_WRITTEN:
        outcome, reason = "removed, or never written", rules + quarantine
    ends = dict.fromkeys(GapRun(run.plan_id, run.finished_at_ms) for run in (*why.runs[:1], *why.runs[-1:]))
    return ExplainedGap(
        part.first_offset,
        part.last_offset,
        why.verdict.value,
        outcome,
        reason,
        causes=tuple(cause.value for cause in why.causes),
        runs=tuple(ends),
        runs_total=len(why.runs),
        erasures=why.erasures,
    )


def _read_history(installation: Installation, view: TopicView, partition: int, first: int, last: int) -> KnownHistory:
    carried = view.head.state
    state = carried.partitions[partition]
    limit = max(MINIMUM_RECEIPTS, min(MAXIMUM_RECEIPTS, MAXIMUM_RECEIPT_ENTRIES // len(view.partitions)))
    receipts = list_receipt_references(carried, newest=limit + 1)
    calls = list_ingest_references(carried, newest=MAXIMUM_CALLS + 1)
    has_all_calls = len(calls) <= MAXIMUM_CALLS
    slices, first_offset, end_offset = _find_slices(carried, calls, partition, first, last, is_whole=has_all_calls)
    return KnownHistory(
        history=PartitionHistory(
            state.log_start_offset,
            state.log_end_offset,
            tuple(slices),
            tuple(list_partition_runs(installation, view, partition, receipts[-limit:])),
            list_erasure_ends(carried, partition),
        ),
        first_offset=first_offset,
        end_offset=end_offset,
        has_all_runs=len(receipts) <= limit,
        has_quarantine=bool(carried.quarantine_ingests),
    )


def _find_slices(
    state: TopicState, calls: Sequence[IngestReference], partition: int, first: int, last: int, *, is_whole: bool
) -> tuple[list[Append], int, int]:
    """Find the slices of ``calls`` that have offsets from ``first`` to ``last``, and the range of which these are all.

    Offsets of a partition increase from call to call. A bounded number of ledgers is read. ``is_whole``: there are no
    calls before these.
    """
    low, high, ledgers = 0, len(calls), MAXIMUM_LEDGERS
    while low < high and ledgers > 0:
        middle = (low + high) // 2
        probe, slices = middle, read_slices(state, calls[middle], partition)
        ledgers -= 1
        while not slices and probe + 1 < high and ledgers > 0:  # a call without records for this partition
            probe += 1
            slices = read_slices(state, calls[probe], partition)
            ledgers -= 1
        if slices and slices[-1].last_offset < first:
            low = probe + 1
        else:
            high = middle
    found: list[Append] = []
    end_offset = first
    for reference in calls[low:]:
        if end_offset > last or ledgers <= 0:
            break
        slices = read_slices(state, reference, partition)
        ledgers -= 1
        found.extend(entry for entry in slices if entry.first_offset <= last and entry.last_offset >= first)
        if slices:
            end_offset = max(end_offset, slices[-1].last_offset + 1)
    else:
        end_offset = last + 1
    begins = is_whole or low > 0
    return found, first if begins else min((entry.first_offset for entry in found), default=end_offset), end_offset
