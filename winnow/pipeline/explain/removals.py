"""Explains why an offset holds no record: which call appended it, and which runs may have removed it.

Only counts remain of a removed record: receipts have the number of records that a run removed and why, the ledgers of
ingest calls the offsets that arrived. If they leave several explanations, all are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from winnow.log.erasures import read_erasures
from winnow.log.reference_chains import list_ingest_references, read_ledger
from winnow.log.state import read_receipt
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.topic_view import TopicView
from winnow.values.topic_state import Append, IngestReference, ReceiptReference, TopicState


class AbsenceVerdict(StrEnum):
    """Why an offset of the log has no visible record."""

    NOT_WRITTEN = "not_written"
    BELOW_LOG_START = "below_log_start"
    QUARANTINED = "quarantined"
    NEVER_INGESTED = "never_ingested"
    SUPERSEDED = "superseded"
    TOMBSTONE_EXPIRED = "tombstone_expired"
    KEYLESS = "keyless"
    ERASED = "erased"
    REMOVED = "removed"
    """By a run, whose counts do not show by which rule."""
    REMOVED_OR_NEVER_WRITTEN = "removed_or_never_written"
    """The ingest call around the offset had gaps, and this may be one of them."""


class IngestedAnswer(StrEnum):
    """Whether an ingest call brought an offset; ``perhaps``: it brought some of the offsets around it, not all."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"


@dataclass(frozen=True, slots=True)
class RemovalRun:
    """The effect of a published run on the partition."""

    plan_id: str | None
    snapshot_id: int | None
    as_of_ms: int
    finished_at_ms: int
    first_dirty_offset: int
    next_first_dirty_offset: int
    records_in: int
    records_superseded: int
    tombstones_expired: int
    records_keyless: int
    records_retired: int
    log_start_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Absence:
    """Why there is no record at an offset. ``runs``: those that may have removed it, oldest first.

    ``causes``: the rules that may have removed it, one if it is certain. ``covered_by``: the first run that covered it.
    ``erasures``: of keys, any of which may have taken it.
    """

    verdict: AbsenceVerdict
    causes: tuple[AbsenceVerdict, ...] = ()
    ingested: IngestedAnswer | None = None
    slice: Append | None = None
    covered_by: RemovalRun | None = None
    runs: tuple[RemovalRun, ...] = ()
    erasures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """What is known of what came to a partition and left it.

    ``slices``: of ingest calls, in offset order; ``runs``: oldest first; ``erasures``: of keys, each with the end of
    the log that it searched.
    """

    log_start_offset: int
    log_end_offset: int
    slices: tuple[Append, ...]
    runs: tuple[RemovalRun, ...]
    erasures: tuple[tuple[str, int], ...]


def list_partition_runs(
    installation: Installation,
    view: TopicView,
    partition: int,
    references: Iterable[ReceiptReference] | None = None,
) -> list[RemovalRun]:
    """List the published runs on ``partition`` that were not undone, oldest first; ``references``: only these.

    One receipt is in memory at a time, since each has an entry for every partition. They are read from the metadata
    store, and from beside the table if the store does not have them.
    """
    found: list[RemovalRun] = []
    for reference in view.log.receipt_references(view.head) if references is None else references:
        if partition in view.head.state.list_undone_partitions(reference.plan_id):
            continue
        receipt = installation.store.projection.find_receipt(reference.plan_id) or read_receipt(
            view.head.state, reference
        )
        found.extend(
            RemovalRun(
                plan_id=receipt.plan_id,
                snapshot_id=receipt.snapshot_id,
                as_of_ms=receipt.as_of_ms,
                finished_at_ms=receipt.finished_at_ms,
                first_dirty_offset=part.first_dirty_offset,
                next_first_dirty_offset=part.next_first_dirty_offset,
                records_in=part.records_in,
                records_superseded=part.records_superseded,
                tombstones_expired=part.tombstones_expired,
                records_keyless=part.records_keyless,
                records_retired=part.records_retired,
                log_start_offset=part.log_start_offset,
            )
            for part in receipt.partitions
            if part.partition == partition
        )
    return found


def find_covering_runs(runs: Sequence[RemovalRun], offset: int) -> list[RemovalRun]:
    """Return the runs that judged the record at ``offset``; a run that read nothing (retention only) judged nothing."""
    return [run for run in runs if run.records_in > 0 and run.next_first_dirty_offset > offset]


def _find_retiring_runs(runs: Sequence[RemovalRun], offset: int) -> tuple[RemovalRun, ...]:
    """Return the first run that retired records and left the log start above ``offset``, if any."""
    found = (run for run in runs if run.records_retired and (run.log_start_offset or 0) > offset)
    return tuple(islice(found, 1))


def explain_absence(installation: Installation, view: TopicView, partition: int, offset: int) -> Absence:
    """Explain why ``offset`` of ``partition`` has no record.

    Raises:
        WinnowError: a receipt or ledger is missing or damaged.
    """
    state = view.head.state.partitions[partition]
    if offset >= state.log_end_offset:
        return Absence(AbsenceVerdict.NOT_WRITTEN)
    if _is_quarantined(installation, view, partition, offset):
        return Absence(AbsenceVerdict.QUARANTINED)
    entry = find_slice(view.head.state, partition, offset)
    history = PartitionHistory(
        state.log_start_offset,
        state.log_end_offset,
        () if entry is None else (entry,),
        tuple(list_partition_runs(installation, view, partition)),
        list_erasure_ends(view.head.state, partition),
    )
    return decide_absence(history, offset)


