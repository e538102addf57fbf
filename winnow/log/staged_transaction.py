"""Stages the changes of one commit without PyIceberg's repeated copies of the table's metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import Table, Transaction

from winnow.log.newer_metadata import read_sequence_number

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


class StagedTransaction(Transaction):
    """A transaction that computes its metadata once for each staged update. PyIceberg does at every access.

    ``above_sequence_number``: a snapshot that is staged gets a higher one.
    """

    def __init__(self, table: Table, *, above_sequence_number: int = 0) -> None:
        super().__init__(_raise_sequence_number(_keep_newest_snapshot(table), above_sequence_number))
        self._computed: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with all staged updates."""
        if self._computed is None or self._computed[0] is not self._updates:
            self._computed = (self._updates, super().table_metadata)
        return self._computed[1]


def _keep_newest_snapshot(table: Table) -> Table:
    """Return ``table`` with only its newest snapshot, to stage a commit that concerns no other.

    PyIceberg's transaction copies the metadata while a commit is staged, snapshot by snapshot. The catalog applies the
    staged updates to the whole metadata, once.
    """
    newest = table.current_snapshot()
    if newest is None:
        return table
    metadata = table.metadata.model_copy(update={"snapshots": [newest], "snapshot_log": []})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _raise_sequence_number(table: Table, least: int) -> Table:
    """Return ``table`` as if it had given out the sequence number ``least`` already."""
    if read_sequence_number(table.metadata) >= least:
        return table
    metadata = table.metadata.model_copy(update={"last_sequence_number": least})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
