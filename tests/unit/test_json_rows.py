"""Rows as JSON: what stands in a document is what was in the row, and a mask reaches every text and all bytes."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.row_types import make_rows, row_types
from winnow.schemas.json_rows import write_json_rows


def describe(value: Any) -> Any:
    """What JSON has for a value of Python's, written without the code that is tested."""
    if isinstance(value, dict):
        return {name: describe(part) for name, part in value.items()}
    if isinstance(value, list):
        return [describe(part) for part in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, UUID) else value


def drop_nulls(value: Any, kind: pa.DataType) -> Any:
    """Fields that are null are left out of documents; elements of lists and maps are not."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: drop_nulls(value[f.name], f.type) for f in kind if value[f.name] is not None}
    if pa.types.is_list(kind):
        return [drop_nulls(element, kind.value_type) for element in value]
    if pa.types.is_map(kind):
        return {key: drop_nulls(item, kind.item_type) for key, item in value.items()}
    return value


def read_json(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


def find_numbers(value: Any) -> Any:
    """The same document with floats as the decimals that their digits are."""
    if isinstance(value, dict):
        return {name: find_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [find_numbers(part) for part in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


@given(st.data())
def test_document_has_what_the_row_has(data: st.DataObject) -> None:
    """Of any type, with all digits, null fields left out; a row of nothing but the datum is that."""
    rows = data.draw(row_types.flatmap(make_rows))
    names = [field.name for field in rows.type]
    for text, row in zip(write_json_rows(rows, names), rows.to_pylist(maps_as_pydicts="strict"), strict=True):
        expected = find_numbers(describe(drop_nulls(row, rows.type)))
        if expected.keys() == {""} or names == [""]:
            expected = expected.get("")
        assert read_json(text) == expected


@given(st.data())
def test_mask_is_applied_to_every_text_and_to_all_bytes(data: st.DataObject) -> None:
    """Wherever they stand; nothing else becomes another value."""
    rows = data.draw(row_types.flatmap(make_rows))
    names = [field.name for field in rows.type]
    texts = write_json_rows(rows, names, lambda _: b"masked")
    for masked, row in zip(texts, rows.to_pylist(maps_as_pydicts="strict"), strict=True):
        leaves = list(list_leaves(read_json(masked)))
        plain = list(list_leaves(drop_nulls(row, rows.type)))
        shown = [base64.b64encode(b"masked").decode() if isinstance(leaf, bytes) else "masked" for leaf in plain]
        expected = [
            text if isinstance(leaf, str | bytes) else find_numbers(describe(leaf))
            for text, leaf in zip(shown, plain, strict=True)
        ]
        assert leaves == expected or (plain == [] and leaves == [None])


def test_bytes_are_masked_before_they_are_base64() -> None:
    """Of any size and of a fixed one: what a pattern finds in them is not found in base64 any more."""
    kinds = [pa.field("any", pa.binary()), pa.field("fixed", pa.binary(6))]
    rows = pa.array([{"any": b"secret", "fixed": b"secret"}], pa.struct(kinds))
    (text,) = write_json_rows(rows, ["any", "fixed"], lambda value: value.replace(b"secret", b"***"))
    assert json.loads(text) == dict.fromkeys(["any", "fixed"], base64.b64encode(b"***").decode())


def list_leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for part in value.values():
            yield from list_leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from list_leaves(part)
    else:
        yield value
