"""Lists the ingest calls of a topic from their ledgers, and says of each whether it can be undone.

A call can be undone while it is the newest of every partition that it touched, and none of its records was compacted,
retained or deleted. Nothing else changes what readers of its partitions see below its first record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from winnow.errors import CommitConflictError
from winnow.log import state as carried
from winnow.log.head import Head
from winnow.log.reference_chains import count_receipts, list_ingest_references, read_ledger
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.values.epochs import KAFKA_LAYOUT
from winnow.values.model import Segment
from winnow.values.topic_state import Append, IngestLedger, IngestReference, PartitionState, TopicState

INGEST_ID_PROPERTY = "winnow.ingest-id"
"""Property of a snapshot's summary: the ingest call that the snapshot committed, or undid."""
UNDO_OPERATION = "undo-ingest"
"""Value of ``winnow.operation`` in the summary of a snapshot that undid an ingest call."""
DEFAULT_CALLS_LISTED = 50


@dataclass(frozen=True, slots=True)
class IngestedPartition:
    """The records that one call appended to one partition. Offsets are None if it appended none."""

    partition: int
    records_appended: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class IngestCall:
    """One ingest call. ``reason``: why it cannot be undone now, None: it can.

    ``snapshot_id`` None: the snapshot is expired. ``files`` and the counts of records that were skipped or quarantined
    are None for calls of an older Winnow. ``records_erased``: old copies of erased keys that were left out.
    """

    ingest_id: str
    as_of_ms: int
    snapshot_id: int | None
    files: int | None
    records_appended: int
    records_skipped: int | None
    records_quarantined: int | None
    partitions: tuple[IngestedPartition, ...]
    undoable: bool
    reason: str | None
    records_erased: int = 0


@dataclass(frozen=True, slots=True)
class IngestCalls:
    """The newest ingest calls of a topic, newest first. ``total``: how many there are in all."""

    topic: str
    total: int
    calls: tuple[IngestCall, ...]


@dataclass(frozen=True, slots=True)
class UndoCheck:
    """What undoing a call would do. ``reason``: why it is not possible, None: it is.

    ``states``: partitions after it. ``segments``: those that leave the log.
    """

    reason: str | None
    states: Mapping[int, PartitionState] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()


def keep_offsets(state: TopicState, partitions: Mapping[int, object]) -> dict[int, PartitionState]:
    """Return what a ledger keeps of the partitions whose log end an ingest call moves: their offsets before it."""
    found: dict[int, PartitionState] = {}
    for partition in sorted(partitions):
        before = state.partitions[partition]
        found[partition] = PartitionState(
            log_start_offset=before.log_start_offset,
            log_end_offset=before.log_end_offset,
            first_dirty_offset=before.first_dirty_offset,
        )
    return found


def check_same_log(opened: Head, head: Head) -> None:
    """Check that what an ingest call left out as known when its input was opened is in the log of ``head`` too.

    Raises:
        CommitConflictError: an ingest call was undone meanwhile, or the topic created again. Preparing the segments
            again would not help: the input has to be opened again.
    """
    if head.table_uuid != opened.table_uuid or head.state.undone_ingests != opened.state.undone_ingests:
        raise CommitConflictError(
            f"While this call was at work, another ingest call of topic {head.state.topic} was undone, or the topic "
            "was deleted and created again.",
            left="Nothing of this call landed.",
            next="Run it again.",
        )


def list_ingests(installation: Installation, topic: str, *, limit: int = DEFAULT_CALLS_LISTED) -> IngestCalls:
    """List the newest ``limit`` ingest calls of ``topic``, newest first, from the ledgers that its state names.

    Raises:
        UnknownTopicError, ForeignTableError, DamagedMetadataError, ServiceError: as
            :meth:`winnow.log.topic_log.TopicLog.head`.
    """
    log = installation.log.open(topic)
    history = IngestHistory(log, log.head())
    return IngestCalls(topic, len(history.references), tuple(history.list_newest(limit)))


