"""Names of an installation's tables in the catalog and folders in the warehouse, which all begin with its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from winnow.files import vended_places

DEFAULT_NAMESPACE: Final = "winnow"
CATALOG_NAME: Final = "winnow"
"""The name under which the catalog is opened; a SQL catalog keeps its tables under it, whatever their namespace."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The names that follow from the setting ``namespace``. ``topics``: that of the topics' own tables.

    ``gathered``: whether what lies outside of tables is gathered in the folder of one more table, because a catalog
    vends credentials for tables only (:mod:`winnow.files.vended_places`).
    """

    topics: str = DEFAULT_NAMESPACE
    gathered: bool = False

    @property
    def quarantine(self) -> str:
        """That of the side tables of quarantined records."""
        return f"{self.topics}_quarantine"

    @property
    def latest(self) -> str:
        """That of the side tables of latest states: in the topics' one every name is a topic's."""
        return f"{self.topics}_latest"

    @property
    def latest_views(self) -> str:
        """That of the views of latest states."""
        return f"{self.topics}_latest_views"

    @property
    def copies(self) -> str:
        """The folder of the copies of the topics' documents (:mod:`winnow.log.document_places`)."""
        return self._locate("copies")

    @property
    def installation(self) -> str:
        """The name of the document that says whose the namespace is (:mod:`winnow.log.installation`)."""
        return self._locate("installation.json")

    @property
    def deleted(self) -> str:
        """The folder of the notes of deleted topics."""
        return self._locate("deleted")

    @property
    def restore(self) -> str:
        """The name of the note of a restore that has not ended (:mod:`winnow.log.restore_notes`)."""
        return self._locate("restore.json")

    @property
    def shared(self) -> tuple[str, str]:
        """The table whose folder holds what is gathered."""
        return vended_places.name_shared(self.topics), vended_places.DOCUMENTS_TABLE

    @property
    def probed(self) -> str:
        """The folder of the warehouse in which a file can be written that is no table's; empty: the warehouse."""
        return vended_places.find_shared_folder(self.topics) if self.gathered else ""

    def _locate(self, name: str) -> str:
        return f"{self.probed}/{name}" if self.gathered else f"{self.topics}_{name}"
