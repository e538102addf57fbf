"""Rows are sorted as Python sorts them, in memory or in runs that are merged, and none is lost."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_table_placement import KINDS, build_batch, normalize
from winnow.engine.task_resources import TaskBudget, open_connection
from winnow.files import sorted_rows
from winnow.files.segments import make_field_id
from winnow.files.sorted_rows import RowSorter
from winnow.log.table_placement import TablePlacement
from winnow.values.latest_layout import PartitionTerm, TableLayout, Transform
from winnow.values.latest_order import SortTerm, parse_order

SORTED_KINDS = sorted(KINDS.keys() - {"id"})


def connect() -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    return open_connection(TaskBudget(64 << 20, 1, None), ())


@st.composite
def draw_batches(draw: st.DrawFn) -> tuple[list[list[dict[str, Any] | None]], tuple[SortTerm, ...]]:
    names = draw(st.lists(st.sampled_from(SORTED_KINDS), min_size=1, max_size=3, unique=True))
    terms = tuple(SortTerm(f"in.{name}", draw(st.booleans()), draw(st.booleans())) for name in names)
    values = [st.one_of(st.none(), KINDS[name][2]) for name in names]
    row = st.one_of(st.none(), st.tuples(*values).map(lambda parts: dict(zip(names, parts, strict=True))))
    return draw(st.lists(st.lists(row, min_size=1, max_size=8), min_size=1, max_size=5)), terms


def build_rows(batches: list[list[dict[str, Any] | None]]) -> list[pa.RecordBatch]:
    """Rows whose offsets count on over all batches."""
    built = []
    first = 0
    for rows in batches:
        batch = build_batch(rows)
        offset = pa.field("__offset", pa.int64(), metadata=make_field_id(2))
        places = pa.array(range(first, first + len(rows)), pa.int64())
        built.append(pa.RecordBatch.from_arrays([batch.column(0), places], schema=batch.schema.set(1, offset)))
        first += len(rows)
    return built


def sort_plainly(batches: list[list[dict[str, Any] | None]], terms: tuple[SortTerm, ...]) -> list[int]:
    """The offsets of the rows, sorted term by term from the last to the first."""
    rows = [row or {} for batch in batches for row in batch]
    order = list(range(len(rows)))  # Python's sort keeps the order of equal ones, in reverse too
    for term in reversed(terms):
        name = term.column.removeprefix("in.")
        nulls = [place for place in order if rows[place].get(name) is None]
        others = sorted(
            (place for place in order if rows[place].get(name) is not None),
            key=lambda place: normalize(rows[place][name]),
            reverse=term.is_descending,
        )
        order = others + nulls if term.has_nulls_last else nulls + others
    return order


@pytest.mark.parametrize("run_bytes", [1, 1 << 30])
@given(draw_batches())
def test_rows_are_sorted_by_the_terms_and_then_by_offset(
    run_bytes: int, drawn: tuple[list[list[dict[str, Any] | None]], tuple[SortTerm, ...]]
) -> None:
    batches, terms = drawn
    rows = build_rows(batches)
    placement = TablePlacement("orders", TableLayout(order=terms), [None] * len(terms))
    sorter = RowSorter(placement.list_sort_keys, lambda: rows[0].schema, connect)
    with patch.object(sorted_rows, "RUN_BYTES", run_bytes), patch.object(sorted_rows, "MERGED_ROWS", 3):
        found = pa.Table.from_batches(list(sorter.sort(rows)), rows[0].schema)
    order = sort_plainly(batches, terms)
    assert found.column("__offset").to_pylist() == order
    assert found.equals(pa.Table.from_batches(rows).take(order))


def test_rows_of_one_place_follow_one_another() -> None:
    rows = build_rows([[{"number": number, "text": str(number % 2)} for number in (4, 1, 3, 2)]])
    layout = TableLayout((PartitionTerm(Transform.IDENTITY, "in.text"),), parse_order("in.number desc"))
    placement = TablePlacement("orders", layout, [None, None])
    sorter = RowSorter(placement.list_sort_keys, lambda: rows[0].schema, connect)
    (batch,) = sorter.sort(rows)
    assert batch.column("__offset").to_pylist() == [0, 3, 2, 1]
