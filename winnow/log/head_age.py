"""Notices a catalog that is older than what was committed: compares a head with the one recorded after the last commit.

The catalog alone says which metadata file of a table is the newest one. After it was restored from a backup, or failed
over to a replica that lagged behind, it names an older one, and nothing in it tells. Whoever swept then would delete
what was committed since as leftovers. So each commit of Winnow's is recorded elsewhere, in the metadata store, and
whoever writes compares the head that it loaded with that record.

Older means that the *metadata* are: a sequence number or a fence lower than recorded, or a history that lacks what was
recorded. A table that another tool rolled back to an older snapshot has newer metadata, and is not older.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from winnow.clock import format_ms
from winnow.errors import DamagedMetadataError, OlderHeadError, WinnowError
from winnow.files import storage
from winnow.log import reference_chains
from winnow.log.head import Head
from winnow.log.newer_metadata import find_newer_metadata, read_fence, read_sequence_number
from winnow.log.warehouse_survey import FoundMetadata
from winnow.values.counts import format_count
from winnow.values.topic_state import TopicHead

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

LOG = logging.getLogger(__name__)

TIMESTAMP_TOLERANCE_MS: Final = 60_000
"""How far the times of a table's metadata may be out of order, as Iceberg has it."""


class HeadRecords(Protocol):
    """Where the heads of topics are recorded besides the catalog, and what else is known there of their logs."""

    def list_lives(self, topic: str) -> Sequence[TopicHead]:
        """List the heads recorded of a topic, one per life, the newest life last."""

    def record(self, head: TopicHead) -> None:
        """Record a head."""

    def list_published(self, topic: str) -> Mapping[str, int]:
        """List the plans of a topic that are called published there, and when they were (ms)."""

    def list_log_ends(self, topic: str) -> Mapping[int, int]:
        """List the log ends of a topic's partitions as known there."""

    def is_readable(self) -> bool:
        """Check whether there is anything to read, without making it."""


class Age(Enum):
    """How a head is older than what was recorded."""

    OLDER = "the catalog is older than the log"
    FORKED = "the catalog went back, and other commits were made there"
    FORMER_LIFE = "the catalog names the table that the topic had before it was created again"


@dataclass(frozen=True, slots=True)
class OlderHead:
    """A head that is older than the one recorded."""

    age: Age
    found: TopicHead
    recorded: TopicHead


def describe_head(head: Head) -> TopicHead:
    """Describe ``head`` as it is recorded."""
    numbers = [head.state.first_valid_ingest - 1, *(each.number for each in head.state.voided_ingests)]
    return replace(describe_table(head.state.topic, head.table), fence=head.fence, ingest_number=max(numbers))


def describe_table(topic: str, table: Table) -> TopicHead:
    """Describe the head of ``table`` by its metadata alone: the state that it names may be gone."""
    metadata = table.metadata
    number = read_sequence_number(metadata)
    return TopicHead(
        topic=topic,
        table_uuid=str(metadata.table_uuid),
        metadata_location=table.metadata_location,
        last_sequence_number=number,
        fence=read_fence(metadata),
        snapshot_id=_find_snapshot_id(metadata, number),
        ingest_number=-1,
        updated_at_ms=metadata.last_updated_ms,
    )


def compare_table(topic: str, table: Table, lives: Sequence[TopicHead]) -> OlderHead | None:
    """Compare the head of ``table`` with the recorded ``lives`` of its topic, the newest last; None: it is not older.

    The fence is not compared: if another tool removed the property, only the state tells it.
    """
    found = describe_table(topic, table)
    mine = next((each for each in lives if each.table_uuid == found.table_uuid), None)
    if mine is None:
        return None  # nothing is recorded, or the topic was created again
    if lives[-1].table_uuid != mine.table_uuid:
        return OlderHead(Age.FORMER_LIFE, found, lives[-1])
    if found.last_sequence_number < mine.last_sequence_number:
        return OlderHead(Age.OLDER, found, mine)
    return OlderHead(Age.FORKED, found, mine) if _lacks(table.metadata, found, mine) else None


