"""Avro's datums as rows, beside a decoder in plain Python; and what hostile schemas and datums do."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oracle.avro_rows import decode_avro
from oracle.row_values import DatumRefused, is_same_row
from winnow.errors import ConfigurationError
from winnow.schemas.avro import make_avro_reader
from winnow.schemas.columns import make_arrow_type
from winnow.schemas.decoder import DecodedBatch
from winnow.schemas.documents import SchemaDocument, SchemaReference, UnusableSchemaError
from winnow.schemas.formats import make_decoder
from winnow.values.formats import Format

LOGICAL: Sequence[Any] = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 45, "scale": 44},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
)
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def flatten(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Any schema but those that only a test of its own can encode."""
    numbers = iter(range(10_000))

    def make(depth: int) -> Any:
        kind = draw(st.sampled_from(("plain", "logical", "named", "union") if depth > 2 else (*KINDS, *KINDS)))
        number = next(numbers)
        if kind == "plain":
            return draw(st.sampled_from(PRIMITIVES))
        if kind == "logical":
            return draw(st.sampled_from(LOGICAL))
        if kind == "named":
            fixed = {"type": "fixed", "name": f"F{number}", "size": draw(st.sampled_from((1, 16)))}
            decimal = fixed | {"logicalType": "decimal", "precision": 2, "scale": 1}
            enum = {"type": "enum", "name": f"E{number}", "symbols": ["a", "b", "c"]}
            return draw(st.sampled_from((fixed, decimal, enum)))
        if kind == "union":
            branches = draw(st.lists(st.sampled_from(PRIMITIVES), unique=True, min_size=1, max_size=4))
            enum = {"type": "enum", "name": f"E{number}", "symbols": ["a", "b"]}
            return [*branches, *draw(st.sampled_from(([], [enum], [{"type": "map", "values": LOGICAL[3]}])))]
        if kind == "array":
            items = make(depth + 1)
            # A list of values that take no bytes is refused, by a test of its own.
            needs_branch = items == "null" or "fields" in items
            return {"type": "array", "items": ["null", "int" if items == "null" else items] if needs_branch else items}
        if kind == "map":
            return {"type": "map", "values": make(depth + 1)}
        fields = [{"name": f"f{index}", "type": make(depth + 1)} for index in range(draw(st.integers(1, 4)))]
        return {"type": "record", "name": f"R{number}", "fields": fields}

    return make(0)


KINDS = ("plain", "logical", "named", "union", "array", "map", "record")


@st.composite
def encoded(draw: st.DrawFn, schema: Any) -> bytes:
    """Bytes of a datum, as the specification says; values that columns cannot hold among them."""
    if isinstance(schema, list):
        index = draw(st.integers(0, len(schema) - 1))
        return write_number(index) + draw(encoded(schema[index]))
    match schema:
        case {"type": "array" | "map" as kind}:
            items = []
            for number in range(draw(st.integers(0, 3))):
                key = write_data(f"{number}{draw(st.text(max_size=2))}".encode()) if kind == "map" else b""
                items.append(key + draw(encoded(schema["items" if kind == "array" else "values"])))
            return (write_number(len(items)) if items else b"") + b"".join(items) + b"\0"
        case {"type": "record"}:
            return b"".join(draw(encoded(field["type"])) for field in schema["fields"])
        case {"type": "fixed"}:
            return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
        case {"type": "enum"}:
            return write_number(draw(st.integers(0, len(schema["symbols"]) - 1)))
        case {"type": "string"} if draw(st.booleans()):
            return write_data(str(draw(st.uuids())).encode())
    return draw(PLAIN[schema if isinstance(schema, str) else schema["type"]])


def write_number(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    data = bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*data, rest])


def write_data(data: bytes) -> bytes:
    return write_number(len(data)) + data


def integers(*limits: int) -> st.SearchStrategy[bytes]:
    return st.sampled_from(limits).flatmap(lambda limit: st.integers(-limit, limit - 1)).map(write_number)


