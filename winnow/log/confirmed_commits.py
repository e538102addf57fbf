"""Commits that a catalog calls a conflict although they landed: a proxy between here and there has sent them twice.

The answer to the second request is that the newest snapshot is another one, which is the first request's own. PyIceberg
then deletes the manifests that it wrote, and the table names files that are gone. So a conflict is believed only when
the table has no snapshot of that commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.update import AddSnapshotUpdate

from winnow.errors import CommitUnknownError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate


def confirm_commits(catalog: Catalog) -> None:
    """Have ``catalog`` look into the table before it reports a conflict, for this process."""
    commit_table = catalog.commit_table

    def commit(
        table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        try:
            return commit_table(table, requirements, updates)
        except CommitFailedException:
            added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)]
            if not added:
                raise
            try:
                newest = catalog.load_table(table.name())
            except Exception as problem:
                # Not a conflict for PyIceberg, so that it keeps the files.
                raise CommitUnknownError(
                    f"The catalog reported a conflict for a commit to {'.'.join(table.name())} and could not be asked "
                    f"whether it landed ({type(problem).__name__}). Nothing was cleaned up. Run it again."
                ) from problem
            if any(newest.metadata.snapshot_by_id(snapshot_id) is None for snapshot_id in added):
                raise
            return CommitTableResponse.model_validate(
                {"metadata": newest.metadata, "metadata-location": newest.metadata_location}
            )

    catalog.commit_table = commit  # type: ignore[method-assign]
