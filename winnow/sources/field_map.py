"""Which column of a foreign file is which field of a Kafka record: what ``--map`` says, and what can be proposed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from winnow.errors import UsageError

FIELDS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers", "topic")
REQUIRED: Final = ("offset", "partition", "value")
"""Without these a record has no place or nothing in it."""
WHOLE_ROW: Final = "*"
"""Stands for the row as JSON text, without the columns of other fields but the key."""
ENCODINGS: Final = ("text", "json", "base64")
ENCODED_FIELDS: Final = ("key", "value", "headers")
UNITS: Final = ("s", "ms", "us")
FORMS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(ENCODED_FIELDS, ENCODINGS),
    "timestamp": UNITS,
}
_DOCUMENT_PREFIX: Final = "field."
"""Not that of columns of tables, which the ledger has as well."""

_PROPOSED: Final[Mapping[str, re.Pattern[str]]] = {
    "offset": re.compile(r"(?:.*[_.])?offset", re.IGNORECASE),
    "partition": re.compile(r"(?:.*[_.])?partition(?:_?id)?", re.IGNORECASE),
    "key": re.compile(r"(?:.*[_.])?(?:message_?|record_?)?key", re.IGNORECASE),
    "value": re.compile(r"(?:.*[_.])?(?:message_?|record_?)?(?:value|payload|message|data)", re.IGNORECASE),
    "timestamp": re.compile(r"(?:.*[_.])?timestamp(?:_?ms)?|ts", re.IGNORECASE),
    "headers": re.compile(r"(?:.*[_.])?headers", re.IGNORECASE),
    "topic": re.compile(r"(?:.*[_.])?topic", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class FieldMap:
    """``columns``: that of each field; a member of a structure is named with dots. ``forms``: what no type tells.

    Forms are :data:`ENCODINGS` of key, value and headers, :data:`UNITS` of timestamps.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def encodings(self) -> dict[str, str]:
        """How key, value and headers are held, as far as it was said."""
        return {name: form for name, form in self.forms.items() if name in ENCODED_FIELDS}

    def to_document(self) -> dict[str, str]:
        """Return the map as words, for the ledger."""
        return {f"{_DOCUMENT_PREFIX}{name}": self._format(name) for name in sorted(self.columns)}

    def list_options(self) -> list[str]:
        """Return the map as options of a command."""
        return [word for name in self.columns for word in ("--map", f"{name}={self._format(name)}")]

    def _format(self, name: str) -> str:
        form = "json" if self.columns[name] == WHOLE_ROW else self.forms.get(name)
        return self.columns[name] + ("" if form is None else f":{form}")


def read_field_map(document: Mapping[str, str]) -> FieldMap:
    """Return the map that stands in the choices of a ledger; an empty one if none does."""
    told = [
        f"{name.removeprefix(_DOCUMENT_PREFIX)}={column}"
        for name, column in document.items()
        if name.startswith(_DOCUMENT_PREFIX)
    ]
    return parse_field_map(told) if told else FieldMap()


def parse_field_map(options: Sequence[str]) -> FieldMap:
    """Parse options like ``offset=kafka_offset``, ``timestamp=ts:ms`` and ``value=*:json``.

    Raises:
        UsageError: one is not of that form, a field is named twice, or one that is needed is missing.
    """
    columns: dict[str, str] = {}
    forms: dict[str, str] = {}
    for option in options:
        name, _, column = option.partition("=")
        before, colon, form = column.rpartition(":")
        if colon and form in FORMS.get(name, ()):
            column, forms[name] = before, form
        if name not in FIELDS or not column or name in columns or (column == WHOLE_ROW and name != "value"):
            raise UsageError(
                f"--map {ascii(option)[:80]} is not FIELD=COLUMN or FIELD=COLUMN:FORM, with FIELD one of "
                f"{', '.join(FIELDS)}, each once; only value may be {WHOLE_ROW}, the whole row. FORM is one of "
                f"{', '.join(ENCODINGS)} for key, value and headers, of {', '.join(UNITS)} for timestamp."
            )
        columns[name] = column
    if columns.get("value") == WHOLE_ROW and forms.pop("value", "json") != "json":
        raise UsageError(f"--map value={WHOLE_ROW} is JSON text: write --map value={WHOLE_ROW}:json.")
    missing = [name for name in REQUIRED if name not in columns] if columns else []
    if missing:
        wanted = " ".join(f"--map {name}=COLUMN" for name in missing)
        raise UsageError(
            f"--map names no column for {' and '.join(missing)}: without one nothing tells where a record was in its "
            "topic, or what it was.",
            left="Nothing of this call landed.",
            next=f"Add {wanted}{f'; --map value={WHOLE_ROW}:json takes the whole row' if 'value' in missing else ''}.",
        )
    return FieldMap(columns, forms)


def propose_field_map(names: Sequence[str]) -> FieldMap | None:
    """Propose a map for columns of these names; None unless they seem to have offset and partition.

    It is a proposal by names alone, for a person to read.
    """
    columns: dict[str, str] = {}
    for name, pattern in _PROPOSED.items():
        found = [each for each in names if pattern.fullmatch(each) and each not in columns.values()]
        if found:
            columns[name] = min(found, key=lambda each: (each.lower() != name, len(each)))
    if not {"offset", "partition"} <= set(columns):
        return None
    columns.setdefault("value", WHOLE_ROW)
    return FieldMap(columns)
