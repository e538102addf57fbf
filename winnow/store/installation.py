"""The installation that a metadata store belongs to: one row."""

from __future__ import annotations

from typing import Final

from winnow.store import bulk_statements, tables
from winnow.store.database import StorePart
from winnow.store.row_values import read_value
from winnow.values.model import InstallationIdentity

_ONLY: Final = 1
"""The key of the only row."""


class Installations(StorePart):
    """The id of the installation; there is at most one."""

    def find(self) -> InstallationIdentity | None:
        """Find the id; None: there is none yet."""
        with self._database.reading() as session:
            row = session.get(tables.InstallationTable, _ONLY)
            return None if row is None else read_value(InstallationIdentity, row)

    def claim(self, wanted: InstallationIdentity) -> InstallationIdentity:
        """Write ``wanted`` unless there is an id; return the one that is there now."""
        with self._database.writing() as session:
            bulk_statements.insert_missing(session, tables.InstallationTable, [_make_row(wanted)])
        return self.find() or wanted

    def replace(self, wanted: InstallationIdentity) -> None:
        """Write ``wanted`` in place of the id that is there."""
        with self._database.writing() as session:
            bulk_statements.upsert(session, tables.InstallationTable, [_make_row(wanted)])


def _make_row(wanted: InstallationIdentity) -> dict[str, object]:
    return tables.InstallationTable.make_row(wanted, only=_ONLY)
