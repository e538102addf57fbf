"""Schema documents as registries keep them, and what is too large to be read as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias
from uuid import UUID

SchemaId: TypeAlias = int | UUID
"""What names a schema: its id in the registry, or its GUID, which is the same in every registry."""

MAXIMUM_SCHEMA_BYTES = 4 << 20
"""Maximum size of a schema document, and of one with everything that it refers to."""

MAXIMUM_COLUMNS = 2_000
"""Maximum columns of a row type, nested ones included."""

MAXIMUM_DEPTH = 64
"""Maximum levels of nested types."""


class UnusableSchemaError(Exception):
    """A schema that no rows can be made of; its one argument is a clause that says why and follows "its schema"."""


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A document that another one refers to by ``name``: a full name in Avro, a path in Protobuf, a URI in JSON."""

    name: str
    document: SchemaDocument


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """The text of a schema. ``kind``: ``AVRO``, ``PROTOBUF`` or ``JSON``, as registries spell it."""

    kind: str
    text: str
    references: tuple[SchemaReference, ...] = field(default=())


class SchemaSource(Protocol):
    """Whatever knows schemas by id."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    def find_document(self, schema_id: SchemaId) -> SchemaDocument | None:
        """Return the document with all of its references, or None if there is no such id.

        Raises:
            ServiceError: a registry does not answer.
            UnusableSchemaError: there is a document, and it is too large or refers to what is not there.
        """


def describe_schema(schema_id: SchemaId) -> str:
    """Name a schema in a message; a GUID is not repeated: sixteen bytes of a header may be anything."""
    return "the schema of a GUID" if isinstance(schema_id, UUID) else f"schema {schema_id}"


def order_schema_ids(schema_id: SchemaId) -> tuple[bool, int]:
    """Return what schemas are ordered by: older ones have lower ids; GUIDs say nothing of their age and are last."""
    return (True, schema_id.int) if isinstance(schema_id, UUID) else (False, schema_id)


def walk_references(document: SchemaDocument) -> Iterator[SchemaReference]:
    """Yield everything that ``document`` refers to, directly or not, each name once and after what it refers to."""
    yielded: set[str] = set()
    stack = [(reference, False) for reference in reversed(document.references)]
    while stack:
        reference, is_ready = stack.pop()
        if reference.name in yielded:
            continue
        if is_ready:
            yielded.add(reference.name)
            yield reference
        else:
            stack.append((reference, True))
            stack.extend((inner, False) for inner in reversed(reference.document.references))


def require_readable_size(document: SchemaDocument) -> None:
    """Refuse a document that is too large, alone or with what it refers to.

    Raises:
        UnusableSchemaError: it is.
    """
    size_bytes = len(document.text) + sum(len(reference.document.text) for reference in walk_references(document))
    if size_bytes > MAXIMUM_SCHEMA_BYTES:
        raise UnusableSchemaError(f"is larger than {MAXIMUM_SCHEMA_BYTES:,} bytes")