def compare_head(head: Head, lives: Sequence[TopicHead]) -> OlderHead | None:
    """Compare ``head`` with the recorded ``lives`` of its topic, the newest last; None: it is not older."""
    older = compare_table(head.state.topic, head.table, lives)
    if older is not None or not lives or lives[-1].table_uuid != head.table_uuid or head.fence >= lives[-1].fence:
        return older
    return OlderHead(Age.OLDER, describe_head(head), lives[-1])


def _lacks(metadata: TableMetadata, found: TopicHead, recorded: TopicHead) -> bool:
    """Check whether the history of ``metadata`` cannot contain what was recorded.

    Sequence numbers are never given twice in one history, so another snapshot with the recorded number is proof. Once
    that has expired, what remains is the list of earlier metadata files.
    """
    same_number = _find_snapshot_id(metadata, recorded.last_sequence_number)
    if same_number is not None and recorded.snapshot_id is not None:
        return same_number != recorded.snapshot_id
    earlier = {_get_name(each.metadata_file) for each in metadata.metadata_log}
    if _get_name(recorded.metadata_location) in {*earlier, _get_name(found.metadata_location)}:
        return False
    oldest_ms = min((each.timestamp_ms for each in metadata.metadata_log), default=found.updated_at_ms)
    return oldest_ms + TIMESTAMP_TOLERANCE_MS < recorded.updated_at_ms


def _find_snapshot_id(metadata: TableMetadata, sequence_number: int) -> int | None:
    if sequence_number == 0:
        return None
    found = (each.snapshot_id for each in metadata.snapshots if each.sequence_number == sequence_number)
    return next(found, None)


def _get_name(path: str) -> str:
    # A catalog may write the same place another way (file:/ for file:///).
    return path.rpartition("/")[2]


class HeadGuard:
    """Compares the heads of topics with the records, for one command or task."""

    def __init__(self, records: HeadRecords) -> None:
        self._records = records
        self._said: set[str] = set()
        self._is_unreachable = False

    def load_newest(self, topic: str, load_table: Callable[[], Table], load: Callable[[Table], Head]) -> Head:
        """Load a table and its head, and check before and after the head's state is read that it may be written over.

        The records are read before the table is loaded. What is recorded has been committed, so the table has it; the
        other way round a commit in between would look like an older catalog. Where nothing is recorded of the topic,
        the folder of its table is listed once, and the head is recorded.

        Raises:
            OlderHeadError: it is older than recorded.
            ServiceError: the records cannot be read.
            Also the errors of ``load``.
        """
        recorded = self._records.list_lives(topic)
        table = load_table()
        lives = _drop_removed_lives(recorded, table)
        older = compare_table(topic, table, lives)
        if older is not None:
            raise make_older_error(older, self._records, _load_if_possible(table, load))
        head = load(table)
        older = compare_head(head, lives)
        if older is not None:
            raise make_older_error(older, self._records, head)
        if not lives:
            require_newest_in_folder(head)
            self.record(head)
        return head

    def load_to_read(self, topic: str, table: Table, load: Callable[[Table], Head]) -> Head:
        """Load the head of ``table`` by ``load``; if that fails, say whether it is because the table is older.

        Raises:
            OlderHeadError: ``table`` is older than recorded, and the state that it names is gone.
            Also the errors of ``load``.
        """
        try:
            return load(table)
        except DamagedMetadataError as problem:
            older = self.find_older(topic, table)
            if older is None:
                raise
            raise make_older_error(older, self._records, None) from problem

    def require_not_older(self, topic: str) -> None:
        """Check whether the metadata file that the catalog names is gone because the catalog is older; never fails.

        Raises:
            OlderHeadError: another one was recorded, and is there.
        """
        try:
            lives = self._records.list_lives(topic) if self._records.is_readable() else ()
            is_older = bool(lives) and storage.exists(lives[-1].metadata_location)
        except Exception:  # the catalog's own problem is said instead
            return
        if is_older:
            raise OlderHeadError(
                f"Topic {topic}: the catalog is older than the log: the metadata file that it names is gone, and the "
                f"one recorded at {format_ms(lives[-1].recorded_at_ms)} with sequence number "
                f"{lives[-1].last_sequence_number:,} is there: {lives[-1].metadata_location}.",
                left="Nothing was swept and nothing was written.",
                next=_describe_ways(topic),
            )

    def warn_of_older(self, topic: str, table: Table, load_table: Callable[[], Table]) -> None:
        """Say it once per topic, for those who only read, if ``table`` is older than recorded; never raises.

        ``load_table`` loads it again: a commit after ``table`` was loaded looks like an older catalog.
        """
        if topic in self._said or self._is_unreachable:
            return
        self._said.add(topic)
        older = self.find_older(topic, table) and self._look_again(topic, load_table)
        if older is not None:
            LOG.warning("%s", describe_for_readers(older))

    def _look_again(self, topic: str, load_table: Callable[[], Table]) -> OlderHead | None:
        try:
            recorded = self._records.list_lives(topic)
            table = load_table()
            return compare_table(topic, table, _drop_removed_lives(recorded, table))
        except Exception:  # whoever reads on learns what is wrong
            return None

    def find_older(self, topic: str, table: Table) -> OlderHead | None:
        """Find how ``table`` is older than recorded; None: it is not, or the records cannot be read."""
        try:
            return self._compare(topic, table) if self._records.is_readable() else None
        except Exception:  # a reader needs no metadata store
            self._is_unreachable = True
            return None

    def _compare(self, topic: str, table: Table) -> OlderHead | None:
        return compare_table(topic, table, _drop_removed_lives(self._records.list_lives(topic), table))

    def record(self, head: Head) -> None:
        """Record ``head`` after its commit; a failure is a warning, since the commit has landed."""
        try:
            self._records.record(describe_head(head))
        except Exception as problem:
            # Another library's message may quote an address.
            said = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
            LOG.warning(
                "The newest head of topic %s is not recorded in the metadata store, so an older catalog would be "
                "noticed only as far as it was recorded before. %s The next commit records it.",
                head.state.topic,
                said,
            )


