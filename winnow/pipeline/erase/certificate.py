"""The certificate of an erasure: what was erased, that it is gone, and what was read to know that.

It is made of the erasure's immutable document, which the next one names by its digest, and of what the state and the
store say of its files since. ``verify`` reads the log, the table of the latest state and the quarantine again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.arrivals.erased_records import ErasedRecords, select_counting_erasures
from winnow.clock import format_ms
from winnow.engine.key_changes import LogExtent
from winnow.engine.latest_rows import count_rows_without_record
from winnow.errors import DamagedMetadataError, DeletedTopicError, UnknownTopicError, UsageError
from winnow.files import storage
from winnow.files.checked_reading import read_segment_columns, translate_read_errors
from winnow.log.erasures import read_erasures
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.log.typed_schema import is_typed
from winnow.pipeline.admin.erased_versions import AbsenceProofs
from winnow.pipeline.admin.erasure_progress import open_register
from winnow.pipeline.erased_keys import load_secret
from winnow.pipeline.installation import Installation
from winnow.store.audit import AuditAction
from winnow.store.rows import Window
from winnow.values.counts import format_count
from winnow.values.erasures import Approval, ErasedFile, ErasureDocument, KeyDigester, decode_digests
from winnow.values.model import Segment
from winnow.values.topic_state import ErasureReference

_MAXIMUM_ENTRIES: Final = 500
MINIMUM_PREFIX_LENGTH: Final = 6
_COLUMNS: Final = ("offset", "timestamp", "key")


@dataclass(frozen=True, slots=True)
class FileProof:
    """A file that held an erased key. ``is_gone``: the store says so now, by ``answer``.

    ``deleted_at_ms``: when Winnow deleted it. None: it did not yet, or the metadata store no longer has its row.
    """

    file: ErasedFile
    is_gone: bool
    answer: str
    deleted_at_ms: int | None


@dataclass(frozen=True, slots=True)
class VerifiedAbsence:
    """What a scan found now. ``old_records``: copies of what was erased: there must be none.

    ``later_records``: of an erased key, written after its erasure. ``tombstones``: that were asked for.
    """

    at_ms: int
    files: int
    size_bytes: int
    old_records: int
    later_records: int
    tombstones: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of one erasure.

    ``sha256``: of its document, which the topic's next erasure names. ``number``: its place in the chain, from 1.
    ``open_because``: why it is not closed; None: it is.
    """

    document: ErasureDocument
    sha256: str
    number: int
    chain_length: int
    deleted_at_ms: int | None
    closed_at_ms: int | None
    open_because: str | None
    files: tuple[FileProof, ...]
    verified: VerifiedAbsence | None = None

    @property
    def hashes(self) -> list[str]:
        """The digests of the keys, in hex."""
        return [digest.hex() for digest in decode_digests(self.document.hashes)]


@dataclass(frozen=True, slots=True)
class ErasureSummary:
    """One erasure in a list, without its files. ``files_left``: that are not deleted yet. Else as :class:`Certificate`.

    ``files``: how many held a key.
    """

    erasure_id: str
    at_ms: int
    by: str
    reason: str
    lifts: bool
    keys: int
    keys_found: int
    records: int
    files: int
    files_left: int
    tombstones: int
    approvals: tuple[Approval, ...]
    deleted_at_ms: int | None
    closed_at_ms: int | None
    open_because: str | None


def list_erasures(installation: Installation, topic: str, *, limit: int) -> list[ErasureSummary]:
    """List the newest ``limit`` erasures of ``topic``, and liftings of some, newest first.

    Raises:
        DamagedMetadataError: as :func:`make_certificate`.
        UnknownTopicError: there is no such topic.
    """
    head = installation.log.open(topic).head()
    documents = _read_chain(head)
    numbers = range(len(documents), max(len(documents) - limit, 0), -1)
    return [_summarize(head, documents, number) for number in numbers]


def _summarize(head: Head, documents: Sequence[ErasureDocument], number: int) -> ErasureSummary:
    document, reference = documents[number - 1], head.state.erasures[number - 1]
    open_because = _explain_open(head, reference, document, is_key_left=_is_key_left(head, documents, number))
    return ErasureSummary(
        erasure_id=document.erasure_id,
        at_ms=document.at_ms,
        by=document.by,
        reason=document.reason,
        lifts=document.lifts,
        keys=document.keys,
        keys_found=document.keys_found,
        records=document.records,
        files=len(document.files),
        files_left=len(head.state.list_erased_files(reference.erasure_id)),
        tombstones=len(document.tombstones),
        approvals=document.approvals,
        deleted_at_ms=reference.deleted_at_ms,
        closed_at_ms=reference.closed_at_ms if open_because is None else None,
        open_because=open_because,
    )


