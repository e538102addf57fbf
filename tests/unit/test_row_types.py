"""Row types become one, and every writer's rows keep all of their values in it."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.row_types import build_array, list_values, make_rows, row_types
from winnow.schemas.row_types import list_aliases, merge_row_types, project_rows

NOTHING = pa.struct([])


def merge(*types: pa.StructType) -> pa.StructType:
    *_, merged = accumulate(types, merge_row_types, initial=NOTHING)
    return merged


def alias(name: str, kind: pa.DataType, *former: str) -> pa.Field:
    return pa.field(name, kind, metadata={"aliases": ",".join(former)})


@given(st.lists(row_types, min_size=1, max_size=4), st.data())
def test_rows_of_any_type_lose_no_value_in_whatever_order_types_arrive(
    types: list[pa.StructType], data: st.DataObject
) -> None:
    """What stands in a row stands in it after it was put into the merged type, and nothing else does."""
    merged = merge(*types)
    for row_type in types:
        rows = data.draw(make_rows(row_type))
        projected = project_rows(rows, merged)
        projected.validate(full=True)
        assert projected.type == merged
        assert list_values(projected) == list_values(rows)


@given(st.lists(row_types, min_size=2, max_size=4), st.data())
def test_a_place_once_given_stays_whatever_arrives_later(types: list[pa.StructType], data: st.DataObject) -> None:
    """Rows that were written before later types arrived are, once widened, those that would be written after."""
    rows = data.draw(make_rows(types[0]))
    before = merge(*types[:1])
    for count in range(2, len(types) + 1):
        after = merge(*types[:count])
        early = project_rows(project_rows(rows, before), after)
        assert repr(early.to_pylist()) == repr(project_rows(rows, after).to_pylist())


@given(st.lists(row_types, min_size=1, max_size=4))
def test_what_arrives_again_changes_nothing_and_columns_stay_in_place(types: list[pa.StructType]) -> None:
    """Merging is idempotent; a column keeps its number, its kind, and its name unless an alias renames it."""
    merged = merge(*types)
    for row_type in types:
        assert merge_row_types(merged, row_type).equals(merged, check_metadata=True)
    before = merge(*types[:-1])
    for early, late in zip(before, merged, strict=False):
        assert early.name in (late.name, *list_aliases(late))
    folded = [field.name.casefold() for field in merged]
    assert len(folded) == len(set(folded))


@pytest.mark.parametrize(
    ("present", "arriving", "merged"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.field("element", pa.int64()))),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int64())),
    ],
)
def test_a_column_widens_as_iceberg_can(present: pa.DataType, arriving: pa.DataType, merged: pa.DataType) -> None:
    """It never narrows, whichever comes first."""
    assert merge(pa.struct([("amount", present)]), pa.struct([("amount", arriving)])) == pa.struct([("amount", merged)])


@pytest.mark.parametrize(
    ("arriving", "name"),
    [
        (pa.string(), "amount__string"),
        (pa.float64(), "amount__double"),
        (pa.decimal128(5, 2), "amount__decimal_2"),
        (pa.timestamp("us"), "amount__timestamp"),
        (pa.timestamp("us", tz="UTC"), "amount__timestamptz"),
        (pa.binary(4), "amount__fixed_4"),
        (pa.struct([("x", pa.int32())]), "amount__struct"),
        (pa.list_(pa.int64()), "amount__list"),
        (pa.map_(pa.string(), pa.int64()), "amount__map"),
    ],
)
def test_another_kind_becomes_a_second_column_named_after_it(arriving: pa.DataType, name: str) -> None:
    """Also inside structs; the first column stays as it is."""
    present, other = pa.struct([("amount", pa.int32())]), pa.struct([("amount", arriving)])
    assert [field.name for field in merge(present, other)] == ["amount", name]
    nested = merge(pa.struct([("order", present)]), pa.struct([("order", other)]))
    assert [field.name for field in nested.field("order").type] == ["amount", name]


def test_lists_whose_elements_are_of_different_kinds_are_two_columns_and_a_third_is_numbered() -> None:
    """An element cannot be of two kinds, so the whole list gets a column beside the first."""
    lists = [pa.struct([("tags", pa.list_(kind))]) for kind in (pa.int32(), pa.string(), pa.binary())]
    assert [field.name for field in merge(*lists)] == ["tags", "tags__list", "tags__list__2"]
    structs = [pa.struct([("lines", pa.list_(pa.struct([("n", kind)])))]) for kind in (pa.int32(), pa.string())]
    (lines,) = merge(*structs)
    assert [field.name for field in lines.type.value_type] == ["n", "n__string"]


def test_two_fields_of_one_row_never_share_a_column() -> None:
    """A field may be called as another's second column is."""
    present = pa.struct([("a", pa.string())])
    arriving = pa.struct([("a", pa.int32()), ("a__long", pa.int32())])
    merged = merge(present, arriving)
    assert project_rows(build_array([[1, 2]], arriving), merged).to_pylist() == [
        {"a": None, "a__long__2": 1, "a__long": 2}
    ]


def test_names_that_differ_only_in_case_are_two_columns() -> None:
    """Spark and others ignore case, so the second is numbered."""
    upper, lower = pa.struct([("Name", pa.string())]), pa.struct([("name", pa.string())])
    merged = merge(upper, lower, pa.struct([("NAME", pa.string())]))
    assert [field.name for field in merged] == ["Name", "name__2", "NAME__3"]
    assert project_rows(build_array([["x"]], lower), merged).to_pylist() == [
        {"Name": None, "name__2": "x", "NAME__3": None}
    ]


def test_an_alias_renames_a_column_and_rows_under_its_former_name_still_find_it() -> None:
    """Whichever of the two schemas arrives first."""
    former, latter = pa.struct([("mail", pa.string())]), pa.struct([alias("email", pa.string(), "mail")])
    for order in ([former, latter], [latter, former]):
        merged = merge(*order)
        assert [(field.name, list_aliases(field)) for field in merged] == [("email", ["mail"])]
        assert project_rows(build_array([["x"]], former), merged).to_pylist() == [{"email": "x"}]


def test_an_alias_of_a_field_that_is_still_there_or_of_another_kind_renames_nothing() -> None:
    """Both are columns then."""
    present = pa.struct([("mail", pa.string())])
    both = pa.struct([alias("email", pa.string(), "mail"), ("mail", pa.string())])
    assert [field.name for field in merge(present, both)] == ["mail", "email"]
    other = pa.struct([alias("email", pa.string(), "mail"), ("mail", pa.int64())])
    assert [field.name for field in merge(present, other)] == ["mail", "email", "mail__long"]
    number = pa.struct([alias("email", pa.int64(), "mail")])
    assert [field.name for field in merge(present, number)] == ["mail", "email"]


def test_rows_of_a_type_that_was_never_merged_are_refused() -> None:
    """A value without a place would be lost."""
    with pytest.raises(ValueError, match="no place"):
        project_rows(build_array([[1]], pa.struct([("a", pa.int64())])), pa.struct([("a", pa.int32())]))
    with pytest.raises(ValueError, match="no column has the type"):
        merge(pa.struct([("a", pa.time64("us"))]))
