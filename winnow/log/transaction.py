"""A PyIceberg transaction that does not copy every kept snapshot.

PyIceberg copies the whole metadata, snapshot by snapshot, whenever a transaction is asked for it, and once more when
it commits: some twenty times a commit, so commits take the longer the more snapshots are kept. Here PyIceberg's own
code applies the updates to a table that has its newest snapshot alone, and the others are put in front again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.table import Transaction
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


class LogTransaction(Transaction):
    """PyIceberg's transaction, which makes its metadata anew only when an update was staged."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._made: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with what was staged so far; not to be changed in place."""
        base, updates = self._table.metadata, self._updates
        if not updates:
            return base
        if self._made is None or self._made[0] is not base or self._made[1] is not updates:
            self._made = (base, updates, _updated(base, updates))
        return self._made[2]


def _updated(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> TableMetadata:
    head = keep_head_only(base, updates)
    if head is None:
        return update_table_metadata(base, updates)
    return restore_history(base, update_table_metadata(head, updates))


def keep_head_only(base: TableMetadata, updates: Sequence[TableUpdate]) -> TableMetadata | None:
    """``base`` with its newest snapshot alone and no log of snapshots; None: ``updates`` need to see the others."""
    newest = base.current_snapshot()
    if newest is None:
        return None
    added = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    if any(snapshot.snapshot_id in added for snapshot in base.snapshots):
        return None  # PyIceberg refuses it when it sees that one
    seen = {*added, newest.snapshot_id}
    for update in updates:
        match update:
            case SetSnapshotRefUpdate() if update.snapshot_id in seen:
                pass
            case AddSnapshotUpdate() | SetPropertiesUpdate() | RemovePropertiesUpdate():
                pass
            case _:
                return None
    return base.model_copy(update={"snapshots": [newest], "snapshot_log": []})


def restore_history(base: TableMetadata, updated: TableMetadata) -> TableMetadata:
    """``updated``, which was made from :func:`head_alone` of ``base``, with the snapshots that were left out."""
    return updated.model_copy(
        update={
            "snapshots": [*base.snapshots, *updated.snapshots[1:]],
            "snapshot_log": [*base.snapshot_log, *updated.snapshot_log],
        }
    )