def make_certificate(installation: Installation, erasure_id: str, *, verify: bool = False) -> Certificate:
    """Make the certificate of an erasure, named by its id or the beginning of it.

    Raises:
        UsageError: there is no such erasure, or there are several.
        DamagedMetadataError: a document of the topic's erasures is missing, changed, or not in its place.
        ConfigurationError: with ``verify``, the secret is missing or another one.
    """
    log, head, reference = _find_erasure(installation, erasure_id)
    documents = _read_chain(head)
    number = head.state.erasures.index(reference) + 1
    document = documents[number - 1]
    deleted = {
        row.path: row.deleted_at_ms
        for row in installation.store.retired_files.list_retired(log.topic, pending_only=False)
    }
    proofs = AbsenceProofs(installation)
    files = tuple(FileProof(each, *proofs.ask(each.path), deleted.get(each.path)) for each in document.files)
    open_because = _explain_open(head, reference, document, is_key_left=_is_key_left(head, documents, number))
    left = sum(not each.is_gone for each in files)
    if open_because is None and left:
        open_because = f"{format_count(left, 'file', 'are')} there again, or the store has versions of them"
    place = open_register(installation).locate(log.topic, head.table_uuid, document.erasure_id)
    if (open_because is None or reference.deleted_at_ms is not None) and not storage.exists(place):
        open_because = "not in the register yet; the next sweep tries again"
    return Certificate(
        document=document,
        sha256=reference.sha256,
        number=number,
        chain_length=len(documents),
        deleted_at_ms=reference.deleted_at_ms,
        closed_at_ms=reference.closed_at_ms if open_because is None else None,
        open_because=open_because,
        files=files,
        verified=_verify(installation, log, head, _lower_ends(document, reference)) if verify else None,
    )


def make_certificate_document(found: Certificate) -> dict[str, Any]:
    """Make the JSON document of a certificate; no user byte is in it."""
    document = asdict(found.document)
    document.pop("hashes")
    return {
        **document,
        "at": format_ms(found.document.at_ms),
        "state": "closed" if found.open_because is None else "open",
        "open_because": found.open_because,
        "deleted_at_ms": found.deleted_at_ms,
        "closed_at_ms": found.closed_at_ms,
        "sha256": found.sha256,
        "number": found.number,
        "chain_length": found.chain_length,
        "hashes": found.hashes,
        "files": [
            {
                **asdict(each.file),
                "is_gone": each.is_gone,
                "answer": each.answer,
                "deleted_at_ms": each.deleted_at_ms,
            }
            for each in found.files
        ],
        "verified": None if found.verified is None else asdict(found.verified),
    }


def _find_erasure(installation: Installation, erasure_id: str) -> tuple[TopicLog, Head, ErasureReference]:
    found: list[tuple[TopicLog, Head, ErasureReference]] = []
    for topic in _list_candidates(installation):
        log = installation.log.open(topic)
        try:
            head = log.head()
        except (UnknownTopicError, DeletedTopicError):
            continue
        mine = [each for each in head.state.erasures if _is_named(each.erasure_id, erasure_id)]
        found += [(log, head, each) for each in mine]
        if any(each.erasure_id == erasure_id for each in mine):
            break
    if len(found) == 1 or (found and found[-1][2].erasure_id == erasure_id):
        return found[-1]
    raise UsageError(
        f"More than one erasure's id begins with {erasure_id}." if found else f"There is no erasure {erasure_id}.",
        next="winnow audit list --action erase lists them.",
    )


def _is_named(found: str, wanted: str) -> bool:
    return found == wanted or (len(wanted) >= MINIMUM_PREFIX_LENGTH and found.startswith(wanted))


def _list_candidates(installation: Installation) -> list[str]:
    """List topics, those first that the audit log says to have erasures."""
    entries = installation.store.audit.list_entries(Window(size=_MAXIMUM_ENTRIES), action=AuditAction.ERASE).rows
    return list(dict.fromkeys([*(entry.topic for entry in entries), *installation.log.names()]))


def _read_chain(head: Head) -> list[ErasureDocument]:
    """Read all erasures of a topic, each of which names the one before.

    Raises:
        DamagedMetadataError: one is missing, changed, or not in its place.
    """
    documents = list(read_erasures(head.state))
    previous: str | None = None
    for reference, document in zip(head.state.erasures, documents, strict=True):
        if document.previous != previous or document.erasure_id != reference.erasure_id:
            raise DamagedMetadataError(
                f"The chain of erasures of topic {head.state.topic} is broken at {reference.erasure_id}: it does not "
                "name the one before it.",
                left="Nothing was changed.",
                next="Compare the documents in the folder _winnow/erasures of the table with a backup.",
            )
        previous = reference.sha256
    return documents