PLAIN = {
    "null": st.just(b""),
    "boolean": st.sampled_from((b"\0", b"\1")),
    "int": integers(100, 10**6, 2**31),
    "long": integers(10**8, 2**63),
    "float": st.floats(width=32).map(lambda number: struct.pack("<f", number)),
    "double": st.floats().map(lambda number: struct.pack("<d", number)),
    "bytes": st.binary(max_size=20).map(write_data),
    "string": st.text(max_size=9).map(lambda text: write_data(text.encode())),
}


def decode(schema: Any, *datums: bytes) -> DecodedBatch:
    batch = make_decoder(Format.AVRO, schema_text=json.dumps(schema)).decode(pa.array(datums, pa.binary()))
    for group in batch.groups:
        group.rows.validate(full=True)
    return batch


def list_outcomes(batch: DecodedBatch, size: int) -> list[Any]:
    """What became of each datum: its row, or None."""
    outcomes: list[Any] = [None] * size
    for group in batch.groups:
        for position, row in zip(group.positions.to_pylist(), group.rows.to_pylist(), strict=True):
            outcomes[position] = row
    assert all(outcomes[position] is None for position in batch.errors)
    assert len(batch.errors) == outcomes.count(None)
    return outcomes


def expect(schema: Any, datum: bytes) -> Any:
    try:
        value = decode_avro(schema, datum)
    except DatumRefused:
        return None
    is_row = isinstance(schema, dict) and schema["type"] == "record" and schema["fields"]
    return value if is_row else {"": value}


def require_same(schema: Any, datums: Sequence[bytes]) -> None:
    for datum, outcome in zip(datums, list_outcomes(decode(schema, *datums), len(datums)), strict=True):
        expected = expect(schema, datum)
        if expected is None or outcome is None:
            assert expected is outcome, (schema, datum, expected, outcome)
        else:
            assert is_same_row(expected, outcome), (schema, datum, expected, outcome)


@given(st.data())
def test_rows_of_any_schema_equal_those_of_the_plain_decoder(data: st.DataObject) -> None:
    """Every type, logical type and nesting; values beyond what a column holds are errors of their datums only."""
    schema = data.draw(schemas())
    require_same(schema, data.draw(st.lists(encoded(schema), min_size=1, max_size=6)))


@given(st.data())
def test_damaged_datums_of_avro_are_errors_of_those_datums_only(data: st.DataObject) -> None:
    """Cut off, longer, with a byte changed, or any bytes at all: the others of the batch are decoded."""
    schema = data.draw(schemas())
    datum = data.draw(encoded(schema))
    cut = data.draw(st.integers(0, len(datum)))
    other = data.draw(st.binary(min_size=1, max_size=3))
    datums = [datum, datum[:cut], datum + other, datum[:cut] + other + datum[cut + 1 :], data.draw(st.binary()), datum]
    # A number of more than ten bytes, which no writer writes, is none to the plain decoder; the library reads on.
    assume(not any(run >= 10 for value in datums for run in map(len, split_high(value))))
    require_same(schema, datums)


def split_high(datum: bytes) -> list[bytes]:
    return bytes(byte if byte >= 0x80 else 0 for byte in datum).split(b"\0")


@given(st.data())
def test_bytes_written_by_fastavro_are_read(data: st.DataObject) -> None:
    """What the plain decoder and this one understand is what the library's own writer writes."""
    schema = data.draw(schemas())
    datum = data.draw(encoded(schema))
    try:
        value = fastavro.schemaless_reader(io.BytesIO(datum), schema, None, return_record_name=True)
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, value)
    except Exception:
        assume(False)  # a value that the library has no type of Python for
    require_same(schema, [stream.getvalue()])


def record(*fields: Any, name: str = "R") -> Any:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{i}", "type": kind} for i, kind in enumerate(fields)],
    }


def refuse(schema: Any, **more: Any) -> str:
    with pytest.raises(UnusableSchemaError) as refused:
        make_avro_reader(SchemaDocument("AVRO", schema if isinstance(schema, str) else json.dumps(schema), **more))
    return str(refused.value)


