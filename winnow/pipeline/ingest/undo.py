"""Undoes an ingest call in one commit: its records leave the log, and the same files can be ingested again.

Nothing decides but that commit: on every turn of the commit loop the newest head is checked again. No lease is taken: a
plan that reads records of the call finds them gone when it is published, and is void.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.errors import UndoRefusedError, UsageError
from winnow.files.quarantine_files import locate_ingest_folder
from winnow.log.head import Change, Head
from winnow.log.quarantine import Quarantine
from winnow.log.reference_chains import drop_ingest_reference
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.plan_validity import name_undo
from winnow.pipeline.ingest.history import (
    INGEST_ID_PROPERTY,
    UNDO_OPERATION,
    IngestHistory,
    find_ingest_snapshots,
    list_touched,
)
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.overview import refresh_overview
from winnow.report.events import log_event
from winnow.store.audit import AuditAction
from winnow.values.epochs import Epoch, drop_epochs_of, shorten_newest_epoch
from winnow.values.topic_state import IngestLedger, IngestReference, PartitionState, RetiredFile, TopicState


@dataclass(frozen=True, slots=True)
class UndonePartition:
    """One partition after the undo."""

    partition: int
    log_end_offset: int
    records_removed: int


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What undoing one ingest call did. ``was_undone``: an earlier call of this command did it already.

    ``files_retired``, ``bytes_retired``: files that stay until the grace of retired files has passed.
    """

    topic: str
    ingest_id: str
    snapshot_id: int
    was_undone: bool
    records_removed: int
    partitions: tuple[UndonePartition, ...]
    files_retired: int
    bytes_retired: int


class _AlreadyUndoneError(Exception):
    """A snapshot on the way to the head undid the call."""

    def __init__(self, snapshot_id: int) -> None:
        super().__init__(snapshot_id)
        self.snapshot_id = snapshot_id


