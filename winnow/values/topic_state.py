"""The carried state of a topic and what it names: one immutable file per table snapshot. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from winnow.values.epochs import Epoch


@dataclass(frozen=True, slots=True)
class Cleaning:
    """One entry of a partition's cleaning history: it covers the offsets from the previous one's end to ``end_offset``.

    ``cleaning_time_ms``: of the first run that covered them, or of the last one in which a tombstone there superseded a
    record under timestamp or header: both begin its wait for late records. ``delete_horizon_ms``: of the first run.
    Both are None for an imported checkpoint whose time is unknown; such tombstones count as not yet covered.
    """

    end_offset: int
    cleaning_time_ms: int | None
    delete_horizon_ms: int | None


@dataclass(frozen=True, slots=True)
class Append:
    """Records that one ingest call added to one partition from one file: the slice's digest and its offsets.

    ``as_of_ms`` replaces missing timestamps. ``arrived_ms``: the wall clock's time where the as-of lay
    ahead of it, else None.
    """

    digest: str
    first_offset: int
    last_offset: int
    records: int
    as_of_ms: int
    arrived_ms: int | None = None

    @property
    def appended_ms(self) -> int:
        """The earlier of as-of and arrival: these records cannot have come later."""
        return self.as_of_ms if self.arrived_ms is None else min(self.as_of_ms, self.arrived_ms)


@dataclass(frozen=True, slots=True)
class Uncleanable:
    """Why and since when a partition is not cleaned."""

    reason: str
    since_ms: int
    plan_id: str | None = None
    attempts: int = 1
    next_attempt_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """State per topic partition that must outlive table snapshots.

    ``first_dirty_offset`` None: no checkpoint. ``strategy``: of the last cleaning, as
    :func:`winnow.values.strategies.name_total_order` names it, or None.
    ``paused_by``: names that paused it; it continues when all of them have resumed it (Kafka's nested pauses).
    """

    log_start_offset: int = 0
    log_end_offset: int = 0
    first_dirty_offset: int | None = None
    strategy: str | None = None
    history: tuple[Cleaning, ...] = ()
    appends: tuple[Append, ...] = ()
    uncleanable: Uncleanable | None = None
    paused_since_ms: int | None = None
    paused_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A topic grew from ``before`` to ``after`` partitions: keys written earlier may be in two of them since."""

    at_ms: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class RetiredFile:
    """A file that a publish removed from the log; it is deleted when the grace after ``retired_at_ms`` has passed."""

    path: str
    size_bytes: int
    retired_at_ms: int
    plan_id: str


@dataclass(frozen=True, slots=True)
class VoidedIngest:
    """An ingest call that ended without a commit and may no longer commit.

    ``number``: its place in the order in which the topic's ingest calls were opened.
    """

    ingest_id: str
    number: int


@dataclass(frozen=True, slots=True)
class ReceiptReference:
    """Location of the receipt of a published plan. ``finished_at_ms``: the receipt's; None if it was not recorded."""

    plan_id: str
    path: str
    sha256: str
    finished_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class IngestReference:
    """Location of the ledger of one ingest call, with its slices; read when old offsets come again.

    ``layout``: that of an archive, None for input of Winnow's own layout.
    """

    ingest_id: str
    path: str
    sha256: str
    as_of_ms: int
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class ChainReference:
    """Location of the newest link of older references: an immutable file that names the link before it.

    ``count``: number of references in this link and those before it. ``newest_ms``: when the last receipt of this link
    was finished, None where that is not known. ``archives``: how many of the references are to ledgers of archives.
    """

    path: str
    sha256: str
    count: int
    newest_ms: int | None = None
    archives: int = 0


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object of an archive that was ingested as a whole: its name, size, and time of its last change if known."""

    uri: str
    size_bytes: int
    modified_ns: int | None = None


@dataclass(frozen=True, slots=True)
class TablePosition:
    """How far another program's table was ingested: up to a snapshot, that included.

    ``name``: as the user named the table. ``snapshot_id``: as text, since JSON's numbers have 53 bits for many readers.
    ``after``: the snapshot at which the ingest before ended, None if all of the table was read.
    """

    name: str
    table_uuid: str
    location: str
    snapshot_id: str
    metadata_location: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class IngestLedger:
    """Slices that one ingest call added, per partition and in the order of its files. Immutable.

    ``layout``, ``choices``: how an archive was read, defaults of the next call; None and empty for Winnow's own layout.
    ``source_topic``: the topic whose records were selected. ``objects``: what was read, so that it is not read again.
    ``table``: of a table that was read, how far.

    The fields from ``before`` on are what undoing the call needs. ``before``: offsets of each partition whose log end
    it moved, before it did; None: an older Winnow wrote this ledger. ``partitions``: those of all records that it read.
    ``receipts_before``: number of receipts then. ``file_digests``: digest of each of its files without offsets -> as-of
    of that file's ingest before, None: the first.

    ``records_erased``: old copies of erased keys that were left out.
    """

    ingest_id: str
    topic: str
    slices: dict[int, tuple[Append, ...]]
    format_version: int = 1
    layout: str | None = None
    choices: dict[str, str] = field(default_factory=dict)
    source_topic: str | None = None
    objects: tuple[KnownObject, ...] = ()
    table: TablePosition | None = None
    before: dict[int, PartitionState] | None = None
    partitions: tuple[int, ...] = ()
    receipts_before: int = 0
    file_digests: dict[str, int | None] = field(default_factory=dict)
    files: int = 0
    records_skipped: int = 0
    records_quarantined: int = 0
    records_erased: int = 0


@dataclass(frozen=True, slots=True)
class LogStartRaise:
    """The log start of one partition before and after its records were deleted on request."""

    partition: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class RecordsDeletion:
    """Records that somebody had deleted below an offset, partition by partition.

    ``change_id``: what an undo calls it. ``receipts_before``: number of receipts then, its place among the runs.
    """

    change_id: str
    at_ms: int
    receipts_before: int
    raises: tuple[LogStartRaise, ...]


@dataclass(frozen=True, slots=True)
class EarlierLogStart:
    """The log start that a change of ``partition`` would have found, had an undone change before it never been."""

    change_id: str
    partition: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class UndoneChange:
    """A run, or a deletion of records, that was taken back in ``partitions``; ``at_ms``: the last time.

    ``log_starts``: of changes that came after it and stay.
    """

    change_id: str
    by: str
    at_ms: int
    partitions: tuple[int, ...]
    log_starts: tuple[EarlierLogStart, ...] = ()


@dataclass(frozen=True, slots=True)
class ErasureReference:
    """Location of the document of one erasure, or of its lifting, and how far the erasure has come.

    ``keys``: how many. ``key_id``: which secret their digests were made with. ``fence``: of the topic from the erasure
    on; a run with a lower one began before. ``deleted_at_ms``: when the last of its
    files was gone. ``closed_at_ms``: from when on no process is left that could write a file with such a key.
    ``lifts``: the keys may come again. ``lowered_ends``: by partition, the lowest log end since, if it was lowered:
    offsets from there on were given away again, and do not tell an old copy.
    """

    erasure_id: str
    path: str
    sha256: str
    at_ms: int
    keys: int
    key_id: str
    fence: int = 0
    deleted_at_ms: int | None = None
    closed_at_ms: int | None = None
    lifts: bool = False
    lowered_ends: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchemasReference:
    """Location of a document of kept schemas. ``count``: how many ids are in it."""

    path: str
    sha256: str
    count: int


@dataclass(frozen=True, slots=True)
class SegmentDigest:
    """Number of a topic's live segments, with their records, bytes, and the sum of their digests.

    ``value``: 128 bits as 32 hex digits, additive modulo 2**128 (:mod:`winnow.log.head_checks`).
    """

    segments: int
    records: int
    size_bytes: int
    value: str


ERASURE_PREFIX: Final = "erasure:"
"""Begins the name under which an erasure condemns files; its id follows. They go without a grace."""
MAXIMUM_DELETIONS: Final = 50
"""Deletions of records that a state names; an older one cannot be undone."""
MAXIMUM_UNDONE: Final = 200
"""Undone changes that a state names."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """The carried state of one topic: one immutable file per table snapshot.

    The ledgers of ``ingests`` hold every slice ever added; :attr:`PartitionState.appends` only those that are still
    dirty, so the state does not grow with the number of ingests and partitions. ``receipts`` and ``ingests`` are the
    newest ones; those before them are in the links of ``older_*`` (:mod:`winnow.log.reference_chains`).

    ``fence``: the topic's fence when this state was written (:mod:`winnow.log.fence`). ``condemned``: files that were
    retired and are being deleted; nothing may take them back into the log. An ingest call is void when
    ``voided_ingests`` names it or its number is below ``first_valid_ingest``.

    ``undone_ingests``: number of ingest calls undone so far; what was prepared under another number is prepared again.

    ``deleted_at_ms``: when the topic was deleted; nobody reads or writes it until it is restored. ``deletion_seen_ms``:
    when a process saw that commit, which may have landed long after the time that it bears: the grace counts from then.
    None: none has said so. ``removed_at_ms``: from when on it cannot be restored, and its files are being removed.

    ``live``: the digest of the segments that are in the log with this state. ``configuration``: the topic configuration
    and number of partitions that were committed, as table properties. ``table_uuid`` and ``location``: of the table
    that it was committed to. All four are None in a state of a Winnow that did not write them.

    ``epochs``: the lives of the Kafka topic that was ingested, oldest first; empty if only files were.

    ``deletions``: the newest deletions of records on request, oldest first. ``undone``: runs and deletions of records
    that were taken back, the newest :data:`MAXIMUM_UNDONE`, in the order in which they were.

    ``erasures``: of keys, oldest first; a later one that lifts them counts over an earlier one.

    ``schemas``: documents of schemas that are kept with the topic, oldest first.

    ``copies``: the folder of the copies of the topic's documents (:mod:`winnow.log.document_copies`); None in a state
    of a Winnow that wrote none.
    """

    topic: str
    partitions: dict[int, PartitionState]
    retired: tuple[RetiredFile, ...] = ()
    receipts: tuple[ReceiptReference, ...] = ()
    ingests: tuple[IngestReference, ...] = ()
    quarantine_ingests: tuple[str, ...] = ()
    file_digests: dict[str, int] = field(default_factory=dict)
    """Digest of every file ingested without offsets -> as-of of its last ingest (ms)."""
    partitions_added: tuple[PartitionsAdded, ...] = ()
    format_version: int = 2
    older_receipts: ChainReference | None = None
    older_ingests: ChainReference | None = None
    fence: int = 0
    condemned: tuple[RetiredFile, ...] = ()
    voided_ingests: tuple[VoidedIngest, ...] = ()
    first_valid_ingest: int = 0
    undone_ingests: int = 0
    deleted_at_ms: int | None = None
    deletion_seen_ms: int | None = None
    removed_at_ms: int | None = None
    live: SegmentDigest | None = None
    configuration: dict[str, str] | None = None
    table_uuid: str | None = None
    location: str | None = None
    epochs: tuple[Epoch, ...] = ()
    copies: str | None = None
    deletions: tuple[RecordsDeletion, ...] = ()
    undone: tuple[UndoneChange, ...] = ()
    erasures: tuple[ErasureReference, ...] = ()
    schemas: tuple[SchemasReference, ...] = ()

    @property
    def waiting_files(self) -> tuple[RetiredFile, ...]:
        """Files that left the log and may not be deleted yet."""
        return (*self.retired, *self.condemned)

    @property
    def unfinished_erasures(self) -> tuple[ErasureReference, ...]:
        """Erasures whose files may still be on disk."""
        return tuple(each for each in self.erasures if each.deleted_at_ms is None and not each.lifts)

    def list_erased_files(self, erasure_id: str | None = None) -> list[RetiredFile]:
        """List the files that an erasure (None: any) condemned and that are not deleted yet.

        Erasures of one commit, which raised the fence to the same value, condemned the same files.
        """
        erased = [file for file in self.condemned if file.plan_id.startswith(ERASURE_PREFIX)]
        if erasure_id is None:
            return erased
        fences = {each.fence for each in self.erasures if each.erasure_id == erasure_id and each.fence}
        names = {each.erasure_id for each in self.erasures if each.fence in fences} | {erasure_id}
        return [file for file in erased if file.plan_id.removeprefix(ERASURE_PREFIX) in names]

    def lower_erasure_ends(self, ends: Mapping[int, int]) -> tuple[ErasureReference, ...]:
        """Return the erasures as they are once partitions end at ``ends``, which is lower than before."""

        def lower(each: ErasureReference) -> ErasureReference:
            lowest = {number: min(end, each.lowered_ends.get(number, end)) for number, end in ends.items()}
            return replace(each, lowered_ends={**each.lowered_ends, **lowest})

        return tuple(map(lower, self.erasures))

    def is_voided(self, ingest_id: str, number: int) -> bool:
        """Check whether an ingest call may no longer commit."""
        return number < self.first_valid_ingest or any(each.ingest_id == ingest_id for each in self.voided_ingests)

    def find_undone(self, change_id: str) -> UndoneChange | None:
        """Find what was undone of a run or a deletion of records; None: nothing."""
        return next((each for each in self.undone if each.change_id == change_id), None)

    def list_undone_partitions(self, change_id: str) -> frozenset[int]:
        """List the partitions in which a run or a deletion of records was undone."""
        found = self.find_undone(change_id)
        return frozenset() if found is None else frozenset(found.partitions)


@dataclass(frozen=True, slots=True)
class TopicHead:
    """The newest head of a topic's table that was recorded outside of the catalog, after a commit of Winnow's.

    ``table_uuid`` names the topic's life: a topic that was removed and created again has another. ``snapshot_id``: the
    snapshot with ``last_sequence_number``; None: there is none, or it has expired. ``ingest_number``: the highest
    number of an ingest call that the state had named. ``updated_at_ms``: of the table's metadata, by the clock that
    wrote them; ``recorded_at_ms``: by the clock of who recorded this.
    """

    topic: str
    table_uuid: str
    metadata_location: str
    last_sequence_number: int
    fence: int
    snapshot_id: int | None
    ingest_number: int
    updated_at_ms: int
    recorded_at_ms: int = 0
