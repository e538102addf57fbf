"""Schemas by id out of several sources, each asked for at most once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.schemas.documents import SchemaDocument, SchemaId, SchemaSource, UnusableSchemaError

MAXIMUM_MISSING_IDS = 1_000
"""Maximum ids that a run asks for in vain; bytes that are no framed datums look like ever new ones."""

_MAXIMUM_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KeptDocuments:
    """Documents that the caller has. ``name``: what they are called in messages."""

    name: str
    documents: Mapping[SchemaId, SchemaDocument]

    def find_document(self, schema_id: SchemaId) -> SchemaDocument | None:
        """Return the document ``schema_id``, if it is one of them."""
        return self.documents.get(schema_id)


class SchemaCache:
    """Asks ``sources`` in order, and remembers what they said, also that there is no such schema.

    So an archive whose documents are all kept needs no registry. An error of a service is not remembered.
    """

    def __init__(self, sources: Sequence[SchemaSource]) -> None:
        self._sources = sources
        self._known: dict[SchemaId, SchemaDocument | UnusableSchemaError | None] = {}
        self._missing = 0

    @property
    def name(self) -> str:
        """What the sources are called in messages."""
        return " or ".join(source.name for source in self._sources)

    def find_document(self, schema_id: SchemaId) -> SchemaDocument | None:
        """Return the document ``schema_id``, or None if no source has it.

        After 1,000 ids that no source has, further ones are not asked for.

        Raises:
            ServiceError: a registry does not answer.
            UnusableSchemaError: there is a document, and it cannot be read.
        """
        if schema_id not in self._known:
            if _is_too_large(schema_id) or self._missing >= MAXIMUM_MISSING_IDS:
                return None
            self._known[schema_id] = self._ask(schema_id)
            self._missing += self._known[schema_id] is None
        known = self._known[schema_id]
        if isinstance(known, UnusableSchemaError):
            raise known
        return known

    def _ask(self, schema_id: SchemaId) -> SchemaDocument | UnusableSchemaError | None:
        for source in self._sources:
            try:
                document = source.find_document(schema_id)
            except UnusableSchemaError as error:
                return error
            if document is not None:
                return document
        return None


def _is_too_large(schema_id: SchemaId) -> bool:
    return isinstance(schema_id, int) and schema_id > _MAXIMUM_ID