class IngestHistory:
    """The ingest calls that one head of a log names."""

    def __init__(self, log: TopicLog, head: Head) -> None:
        self._log = log
        self._head = head
        self.references = list_ingest_references(head.state)

    @cached_property
    def live(self) -> dict[int, tuple[Segment, ...]]:
        """The live segments per partition."""
        return self._log.segments(self._head)

    @cached_property
    def _receipts(self) -> ReceiptEnds:
        return ReceiptEnds(self._log, self._head)

    def read_newest(self) -> Iterator[tuple[IngestReference, IngestLedger]]:
        """Read the ledgers, newest first."""
        for reference in reversed(self.references):
            yield reference, read_ledger(self._head.state, reference)

    def list_newest(self, limit: int) -> Iterator[IngestCall]:
        """Describe the newest ``limit`` calls, newest first."""
        touched: dict[int | str, str] = {}
        snapshots = find_ingest_snapshots(self._head)
        for number, (reference, ledger) in enumerate(self.read_newest()):
            if number >= limit:
                return
            reason = self.check(ledger, touched).reason
            yield _describe_call(reference, ledger, snapshots.get(ledger.ingest_id), reason)
            for each in list_touched(ledger):
                touched.setdefault(each, ledger.ingest_id)

    def check(self, ledger: IngestLedger, touched: Mapping[int | str, str]) -> UndoCheck:
        """Check what undoing the call of ``ledger`` would do.

        ``touched``: what later calls touched (:func:`list_touched`), and the newest call of each.
        """
        later = next((each for each in list_touched(ledger) if each in touched), None)
        if isinstance(later, str):
            return UndoCheck(f"a later call continued to read the same source; undo {touched[later]} first")
        if later is not None:
            return UndoCheck(f"a later call read records of {self._log.topic}-{later}; undo {touched[later]} first")
        if ledger.before is None:
            return UndoCheck("an older Winnow committed it, which did not record what undoing it needs")
        states: dict[int, PartitionState] = {}
        segments: list[Segment] = []
        for partition, before in sorted(ledger.before.items()):
            found = self._check_partition(ledger, partition, before)
            if isinstance(found, str):
                return UndoCheck(found)
            states[partition] = found
            segments += self._list_segments(partition, before)
        return UndoCheck(None, states, tuple(segments))

    def _list_segments(self, partition: int, before: PartitionState) -> list[Segment]:
        """List the segments with an offset that the call brought, or a later one."""
        return [each for each in self.live.get(partition, ()) if each.last_offset >= before.log_end_offset]

    def _check_partition(self, ledger: IngestLedger, partition: int, before: PartitionState) -> PartitionState | str:
        """Return the state of ``partition`` after undoing the call, or why that is not possible."""
        name = f"{self._log.topic}-{partition}"
        state = self._head.state.partitions[partition]
        appended = [entry for entry in ledger.slices.get(partition, ()) if entry.records]
        first = min((entry.first_offset for entry in appended), default=None)
        was_empty = before.log_end_offset == 0
        if first is not None and state.log_start_offset > first:
            return f"records of it were deleted: the log of {name} begins at offset {state.log_start_offset} now"
        cleaned, plan_id = self._receipts.find_highest_end(partition, since=ledger.receipts_before)
        # Offsets below these were judged without the call's records. A gap may lie between the log end and the first.
        ends = [before.log_end_offset, cleaned]
        if state.first_dirty_offset is not None and state.first_dirty_offset != before.first_dirty_offset:
            ends.append(state.first_dirty_offset)
        if not was_empty:
            ends.append(state.log_start_offset)
        end = max(ends)
        if end > before.log_end_offset and (first is None or end > first or ledger.records_quarantined):
            if cleaned == end:
                return f"it was compacted: plan {plan_id} cleaned {name} up to offset {end}"
            return f"{name} counts as clean, or begins, at offset {end} now, which the call brought"
        segments = self._list_segments(partition, before)
        found = (sum(s.records for s in segments), min((s.first_offset for s in segments), default=None))
        if found != (sum(entry.records for entry in appended), first):
            return f"the segments of {name} from offset {before.log_end_offset} on are not those that it appended"
        return replace(
            state,
            log_start_offset=before.log_start_offset if was_empty else state.log_start_offset,
            log_end_offset=end,
            appends=tuple(entry for entry in state.appends if entry.last_offset < before.log_end_offset),
        )


