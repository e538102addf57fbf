"""Names the places of Winnow's documents: states, receipts, reference chains, ledgers, erasures, kept schemas.

Iceberg does not know them. Orphan removal of other engines takes whatever Iceberg does not know below a table's folder,
but leaves alone what lies below a folder whose name begins with ``_``. So they lie there, and a copy of each lies
outside of the table's folder. Every reference holds the whole path.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from winnow.files import storage

FOLDER: Final = "_winnow"
"""Folder of the documents, below the table's and below that of its copies."""

MAXIMUM_TOPIC_LENGTH: Final = 200
"""Maximum characters of a topic's name in the name of a folder, which may have 255 bytes."""


class DocumentKind(StrEnum):
    """A kind of document; its value is the name of its folder."""

    STATE = "state"
    RECEIPT = "receipts"
    CHAIN = "chains"
    LEDGER = "ingests"
    GIVEN_UP = "given_up"
    ERASURE = "erasures"
    SCHEMAS = "schemas"

    @property
    def label(self) -> str:
        """What messages call such a document."""
        return _LABELS.get(self.value, self.value)


_LABELS: Final = {
    "receipts": "receipt",
    "chains": "chain",
    "ingests": "ingest ledger",
    "erasures": "erasure",
    "schemas": "kept schemas",
}


@dataclass(frozen=True, slots=True)
class DocumentPlaces:
    """The two places of a topic's documents: ``location``, the table's folder, and ``copies``, that of the copies."""

    location: str
    copies: str

    def locate(self, kind: DocumentKind, name: str) -> str:
        """Return the place of a new document."""
        return storage.join(self.location, FOLDER, kind.value, name)

    @property
    def folder(self) -> str:
        """The folder below the table's in which documents lie."""
        return storage.join(self.location, FOLDER)

    def locate_ledger(self, ingest_id: str) -> tuple[str, str]:
        """Return both places of the ledger of an ingest call; the copy first."""
        return self.list_places(self.locate(DocumentKind.LEDGER, make_ledger_name(ingest_id)))

    def list_places(self, path: str) -> tuple[str, str]:
        """Return both places of the document at ``path``. The copy is first: so they are deleted.

        Where a document is missing, so is its copy then, and no reader mistakes a swept document for a lost one.
        """
        return locate_copy(self.copies, path), path


def make_ledger_name(ingest_id: str) -> str:
    """Return the name of the ledger of an ingest call."""
    return f"{ingest_id}.json"


def locate_copies(root: str, topic: str, table_uuid: str) -> str:
    """Return the folder of the copies of the documents of one table; no two tables share one."""
    return storage.join(root, make_copies_name(topic, table_uuid))


def make_copies_name(topic: str, table_uuid: str) -> str:
    """Return the name of the folder of a table's copies; a long topic's name is cut to what file systems take."""
    return f"{topic[:MAXIMUM_TOPIC_LENGTH]}-{table_uuid}"


def locate_copy(copies: str, path: str) -> str:
    """Return the place of the copy of the document at ``path``, below the folder ``copies`` of its table's copies."""
    return storage.join(copies, *path.split("/")[-3:])
