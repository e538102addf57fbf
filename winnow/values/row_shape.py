"""What makes columns of a topic's records: the formats of their keys and values, and which fields are shown."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from winnow.values.formats import Format
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
    registry, or need none. ``fields``: which fields are shown, and how.
    """

    key_format: Format = Format.BYTES
    value_format: Format = Format.BYTES
    key_schema: str = ""
    value_schema: str = ""
    envelope: Envelope = Envelope.NONE
    fields: FieldRules = field(default_factory=FieldRules)

    @property
    def is_typed(self) -> bool:
        """Whether rows have other columns than records."""
        return self.key_format is not Format.BYTES or self.value_format is not Format.BYTES

    def compute_digest(self, *parts: str) -> str:
        """Compute what tells this shape from others, in 16 hexadecimal digits; ``parts``: what else makes it."""
        return hashlib.sha256(json.dumps([asdict(self), parts], sort_keys=True).encode()).hexdigest()[:16]
