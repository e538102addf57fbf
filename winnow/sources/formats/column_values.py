"""Makes keys, values and headers of the columns of Arrow and the values of Avro, whatever types they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from winnow.files.record_batch import make_headers
from winnow.sources.formats.json_text import render_value
from winnow.sources.input_errors import DAMAGED_ADVICE, Place
from winnow.sources.objects import FieldForm


def find_form(kind: Any) -> FieldForm:
    """Return how a column of an Arrow type holds key or value."""
    if is_bytes(kind):
        return FieldForm.BYTES
    return FieldForm.TEXT if types.is_string(kind) or types.is_null(kind) else FieldForm.JSON


def is_bytes(kind: Any) -> bool:
    """Check whether an Arrow type is binary."""
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def make_byte_column(place: Place, column: Any) -> tuple[Any, bool]:
    """Return ``column`` as bytes: binary as it is, text in UTF-8, all else as JSON text; and whether it was that.

    Raises:
        BadInputError: a value has no counterpart in Python (a date after 9999) or in JSON text.
    """
    kind = column.type
    if types.is_null(kind):
        return pa.nulls(len(column), pa.binary()), False
    if types.is_binary(kind) or types.is_string(kind) or types.is_fixed_size_binary(kind):
        # Not decoded: a writer may have called text what is none.
        return column.cast(pa.binary(), safe=False), False
    if types.is_large_binary(kind) or types.is_large_string(kind) or types.is_binary_view(kind):
        return column.cast(pa.large_binary(), safe=False).cast(pa.binary()), False
    if types.is_string_view(kind):
        return column.cast(pa.string()).cast(pa.binary()), False
    return render_column(place, list_values(place, column)), True


def list_values(place: Place, column: Any) -> list[Any]:
    """Return the values of ``column`` as Python's; maps are dicts.

    Raises:
        BadInputError: a value has no counterpart in Python.
    """
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (ValueError, OverflowError, KeyError):
        raise place.make_error(0, "from here on a value has no counterpart in JSON text", DAMAGED_ADVICE) from None
    return values


def render_column(place: Place, values: Sequence[Any]) -> Any:
    """Return decoded values as a binary column by the rule of :mod:`winnow.sources.formats.json_text`.

    Raises:
        BadInputError: one cannot be rendered.
    """
    texts: list[bytes | None] = []
    for index, value in enumerate(values):
        try:
            texts.append(render_value(value))
        except (TypeError, ValueError, OverflowError):
            raise place.make_error(index, "a value in it cannot be written as JSON text", DAMAGED_ADVICE) from None
    return pa.array(texts, pa.binary())


def make_headers_of_column(place: Place, column: Any) -> tuple[Any, bool]:
    """Return headers from a column of maps, of lists of key and value, or of structs with a member for each header.

    And whether a value was no bytes and no text. A missing list is an empty one.

    Raises:
        BadInputError: the column is none of these, or a header has no name.
    """
    if types.is_null(column.type):
        return make_header_column([None] * len(column)), False
    if types.is_struct(column.type):
        # One member for each name that any record has: which of them a record had is not known, null ones least.
        rows = list_values(place, column)
        return make_header_rows(place, [None if row is None else _list_members(row) for row in rows])
    pairs = _cast_to_pairs(column)
    if pairs is None:
        raise place.make_error(0, f"its headers are of type {str(column.type)[:80]}", "choose another --layout")
    flat = pairs.flatten()
    names, values = flat.field("key"), flat.field("value")
    if flat.null_count or names.null_count:
        raise place.make_error(0, "from here on a header has no name", DAMAGED_ADVICE)
    counts = np.asarray(pc.fill_null(pc.list_value_length(pairs), 0).to_numpy(), np.int64)
    try:
        texts = names.cast(pa.binary(), safe=False).cast(pa.string())
    except pa.ArrowInvalid:
        raise place.make_error(0, "from here on a header's name is not UTF-8", DAMAGED_ADVICE) from None
    rendered, is_structured = make_byte_column(place, values)
    return make_headers(counts, texts, rendered), is_structured


def _cast_to_pairs(column: Any) -> Any:
    """Return maps, or lists of key and value, as lists of these two; None for other columns."""
    if types.is_map(column.type):
        pair = pa.struct([pa.field("key", column.type.key_type), pa.field("value", column.type.item_type)])
        return column.cast(pa.list_(pair))
    if not (types.is_list(column.type) or types.is_large_list(column.type)):
        return None
    kind = column.type.value_type
    return column if types.is_struct(kind) and {field.name for field in kind} == {"key", "value"} else None


def _list_members(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in row.items() if value is not None]


def make_header_rows(place: Place, rows: Sequence[Sequence[tuple[str, Any]] | None]) -> tuple[Any, bool]:
    """Return headers from decoded pairs for each record, and whether a value was no bytes and no text.

    Raises:
        BadInputError: a value cannot be rendered.
    """
    flat = [value for row in rows for _, value in row or ()]
    is_structured = any(value is not None and not isinstance(value, str | bytes) for value in flat)
    lists: list[HeaderPairs | None] = []
    for index, row in enumerate(rows):
        try:
            lists.append([(name, render_value(value)) for name, value in row or ()])
        except (TypeError, ValueError, OverflowError):
            raise place.make_error(index, "a header's value cannot be written as JSON text", DAMAGED_ADVICE) from None
    return make_header_column(lists), is_structured


def list_header_rows(place: Place, values: Sequence[Any]) -> list[list[tuple[str, Any]]]:
    """Return the headers of each record from decoded maps or records; none is an empty list.

    Raises:
        BadInputError: one is something else.
    """
    rows = []
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, Mapping):
            raise place.make_error(index, "its headers are no map", "choose another --layout")
        rows.append(list((value or {}).items()))
    return rows


def make_numbers(place: Place, values: Sequence[Any]) -> Any:
    """Return decoded values as a column of integers.

    Raises:
        BadInputError: one is no integer of 64 bits.
    """
    for index, value in enumerate(values):
        if value is not None and (type(value) is not int or not -(2**63) <= value < 2**63):
            wrong = "its offset, partition or timestamp is no whole number"
            raise place.make_error(index, wrong, "choose another --layout")
    return pa.array(values, pa.int64())


def make_topics(place: Place, column: Any) -> Any:
    """Return a column of topics as text; None for none.

    Raises:
        BadInputError: it is of another type, or not UTF-8.
    """
    if column is None or types.is_null(column.type):
        return None
    try:
        return column.cast(pa.binary(), safe=False).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise place.make_error(0, "from here on a topic is no text", "choose another --layout") from None


Header = tuple[str, str | bytes | None]
HeaderPairs = Sequence[Header]


def make_header_column(lists: Sequence[HeaderPairs | None]) -> Any:
    """Build the headers of each record from its pairs; None is the empty list, text its UTF-8 bytes."""
    counts = np.fromiter((len(headers) if headers else 0 for headers in lists), np.int64, len(lists))
    flat = [pair for headers in lists if headers for pair in headers]
    keys = pa.array([key for key, _ in flat], pa.string())
    return make_headers(counts, keys, pa.array([value for _, value in flat], pa.binary()))


def make_text_column(texts: Sequence[str | None]) -> Any:
    """Build a binary column from text."""
    return pa.array(texts, pa.string()).cast(pa.binary())


UNRENDERABLE = (ValueError, TypeError, OverflowError, RecursionError, LookupError, AttributeError)


def list_headers(entry: Any) -> list[Header]:
    """Return keys and values of one record's headers.

    Raises:
        ValueError, TypeError, LookupError: these are no headers.
    """
    if entry is None:
        return []
    if isinstance(entry, Mapping):
        pairs = list(entry.items())
    else:
        pairs = [(header["key"], header["value"]) for header in entry]
    if not all(isinstance(key, str) for key, _ in pairs):
        raise TypeError("a header's key is text")
    if all(value is None or isinstance(value, str | bytes) for _, value in pairs):
        return pairs
    return [(key, render_value(value)) for key, value in pairs]