def _drop_removed_lives(lives: Sequence[TopicHead], table: Table) -> Sequence[TopicHead]:
    """Return the recorded ``lives`` of a topic up to the newest one that is still there.

    A process that was paused after its commit may record its topic's life as the newest one when that topic has been
    removed long ago, and another is there under its name.
    """
    table_uuid = str(table.metadata.table_uuid)
    if not any(life.table_uuid == table_uuid for life in lives):
        return lives
    while lives[-1].table_uuid != table_uuid and not storage.exists(lives[-1].metadata_location):
        lives = lives[:-1]
    return lives


def _load_if_possible(table: Table, load: Callable[[Table], Head]) -> Head | None:
    """Load the head of ``table``; None: what it names is gone, as after a sweep that the catalog does not know of."""
    try:
        return load(table)
    except WinnowError:
        return None


def require_newest_in_folder(head: Head) -> None:
    """Check that the folder of the table has no metadata file that proves a later commit than ``head``.

    Raises:
        OlderHeadError: it has one.
        ServiceError: the folder cannot be listed.
    """
    newer = find_newer_metadata(head)
    if newer is not None:
        raise OlderHeadError(
            describe_newer_metadata(head, newer),
            left="Nothing was swept and nothing was written.",
            next=_describe_ways(head.state.topic),
        )


def describe_newer_metadata(head: Head, newer: FoundMetadata) -> str:
    """Describe that the folder of the table of ``head`` has newer metadata than the catalog names."""
    found = head.table.metadata
    updated_ms = found.last_updated_ms if newer.metadata is None else newer.metadata.last_updated_ms
    return (
        f"Topic {head.state.topic}: the catalog is older than the warehouse. It names metadata with sequence number "
        f"{read_sequence_number(found):,} of {format_ms(found.last_updated_ms)}; the table's folder has some with "
        f"{newer.sequence_number:,} of {format_ms(updated_ms)}: {newer.location}."
    )


