"""Erases keys from everything that Winnow wrote of a topic: one commit, then deletion without a grace.

On every turn of the commit loop what the head has and nobody read yet is searched, so that nothing is appended, retired
or taken back between the search and the commit. Segments that hold a key are written again without it, judged, and
replaced; they and every other file with such a key are condemned in the same commit, which raises the fence and voids
open ingest calls: whatever was begun before cannot bring a record back. A sweep then expires the snapshots that name
these files, however new they are, and deletes them; any later sweep goes on where this one was stopped.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.arrivals.erased_records import select_counting_erasures
from winnow.errors import (
    CommitConflictError,
    DeletedTopicError,
    EraseRefusedError,
    RunAgainError,
    UnknownTopicError,
    ValidationFailedError,
)
from winnow.files.key_sets import GivenKeys
from winnow.log.document_copies import delete_documents
from winnow.log.erasures import read_erasures, write_erasure
from winnow.log.head import Change, Head
from winnow.log.pinned_snapshots import unpin_snapshots
from winnow.log.snapshot_expiry import list_snapshots_naming
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.erased_versions import require_final_deletes
from winnow.pipeline.admin.erasure_progress import open_register
from winnow.pipeline.erase.approval import bind_request, find_carried_out, require_approval
from winnow.pipeline.erase.erasing_change import OPERATION, FoundFiles, add_erasure, list_other_calls, note_committed
from winnow.pipeline.erase.outside import list_outside_places
from winnow.pipeline.erase.preconditions import require_no_pins, require_no_stale_table
from winnow.pipeline.erase.rewriting import Rewriting
from winnow.pipeline.erase.run_spark import ErasureTasks
from winnow.pipeline.erase.scan import KeyScans, Progress, list_newest_offsets, list_pins
from winnow.pipeline.erased_keys import load_secret
from winnow.pipeline.ingest.heartbeat import IngestHeartbeat
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import get_actor_name
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.values.erasures import (
    AbsenceScan,
    ErasedFile,
    ErasureDocument,
    KeyDigester,
    RemainingTombstone,
    compute_key_id,
    encode_digests,
)
from winnow.values.model import Segment
from winnow.values.topic_state import ERASURE_PREFIX, PartitionState, RetiredFile, TopicState


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """What is to be erased of a topic, and why. ``keys``: one or more, none twice.

    ``request_id``: what another person approved; None: nobody was asked. ``engine``: ``local`` or ``spark`` for what
    reads and writes files; None: by their bytes.
    """

    topic: str
    keys: Sequence[bytes]
    reason: str
    with_tombstone: bool = False
    break_pins: bool = False
    request_id: str | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedErasure:
    """An erasure in the log. ``snapshot_id`` None: an earlier call had done it, and nothing was committed."""

    erasure_id: str
    snapshot_id: int | None
    document: ErasureDocument


class _ErasedBeforeError(Exception):
    """Nothing is to be done: an earlier erasure, whose document this has, covers all keys or used the approval."""

    def __init__(self, document: ErasureDocument) -> None:
        super().__init__()
        self.document = document


def commit_erasure(
    installation: Installation, request: EraseRequest, progress: Progress = lambda done, total: None
) -> CommittedErasure:
    """Commit the erasure of keys from the log of a topic; files are deleted by a sweep afterwards.

    Raises:
        EraseRefusedError: it takes an approval that is not there, the topic is deleted, a pin keeps a snapshot with
            such records, or a table of the latest state is there that nobody brings up to date. Nothing was changed.
        KeptVersionsError: the object store keeps what is deleted from it, or a right is missing. Nothing was changed.
        ConfigurationError: the secret is missing, or is not that of the topic's earlier erasures; or the library that
            asks the object store for versions is.
        ValidationFailedError, DamagedSegmentError: the result is wrong, or a segment is damaged; nothing was changed.
        RunAgainError: another erasure came first, or a sweep took this call for dead.
        CommitConflictError, CommitUnknownError, ServiceError, UnknownTopicError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    return _Erasure(installation, request, progress).commit()


