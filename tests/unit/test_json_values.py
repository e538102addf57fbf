"""JSON without a schema: the types are told from the documents, and no document loses a value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.schemas.decoder import DecodedBatch
from winnow.schemas.json_values import MAXIMUM_COLUMNS, MAXIMUM_ROW_TYPES, JsonDecoder
from winnow.schemas.row_types import merge_row_types, project_rows

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
)
documents = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "A", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)


def decode(texts: Sequence[bytes | str], known: pa.StructType | None = None) -> DecodedBatch:
    datums = pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary())
    return JsonDecoder(known).decode(datums)


def list_types(batch: DecodedBatch) -> list[pa.StructType]:
    return [group.rows.type for group in batch.groups]


def tells_something(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(tells_something, value.values()))
    return any(map(tells_something, value)) if isinstance(value, list) else value is not None


def check_cell(cell: Any, value: Any) -> None:
    """What a column holds is the document's value: itself, a number of another width, or its text."""
    if cell is None:
        assert not tells_something(value)
    elif isinstance(cell, str) and not isinstance(value, str):
        assert json.loads(cell) == value
    elif isinstance(cell, dict):
        for name in {**cell, **value}:
            check_cell(cell.get(name), value.get(name))
    elif isinstance(cell, list):
        for one, other in zip(cell, value, strict=True):
            check_cell(one, other)
    else:
        assert cell == value
        assert isinstance(cell, bool) == isinstance(value, bool)
        assert isinstance(cell, str) == isinstance(value, str)


@given(st.lists(documents, max_size=6))
def test_every_document_is_a_row_that_has_its_values(drawn: list[Any]) -> None:
    """In one group each, and also after the types were merged."""
    batch = decode([json.dumps(document) for document in drawn])
    assert not batch.errors
    assert sorted(position for group in batch.groups for position in group.positions.to_pylist()) == [
        *range(len(drawn))
    ]
    merged = pa.struct([])
    for row_type in list_types(batch):
        merged = merge_row_types(merged, row_type)
    for group in batch.groups:
        group.rows.validate(full=True)
        assert group.rows.null_count == 0
        assert len(project_rows(group.rows, merged)) == len(group.positions)
        for position, row in zip(group.positions.to_pylist(), group.rows.to_pylist(), strict=True):
            document = drawn[position]
            check_cell(row, document if isinstance(document, dict) else {"": document})


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (['{"a":1}', '{"a":2}'], pa.int64()),
        (['{"a":1}', '{"a":2.5}'], pa.float64()),
        (['{"a":9007199254740993}'], pa.int64()),
        (['{"a":18446744073709551615}'], pa.string()),
        (['{"a":"2026-01-01"}'], pa.string()),
        (['{"a":[1,2.5,null]}'], pa.list_(pa.field("element", pa.float64()))),
        (['{"a":[1,"x"]}'], pa.string()),
        (['{"a":{"b":true}}', '{"a":null}', '{"a":[]}'], pa.struct([("b", pa.bool_())])),
    ],
)
def test_types_are_told_from_all_documents(texts: list[str], kind: pa.DataType) -> None:
    """Nothing is guessed from the text of strings."""
    batch = decode(texts)
    assert list_types(batch) == [pa.struct([("a", kind)])]
    assert [group.positions.to_pylist() for group in batch.groups] == [[*range(len(texts))]]


def test_documents_in_conflict_are_rows_of_different_types() -> None:
    """Also where a float64 would not hold an integer exactly. The rest of their fields stays in one type."""
    batch = decode(['{"a":1,"b":1}', '{"a":"x"}', '{"b":9007199254740993}', '{"a":2}', '{"b":0.5}'])
    assert list_types(batch) == [
        pa.struct([("a", pa.int64()), ("b", pa.int64())]),
        pa.struct([("a", pa.string()), ("b", pa.float64())]),
    ]
    assert [group.positions.to_pylist() for group in batch.groups] == [[0, 2, 3], [1, 4]]


def test_whole_numbers_go_into_a_column_of_fractions_that_there_is() -> None:
    """A price that happens to be whole in all new records is no second column."""
    known = pa.struct([("price", pa.float64()), ("lines", pa.list_(pa.struct([("n", pa.float64())])))])
    batch = decode(['{"price":2,"lines":[{"n":1}],"count":1}'], known)
    (row_type,) = list_types(batch)
    assert merge_row_types(known, row_type).field("price").type == pa.float64()
    assert [field.name for field in merge_row_types(known, row_type)] == ["price", "lines", "count"]
    assert batch.groups[0].rows.to_pylist() == [{"price": 2.0, "lines": [{"n": 1.0}], "count": 1}]


def test_a_field_that_is_only_ever_null_or_empty_is_left_out() -> None:
    """It is a column once it has more."""
    batch = decode(['{"a":null,"b":[],"c":{},"d":1}', "{}", "null", "[]"])
    assert list_types(batch) == [pa.struct([("d", pa.int64())])]
    assert batch.groups[0].rows.to_pylist() == [{"d": 1}, {"d": None}, {"d": None}, {"d": None}]
    assert decode(["{}"]).groups[0].rows.to_pylist() == [{"": None}]


def test_of_a_name_that_an_object_has_twice_the_last_counts() -> None:
    """As most parsers have it."""
    assert decode(['{"a":"x","a":2}']).groups[0].rows.to_pylist() == [{"a": 2}]


@pytest.mark.parametrize(
    "datum",
    [
        *(b"", b"secret", b"\xff\xfe", b'{"secret":\xff}', b'{"secret":1e400}', b'{"secret":"\\ud800"}', b'"secret'),
        *(b"[" * 200_000, b"[" * 65 + b'"secret"' + b"]" * 65, b'{"secret":' + b"9" * 1_000_000 + b"}"),
        *(b'{"' + b"secret" * 50 + b'":1}', json.dumps({f"secret{n}": 1 for n in range(3_000)}).encode()),
    ],
)
def test_what_is_no_document_is_an_error_of_that_datum_that_quotes_nothing_of_it(datum: bytes) -> None:
    """The others are rows as ever."""
    batch = decode([b'{"a":1}', datum, b'{"a":2}'])
    assert list(batch.errors) == [1]
    assert "secret" not in batch.errors[1]
    assert batch.groups[0].positions.to_pylist() == [0, 2]
    assert list_types(batch) == [pa.struct([("a", pa.int64())])]


def test_columns_and_row_types_of_all_documents_together_are_limited() -> None:
    """What would be more is an error of its datum."""
    batch = decode([json.dumps({f"n{number}": 1}) for number in range(MAXIMUM_COLUMNS + 3)])
    assert list(batch.errors) == [MAXIMUM_COLUMNS, MAXIMUM_COLUMNS + 1, MAXIMUM_COLUMNS + 2]
    conflicts = [json.dumps({f"n{bit}": "x" if number >> bit & 1 else 1 for bit in range(6)}) for number in range(64)]
    batch = decode(conflicts)
    assert len(list_types(batch)) == MAXIMUM_ROW_TYPES
    assert len(batch.errors) == 64 - MAXIMUM_ROW_TYPES