def make_older_error(older: OlderHead, records: HeadRecords, head: Head | None) -> OlderHeadError:
    """Make the error for who would write over an older head: both ages, what is missing, and the ways on.

    ``head``: None: what it names is gone.
    """
    missing = (
        "The state that the older catalog names is gone already, so it cannot be gone on from. "
        if head is None
        else _describe_missing(head, records)
    )
    return OlderHeadError(
        _describe_ages(older),
        left="Nothing was swept and nothing was written.",
        next=f"{missing}{_describe_ways(older.found.topic)}",
    )


def make_missing_receipt_error(topic: str, plan_id: str) -> OlderHeadError:
    """Make the error for a run of which the metadata store has the receipt, and the log has not."""
    return OlderHeadError(
        f"Topic {topic}: the metadata store has the receipt of plan {plan_id}, and the log has not: the table was "
        "rolled back past its publish, or the catalog is older than the log.",
        left="The run stays as it is. Nothing was swept and nothing was written.",
        next=_describe_ways(topic),
    )


def describe_for_readers(older: OlderHead) -> str:
    """Describe in one sentence that what is read is older than what was committed."""
    found, recorded = older.found, older.recorded
    return (
        f"Topic {found.topic}: {older.age.value}, so what is read here ends at sequence number "
        f"{found.last_sequence_number:,} of {format_ms(found.updated_at_ms)}, while number "
        f"{recorded.last_sequence_number:,} was recorded at {format_ms(recorded.recorded_at_ms)}; what to do: winnow "
        f"doctor"
    )


def _describe_ages(older: OlderHead) -> str:
    found, recorded = older.found, older.recorded
    return (
        f"Topic {found.topic}: {older.age.value}. Recorded at {format_ms(recorded.recorded_at_ms)}: sequence number "
        f"{recorded.last_sequence_number:,}, fence {recorded.fence:,}, table {recorded.table_uuid}. Found: sequence "
        f"number {found.last_sequence_number:,}, fence {found.fence:,}, of {format_ms(found.updated_at_ms)}, table "
        f"{found.table_uuid}."
    )


def _describe_missing(head: Head, records: HeadRecords) -> str:
    """Describe what the metadata store knows that ``head`` lacks; empty if that cannot be told."""
    try:
        published = find_missing_receipts(head, records.list_published(head.state.topic))
        beyond = find_missing_offsets(head, records.list_log_ends(head.state.topic))
    except WinnowError:
        return ""
    said = []
    if published:
        newest_ms = max(published.values())
        said.append(f"{format_count(len(published), 'published run')}, the newest of {format_ms(newest_ms)}")
    if beyond:
        partition, (have, known) = max(beyond.items(), key=lambda each: each[1][1] - each[1][0])
        said.append(
            f"offsets of {format_count(len(beyond), 'partition')}, most of {head.state.topic}-{partition}, whose log "
            f"ends at {have:,} here and ended at {known:,}"
        )
    return f"It lacks {' and '.join(said)}. " if said else ""


def find_missing_receipts(head: Head, published: Mapping[str, int]) -> dict[str, int]:
    """Return those of the ``published`` plans whose receipts ``head`` lacks."""
    if not published:
        return {}
    known = {each.plan_id for each in reference_chains.list_receipt_references(head.state)}
    return {plan_id: at_ms for plan_id, at_ms in published.items() if plan_id not in known}


def find_missing_offsets(head: Head, log_ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Return per partition the log end of ``head`` and the one known, where the known one is higher."""
    partitions = head.state.partitions
    have = {number: partitions[number].log_end_offset if number in partitions else 0 for number in log_ends}
    return {number: (have[number], known) for number, known in log_ends.items() if known > have[number]}


def _describe_ways(topic: str) -> str:
    return (
        "Put the newer catalog back, and nothing is lost. Where there is none: winnow topics recover "
        f"{topic}   (from the warehouse). To go on from the older one and give up what was committed since: winnow "
        f"topics alter {topic} --accept-older-head --reason TEXT"
    )
