"""The installation that a metadata store belongs to: one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import IntegrityError

from winnow.store import tables
from winnow.store.database import StorePart

_ONLY: Final = 1


@dataclass(frozen=True, slots=True)
class InstallationRow:
    """The id of an installation, and when it was first used."""

    installation_id: str
    created_at_ms: int


class Installations(StorePart):
    """The id of the installation; there is at most one."""

    def find(self) -> InstallationRow | None:
        """Find the id; None: there is none yet."""
        with self._database.reading() as session:
            found = session.get(tables.InstallationTable, _ONLY)
            return None if found is None else InstallationRow(found.installation_id, found.created_at_ms)

    def claim(self, wanted: InstallationRow) -> InstallationRow:
        """Write ``wanted`` unless there is an id; return the one that is there now."""
        there = self.find()
        if there is not None:
            return there
        try:
            with self._database.writing() as session:
                if session.get(tables.InstallationTable, _ONLY) is None:
                    session.add(tables.InstallationTable(only=_ONLY, **_columns(wanted)))
        except IntegrityError:
            pass  # another process was first
        return self.find() or wanted

    def replace(self, wanted: InstallationRow) -> None:
        """Write ``wanted`` in place of the id that is there."""
        with self._database.writing() as session:
            session.merge(tables.InstallationTable(only=_ONLY, **_columns(wanted)))


def _columns(row: InstallationRow) -> dict[str, object]:
    return {"installation_id": row.installation_id, "created_at_ms": row.created_at_ms}
