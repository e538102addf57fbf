"""Applies to an older state of a topic the erasures that only the register knows, in the commit that brings it back.

Of the keys nothing but their digests is known, so every key in every file is digested and compared. What is found goes
as in an erasure. The state gets the documents of all of these erasures, with their ids, times and log ends, so that old
copies stay out as before and certificates are found again, and one more for this application.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.arrivals.erased_records import select_counting_erasures
from winnow.errors import (
    CommitConflictError,
    EraseRefusedError,
    RunAgainError,
    UnknownTopicError,
    ValidationFailedError,
)
from winnow.files.key_sets import DigestedKeys
from winnow.log.document_copies import delete_documents
from winnow.log.erasures import read_erasures, write_erasure
from winnow.log.head import Change, Committed, Head
from winnow.log.pinned_snapshots import unpin_snapshots
from winnow.log.snapshot_expiry import Expiry, list_snapshots_naming
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.erasure_progress import open_register
from winnow.pipeline.admin.sweep import record_expiring_files
from winnow.pipeline.erase.erasing_change import OPERATION, FoundFiles, add_erasure, list_other_calls, note_committed
from winnow.pipeline.erase.preconditions import require_no_pins, require_no_stale_table
from winnow.pipeline.erase.rewriting import Rewriting
from winnow.pipeline.erase.run_spark import ErasureTasks
from winnow.pipeline.erase.scan import KeyScans, Progress, list_pins
from winnow.pipeline.erased_keys import load_secret_of
from winnow.pipeline.ingest.heartbeat import IngestHeartbeat
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import get_actor_name, record_action
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.report.events import log_event
from winnow.store.audit import AuditAction
from winnow.values.counts import format_count
from winnow.values.erasures import (
    AbsenceScan,
    ErasedFile,
    ErasureDocument,
    KeyDigester,
    compute_key_id,
    decode_digests,
    encode_digests,
)
from winnow.values.model import Segment
from winnow.values.topic_state import ErasureReference


@dataclass(frozen=True, slots=True)
class AppliedErasures:
    """The erasures of the register that were applied to a topic. ``records`` and ``files``: that held their keys.

    ``erasure_id``: of the document of this application; None: there was nothing to apply.
    """

    topic: str
    erasure_id: str | None
    erasures: int
    records: int
    files: int


def read_later(installation: Installation, head: Head) -> tuple[ErasureDocument, ...]:
    """Read the erasures that the register has and ``head`` does not know, in their order; lifts, too.

    Raises:
        ConfigurationError: ``head`` knows erasures, and the register has nothing of its topic, or cannot be read.
        DamagedMetadataError: a document in the register is damaged.
        ServiceError: the register does not answer.
    """
    known = {each.erasure_id for each in head.state.erasures}
    return open_register(installation).read_later(head.state.topic, head.table_uuid, known, left=NOTHING_ERASED)


class LaterErasures:
    """The erasures that an older state of one topic lacks: an :class:`winnow.pipeline.topics.older_worlds.OlderWorld`.

    Args:
        installation: where.
        topic: the topic.
        after: what brings the older state back, for the document of the application.
        break_pins: whether tags and branches that keep a snapshot with such records go.
        engine: ``local`` or ``spark``, where files are read; None: by their size.
        progress: see :class:`winnow.pipeline.erase.scan.KeyScans`.
    """

    def __init__(
        self,
        installation: Installation,
        topic: str,
        after: str,
        *,
        break_pins: bool = True,
        engine: str | None = None,
        progress: Progress = lambda done, total: None,
    ) -> None:
        self._installation, self._topic, self._after = installation, topic, after
        self._break_pins, self._engine, self._progress = break_pins, engine, progress
        self._erasure_id = uuid.uuid4().hex
        self._later: tuple[ErasureDocument, ...] = ()
        self._attempts: list[ErasedFile] | None = None
        self._found = FoundFiles((), ())
        self._snapshots: set[int] = set()
        self._drafts: list[str] = []
        self._used: list[str] = []
        self._document: ErasureDocument | None = None

    @property
    def is_behind(self) -> bool:
        """Whether the register has an erasure that the head lacked that was looked at."""
        return bool(self._later)

    @property
    def applied(self) -> AppliedErasures:
        """What was applied by :meth:`commit`."""
        document = self._document
        if document is None:
            return AppliedErasures(self._topic, None, 0, 0, 0)
        return AppliedErasures(
            self._topic, document.erasure_id, len(self._later), document.records, len(document.files)
        )

    def find(self, table_uuid: str, known: Mapping[str, str]) -> bool:
        """Find out whether the register has erasures of that life that are not ``known``; nothing else is read.

        ``known``: by id of an erasure that the older state names, the name of its secret.

        Raises:
            ConfigurationError: as :meth:`look`.
            DamagedMetadataError, ServiceError: the register cannot be read.
        """
        register = open_register(self._installation)
        self._later = register.read_later(self._topic, table_uuid, known, left=NOTHING_ERASED)
        if self._later:
            key_ids = {*known.values(), *(each.key_id for each in self._later)}
            load_secret_of(self._installation, self._topic, key_ids, left=NOTHING_ERASED)
            register.require_writable()
        return self.is_behind

    def look(self, log: TopicLog, head: Head) -> None:
        """Read the register, and search the files of ``head``; nothing is changed.

        Raises:
            EraseRefusedError: a record of such a key is not surely older than its erasure, or a pin or a table of the
                latest state keeps it.
            ConfigurationError: the secret is missing, or another one; or as :func:`read_later`.
            DamagedMetadataError, DamagedSegmentError, ServiceError: something cannot be read.
        """
        installation, state = self._installation, head.state
        key_ids = {each.erasure_id: each.key_id for each in state.erasures}
        if not self.find(head.table_uuid, key_ids):
            return
        later = self._later
        self._secret = load_secret_of(installation, self._topic, set(key_ids.values()), left=NOTHING_ERASED)
        require_no_stale_table(installation, log, head)
        mine = list(read_erasures(state))
        self._later = _leave_out_decided(later, mine)
        counting = select_counting_erasures([*mine, *self._later])
        ids = {each.erasure_id for each in later}
        self._head = head
        wanted = {digest: each for digest, each in counting.items() if each.erasure_id in ids}
        self._covering = list(wanted.values())
        keys = DigestedKeys(KeyDigester(self._secret, head.table_uuid), list(wanted))
        self._scans = KeyScans(self._topic, keys, self._progress)
        self._row = IngestHeartbeat(installation, self._topic, self._erasure_id, least_number=state.first_valid_ingest)
        self._tasks = ErasureTasks(
            installation, head, self._secret, list(wanted), self._engine, call_id=self._erasure_id, begin=self._row.open
        )
        self._rewriting = Rewriting(installation, self._scans, self._erasure_id, head.location, self._tasks)
        self._find_files(log, head)

    def commit(
        self, log: TopicLog, build: Callable[[Head], Change], *, even_deleted: bool = False, over_older: bool = False
    ) -> Committed:
        """Commit what ``build`` makes together with the erasures; without any, as it is.

        Raises:
            ValidationFailedError: the result is wrong; nothing was committed.
            RunAgainError: the topic was created again meanwhile, or a sweep took this call for dead.
            Also the errors of :meth:`look` and :meth:`winnow.log.topic_log.TopicLog.commit`.
        """
        if not self._later:
            return log.commit(build, even_deleted=even_deleted, over_older=over_older)
        with self._row.renew_in_background():
            try:
                committed = log.commit(
                    lambda head: self._extend(log, head, build(head)), even_deleted=even_deleted, over_older=over_older
                )
            except (EraseRefusedError, ValidationFailedError, CommitConflictError, UnknownTopicError):
                # Only where certainly nothing refers to these files; after any other error they stay, for a sweep.
                self._discard()
                raise
        note_committed(self._installation, committed.head, self._erasure_id)
        if self._rewriting.remove_unused(self._used):
            self._row.close()
        if broken := list_pins(committed.head, self._snapshots):
            unpin_snapshots(log, lambda tag: tag in broken)
        self._tell(committed)
        return committed

    def list_hidden_files(self) -> Collection[str]:
        """List the files with such a key, which no snapshot names any more once the commit is seen."""
        return self._found.paths

    def record_expiring(self, expiry: Expiry) -> None:
        """Record what is left of snapshots that the commit leaves out, for a sweep."""
        record_expiring_files(self._installation, self._topic, expiry, self._installation.now_ms())

    def _find_files(self, log: TopicLog, head: Head) -> None:
        installation, scans = self._installation, self._scans
        if not self._covering:
            return
        scans.check_quarantine(installation.log.quarantine(self._topic, head))
        self._found = FoundFiles(*scans.scan_log(log, head, self._tasks))
        if self._attempts is None:
            self._attempts = scans.find_in_attempts(installation, head)
        self._require_old(self._found.holding)
        self._snapshots = list_snapshots_naming(head.table, self._found.paths)
        require_no_pins(head, self._snapshots, break_pins=self._break_pins)

    def _require_old(self, holding: Sequence[Segment]) -> None:
        """Check that every record that is to go was there when its key was erased, or is a copy of one that was."""
        for segment in holding:
            for number, offset in self._scans.live[segment.path].newest.items():
                erasure = self._covering[number]
                end = erasure.ends.get(segment.partition, 0)
                if offset >= end:
                    raise EraseRefusedError(
                        f"{self._topic}-{segment.partition} went on without the erasure {erasure.erasure_id}, which "
                        f"only the register knows: the record of such a key at offset {offset} may be newer than it, "
                        f"since the log ended at {end} then.",
                        left=NOTHING_ERASED,
                        next=(
                            f"Decide about its keys: winnow erase {self._topic} --keys-from FILE erases them as of "
                            "now, and --allow lets their records stay."
                        ),
                    )

    def _extend(self, log: TopicLog, head: Head, change: Change) -> Change:
        installation, state = self._installation, head.state
        known = {each.erasure_id for each in state.erasures}
        later = [each for each in self._later if each.erasure_id not in known]
        if not later:
            return change  # another process applied them meanwhile
        if head.table_uuid != self._head.table_uuid or self._row.is_voided(state):
            raise RunAgainError(
                f"Topic {self._topic} was created again, or a sweep took this call for dead, while erasures were "
                "being applied to it.",
                left=NOTHING_ERASED,
                next="Run it again.",
            )
        self._find_files(log, head)
        if self._found.paths:
            self._row.open()
        made = self._rewriting.write(self._found.holding, {}, self._found.left_log)
        self._used = [segment.path for written in made.values() for segment in written]
        now_ms = installation.now_ms()
        delete_documents(head.documents, self._drafts)
        self._drafts = []
        references: list[ErasureReference] = []
        for document in (*later, self._make_document(head, len(later), now_ms)):
            previous = (*state.erasures, *references)[-1:]
            chained = replace(document, previous=previous[0].sha256 if previous else None)
            references.append(write_erasure(head.documents, chained))
            self._drafts += head.documents.list_places(references[-1].path)
            self._document = chained
        installation.guard.require_own()
        found = replace(self._found, made=made)
        calls = [
            each
            for each in list_other_calls(self._installation, self._topic, self._erasure_id)
            if not change.state.is_voided(each.ingest_id, each.number)
        ]
        return add_erasure(change, head, self._erasure_id, found, references, calls, now_ms)

    def _make_document(self, head: Head, erasures: int, now_ms: int) -> ErasureDocument:
        """Make the document of the application, which has no digest, so that it counts for no arriving record."""
        scans, found = self._scans, self._found
        reason = f"{format_count(erasures, 'erasure')} of the register applied again after: {self._after}"
        return ErasureDocument(
            erasure_id=self._erasure_id,
            topic=self._topic,
            table_uuid=head.table_uuid,
            at_ms=now_ms,
            by=get_actor_name(self._installation),
            reason=reason,
            key_id=compute_key_id(self._secret),
            keys=0,
            keys_found=len({key for each in found.holding for key in scans.live[each.path].newest}),
            hashes="",
            ends={number: part.log_end_offset for number, part in head.state.partitions.items()},
            records=sum(scans.live[each.path].records for each in found.holding),
            files=scans.describe_all(head.state, found.holding, found.left_log, self._attempts or ()),
            scan=AbsenceScan(scans.read_files, scans.read_bytes, scans.quarantine_files, now_ms),
        )

    def _discard(self) -> None:
        """Remove what was written and nothing refers to; what cannot be removed is left for a sweep."""
        delete_documents(self._head.documents, self._drafts)
        if self._rewriting.remove_unused():
            self._row.close()

    def _tell(self, committed: Committed) -> None:
        applied, document = self.applied, self._document
        if document is None:
            return
        log_event(
            "erasures_applied",
            self._topic,
            erasure_id=document.erasure_id,
            erasures=applied.erasures,
            records=applied.records,
            files=applied.files,
            snapshot_id=str(committed.snapshot_id),
        )
        detail = (
            f"{document.erasure_id}: {document.reason}; {format_count(applied.records, 'record')} in "
            f"{format_count(applied.files, 'file')}"
        )
        record_action(self._installation, AuditAction.ERASE, self._topic, detail=detail)


def _leave_out_decided(
    later: Sequence[ErasureDocument], known: Sequence[ErasureDocument]
) -> tuple[ErasureDocument, ...]:
    """Return ``later`` as they go into the chain: without tombstones, and without keys that were decided about since.

    ``known``: the erasures that the state has; one of them may be newer, where the log went on without the others.
    """
    decided_ms: dict[bytes, int] = {}
    for each in known:
        decided_ms |= {
            digest: max(each.at_ms, decided_ms.get(digest, each.at_ms)) for digest in decode_digests(each.hashes)
        }

    def chain(each: ErasureDocument) -> ErasureDocument:
        digests = decode_digests(each.hashes)
        open_ones = [digest for digest in digests if decided_ms.get(digest, each.at_ms) <= each.at_ms]
        return replace(each, tombstones=(), hashes=encode_digests(open_ones))

    return tuple(map(chain, later))


def apply_later_erasures(
    installation: Installation,
    topic: str,
    after: str,
    *,
    break_pins: bool = False,
    engine: str | None = None,
    progress: Progress = lambda done, total: None,
) -> AppliedErasures:
    """Apply the erasures of the register that the newest head of ``topic`` does not know. Repeating changes nothing.

    Raises: as :meth:`LaterErasures.look` and :meth:`LaterErasures.commit`.
    """
    log = installation.log.open(topic)
    later = LaterErasures(installation, topic, after, break_pins=break_pins, engine=engine, progress=progress)
    later.look(log, log.newest_head())
    if later.is_behind:
        later.commit(log, lambda head: Change(state=head.state, summary={"winnow.operation": OPERATION}))
    return later.applied
