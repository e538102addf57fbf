"""Names of an installation's tables in the catalog and folders in the warehouse, which all begin with its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_NAMESPACE: Final = "winnow"
CATALOG_NAME: Final = "winnow"
"""The name under which the catalog is opened; a SQL catalog keeps its tables under it, whatever their namespace."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The names that follow from the setting ``namespace``. ``topics``: that of the topics' own tables."""

    topics: str = DEFAULT_NAMESPACE

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
        return f"{self.topics}_copies"

    @property
    def installation(self) -> str:
        """The name of the document that says whose the namespace is (:mod:`winnow.log.installation`)."""
        return f"{self.topics}_installation.json"

    @property
    def deleted(self) -> str:
        """The folder of the notes of deleted topics."""
        return f"{self.topics}_deleted"
