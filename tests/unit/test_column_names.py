"""Fields of values and keys become columns beside each other and beside the table's own."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.row_types import build_array, list_values, make_rows, row_types
from winnow.schemas.column_names import name_columns, name_rows
from winnow.schemas.row_types import find_side, merge_row_types, project_rows
from winnow.values.typed_columns import Side, SystemColumn

VALUE = pa.struct([("id", pa.int64()), ("name", pa.string())])
KEY = pa.struct([("id", pa.int64()), ("region", pa.string())])


def merge(*sides: tuple[pa.StructType, Side]) -> pa.StructType:
    merged = pa.struct([])
    for row_type, side in sides:
        merged = merge_row_types(merged, name_columns(row_type, side))
    return merged


def test_a_field_that_value_and_key_both_have_is_two_columns() -> None:
    """Whichever was there first keeps the name, also of one that comes back."""
    merged = merge((VALUE, Side.VALUE), (KEY, Side.KEY), (VALUE, Side.VALUE))
    assert [field.name for field in merged] == ["id", "name", "id__key", "region"]
    assert [find_side(field) for field in merged] == [Side.VALUE, Side.VALUE, Side.KEY, Side.KEY]
    other = merge((KEY, Side.KEY), (VALUE, Side.VALUE))
    assert [field.name for field in other] == ["id", "region", "id__value", "name"]


def test_a_datum_that_is_no_record_is_the_column_value_or_key() -> None:
    """Its field has no name."""
    text = pa.struct([("", pa.string())])
    assert [field.name for field in merge((text, Side.VALUE), (text, Side.KEY))] == ["value", "key"]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("__op", "op__field"),
        ("__", "field"),
        ("___x", "x__field"),
        ("_file", "file__field"),
        ("_POS", "POS__field"),
        ("partition", "partition__field"),
        ("_own", "_own"),
        ("a.b", "a_b"),
        ("line\nfeed", "line_feed"),
        *((name.value, f"{name.value[2:]}__field") for name in SystemColumn),
    ],
)
def test_names_that_a_table_or_iceberg_uses_are_changed(name: str, column: str) -> None:
    """A program that reads the table would take such a column for something else, or refuse it."""
    assert [field.name for field in merge((pa.struct([(name, pa.int32())]), Side.VALUE))] == [column]


@given(row_types, row_types, st.data())
def test_values_and_keys_lose_nothing_beside_each_other(
    value_type: pa.StructType, key_type: pa.StructType, data: st.DataObject
) -> None:
    """Rows of each are in columns of its own; no column begins with two underscores."""
    merged = merge((value_type, Side.VALUE), (key_type, Side.KEY))
    assert not any(field.name.startswith("__") or "." in field.name for field in merged)
    for row_type, side in ((value_type, Side.VALUE), (key_type, Side.KEY)):
        rows = data.draw(make_rows(row_type))
        projected = project_rows(name_rows(rows, side), merged)
        assert list_values(projected) == list_values(rows)
        for field in merged:
            assert find_side(field) is side or projected.field(field.name).null_count == len(rows)


def test_rows_are_named_as_their_type_is() -> None:
    """The values stay."""
    rows = name_rows(build_array([["x"]], pa.struct([("", pa.string())])), Side.KEY)
    assert rows.to_pylist() == [{"key": "x"}]