class _Erasure:
    """One call."""

    def __init__(self, installation: Installation, request: EraseRequest, progress: Progress) -> None:
        self._installation = installation
        self._request = request
        self._erasure_id = uuid.uuid4().hex
        self._log = installation.log.open(request.topic)
        self._head = _open_head(self._log)
        require_no_stale_table(installation, self._log, self._head)
        require_final_deletes(installation, self._head, self._erasure_id)
        open_register(installation).begin_life(request.topic, self._head.table_uuid)
        self._secret = load_secret(installation, self._head.state, left=NOTHING_ERASED, makes=True)
        digester = KeyDigester(self._secret, self._head.table_uuid)
        keys = GivenKeys(request.keys)
        digests = keys.compute_digests(digester)
        self._digests = frozenset(digests)
        self._binding = bind_request(self._secret, self._digests, request)
        self._scans = KeyScans(request.topic, keys, progress)
        self._row = IngestHeartbeat(
            installation,
            request.topic,
            self._erasure_id,
            least_number=self._head.state.first_valid_ingest,
        )
        self._tasks = ErasureTasks(
            installation,
            self._head,
            self._secret,
            digests,
            request.engine,
            call_id=self._erasure_id,
            begin=self._row.open,
        )
        self._rewriting = Rewriting(installation, self._scans, self._erasure_id, self._head.location, self._tasks)
        self._attempts: list[ErasedFile] | None = None
        self._snapshots: set[int] = set()
        self._document: ErasureDocument | None = None
        self._drafts: list[str] = []
        self._used: list[str] = []

    def commit(self) -> CommittedErasure:
        """Search, write, judge, commit."""
        committed, document = None, None
        with self._row.renew_in_background():
            try:
                committed = self._log.commit(self._build)
                document = self._document
            except _ErasedBeforeError as found:
                self._discard()
                document = found.document
            except (EraseRefusedError, ValidationFailedError, CommitConflictError, UnknownTopicError):
                # Only where certainly nothing refers to these files; after any other error they stay, for a sweep.
                self._discard()
                raise
        assert document is not None
        if committed is not None:
            note_committed(self._installation, committed.head, self._erasure_id)
            if self._rewriting.remove_unused(self._used):
                self._row.close()
        if self._request.break_pins and self._snapshots:
            broken = list_pins(self._log.head(), self._snapshots)
            unpin_snapshots(self._log, lambda tag: tag in broken)
        return CommittedErasure(document.erasure_id, None if committed is None else committed.snapshot_id, document)

    def _build(self, head: Head) -> Change:
        installation, state = self._installation, head.state
        if self._row.is_voided(state):
            raise RunAgainError(
                f"This erasure of keys of topic {self._log.topic} was ended by another one, or by a sweep that took it "
                "for dead.",
                left=NOTHING_ERASED,
                next="Run it again.",
            )
        if (carried_out := find_carried_out(state, self._request.request_id)) is not None:
            raise _ErasedBeforeError(carried_out)
        require_approval(installation, self._request, self._binding)
        self._scans.check_quarantine(installation.log.quarantine(self._log.topic, head))
        holding, left_log = self._scans.scan_log(self._log, head, self._tasks)
        self._snapshots = list_snapshots_naming(head.table, FoundFiles(holding, left_log).paths)
        require_no_pins(head, self._snapshots, break_pins=self._request.break_pins)
        self._require_not_erased_before(state, holding, left_log)
        if self._attempts is None:
            self._attempts = self._scans.find_in_attempts(installation, head)
        starts = {number: part.log_start_offset for number, part in state.partitions.items()}
        tombstones = list_newest_offsets(self._scans, holding, starts) if self._request.with_tombstone else {}
        if holding or left_log:
            self._row.open()
        made = self._rewriting.write(holding, tombstones, left_log)
        self._used = [segment.path for written in made.values() for segment in written]
        now_ms = installation.now_ms()
        document = self._document = self._make_document(head, holding, left_log, tombstones, now_ms)
        delete_documents(head.documents, self._drafts)
        reference = write_erasure(head.documents, document)
        self._drafts = list(head.documents.list_places(reference.path))
        installation.guard.require_own()
        base = Change(
            state=replace(state, partitions={**state.partitions, **_reopen_partitions(state, tombstones)}),
            summary={"winnow.operation": OPERATION},
        )
        found = FoundFiles(holding, left_log, made)
        return add_erasure(
            base,
            head,
            self._erasure_id,
            found,
            [reference],
            list_other_calls(self._installation, self._log.topic, self._erasure_id),
            now_ms,
        )

    def _require_not_erased_before(
        self, state: TopicState, holding: Collection[Segment], left_log: Collection[RetiredFile]
    ) -> None:
        """Raise if there is nothing to do: so a call that is repeated adds no erasure."""
        named = {file.plan_id for file in left_log}
        if holding or not state.erasures or not all(name.startswith(ERASURE_PREFIX) for name in named):
            return
        counting = select_counting_erasures(read_erasures(state))
        found = {id(each): each for digest in self._digests if (each := counting.get(digest)) is not None}
        ends = {number: part.log_end_offset for number, part in state.partitions.items()}
        if all(digest in counting for digest in self._digests) and all(each.ends == ends for each in found.values()):
            raise _ErasedBeforeError(max(found.values(), key=lambda each: each.at_ms))

    def _make_document(
        self,
        head: Head,
        holding: Sequence[Segment],
        left_log: Sequence[RetiredFile],
        tombstones: Mapping[int, set[int]],
        now_ms: int,
    ) -> ErasureDocument:
        state, scans = head.state, self._scans
        kept = {(number, offset) for number, offsets in tombstones.items() for offset in offsets}
        return ErasureDocument(
            erasure_id=self._erasure_id,
            topic=self._log.topic,
            table_uuid=head.table_uuid,
            at_ms=now_ms,
            by=get_actor_name(self._installation),
            reason=self._request.reason,
            key_id=compute_key_id(self._secret),
            keys=len(self._digests),
            keys_found=len({key for each in holding for key in scans.live[each.path].newest}),
            hashes=encode_digests(self._digests),
            ends={number: part.log_end_offset for number, part in state.partitions.items()},
            records=sum(scans.live[each.path].records for each in holding),
            files=scans.describe_all(state, holding, left_log, self._attempts or ()),
            tombstones=tuple(RemainingTombstone(*place) for place in sorted(kept)),
            scan=AbsenceScan(scans.read_files, scans.read_bytes, scans.quarantine_files, now_ms),
            outside=tuple(list_outside_places(self._installation, state)),
            previous=state.erasures[-1].sha256 if state.erasures else None,
            approvals=require_approval(self._installation, self._request, self._binding),
        )

    def _discard(self) -> None:
        """Remove what was written and nothing refers to; what cannot be removed is left for a sweep."""
        delete_documents(self._head.documents, self._drafts)
        if self._rewriting.remove_unused():
            self._row.close()


def _open_head(log: TopicLog) -> Head:
    try:
        return log.newest_head()
    except DeletedTopicError as problem:
        raise EraseRefusedError(
            f"Topic {log.topic} is deleted, and its files still hold its records.",
            left=NOTHING_ERASED,
            next=(
                "Run it again with --purge-deleted, which removes the topic for good, or: winnow topics delete "
                f"{log.topic} --now"
            ),
        ) from problem


def _reopen_partitions(state: TopicState, tombstones: Mapping[int, set[int]]) -> dict[int, PartitionState]:
    """Return the partitions that get a tombstone, dirty from there on: its wait begins with the next compaction."""
    changed = {}
    for number, offsets in tombstones.items():
        part, first = state.partitions[number], min(offsets)
        if part.first_dirty_offset is None or part.first_dirty_offset <= first:
            continue
        history = tuple(entry for entry in part.history if entry.end_offset <= first)
        changed[number] = replace(
            part,
            first_dirty_offset=first,
            history=history,
            strategy=part.strategy if history == part.history else None,
        )
    return changed
