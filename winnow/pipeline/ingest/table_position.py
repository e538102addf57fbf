"""How far a table of another program was ingested into a topic: the ledgers say it, committed with the records."""

from __future__ import annotations

from dataclasses import dataclass, field

from winnow.errors import BadInputError, CommitConflictError
from winnow.log.reference_chains import read_ledgers
from winnow.sources.iceberg.source_table import SourceTable
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.model import TablePosition, TopicState


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


def check_position(state: TopicState, table: SourceTable, source_topic: str | None, read_from: EarlierIngest) -> None:
    """Raise if another call has ingested from ``table`` since its position was read.

    Raises:
        CommitConflictError: it has; nothing landed.
    """
    if find_earlier_ingest(state, table, source_topic).position != read_from.position:
        raise CommitConflictError(
            f"Another call ingested from table {table.name} into topic {state.topic} meanwhile.",
            left=NOTHING_INGESTED,
            next="Run it again: it continues where that one ended.",
        )


def make_position(table: SourceTable, earlier: EarlierIngest) -> TablePosition | None:
    """Make the position after all of ``table`` since ``earlier`` was ingested; None while it has no snapshot."""
    if table.snapshot_id is None:
        return None
    after = None if earlier.position is None else earlier.position.snapshot_id
    return TablePosition(table.name, table.uuid, table.location, str(table.snapshot_id), table.metadata_location, after)