def test_recursive_type_is_json_text_where_it_begins_again() -> None:
    """A list in nodes: the first node is a row, the rest of the list its text; far too long a list is an error."""
    schema = record("string", ["null", "R"])
    datum = b"".join(b"\x02" + letter + b"\x02" for letter in (b"a", b"b")) + b"\x02c\x00"
    hostile = b"\x02a\x02" * 300_000 + b"\x02c\x00"
    assert list_outcomes(decode(schema, datum, hostile, datum), 3) == [
        row := {"f0": "a", "f1": '{"f0":"b","f1":{"f0":"c","f1":null}}'},
        None,
        row,
    ]


def test_union_of_several_types_is_json_text_that_keeps_the_type() -> None:
    """Which branch it was decides how a value is written: a date, a number, bytes, a record."""
    schema = record([LOGICAL[0], "string", "bytes", record("double", name="S"), "null"])
    datums = [b"\x00\x00", b"\x02\x02x", b"\x04\x02\xff", b"\x06" + struct.pack("<d", float("nan")), b"\x08"]
    assert [row["f0"] for row in list_outcomes(decode(schema, *datums), 5)] == [
        '"1970-01-01"',
        '"x"',
        '"/w=="',
        '{"f0":"NaN"}',
        None,
    ]


def test_negative_index_of_a_symbol_or_branch_is_an_error() -> None:
    """A list of Python counts such from its end."""
    enum = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
    for schema, datum in ((enum, b"\x01"), (["null", "int"], b"\x01\x02"), (record(["null", enum]), b"\x02\x01")):
        assert list(decode(schema, datum).errors) == [0]


def test_record_without_fields_and_null_have_a_column() -> None:
    """A row has at least one column, whatever the schema."""
    assert list_outcomes(decode(record(), b""), 1) == [{"": "{}"}]
    assert list_outcomes(decode("null", b""), 1) == [{"": None}]
    assert list_outcomes(decode(["null", record("int")], b"\x00", b"\x02\x02"), 2) == [{"f0": None}, {"f0": 1}]


def test_former_names_of_a_field_are_in_its_metadata() -> None:
    """Renames are followed by them."""
    schema = record("int")
    schema["fields"][0]["aliases"] = ["old", "older"]
    (group,) = decode(schema, b"\x02").groups
    assert group.rows.type.field(0).metadata == {b"aliases": b"old,older"}


DAY_MS = 86_400_000
LAST_DAY = 2_932_896
"""The last of the year 9999, counted from 1970."""


@pytest.mark.parametrize(
    ("schema", "last", "beyond"),
    [
        ("int", 2**31 - 1, 2**31),
        ({"type": "int", "logicalType": "date"}, LAST_DAY, LAST_DAY + 1),
        ({"type": "int", "logicalType": "time-millis"}, DAY_MS - 1, DAY_MS),
        ({"type": "long", "logicalType": "time-micros"}, 0, -1),
        ({"type": "long", "logicalType": "timestamp-millis"}, (LAST_DAY + 1) * DAY_MS - 1, (LAST_DAY + 1) * DAY_MS),
        ({"type": "long", "logicalType": "timestamp-micros"}, 0, -(2**63)),
        (["int", "long"], 1, None),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, 1, 2),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}, b"\x63", b"\x64"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}, b"\x9d", b"\x9c"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}, b"\x01" * 16, b"\x7f" * 17),
        (
            {"type": "string", "logicalType": "uuid"},
            b"0" * 8 + b"-0000-0000-0000-" + b"0" * 12,
            b"{" + b"0" * 32 + b"}",
        ),
    ],
)
def test_value_that_no_column_holds_is_an_error_of_its_datum(schema: Any, last: Any, beyond: Any) -> None:
    """Also in a list in a record; the last value that fits is a value."""
    nested = record({"type": "array", "items": schema})

    def write(value: Any) -> bytes:
        if isinstance(schema, list):
            return write_number(0) + write_number(1) if value is not None else write_number(0) + write_number(2**31)
        return write_data(value) if isinstance(value, bytes) else write_number(value)

    require_same(schema, [write(last), write(beyond), write(last)])
    assert list(decode(schema, write(last), write(beyond), write(last)).errors) == [1]
    batch = decode(nested, *(b"\2" + write(value) + b"\0" for value in (last, beyond, last)))
    assert batch.errors == {1: "The value of the field f0 does not fit its type."}
    assert [len(group.rows) for group in batch.groups] == [2]


