"""Datums of JSON with a schema as rows, beside a reading in plain Python; text and bytes as they are."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.json_rows import decode_json
from oracle.row_values import DatumRefused, is_same_row
from winnow.errors import ConfigurationError
from winnow.schemas.columns import make_arrow_type
from winnow.schemas.decoder import DecodedBatch
from winnow.schemas.documents import SchemaDocument, SchemaReference, UnusableSchemaError
from winnow.schemas.formats import make_decoder
from winnow.schemas.json_schema import make_json_schema_reader
from winnow.values.formats import Format

NAMES = st.sampled_from(("a", "b", "Ä", "a.b", ""))
SINGLE: st.SearchStrategy[Any] = st.sampled_from(
    (
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": ["integer", "null"]},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "uuid"},
        {},
        {"type": "object"},
        {"type": "array"},
        True,
    )
)


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda items: {"type": "array", "items": items} if isinstance(items, dict) else {"type": "array"}),
        inner.map(
            lambda values: {"type": "object", "additionalProperties": values} if values not in (True, {}) else {}
        ),
        st.dictionaries(NAMES, inner, min_size=1, max_size=4).map(
            lambda fields: {"type": "object", "properties": fields}
        ),
    )


SCHEMAS = st.recursive(SINGLE, nest, max_leaves=8)
INTEGERS = st.integers(-(2**64), 2**64) | st.integers(-5, 5)
ANYTHING = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)
ZONES = st.integers(-1_439, 1_439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
TEXTS = {
    "date-time": st.datetimes(timezones=ZONES).map(lambda moment: moment.isoformat(timespec="microseconds")),
    "date": st.dates().map(str),
    "uuid": st.uuids().map(str),
}
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    "integer": INTEGERS | st.integers(-(2**40), 2**40).map(float),
    "number": st.floats(allow_nan=False, allow_infinity=False) | INTEGERS,
    "boolean": st.booleans(),
}


@st.composite
def fitting(draw: st.DrawFn, schema: Any) -> Any:
    """A value of ``schema``; sometimes anything in its place."""
    if draw(st.integers(0, 19)) == 0:
        return draw(ANYTHING)
    match schema:
        case {"type": "array", "items": items}:
            return draw(st.lists(fitting(items), max_size=3))
        case {"type": "object", "properties": properties}:
            names = [name for name in properties if draw(st.booleans())]
            return {name: draw(fitting(properties[name])) for name in names} | {"more": 1}
        case {"type": "object", "additionalProperties": values}:
            return draw(st.dictionaries(NAMES, fitting(values), max_size=3))
        case {"type": "string"}:
            return draw(TEXTS.get(schema.get("format"), st.text(max_size=5)))
        case {"type": [kind, "null"]} | {"type": kind} if kind in VALUES:
            return draw(VALUES[kind])
    return draw(ANYTHING)


def decode(schema: Any, *datums: bytes) -> DecodedBatch:
    batch = make_decoder(Format.JSON_SCHEMA, schema_text=json.dumps(schema)).decode(pa.array(datums, pa.binary()))
    for group in batch.groups:
        group.rows.validate(full=True)
    return batch


def list_rows(batch: DecodedBatch) -> dict[int, Any]:
    return {
        position: row
        for group in batch.groups
        for position, row in zip(group.positions.to_pylist(), group.rows.to_pylist(), strict=True)
    }


def require_same(schema: Any, datums: Sequence[bytes]) -> None:
    batch = decode(schema, *datums)
    rows = list_rows(batch)
    assert {*rows, *batch.errors} == set(range(len(datums)))
    is_row = isinstance(schema, dict) and bool(schema.get("properties"))
    for position, datum in enumerate(datums):
        try:
            expected = decode_json(schema, datum)
        except DatumRefused:
            assert position in batch.errors, (schema, datum, rows.get(position))
            continue
        assert position in rows, (schema, datum, batch.errors.get(position))
        if expected is None and is_row:
            expected = dict.fromkeys(schema["properties"])
        assert is_same_row(expected if is_row else {"": expected}, rows[position]), (schema, datum, rows[position])


@given(st.data())
def test_rows_of_any_schema_equal_those_of_the_plain_reading(data: st.DataObject) -> None:
    """Every type and nesting; what does not fit is an error of its datum only."""
    schema = data.draw(SCHEMAS)
    values = data.draw(st.lists(fitting(schema), min_size=1, max_size=6))
    require_same(schema, [json.dumps(value).encode() for value in values])


@given(st.data())
def test_damaged_datums_of_json_are_errors_of_those_datums_only(data: st.DataObject) -> None:
    """Cut off, longer, or any bytes at all: the others of the batch are decoded."""
    schema = data.draw(SCHEMAS)
    datum = json.dumps(data.draw(fitting(schema))).encode()
    cut = data.draw(st.integers(0, len(datum)))
    require_same(schema, [datum, datum[:cut], datum + datum, datum[cut:], data.draw(st.binary()), datum])


def make_type(schema: Any, *references: SchemaReference) -> pa.StructType:
    return make_arrow_type(make_json_schema_reader(SchemaDocument("JSON", json.dumps(schema), references)).record)


def test_references_lead_into_the_document_and_into_others() -> None:
    """``$defs``, another document by its name, a pointer into it; what leads nowhere is JSON text."""
    other = SchemaDocument("JSON", json.dumps({"type": "integer", "definitions": {"x/y": {"type": "boolean"}}}))
    schema = {
        "$defs": {"name": {"type": "string"}},
        "type": "object",
        "properties": {
            "near": {"$ref": "#/$defs/name"},
            "far": {"$ref": "other.json"},
            "inside": {"$ref": "other.json#/definitions/x~1y"},
            "nowhere": {"$ref": "https://example.com/none.json"},
            "optional": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/name"}]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "color": {"enum": ["red", "green"]},
        },
    }
    expected = [("near", pa.string()), ("far", pa.int64()), ("inside", pa.bool_()), ("nowhere", pa.string())]
    expected += [("optional", pa.string()), ("either", pa.string()), ("color", pa.string())]
    assert make_type(schema, SchemaReference("other.json", other)) == pa.struct(expected)


def test_recursive_schema_is_json_text_where_it_begins_again() -> None:
    """A tree: its first node is a row, what is below it text."""
    node = {"type": "object", "properties": {"id": {"type": "integer"}, "next": {"$ref": "#/definitions/node"}}}
    schema = {"$ref": "#/definitions/node", "definitions": {"node": node}}
    assert list_rows(decode(schema, b'{"id":1,"next":{"id":2,"next":{"id":3}}}')) == {
        0: {"id": 1, "next": '{"id":2,"next":{"id":3}}'}
    }


def test_numbers_in_json_text_keep_every_digit() -> None:
    """More digits than a number of the processor has."""
    datum = b"[1.0000000000000000000001,123456789012345678901234567890,1.10,1E+400]"
    assert list_rows(decode(True, datum)) == {0: {"": datum.decode()}}


def test_timestamps_are_cut_to_microseconds_and_need_a_zone() -> None:
    """As Java writes instants, with nine digits; without a zone it is no moment."""
    schema = {"type": "string", "format": "date-time"}
    batch = decode(
        schema, b'"2020-01-02T03:04:05.123456789Z"', b'"2020-01-02T03:04:05"', b'"2020-01-02t03:04:05+01:00"'
    )
    assert [row[""] for row in list_rows(batch).values()] == [
        dt.datetime(2020, 1, 2, 3, 4, 5, 123456, dt.UTC),
        dt.datetime(2020, 1, 2, 2, 4, 5, 0, dt.UTC),
    ]
    assert list(batch.errors) == [1]


def test_errors_name_the_field_and_quote_nothing() -> None:
    """A person finds the field; no value leaves the data."""
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}}
    batch = decode(schema, b'{"a":{"b":"secret"}}', b'{"a":"secret"}', b"secret", b"[" * 100_000)
    assert batch.errors == {
        0: "The value of the field a.b does not fit its type.",
        1: "The value of the field a does not fit its type.",
        2: "The datum is not JSON.",
        3: "The datum is nested too deeply.",
    }


def test_hostile_schemas_of_json_are_refused() -> None:
    """Too large, too wide, too deep, properties that multiply by references."""

    def refuse(schema: Any) -> str:
        with pytest.raises(UnusableSchemaError) as refused:
            make_type(schema)
        return str(refused.value)

    wide = {"type": "object", "properties": {f"f{number}": {"type": "integer"} for number in range(2_000)}}
    assert refuse(wide) == "has more than 2,000 columns"
    assert refuse({"description": " " * (10 << 20)}) == "is larger than 4,194,304 bytes"
    deep: Any = {"type": "integer"}
    for _ in range(65):
        deep = {"type": "array", "items": deep}
    assert refuse(deep) == "is nested deeper than 64 levels"
    doubled = {
        f"n{number}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/n{number + 1}"} for side in "lr"}}
        for number in range(20)
    }
    assert refuse({"$ref": "#/$defs/n0", "$defs": doubled}) == "has more than 2,000 columns"
    circle = {f"n{number}": {"$ref": f"#/$defs/n{(number + 1) % 9}"} for number in range(9)}
    assert make_type({"$ref": "#/$defs/n0", "$defs": circle}) == pa.struct([("", pa.string())])
    with pytest.raises(ConfigurationError, match="it is not JSON"):
        make_decoder(Format.JSON_SCHEMA, schema_text="[" * 100_000)


@given(st.lists(st.binary(max_size=8)))
def test_bytes_stay_and_text_is_utf_8(datums: list[bytes]) -> None:
    """Every datum is a row of the bytes; of the text, those that are UTF-8."""
    array = pa.array(datums, pa.binary())
    as_bytes = make_decoder(Format.BYTES).decode(array)
    assert list_rows(as_bytes) == {position: {"": datum} for position, datum in enumerate(datums)}
    assert as_bytes.errors == {}
    as_text = make_decoder(Format.STRING).decode(array)
    texts = {position: {"": datum.decode()} for position, datum in enumerate(datums) if is_text(datum)}
    assert list_rows(as_text) == texts
    assert set(as_text.errors) == set(range(len(datums))) - set(texts)


def is_text(datum: bytes) -> bool:
    try:
        datum.decode()
    except UnicodeDecodeError:
        return False
    return True