def decide_absence(history: PartitionHistory, offset: int) -> Absence:
    """Decide why ``offset`` has no record, from what is known of its partition; the quarantine is not asked."""
    if offset >= history.log_end_offset:
        return Absence(AbsenceVerdict.NOT_WRITTEN)
    entry = next((each for each in history.slices if each.first_offset <= offset <= each.last_offset), None)
    ingested = _find_ingested(entry)
    if ingested is IngestedAnswer.NO:
        return Absence(AbsenceVerdict.NEVER_INGESTED, ingested=ingested)
    if offset < history.log_start_offset:
        retiring = _find_retiring_runs(history.runs, offset)
        return Absence(AbsenceVerdict.BELOW_LOG_START, ingested=ingested, slice=entry, runs=retiring)
    covering = find_covering_runs(history.runs, offset)
    causes = _find_possible_causes(covering)
    erasures = tuple(erasure_id for erasure_id, end in history.erasures if offset < end)
    if erasures:
        causes = (*causes, AbsenceVerdict.ERASED)
    if not causes:
        return Absence(AbsenceVerdict.NEVER_INGESTED, ingested=IngestedAnswer.NO, slice=entry)
    verdict = causes[0] if len(causes) == 1 else AbsenceVerdict.REMOVED
    return Absence(
        verdict=verdict if ingested is IngestedAnswer.YES else AbsenceVerdict.REMOVED_OR_NEVER_WRITTEN,
        causes=causes,
        ingested=ingested,
        slice=entry,
        covered_by=covering[0] if covering else None,
        erasures=erasures,
        runs=tuple(run for run in covering if _is_possible_remover(run, is_first=run is covering[0])),
    )


def list_erasure_ends(state: TopicState, partition: int) -> tuple[tuple[str, int], ...]:
    """List the erasures that took records of ``partition``, each with the end of the log that it searched.

    Raises:
        DamagedMetadataError: the document of an erasure is missing or damaged.
    """
    return tuple((each.erasure_id, each.ends.get(partition, 0)) for each in read_erasures(state) if each.records)


def _find_possible_causes(covering: Sequence[RemovalRun]) -> tuple[AbsenceVerdict, ...]:
    """Return the rules that are possible by the counts of ``covering``, oldest first.

    Keyless records are removed by the first run that covers them; tombstones by a later one, never the first.
    """
    found: list[AbsenceVerdict] = []
    if any(run.records_superseded for run in covering):
        found.append(AbsenceVerdict.SUPERSEDED)
    if any(run.tombstones_expired for run in covering[1:]):
        found.append(AbsenceVerdict.TOMBSTONE_EXPIRED)
    if covering and covering[0].records_keyless:
        found.append(AbsenceVerdict.KEYLESS)
    return tuple(found)


def _is_possible_remover(run: RemovalRun, *, is_first: bool) -> bool:
    return bool(run.records_superseded or (run.records_keyless if is_first else run.tombstones_expired))


def _find_ingested(entry: Append | None) -> IngestedAnswer:
    if entry is None:
        return IngestedAnswer.NO
    is_dense = entry.records == entry.last_offset - entry.first_offset + 1
    return IngestedAnswer.YES if is_dense else IngestedAnswer.PERHAPS


def _is_quarantined(installation: Installation, view: TopicView, partition: int, offset: int) -> bool:
    visible = view.head.state.quarantine_ingests
    if not visible:
        return False
    rows = installation.log.quarantine(view.log.topic, view.head).read(
        visible, partition=partition, offsets=(offset, offset)
    )
    return any(batch.num_rows for batch in rows)


def find_slice(state: TopicState, partition: int, offset: int) -> Append | None:
    """Return the slice of an ingest call that spans ``offset``; None if there is none.

    Offsets of a partition increase from call to call, so the ledgers are searched by bisection.
    """
    ingests = list_ingest_references(state)
    low, high = 0, len(ingests)
    while low < high:
        middle = (low + high) // 2
        probe, slices = middle, read_slices(state, ingests[middle], partition)
        while not slices and probe + 1 < high:  # a call without records for this partition
            probe += 1
            slices = read_slices(state, ingests[probe], partition)
        if not slices or offset < slices[0].first_offset:
            high = middle
        elif offset > slices[-1].last_offset:
            low = probe + 1
        else:
            return next((entry for entry in slices if entry.first_offset <= offset <= entry.last_offset), None)
    return None


def read_slices(state: TopicState, reference: IngestReference, partition: int) -> tuple[Append, ...]:
    """Read what an ingest call brought to ``partition``, in offset order; nothing if it had none of its records."""
    slices = read_ledger(state, reference).slices.get(partition, ())
    # A slice without records notes input that was known already, and stands at no place of its own.
    return tuple(entry for entry in slices if entry.records)
