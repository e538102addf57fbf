"""What a user decided about what an archive cannot tell. Stands in the ledger of an ingest, and is the next default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from winnow.errors import UsageError
from winnow.sources.field_map import ENCODED_FIELDS, ENCODINGS, FieldMap, read_field_map

DELETES = ("null-text", "debezium")
TOMBSTONES = ("first", "last")
EMPTY_VALUES = ("keep", "tombstone")


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of one ingest call.

    ``encodings``: ``base64``, ``text`` or ``json`` per field. ``floors_timestamps``: timestamps finer than a
    millisecond are rounded down. ``tombstones``: whether tombstones come before the values of their flush or after
    them. ``empty_values``: what an empty value is where null and empty are the same. ``deletes``: which values stand
    for a deletion. ``exclude``: globs of objects that are left out. ``fields``: which column is which field.
    ``partition``: that of all objects whose names do not tell it; it holds for one call.
    """

    encodings: Mapping[str, str] = field(default_factory=dict)
    floors_timestamps: bool = False
    tombstones: str | None = None
    empty_values: str | None = None
    deletes: str | None = None
    exclude: tuple[str, ...] = ()
    fields: FieldMap = field(default_factory=FieldMap)
    partition: int | None = None

    def to_document(self) -> dict[str, str]:
        """Return the choices as words, for the ledger; what was not decided is left out."""
        document = {f"encoding.{name}": encoding for name, encoding in sorted(self.encodings.items())}
        if self.floors_timestamps:
            document["timestamps"] = "floor"
        decided = {"tombstones": self.tombstones, "empty-values": self.empty_values, "deletes": self.deletes}
        document.update({name: value for name, value in decided.items() if value is not None})
        if self.exclude:
            document["exclude"] = "\n".join(self.exclude)
        if self.partition is not None:
            document["partition"] = str(self.partition)
        return document | self.fields.to_document()

    def fill_from(self, document: Mapping[str, str]) -> Choices:
        """Return these choices, and where nothing was decided those of an earlier call's ledger."""
        known = {name.partition(".")[2]: each for name, each in document.items() if name.startswith("encoding.")}
        return replace(
            self,
            encodings={**known, **self.encodings},
            floors_timestamps=self.floors_timestamps or document.get("timestamps") == "floor",
            tombstones=self.tombstones or document.get("tombstones"),
            empty_values=self.empty_values or document.get("empty-values"),
            deletes=self.deletes or document.get("deletes"),
            exclude=tuple(dict.fromkeys([*filter(None, document.get("exclude", "").split("\n")), *self.exclude])),
            fields=self.fields or read_field_map(document),
        )


def parse_encodings(options: Sequence[str]) -> dict[str, str]:
    """Parse options like ``value=base64``.

    Raises:
        UsageError: one is not of that form.
    """
    found = {}
    for option in options:
        name, _, encoding = option.partition("=")
        if name not in ENCODED_FIELDS or encoding not in ENCODINGS:
            raise UsageError(
                f"--encoding {ascii(option)[:80]} is not FIELD=ENCODING, with FIELD one of {', '.join(ENCODED_FIELDS)} "
                f"and ENCODING one of {', '.join(ENCODINGS)}."
            )
        found[name] = encoding
    return found


def check_choice(option: str, value: str | None, known: Sequence[str]) -> None:
    """Raise for a value that an option does not have.

    Raises:
        UsageError: with the known ones.
    """
    if value is not None and value not in known:
        raise UsageError(f"{option} {ascii(value)[:80]} is not one of {', '.join(known)}.")
