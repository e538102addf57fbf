"""Ingests the rows of another program's Iceberg table: all of it first, later what was appended since.

The position, a snapshot of that table, is committed with the records, in the ledger, so every row lands exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from winnow.arrivals.spool import Progress
from winnow.config.topic import TopicConfig
from winnow.errors import BadInputError, CommitConflictError, UsageError, join_first
from winnow.log.reference_chains import read_ledgers
from winnow.pipeline.ingest.epoch_input import choose_epoch
from winnow.pipeline.ingest.ingest import finish_ingest
from winnow.pipeline.ingest.open import (
    CreatedTopics,
    create_topic,
    describe_default_policy,
    open_log,
    require_topic_name,
)
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, InputDescription, SourcePosition
from winnow.pipeline.ingest.run_local import append_records
from winnow.pipeline.installation import Installation
from winnow.sources.archive import ArchiveInput
from winnow.sources.choices import Choices
from winnow.sources.iceberg.column_map import FIELDS, ColumnMap, find_columns
from winnow.sources.iceberg.source_table import SourceTable, TableFile, open_source_table
from winnow.sources.iceberg.table_archive import NAME, count_table_partitions, make_table_archive
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.topic_filter import OtherTopicError
from winnow.values.topic_state import TablePosition, TopicState

_MAP_PREFIX = "map."
MAXIMUM_COLUMNS_NAMED = 20


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The options of one call.

    ``columns``: the column that the user named for a field; fields that are not named are as in the last call for this
    table, else found by name. ``choices``: ``floors_timestamps`` and ``deletes`` count. ``creates``: create the topic
    if it is not there, with ``partitions``, or as many as the table's records have; it is noted in ``created``.
    """

    table: str
    columns: Mapping[str, str]
    source_topic: str | None = None
    choices: Choices = field(default_factory=Choices)
    creates: bool = False
    partitions: int | None = None
    created: CreatedTopics = field(default_factory=dict)


def ingest_table(
    installation: Installation,
    topic: str,
    wanted: TableRequest,
    *,
    as_of_ms: int,
    progress: Progress | None = None,
) -> IngestReport:
    """Append to ``topic`` the rows that were appended to a table since the last call, at the first call all rows.

    Args:
        installation: the installation.
        topic: an existing topic, or one that is created.
        wanted: the table and how it is read.
        as_of_ms: recorded with the append; replaces missing timestamps of records.
        progress: called as :data:`winnow.arrivals.spool.Progress` says.

    Raises:
        UsageError: there is no such table, column or topic name.
        BadInputError: rows were removed or changed since, or are not records of the topic; nothing landed.
        CommitConflictError: another call ingested from the table meanwhile; nothing landed.
        ServiceError: the table's catalog or storage cannot be reached.
    """
    started_ms = installation.now_ms()
    require_topic_name(wanted.source_topic)
    table = open_source_table(wanted.table)
    notices = []
    created = _create_missing_topic(installation, topic, table, wanted) if wanted.creates else None
    if created is not None:
        notices.append(f"Topic {topic} was created, partitions: {created}.")
    log, head = open_log(installation, topic)
    choose_epoch(head.state, None, None)
    earlier = find_earlier_ingest(head.state, table, wanted.source_topic)
    chosen = {**_read_columns(earlier.choices), **wanted.columns}
    columns = find_columns(table.name, table.columns, chosen)
    if log.config(head).compacts and "key" not in columns.fields:
        keeping = f"winnow topics alter {topic} --config cleanup.policy=delete"
        raise _make_keyless_error(topic, table, columns, keeping)
    source = ArchiveInput(
        archive := make_table_archive(table, table.list_added_files(earlier.snapshot_id), columns),
        archive.objects,
        topic,
        wanted.source_topic,
        wanted.choices.fill_from(earlier.choices),
    )
    position = _TableRead(table, earlier, source, chosen)
    request = IngestRequest(installation, log, source, position, head, as_of_ms)
    try:
        done = append_records(request, head, progress)
    except OtherTopicError as problem:
        raise BadInputError(
            problem.what,
            left=NOTHING_INGESTED,
            next=(
                f"Say whose records to take, and those of other topics are left out: winnow ingest iceberg {topic} "
                f"{wanted.table} --source-topic NAME"
            ),
        ) from None
    notices += _describe_reading(table, earlier, columns, source)
    if created is not None:
        notices += describe_default_policy(installation, topic, done.records_appended)
    return finish_ingest(installation, done, notices, as_of_ms=as_of_ms, started_ms=started_ms)


def _create_missing_topic(
    installation: Installation, topic: str, table: SourceTable, wanted: TableRequest
) -> int | None:
    """Create ``topic`` once it is known that the table can be read; return its partitions, None if it was there."""
    if topic in installation.log.names():
        return None
    columns = find_columns(table.name, table.columns, wanted.columns)
    files: Sequence[TableFile] = table.list_added_files()
    if "key" not in columns.fields and TopicConfig.parse({}, installation.settings.topic_defaults).compacts:
        keeping = f"winnow topics create {topic} --partitions N --config cleanup.policy=delete"
        raise _make_keyless_error(topic, table, columns, keeping)
    partitions = wanted.partitions or count_table_partitions(table, files, columns)
    if not partitions:
        raise UsageError(
            f"Table {table.name} has no rows yet, so how many partitions topic {topic} has is not known.",
            next="Say it with --partitions N.",
        )
    create_topic(installation, topic, partitions, wanted.created)
    return partitions


def _read_columns(choices: Mapping[str, str]) -> dict[str, str]:
    known = {name: choices.get(f"{_MAP_PREFIX}{name}") for name in FIELDS}
    return {name: column for name, column in known.items() if column is not None}