def _is_key_left(head: Head, documents: Sequence[ErasureDocument], number: int) -> bool:
    """Check whether tombstones of an erasure may still be there: no later one took all of its keys without a trace."""
    left = set(decode_digests(documents[number - 1].hashes)) if documents[number - 1].tombstones else set()
    for reference, later in list(zip(head.state.erasures, documents, strict=True))[number:]:
        if not later.lifts and not later.tombstones and reference.deleted_at_ms is not None:
            left -= set(decode_digests(later.hashes))
    return bool(left)


def _explain_open(
    head: Head, reference: ErasureReference, document: ErasureDocument, *, is_key_left: bool
) -> str | None:
    if document.lifts:
        return None
    if reference.deleted_at_ms is None:
        waiting = len(head.state.list_erased_files(reference.erasure_id))
        return f"erased for readers, not yet from disk: {format_count(waiting, 'file')}"
    if is_key_left:
        places = ", ".join(f"{document.topic}-{each.partition} at {each.offset}" for each in document.tombstones[:5])
        return (
            f"key bytes remain in {format_count(len(document.tombstones), 'tombstone')} that were asked for: {places}"
        )
    if reference.closed_at_ms is None:
        return "a process that began before the erasure may still write a file; sweeps look for them"
    return None


def _verify(installation: Installation, log: TopicLog, head: Head, document: ErasureDocument) -> VerifiedAbsence:
    """Read keys, offsets and timestamps of everything that readers can see."""
    secret = load_secret(installation, head.state, left="Nothing was changed.")
    records = ErasedRecords(KeyDigester(secret, head.table_uuid), select_counting_erasures([document]))
    kept = {(each.partition, each.offset) for each in document.tombstones}
    files = size_bytes = old = later = tombstones = 0
    for size, partition, batches, is_latest in _iterate_files(installation, log, head):
        files, size_bytes = files + 1, size_bytes + size
        for batch in batches:
            for at in records.find_erasures(batch.column("key")):
                offset, timestamp = batch.column("offset")[at].as_py(), batch.column("timestamp")[at].as_py()
                timestamp_ms = None if timestamp is None else round(timestamp.timestamp() * 1000)
                if (partition, offset) in kept and not is_latest:  # there a tombstone has no row
                    tombstones += 1
                elif _is_old(document, partition, offset, timestamp_ms):
                    old += 1
                else:
                    later += 1
    for partition, rows in _list_typed_rows(installation, log).items():
        files, size_bytes = files + len(rows), size_bytes + sum(segment.size_bytes for segment in rows)
        state = head.state.partitions[partition]
        extent = LogExtent(log.segments(head).get(partition, ()), state.log_start_offset, state.log_end_offset)
        old += count_rows_without_record(rows, extent, installation.budget)
    return VerifiedAbsence(installation.now_ms(), files, size_bytes, old, later, tombstones)


def _lower_ends(document: ErasureDocument, reference: ErasureReference) -> ErasureDocument:
    """Return ``document`` with the ends from which on offsets were given away again."""
    lowered = reference.lowered_ends
    return replace(document, ends={n: min(end, lowered.get(n, end)) for n, end in document.ends.items()})


def _is_old(document: ErasureDocument, partition: int, offset: int | None, timestamp_ms: int | None) -> bool:
    if offset is None or offset < document.ends.get(partition, 0):
        return True
    return timestamp_ms is not None and timestamp_ms <= document.at_ms


def _list_typed_rows(installation: Installation, log: TopicLog) -> dict[int, tuple[Segment, ...]]:
    """List the files of the table of the latest state if its columns are typed: no key can be read in them.

    Each row is that of a record of the log, whose keys have been read.
    """
    table = installation.log.latest_table(log.topic)
    present = table.load()
    return table.segments(present) if present is not None and is_typed(present.table.schema()) else {}


def _iterate_files(
    installation: Installation, log: TopicLog, head: Head
) -> Iterator[tuple[int, int, Iterator[pa.RecordBatch], bool]]:
    """Yield size, partition and rows of each file of the log, of the table of the latest state, of the quarantine.

    Then whether it is of the table of the latest state.
    """
    table = installation.log.latest_table(log.topic)
    present = table.load()
    latest = {} if present is None or is_typed(present.table.schema()) else table.segments(present)
    for tables, is_latest in ((log.segments(head), False), (latest, True)):
        for segment in chain.from_iterable(tables.values()):
            yield segment.size_bytes, segment.partition, read_segment_columns(segment, _COLUMNS), is_latest
    for entry in installation.log.quarantine(log.topic, head).files():
        if storage.exists(entry.path):
            yield entry.size_bytes, -1, _read_rows(entry.path), False


def _read_rows(uri: str) -> Iterator[pa.RecordBatch]:
    with translate_read_errors():
        filesystem, path = storage.open_filesystem(uri)
        with storage.translate_store_errors(uri), filesystem.open_input_file(path) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            yield from file.iter_batches(columns=list(_COLUMNS))
