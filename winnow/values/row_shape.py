"""What makes columns of a topic's records: the formats of their keys and values, and which fields are shown."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from winnow.values.formats import Format
from winnow.values.kept_schemas import KeptSchemas
from winnow.values.latest_fields import FieldRules


class Envelope(StrEnum):
    """What is around the row in a value."""

    NONE = "none"
    DEBEZIUM = "debezium"


class UpdateTime(StrEnum):
    """What brings the table of the latest state up to date; an ingest: a publish, too."""

    PUBLISH = "publish"
    INGEST = "ingest"


@dataclass(frozen=True, slots=True)
class RowShape:
    """How keys and values become columns, by the names in a topic's configuration.

    ``key_schema``, ``value_schema``: the place of a file with their schema; empty: they bear the id of one in a
    registry, or need none. ``envelope_fields``: paths of the envelope's fields that are columns, too. ``fields``:
    which fields are shown, and how.
    """

    key_format: Format = Format.BYTES
    value_format: Format = Format.BYTES
    key_schema: str = ""
    value_schema: str = ""
    envelope: Envelope = Envelope.NONE
    envelope_fields: tuple[str, ...] = ()
    fields: FieldRules = field(default_factory=FieldRules)

    @property
    def is_typed(self) -> bool:
        """Whether rows have other columns than records."""
        return self.key_format is not Format.BYTES or self.value_format is not Format.BYTES

    def compute_digest(self, *parts: str) -> str:
        """Compute what tells this shape from others, in 16 hexadecimal digits; ``parts``: what else makes it."""
        return hashlib.sha256(json.dumps([asdict(self), parts], sort_keys=True).encode()).hexdigest()[:16]


def split_schema_place(place: str) -> tuple[str, str]:
    """Return the place of a schema's file, and which message of it datums are: what follows ``.proto#``, or nothing."""
    file, mark, message = place.rpartition(".proto#")
    return (f"{file}.proto", message) if mark else (place, "")


class ColumnsGrewError(Exception):
    """Rows need columns that they cannot have here. Never leaves a task."""


@dataclass(frozen=True, slots=True)
class TypedRows:
    """How a task makes rows, all of the same columns. Types and schemas are encoded.

    ``key_schema``, ``value_schema``: texts of schemas in files. ``kept``: those that are kept with the topic.
    ``known``: columns that the table had before the update. ``columns``, ``fields``: those that there are now, and all
    fields of the topic so far, not masked. ``schema``: of rows, with field ids.
    """

    shape: RowShape
    key_schema: str | None
    value_schema: str | None
    known: str
    columns: str
    fields: str
    schema: str
    error_column_id: int
    kept: tuple[KeptSchemas, ...] = ()