def _make_keyless_error(topic: str, table: SourceTable, columns: ColumnMap, keeping: str) -> BadInputError:
    """Make the error about a table without keys; ``keeping``: the command that keeps every record."""
    named = join_first(list(columns.row or table.columns), MAXIMUM_COLUMNS_NAMED, ", ")
    dropped = (
        " Iceberg's sink drops the keys of records."
        if columns.fields["offset"][0].startswith("_kafka_metadata")
        else ""
    )
    return BadInputError(
        f"Table {table.name} has no column for the keys of its records, and topic {topic} is compacted by key."
        f"{dropped}",
        left=NOTHING_INGESTED,
        next=f"Say which column makes the key: --map key=COLUMN, with one of {named}; or keep every record: {keeping}",
    )


def _describe_reading(
    table: SourceTable, earlier: EarlierIngest, columns: ColumnMap, source: ArchiveInput
) -> list[str]:
    files = len(source.names)
    if table.snapshot_id is None:
        return [f"Table {table.name} has no snapshot yet: there is nothing to ingest."]
    if earlier.position is None:
        found = [f"Read all of table {table.name} up to its snapshot {table.snapshot_id}: {files:,} data files."]
    elif table.snapshot_id == earlier.snapshot_id:
        return [f"Table {table.name} has nothing new: snapshot {table.snapshot_id} was ingested before."]
    elif not files:
        found = [
            f"Table {table.name} has nothing new: its files were only rewritten since snapshot {earlier.snapshot_id}."
        ]
    else:
        since = f"after its snapshot {earlier.snapshot_id}, up to {table.snapshot_id}"
        found = [f"Read what was appended to table {table.name} {since}: {files:,} data files."]
    mapped = ", ".join(f"{name} = {'.'.join(path)}" for name, path in columns.fields.items())
    value = f"; value = JSON text of {', '.join(columns.row)}" if columns.row else ""
    found.append(f"Columns: {mapped}{value}.")
    if columns.left_out:
        found.append(f"Columns that hold nothing of a record were left out: {', '.join(columns.left_out)}.")
    if source.rendered:
        fields = " and ".join(sorted(source.rendered))
        found.append(f"The {fields} were columns or structures here and are JSON text now.")
    if source.deletions:
        found.append(f"{source.deletions:,} values that stand for a deletion became tombstones.")
    return found


@dataclass(frozen=True, slots=True)
class EarlierIngest:
    """What the newest ingest of a table left: its position and choices; None and empty before the first one."""

    position: TablePosition | None = None
    choices: dict[str, str] = field(default_factory=dict)

    @property
    def snapshot_id(self) -> int | None:
        """The last snapshot that was ingested."""
        return None if self.position is None else int(self.position.snapshot_id)


def find_earlier_ingest(state: TopicState, table: SourceTable, source_topic: str | None) -> EarlierIngest:
    """Find the newest ingest of ``table`` into the topic of ``state``.

    Only a ledger that continues the one before counts: if an ingest was undone, those after it stand for less than all
    rows up to their snapshots, and what it had appended is read again.

    Raises:
        BadInputError: the last table of that name or place was another one: it was dropped and created again.
    """
    found = EarlierIngest()
    for ledger in read_ledgers(state, of_archives=True):
        position = ledger.table
        if position is None or ledger.source_topic != source_topic:
            continue
        if position.table_uuid == table.uuid:
            before = None if found.position is None else found.position.snapshot_id
            if position.after in {None, before}:
                found = EarlierIngest(position, dict(ledger.choices))
        elif position.name == table.name or position.location == table.location:
            raise BadInputError(
                f"Table {table.name} is another one than was ingested into topic {state.topic} before: it was dropped "
                f"and created again (table UUID {position.table_uuid} before, {table.uuid} now).",
                left=NOTHING_INGESTED,
                next="Ingest the new table into a new topic.",
            )
    return found


@dataclass(frozen=True)
class _TableRead(SourcePosition):
    """What a call reads of a table since ``earlier``; ``columns``: those that were chosen for fields."""

    table: SourceTable
    earlier: EarlierIngest
    source: ArchiveInput
    columns: Mapping[str, str]

    @property
    def continues(self) -> bool | None:
        """Whether an earlier call read its beginning; None if the table has no newer snapshot."""
        moves = self.table.snapshot_id is not None and self.table.snapshot_id != self.earlier.snapshot_id
        return self.earlier.position is not None if moves else None

    def describe(self) -> InputDescription:
        """Describe choices, columns, and the position after all of the table: None while it has no snapshot."""
        table, before = self.table, self.earlier.position
        position = None
        if table.snapshot_id is not None:
            after = None if before is None else before.snapshot_id
            place = table.name, table.uuid, table.location, str(table.snapshot_id), table.metadata_location
            position = TablePosition(*place, after)
        mapped = {f"{_MAP_PREFIX}{name}": column for name, column in sorted(self.columns.items())}
        choices = {**self.source.choices.to_document(), **mapped}
        return InputDescription(NAME, choices, self.source.source_topic, table=position)

    def check(self, state: TopicState) -> None:
        """Raise if another call has ingested from the table since its position was read.

        Raises:
            CommitConflictError: it has; nothing landed.
        """
        if find_earlier_ingest(state, self.table, self.source.source_topic).position != self.earlier.position:
            raise CommitConflictError(
                f"Another call ingested from table {self.table.name} into topic {state.topic} meanwhile.",
                left=NOTHING_INGESTED,
                next="Run it again: it continues where that one ended.",
            )