def undo_ingest(installation: Installation, topic: str, ingest_id: str) -> UndoReport:
    """Undo one ingest call: its records, log ends, quarantined records and the knowledge of its files go back.

    Repeating it changes nothing, and completes the metadata store after a crash.

    Raises:
        UndoRefusedError: a later call touched one of its partitions, or records of it were compacted, retained or
            deleted. Nothing was changed.
        UsageError: the log names no such call.
        CommitConflictError, CommitUnknownError, ServiceError, UnknownTopicError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    started_ms = installation.now_ms()
    log = installation.log.open(topic)
    quarantine = installation.log.quarantine(topic)
    done: list[UndoReport] = []

    def build(head: Head) -> Change:
        change, report = _build_change(log, head, quarantine, ingest_id, installation.now_ms())
        done[:] = [report]
        # The call is committed, so its row has done its work. If it stayed, a sweep would void the call afterwards.
        installation.store.ingests.close([ingest_id])
        return change

    try:
        report = replace(_get_only(log.commit(build).snapshot_id, done), was_undone=False)
    except _AlreadyUndoneError as found:
        report = UndoReport(topic, ingest_id, found.snapshot_id, True, 0, (), 0, 0)
    head = log.head()  # another commit may have come after
    now_ms = installation.now_ms()
    retired = [file for file in head.state.waiting_files if file.plan_id == name_undo(ingest_id)]
    installation.store.retired_files.record(topic, retired, "data", table_uuid=head.table_uuid)
    installation.store.projection.record_states(topic, head.state.partitions, now_ms, table_uuid=head.table_uuid)
    refresh_overview(installation, topic, head)
    if not report.was_undone:
        log_event(
            "ingest_undone",
            topic,
            ingest_id=ingest_id,
            records_removed=report.records_removed,
            partitions=[part.partition for part in report.partitions],
            files_retired=report.files_retired,
            bytes_retired=report.bytes_retired,
            snapshot_id=str(report.snapshot_id),
            duration_ms=now_ms - started_ms,
        )
        detail = f"{ingest_id}: {report.records_removed:,} records left the log"
        record_action(installation, AuditAction.UNDO_INGEST, topic, detail=detail)
    return report


def _get_only(snapshot_id: int, done: Sequence[UndoReport]) -> UndoReport:
    (report,) = done
    return replace(report, snapshot_id=snapshot_id)


def _build_change(
    log: TopicLog, head: Head, quarantine: Quarantine, ingest_id: str, now_ms: int
) -> tuple[Change, UndoReport]:
    """Build the change that undoes the call on ``head``, and the report about it, without its snapshot.

    Raises:
        UndoRefusedError, UsageError: as :func:`undo_ingest`.
        _AlreadyUndoneError: it is undone.
    """
    topic = log.topic
    history = IngestHistory(log, head)
    if all(reference.ingest_id != ingest_id for reference in history.references):
        raise _explain_missing(head, topic, ingest_id)
    touched: dict[int | str, str] = {}
    others: list[tuple[IngestReference, IngestLedger]] = []
    ledger: IngestLedger | None = None
    for reference, read in history.read_newest():
        if reference.ingest_id == ingest_id:
            ledger = read
            break
        others.append((reference, read))
        for each in list_touched(read):
            touched.setdefault(each, read.ingest_id)
    assert ledger is not None
    found = history.check(ledger, touched)
    if found.reason is not None:
        raise UndoRefusedError(
            f"Ingest call {ingest_id} of topic {topic} was not undone: {found.reason}.",
            left="Nothing was changed.",
            next=f"See which calls can be undone with: winnow ingest list {topic}",
        )
    aside = [
        RetiredFile(entry.path, entry.size_bytes, now_ms, name_undo(ingest_id))
        for entry in (quarantine.files() if ledger.records_quarantined else ())
        if entry.path.startswith(f"{locate_ingest_folder(quarantine.location, ingest_id)}/")
    ]
    retired = [*(RetiredFile(s.path, s.size_bytes, now_ms, name_undo(ingest_id)) for s in found.segments), *aside]
    state = drop_ingest_reference(head.documents, head.state, ingest_id)
    change = Change(
        state=replace(
            state,
            partitions={**state.partitions, **found.states},
            retired=(*state.retired, *retired),
            quarantine_ingests=tuple(each for each in state.quarantine_ingests if each != ingest_id),
            file_digests=_restore_file_digests(history, head.state, ledger),
            undone_ingests=state.undone_ingests + 1,
            erasures=state.lower_erasure_ends({number: after.log_end_offset for number, after in found.states.items()}),
            epochs=_shorten_epochs(state, found.states, ingest_id),
        ),
        remove=[segment.path for segment in found.segments],
        remove_from={segment.partition for segment in found.segments},
        summary={"winnow.operation": UNDO_OPERATION, INGEST_ID_PROPERTY: ingest_id},
    )
    records = {p: sum(entry.records for entry in ledger.slices.get(p, ())) for p in found.states}
    report = UndoReport(
        topic=topic,
        ingest_id=ingest_id,
        snapshot_id=0,
        was_undone=False,
        records_removed=sum(records.values()),
        partitions=tuple(
            UndonePartition(p, after.log_end_offset, records[p]) for p, after in sorted(found.states.items())
        ),
        files_retired=len(retired),
        bytes_retired=sum(file.size_bytes for file in retired),
    )
    return change, report


def _shorten_epochs(state: TopicState, changed: Mapping[int, PartitionState], ingest_id: str) -> tuple[Epoch, ...]:
    """Return the epochs without one that the call began, and with what it read of the newest one counted as unread."""
    ends = {partition: after.log_end_offset for partition, after in changed.items()}
    return shorten_newest_epoch(drop_epochs_of(state.epochs, ingest_id), ends)


def _explain_missing(head: Head, topic: str, ingest_id: str) -> Exception:
    """Make the exception for a call that ``head`` does not name: it is undone, or never was."""
    snapshot_id = find_ingest_snapshots(head, UNDO_OPERATION).get(ingest_id)
    if snapshot_id is not None:
        return _AlreadyUndoneError(snapshot_id)
    return UsageError(
        f"Topic {topic} has no ingest call {ingest_id}: it was undone long ago, or nothing of it was ever committed.",
        left="Nothing was changed.",
        next=f"See its calls with: winnow ingest list {topic}",
    )


def _restore_file_digests(history: IngestHistory, state: TopicState, ledger: IngestLedger) -> dict[str, int]:
    """Return the known digests of files without offsets once the call of ``ledger`` is undone.

    A file that another call ingested too stays known. Ledgers are read only if the call has such files.
    """
    known = dict(state.file_digests)
    if not ledger.file_digests:
        return known
    others = [each for each in history.read_newest() if each[1].ingest_id != ledger.ingest_id]
    names_all = all(read.before is not None for _, read in others)
    for digest, earlier_ms in ledger.file_digests.items():
        as_of_ms = _find_newest_as_of(others, digest)
        if as_of_ms is None and not names_all:
            as_of_ms = earlier_ms  # a ledger of an older Winnow does not say which files it was
        if as_of_ms is None:
            known.pop(digest, None)
        else:
            known[digest] = as_of_ms
    return known


def _find_newest_as_of(ledgers: Iterable[tuple[IngestReference, IngestLedger]], digest: str) -> int | None:
    return next((reference.as_of_ms for reference, read in ledgers if digest in read.file_digests), None)
