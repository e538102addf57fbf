"""Keys, values and headers of Arrow's columns, whatever their types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from winnow.errors import BadInputError
from winnow.sources.formats.column_values import make_byte_column, make_headers_of_column
from winnow.sources.input_errors import Place


def place(count: int) -> Place:
    return Place("part-0", "row", np.arange(1, count + 1))


@pytest.mark.parametrize(
    ("column", "expected", "structured"),
    [
        (pa.array([b"\xff", None]), [b"\xff", None], False),
        (pa.array(["ü", None]), ["ü".encode(), None], False),
        (pa.array([b"a"], pa.large_binary()), [b"a"], False),
        (pa.array(["a"], pa.large_string()), [b"a"], False),
        (pa.array([b"a"], pa.binary_view()), [b"a"], False),
        (pa.array(["a"], pa.string_view()), [b"a"], False),
        (pa.array([b"ab"], pa.binary(2)), [b"ab"], False),
        (pa.nulls(2), [None, None], False),
        (pa.array([1, None]), [b"1", None], True),
        (pa.array([{"a": [1, None]}, None]), [b'{"a":[1,null]}', None], True),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [b'{"k":1}'], True),
    ],
)
def test_values_of_every_type_become_bytes(column: Any, expected: list[bytes | None], structured: bool) -> None:
    found, is_structured = make_byte_column(place(len(column)), column)
    assert (found.to_pylist(), is_structured) == (expected, structured)
    assert found.type == pa.binary()


def test_text_that_is_not_utf8_keeps_its_bytes() -> None:
    column = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    assert make_byte_column(place(1), column)[0].to_pylist() == [b"\xff\xfe"]


ROWS: list[Any] = [None, [], [("a", b"1"), ("b", None)], None, [("c", b"\xff")]]
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


def list_headers(column: Any) -> list[list[tuple[str, Any]]]:
    found, _ = make_headers_of_column(place(len(column)), column)
    return [[(header["key"], header["value"]) for header in row] for row in found.to_pylist()]


@pytest.mark.parametrize("start", range(5))
def test_headers_of_maps_and_lists(start: int) -> None:
    expected = [row or [] for row in ROWS][start:]
    maps = pa.array(ROWS, pa.map_(pa.string(), pa.binary()))
    pairs = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in ROWS]
    assert list_headers(maps.slice(start)) == expected
    assert list_headers(pa.array(pairs, pa.list_(PAIR)).slice(start)) == expected
    assert list_headers(pa.array(pairs, pa.large_list(PAIR)).slice(start)) == expected


def test_headers_of_structs_and_of_no_type() -> None:
    assert list_headers(pa.array([{"a": "1", "b": None}, None])) == [[("a", b"1")], []]
    assert list_headers(pa.nulls(2)) == [[], []]
    column = pa.array([[("n", 12)]], pa.map_(pa.string(), pa.int64()))
    assert make_headers_of_column(place(1), column)[1]
    assert list_headers(column) == [[("n", b"12")]]


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        (pa.array([1]), "its headers are of type int64"),
        (pa.array([[{"name": "a"}]]), "its headers are of type list"),
        (pa.array([[{"key": None, "value": b""}]], pa.list_(PAIR)), "a header has no name"),
        (pa.array([[None]], pa.list_(PAIR)), "a header has no name"),
    ],
)
def test_headers_that_are_none_are_refused(column: Any, wrong: str) -> None:
    with pytest.raises(BadInputError, match=wrong):
        make_headers_of_column(place(1), column)