class ReceiptEnds:
    """The ends of the cleanings since an ingest call; receipts are read once, newest first."""

    def __init__(self, log: TopicLog, head: Head) -> None:
        self._log = log
        self._count = count_receipts(head.state)
        self._references = head.state.receipts
        self._head = head
        self._read: list[tuple[str, dict[int, int]]] = []

    def find_highest_end(self, partition: int, *, since: int) -> tuple[int, str]:
        """Find the highest end of a cleaning of ``partition`` after the first ``since`` receipts; 0: there is none."""
        ends = [(parts.get(partition, 0), plan_id) for plan_id, parts in self._list_since(since)]
        return max(ends, default=(0, ""))

    def _list_since(self, since: int) -> list[tuple[str, dict[int, int]]]:
        wanted = max(0, self._count - since)
        if wanted > len(self._references):
            self._references = tuple(self._log.receipt_references(self._head))
        while len(self._read) < wanted:
            reference = self._references[-1 - len(self._read)]
            receipt = carried.read_receipt(self._head.state, reference)
            undone = self._head.state.list_undone_partitions(reference.plan_id)
            parts = {
                part.partition: part.next_first_dirty_offset
                for part in receipt.partitions
                if part.partition not in undone
            }
            self._read.append((reference.plan_id, parts))
        return self._read[:wanted]


def list_touched_partitions(ledger: IngestLedger) -> list[int]:
    """List the partitions of which a call read records: it appended them, or found them there already."""
    return sorted({*ledger.slices, *ledger.partitions, *(ledger.before or ())})


def list_touched(ledger: IngestLedger) -> list[int | str]:
    """List what a call touched: partitions, and the source whose position it moved: a table, or a Kafka topic.

    The newest position of a source says how far it was read in all, so a call before it cannot be undone alone.
    """
    table = ledger.table
    moved = [] if table is None else [f"{table.table_uuid} {ledger.source_topic or ''}"]
    moved += [KAFKA_LAYOUT] if ledger.layout == KAFKA_LAYOUT else []
    return [*list_touched_partitions(ledger), *moved]


def find_ingest_snapshots(head: Head, operation: str = "ingest") -> dict[str, int]:
    """Find the snapshots by ingest id that committed an ingest call, or undid it, on the way to ``head``."""
    found: dict[str, int] = {}
    by_id = {snapshot.snapshot_id: snapshot for snapshot in head.table.metadata.snapshots}
    snapshot = by_id.get(head.snapshot_id) if head.snapshot_id is not None else None
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        ingest_id = summary.get(INGEST_ID_PROPERTY)
        if ingest_id and summary.get("winnow.operation") == operation:
            found[ingest_id] = snapshot.snapshot_id
        parent = snapshot.parent_snapshot_id
        snapshot = by_id.get(parent) if parent is not None else None
    return found


def _describe_call(
    reference: IngestReference, ledger: IngestLedger, snapshot_id: int | None, reason: str | None
) -> IngestCall:
    recorded = ledger.before is not None
    return IngestCall(
        ingest_id=ledger.ingest_id,
        as_of_ms=reference.as_of_ms,
        snapshot_id=snapshot_id,
        files=ledger.files if recorded else None,
        records_appended=sum(entry.records for entries in ledger.slices.values() for entry in entries),
        records_skipped=ledger.records_skipped if recorded else None,
        records_quarantined=ledger.records_quarantined if recorded else None,
        partitions=tuple(_describe_partition(p, ledger.slices.get(p, ())) for p in list_touched_partitions(ledger)),
        undoable=reason is None,
        reason=reason,
        records_erased=ledger.records_erased,
    )


def _describe_partition(partition: int, entries: tuple[Append, ...]) -> IngestedPartition:
    appended = [entry for entry in entries if entry.records]
    return IngestedPartition(
        partition=partition,
        records_appended=sum(entry.records for entry in appended),
        first_offset=min((entry.first_offset for entry in appended), default=None),
        last_offset=max((entry.last_offset for entry in appended), default=None),
    )
