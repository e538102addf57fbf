"""What is known of an offset that holds no record: who brought it, which runs covered it, what they may have done.

Of a removed record nothing remains but counts: receipts say how many records a run removed and why, the ledgers of
ingest calls which offsets ever arrived. Where these leave a choice, the choice is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from winnow import documents
from winnow.log.chains import all_ingests
from winnow.log.state import read_checked, read_receipt
from winnow.model import Append, IngestLedger, IngestReference, TopicState
from winnow.pipeline.assess import TopicView
from winnow.pipeline.context import Context


class Verdict(StrEnum):
    """Why an offset of the log holds no record that readers see."""

    NOT_WRITTEN = "not_written"
    BELOW_LOG_START = "below_log_start"
    QUARANTINED = "quarantined"
    NEVER_INGESTED = "never_ingested"
    SUPERSEDED = "superseded"
    TOMBSTONE_EXPIRED = "tombstone_expired"
    KEYLESS = "keyless"
    REMOVED = "removed"
    """By a run, and its counts leave open by which rule."""
    REMOVED_OR_NEVER_WRITTEN = "removed_or_never_written"
    """The ingest that spans the offset had gaps, and this may be one of them."""


class Ingested(StrEnum):
    """Whether an ingest call brought an offset; ``perhaps``: it brought some of the offsets around it, not all."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Run:
    """What a published run did to the partition asked about."""

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

    ``causes``: the rules that may have removed it, one when there is no doubt left. ``covered_by``: the first run that
    covered it.
    """

    verdict: Verdict
    causes: tuple[Verdict, ...] = ()
    ingested: Ingested | None = None
    slice: Append | None = None
    covered_by: Run | None = None
    runs: tuple[Run, ...] = ()


def runs_of(ctx: Context, view: TopicView, partition: int) -> list[Run]:
    """The published runs that worked on ``partition``, oldest first.

    One receipt is held at a time, since each has an entry for every partition. They come from the metadata store, and
    from beside the table where the store does not know them.
    """
    found: list[Run] = []
    for reference in view.log.receipt_references(view.head):
        receipt = ctx.store.projection.find_receipt(reference.plan_id) or read_receipt(view.log.topic, reference)
        found.extend(
            Run(
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


def covering(runs: Sequence[Run], offset: int) -> list[Run]:
    """The runs that judged the record at ``offset``: a run that read nothing (retention alone) judged nothing."""
    return [run for run in runs if run.records_in > 0 and run.next_first_dirty_offset > offset]


def _retiring(runs: Sequence[Run], offset: int) -> tuple[Run, ...]:
    """The first run that retired records and left the log start above ``offset``; none when another hand raised it."""
    found = (run for run in runs if run.records_retired and (run.log_start_offset or 0) > offset)
    return tuple(islice(found, 1))


def absence(ctx: Context, view: TopicView, partition: int, offset: int) -> Absence:
    """Why ``offset`` of ``partition``, at which there is no record, holds none.

    Raises:
        WinnowError: a receipt or ledger is missing or damaged.
    """
    state = view.head.state.partitions[partition]
    if offset >= state.log_end_offset:
        return Absence(Verdict.NOT_WRITTEN)
    if _is_quarantined(ctx, view, partition, offset):
        return Absence(Verdict.QUARANTINED)
    entry = slice_of(view.head.state, partition, offset)
    ingested = _ingested(entry)
    runs = runs_of(ctx, view, partition)
    if ingested is not Ingested.NO and offset < state.log_start_offset:
        return Absence(Verdict.BELOW_LOG_START, ingested=ingested, slice=entry, runs=_retiring(runs, offset))
    judged = covering(runs, offset) if ingested is not Ingested.NO else []
    causes = _causes(judged)
    if not causes:
        return Absence(Verdict.NEVER_INGESTED, ingested=Ingested.NO, slice=entry)
    verdict = causes[0] if len(causes) == 1 else Verdict.REMOVED
    return Absence(
        verdict=verdict if ingested is Ingested.YES else Verdict.REMOVED_OR_NEVER_WRITTEN,
        causes=causes,
        ingested=ingested,
        slice=entry,
        covered_by=judged[0],
        runs=tuple(run for run in judged if _may_have_removed(run, is_first=run is judged[0])),
    )


def _causes(judged: Sequence[Run]) -> tuple[Verdict, ...]:
    """The rules that the counts of ``judged``, oldest first, leave open.

    Keyless records go in the first run that covers them; tombstones in a later one, never in the first.
    """
    found: list[Verdict] = []
    if any(run.records_superseded for run in judged):
        found.append(Verdict.SUPERSEDED)
    if any(run.tombstones_expired for run in judged[1:]):
        found.append(Verdict.TOMBSTONE_EXPIRED)
    if judged and judged[0].records_keyless:
        found.append(Verdict.KEYLESS)
    return tuple(found)


def _may_have_removed(run: Run, *, is_first: bool) -> bool:
    return bool(run.records_superseded or (run.records_keyless if is_first else run.tombstones_expired))


def _ingested(entry: Append | None) -> Ingested:
    if entry is None:
        return Ingested.NO
    is_dense = entry.records == entry.last_offset - entry.first_offset + 1
    return Ingested.YES if is_dense else Ingested.PERHAPS


def _is_quarantined(ctx: Context, view: TopicView, partition: int, offset: int) -> bool:
    visible = view.head.state.quarantine_ingests
    if not visible:
        return False
    rows = ctx.log.quarantine(view.log.topic).read(visible, partition=partition, offsets=(offset, offset))
    return any(batch.num_rows for batch in rows)


def slice_of(state: TopicState, partition: int, offset: int) -> Append | None:
    """The slice of an ingest call that spans ``offset``; None when none does.

    Offsets of a partition rise from call to call, so the ledgers are bisected rather than all read.
    """
    ingests = all_ingests(state)
    low, high = 0, len(ingests)
    while low < high:
        middle = (low + high) // 2
        probe, slices = middle, _slices(state, ingests[middle], partition)
        while not slices and probe + 1 < high:  # a call that brought nothing to this partition
            probe += 1
            slices = _slices(state, ingests[probe], partition)
        if not slices or offset < slices[0].first_offset:
            high = middle
        elif offset > slices[-1].last_offset:
            low = probe + 1
        else:
            return next((entry for entry in slices if entry.first_offset <= offset <= entry.last_offset), None)
    return None


def _slices(state: TopicState, reference: IngestReference, partition: int) -> tuple[Append, ...]:
    data = read_checked(state.topic, "ingest ledger", reference.path, reference.sha256)
    return documents.load_json(IngestLedger, data).slices.get(partition, ())
