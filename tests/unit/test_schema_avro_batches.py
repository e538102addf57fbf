"""Datums of Avro read all at once, beside the reader of single datums: on the same bytes both do the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.row_values import is_same_row
from tests.unit.test_schema_formats_avro import encoded, schemas, write_data, write_number
from winnow.schemas.avro import make_avro_reader
from winnow.schemas.documents import SchemaDocument
from winnow.schemas.reader import DatumReader, read_datums

NUMBERS = {"type": "array", "items": "long"}
COUNTS = {"type": "map", "values": "long"}
OPTIONAL = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "string"]}]}


def make_reader(schema: Any) -> DatumReader:
    return make_avro_reader(SchemaDocument("AVRO", json.dumps(schema)))


def read(reader: DatumReader, datums: Sequence[bytes]) -> tuple[list[int], list[Any], dict[int, str]]:
    positions, rows, errors = read_datums(reader, pa.array(datums, pa.binary()), np.arange(len(datums)))
    rows.validate(full=True)
    return positions.tolist(), rows.to_pylist(), errors


def require_same(schema: Any, datums: Sequence[bytes]) -> None:
    reader = make_reader(schema)
    at_once, one_by_one = read(reader, datums), read(replace(reader, read_batch=None), datums)
    assert (at_once[0], at_once[2]) == (one_by_one[0], one_by_one[2]), (schema, datums)
    for row, expected in zip(at_once[1], one_by_one[1], strict=True):
        assert is_same_row(expected, row), (schema, datums, expected, row)


def list_certain(schema: Any, *datums: bytes) -> list[bool]:
    """Of which datums the rows are certain when all are read at once."""
    read_batch = make_reader(schema).read_batch
    assert read_batch is not None
    return list(read_batch(pa.array(datums, pa.binary()))[1].tolist())


@given(st.data())
def test_a_batch_gives_the_rows_and_errors_of_its_datums_one_by_one(data: st.DataObject) -> None:
    """Right ones, cut off, longer, with bytes changed, and any bytes at all, in one batch."""
    schema = data.draw(schemas())
    datums = data.draw(st.lists(encoded(schema), min_size=1, max_size=5))
    for datum in data.draw(st.lists(st.sampled_from(datums), max_size=4)):
        cut = data.draw(st.integers(0, len(datum)))
        other = data.draw(st.binary(max_size=12))
        datums.append(
            data.draw(st.sampled_from((datum[:cut], datum + other, datum[:cut] + other + datum[cut + 1 :], other)))
        )
    require_same(schema, data.draw(st.permutations(datums)))


@given(st.lists(st.binary(max_size=14), min_size=1, max_size=8))
def test_any_bytes_are_the_same_number_or_the_same_error(datums: list[bytes]) -> None:
    """Numbers of one byte to more than there may be, also those that are longer than they had to be."""
    high = bytes(byte | 0x80 for byte in datums[0])
    datums += [high + end for end in (b"\0", b"\1", b"\2", b"\x7f", b"\xff")]
    for schema in ("long", "int", "string", NUMBERS):
        require_same(schema, datums)


def test_ordinary_datums_are_read_at_once() -> None:
    """What is not certain is only what is out of the ordinary, so that a damaged datum slows down no other."""
    right = write_number(1) + write_data("ü".encode())
    assert list_certain(
        OPTIONAL, right, b"\0", write_number(2), write_number(1) + write_data(b"\xff"), right + b"\0"
    ) == [
        *(True, True),
        *(False, False, False),
    ]
    assert list_certain("int", write_number(2**31 - 1), write_number(2**31)) == [True, False]
    assert list_certain("long", *map(write_number, (-(2**63), 2**63 - 1))) == [True, True]
    assert list_certain("boolean", b"\0", b"\1", b"\2") == [True, True, False]


def test_lists_in_blocks_are_read_at_once_and_long_ones_by_themselves() -> None:
    blocks = write_number(2) + b"\2\4" + write_number(-1) + write_number(1) + b"\6" + b"\0"
    long = write_number(5_000) + b"\2" * 5_000 + b"\0"
    assert read(make_reader(NUMBERS), [blocks, long, b"\0"])[1] == [{"": [1, 2, 3]}, {"": [1] * 5_000}, {"": []}]
    assert list_certain(NUMBERS, blocks, long, b"\0") == [True, False, True]
    require_same(NUMBERS, [write_number(2**62), write_number(-(2**63)) + b"\0", blocks])


def test_of_a_key_that_a_map_has_twice_the_last_value_counts() -> None:
    entries = [write_data(key) + write_number(value) for key, value in ((b"a", 1), (b"b", 2), (b"a", 3))]
    once, twice = (write_number(len(kept)) + b"".join(kept) + b"\0" for kept in (entries[:2], entries))
    positions, rows, errors = read(make_reader(COUNTS), [once, twice, once])
    assert (positions, errors) == ([0, 1, 2], {})
    assert [dict(row[""]) for row in rows] == [{"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 1, "b": 2}]
    assert list_certain(COUNTS, once, twice) == [True, False]


@pytest.mark.parametrize("schema", [["int", "boolean"], {**OPTIONAL, "fields": [{"name": "a", "type": ["null", "R"]}]}])
def test_unions_of_several_types_and_recursive_ones_are_read_one_by_one(schema: Any) -> None:
    assert make_reader(schema).read_batch is None


def test_no_datum_is_an_empty_array_of_rows() -> None:
    assert read(make_reader(OPTIONAL), []) == ([], [], {})