def test_references_are_resolved_through_other_references() -> None:
    """A schema that names a type of another document, which names one of a third; in a namespace or without."""
    for space in ("n.", ""):
        third = SchemaDocument("AVRO", json.dumps({"type": "enum", "name": f"{space}E", "symbols": ["a"]}))
        text = json.dumps(record(f"{space}E", name=f"{space}S"))
        second = SchemaDocument("AVRO", text, (SchemaReference(f"{space}E", third),))
        text = json.dumps(record(f"{space}S"))
        reader = make_avro_reader(SchemaDocument("AVRO", text, (SchemaReference(f"{space}S", second),)))
        assert make_arrow_type(reader.record) == pa.struct([("f0", pa.struct([("f0", pa.string())]))])


def test_hostile_schemas_of_avro_are_refused() -> None:
    """Too large, wide or deep, names that multiply, lists that grow from no bytes, names given twice, nonsense."""
    assert refuse(record(*["int"] * 2_000)) == "has more than 2,000 columns"
    assert refuse(record(*["int"] * 1_000_000)) == "is larger than 4,194,304 bytes"
    assert refuse(" " * (10 << 20)) == "is larger than 4,194,304 bytes"
    deep: Any = "int"
    for _ in range(65):
        deep = {"type": "array", "items": deep}
    assert refuse(deep) == "is nested deeper than 64 levels"
    assert refuse("[" * 100_000) == "is not JSON"
    assert refuse('{"type":' * 5_000 + '"int"' + "}" * 5_000).startswith("is ")
    doubled: Any = record("int", name="R0")
    for number in range(1, 40):
        doubled = record(doubled, f"R{number - 1}", name=f"R{number}")
    assert refuse(doubled) == "has more than 20,000 types, each name written out"
    assert refuse(["null", "string", doubled]) == "has more than 20,000 types, each name written out"
    assert refuse([record(name=f"R{number}") for number in range(2_001)]) == "has more than 2,000 types with names"
    assert refuse({"type": "array", "items": record(name="Empty")}) == "has a list of values that take no bytes"
    twice = record("int", "int")
    twice["fields"][1]["name"] = "f0"
    assert refuse(twice).startswith("is not a valid") or refuse(twice) == "has a record with two fields of one name"
    for nonsense in (
        {"type": "record"},
        {"type": 5},
        5,
        None,
        {},
        {"type": "fixed", "name": "F", "size": "x"},
        "int",
        "Unknown",
    ):
        assert refuse(json.dumps(nonsense) if nonsense != "int" else "int").startswith("is not ")


def test_document_that_claims_to_be_parsed_is_not_believed() -> None:
    """The library takes such a mark at its word; it stands in no schema of a registry."""
    claimed = {"__fastavro_parsed": True, "__named_schemas": {"S": record("int", name="S")}, **record("int", name="T")}
    reference = SchemaReference("T", SchemaDocument("AVRO", json.dumps(claimed)))
    assert refuse(record("S"), references=(reference,)) == "is not a valid Avro schema"


def test_schema_of_a_topic_that_is_not_valid_is_an_error_of_the_configuration() -> None:
    """One document for all datums: nothing can be decoded without it."""
    with pytest.raises(ConfigurationError, match="avro cannot be used: it is not JSON"):
        make_decoder(Format.AVRO, schema_text="{")
    with pytest.raises(ConfigurationError, match="neither a registry nor a document"):
        make_decoder(Format.AVRO)


def test_rows_are_built_of_all_datums_at_once() -> None:
    """Positions are those in the batch, also behind datums that are wrong."""
    datums = [write_number(index) if index % 3 else b"" for index in range(1_000)]
    batch = decode("long", *datums)
    (group,) = batch.groups
    assert group.positions.to_pylist() == [index for index in range(1_000) if index % 3]
    assert np.array_equal(group.rows.field(0).to_numpy(), group.positions.to_numpy())
    assert set(batch.errors) == set(range(0, 1_000, 3))
