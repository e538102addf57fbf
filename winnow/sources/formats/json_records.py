"""Decodes lines of JSON with the fields of a Kafka record, and makes columns of them.

Strings of key, value and header values are left as their characters: they may be text or base64
(:mod:`winnow.sources.formats.encoding`). What is no string becomes JSON text (:mod:`winnow.sources.formats.json_text`).
msgspec decodes strings fastest; as soon as a line has something else in a field, that field is taken as source text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, cast

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from winnow.errors import BadInputError
from winnow.files.record_batch import make_headers
from winnow.sources.formats.column_values import make_text_column
from winnow.sources.formats.json_text import render_json
from winnow.sources.formats.timestamps import format_milliseconds, read_timestamp_texts
from winnow.sources.input_errors import DAMAGED_ADVICE, Place
from winnow.sources.objects import ReadOptions

TEXT_FIELDS = ("key", "value", "headers")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Decoder = Callable[[bytes], list[Any]]

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


@cache
def _make_decoder(raw: frozenset[str]) -> Decoder:
    """Return what decodes lines; the fields of ``raw`` as JSON source text, the others of them as strings."""
    text = str | UnsetType | None
    kinds = {True: (msgspec.Raw, msgspec.Raw()), False: (text, UNSET)}
    number, stamp = Int64 | UnsetType | None, str | Int64 | UnsetType | None
    header = msgspec.defstruct("Header", [("key", str), ("value", *kinds["headers" in raw])], gc=False)
    record = msgspec.defstruct(
        "Record",
        [
            *((name, *kinds[name in raw]) for name in ("key", "value")),
            ("headers", list[header] | UnsetType | None, UNSET),  # type: ignore[valid-type]
            ("offset", number, UNSET),
            ("partition", number, UNSET),
            ("timestamp", stamp, UNSET),
            ("timestampType", number, UNSET),
            ("topic", text, UNSET),
        ],
        gc=False,
    )
    return cast(Decoder, msgspec.json.Decoder(record).decode_lines)


def decode_lines(place: Place, lines: list[bytes], decode: Decoder) -> list[Any]:
    """Return the record of each line.

    Raises:
        BadInputError: ``decode`` rejects a line, or one holds several records.
    """
    try:
        records = decode(b"\n".join(lines))
    except UNREADABLE:
        raise make_line_error(place, lines, decode) from None
    return _check_count(place, lines, records)


def _check_count(place: Place, lines: list[bytes], records: list[Any]) -> list[Any]:
    if len(records) != len(lines):
        raise place.make_error(0, "from here on a line holds more than one record", DAMAGED_ADVICE)
    return records


def make_line_error(place: Place, lines: list[bytes], decode: Callable[[bytes], object]) -> BadInputError:
    """Make the error for the first of ``lines`` that ``decode`` rejects."""
    for index, line in enumerate(lines):
        try:
            decode(line)
        except UNREADABLE:
            return place.make_error(index, "this is not a record as it should be here", DAMAGED_ADVICE)
    return place.make_error(0, "from here on lines are not records as they should be here", DAMAGED_ADVICE)


def render_source(raw: bytes, keeps_quotes: bool) -> bytes | None:
    """Render JSON source text; with ``keeps_quotes`` a string stays JSON. No text at all is null."""
    if not raw:
        return None
    if keeps_quotes and raw[:1] == b'"':
        return msgspec.json.encode(msgspec.json.decode(raw, type=str))
    return render_json(raw)


def make_integers(values: list[Any]) -> Any:
    """Return a column of integers; what was left out is null."""
    return pa.array([None if value is UNSET else value for value in values], pa.int64())


class JsonRecords:
    """Decodes the lines of one object. ``structured``: the fields in which the last columns had what is no string."""

    def __init__(self, options: ReadOptions) -> None:
        self._keeps_quotes = frozenset(name for name in TEXT_FIELDS if options.encodings.get(name) == "json")
        self._floors = options.floors_timestamps
        self._raw = self._keeps_quotes
        self.structured: set[str] = set()

    def decode(self, place: Place, lines: list[bytes]) -> list[Any]:
        """Return the record of each line.

        Raises:
            BadInputError: a line is no JSON object, or a field is of another type.
        """
        self.structured = set()
        text = b"\n".join(lines)
        try:
            return _check_count(place, lines, _make_decoder(self._raw)(text))
        except UNREADABLE:
            everything = _make_decoder(frozenset(TEXT_FIELDS))
        try:
            records = everything(text)
        except UNREADABLE:
            raise make_line_error(place, lines, everything) from None
        self._raw |= {name for name in TEXT_FIELDS if _has_structures(records, name)}
        return decode_lines(place, lines, _make_decoder(self._raw))

    def find_absent(self, records: list[Any], name: str) -> int | None:
        """Return the index of the first record that was written without this field."""
        values = [getattr(record, name) for record in records]
        if name in self._raw:
            return next((index for index, value in enumerate(values) if not bytes(value)), None)
        return values.index(UNSET) if UNSET in values else None

    def make_bytes(self, place: Place, records: list[Any], name: str) -> Any:
        """Return the column of ``key`` or ``value``; what was left out is null.

        Raises:
            BadInputError: a structure is not UTF-8.
        """
        values = [getattr(record, name) for record in records]
        if name not in self._raw:
            return make_text_column([None if value is UNSET else value for value in values])
        return self.render(place, name, [bytes(value) for value in values])

    def make_columns(self, place: Place, records: list[Any]) -> dict[str, Any]:
        """Return key, value, headers and timestamps as arguments of :func:`winnow.sources.envelope.make_chunk`.

        Raises:
            BadInputError: a structure is not UTF-8, or a timestamp is none.
        """
        return {
            "key": self.make_bytes(place, records, "key"),
            "value": self.make_bytes(place, records, "value"),
            "headers": self.make_headers(place, records),
            "timestamp": self.make_timestamps(place, records),
            "structured": self.structured,
        }

    def render(self, place: Place, name: str, raws: list[bytes]) -> Any:
        """Return a column of JSON source texts; no text at all is null.

        Raises:
            BadInputError: one is not UTF-8.
        """
        keeps_quotes = name in self._keeps_quotes
        texts = []
        for index, raw in enumerate(raws):
            try:
                texts.append(render_source(raw, keeps_quotes))
            except (ValueError, RecursionError):
                # Of headers there may be more or fewer than records.
                at = 0 if name == "headers" else index
                raise place.make_error(at, f"its {name} cannot be read as JSON", DAMAGED_ADVICE) from None
        if keeps_quotes or any(raw[:1] != b'"' for raw, text in zip(raws, texts, strict=True) if text is not None):
            self.structured.add(name)
        return pa.array(texts, pa.binary())

    def make_headers(self, place: Place, records: list[Any]) -> Any:
        """Return the column of headers; none at all are an empty list.

        Raises:
            BadInputError: a structure is not UTF-8.
        """
        lists = [record.headers or () for record in records]
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        flat = [header for headers in lists for header in headers]
        names = pa.array([pair.key for pair in flat], pa.string())
        if "headers" in self._raw:
            return make_headers(counts, names, self.render(place, "headers", [bytes(pair.value) for pair in flat]))
        values = [None if pair.value is UNSET else pair.value for pair in flat]
        return make_headers(counts, names, make_text_column(values))

    def make_timestamps(self, place: Place, records: list[Any]) -> Any:
        """Return the column of timestamps, which may be milliseconds or ISO 8601 text; None if there are none.

        Raises:
            BadInputError: a text is no timestamp, or finer than a millisecond.
        """
        values = [record.timestamp for record in records]
        kinds = set(map(type, values))
        if kinds == {UnsetType}:
            return None
        if str not in kinds:
            return make_integers(values)
        if kinds == {str}:
            return read_timestamp_texts(place, values, self._floors)
        texts = [
            value if isinstance(value, str) else None if value in (None, UNSET) else format_milliseconds(value)
            for value in values
        ]
        return read_timestamp_texts(place, texts, self._floors)


def _has_structures(records: list[Any], name: str) -> bool:
    """Check whether a record has what is neither a string nor null in this field."""
    if name == "headers":
        raws = (bytes(header.value) for record in records for header in record.headers or ())
    else:
        raws = (bytes(getattr(record, name)) for record in records)
    return any(raw and raw[:1] != b'"' and raw != b"null" for raw in raws)
