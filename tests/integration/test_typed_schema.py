"""A table of bytes becomes typed, wider, with renamed columns, and one of bytes again: each step in one commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import StringType

from tests.support.row_types import row_types
from tests.support.typed_tables import WRITER_TYPES, TypedTable, open_typed_table
from tests.support.world import TOPIC, open_world, record
from winnow.files import storage
from winnow.log.table import LOG_SCHEMA
from winnow.log.table_placement import TablePlacement
from winnow.log.typed_schema import evolve_schema, is_typed, read_columns
from winnow.pipeline.latest.table import update_latest_table
from winnow.schemas.row_types import merge_row_types
from winnow.values.latest_layout import parse_layout
from winnow.values.typed_columns import SystemColumn


def merge(types: Sequence[pa.StructType]) -> pa.StructType:
    *_, merged = accumulate(types, merge_row_types, initial=pa.struct([]))
    return merged


@given(st.lists(row_types, min_size=1, max_size=4))
def test_columns_come_back_from_the_schema_as_they_went_in(types: list[pa.StructType]) -> None:
    """With their former names; whatever the way by which the table came to them."""
    schema, last_id = LOG_SCHEMA, LOG_SCHEMA.highest_field_id
    for number in range(len(types)):
        columns = merge(types[: number + 1])
        schema = evolve_schema(schema, last_id, columns)
        last_id = max(last_id, schema.highest_field_id)
        assert read_columns(schema).equals(columns, check_metadata=True)
        assert is_typed(schema)


@given(st.lists(row_types, min_size=2, max_size=4))
def test_no_id_is_ever_given_to_two_columns_and_none_changes(types: list[pa.StructType]) -> None:
    """A column keeps its id for life, also inside others; new ones are above all that were ever given."""
    before = evolve_schema(LOG_SCHEMA, LOG_SCHEMA.highest_field_id, merge(types[:-1]))
    after = evolve_schema(before, before.highest_field_id + 7, merge(types))
    assert before.field_ids <= after.field_ids
    assert all(number > before.highest_field_id + 7 for number in after.field_ids - before.field_ids)
    assert all(not field.required for field in after.fields)
    again = evolve_schema(after, after.highest_field_id, merge(types))
    assert again.fields == after.fields


def test_the_tables_own_columns_have_the_ids_of_the_logs_and_stand_last() -> None:
    """Those that are not asked for are left out."""
    schema = evolve_schema(LOG_SCHEMA, 10, pa.struct([("city", pa.string())]))
    assert [(field.name, field.field_id) for field in schema.fields] == [
        ("city", 11),
        ("__raw", 6),
        ("__raw_key", 5),
        ("__error", 12),
        ("__partition", 1),
        ("__offset", 2),
        ("__timestamp", 3),
        ("__headers", 7),
    ]
    masked = evolve_schema(schema, 12, pa.struct([]), omit=(SystemColumn.RAW, SystemColumn.HEADERS))
    assert [field.name for field in masked.fields] == [
        *("city", "__raw_key", "__error", "__partition", "__offset", "__timestamp")
    ]


def test_a_column_that_iceberg_cannot_change_is_refused() -> None:
    """A merged row type never asks for it."""
    schema = evolve_schema(LOG_SCHEMA, 10, pa.struct([("city", pa.string())]))
    for kind in (pa.int64(), pa.binary(), pa.struct([("x", pa.int32())])):
        with pytest.raises(ValueError, match="string"):
            evolve_schema(schema, 12, pa.struct([("city", kind)]))
    wide = evolve_schema(LOG_SCHEMA, 10, pa.struct([("n", pa.int64())]))
    with pytest.raises(ValueError, match="long"):
        evolve_schema(wide, 12, pa.struct([("n", pa.int32())]))


def read_by_pyiceberg(table: TypedTable) -> list[dict[str, Any]]:
    rows = table.head.table.scan().to_arrow().sort_by("__offset")
    return list(rows.to_pylist(maps_as_pydicts="strict"))


def read_by_duckdb(table: TypedTable, columns: dict[str, str]) -> list[dict[str, Any]]:
    """Read the live files in the columns of the newest schema, which are found by their ids."""
    wanted = ", ".join(
        f"{table.schema.find_field(name).field_id}: {{name: '{name}', type: '{kind}', default_value: NULL}}"
        for name, kind in {**columns, "__offset": "BIGINT"}.items()
    )
    paths = [storage.parse_local_path(task.file.file_path).as_posix() for task in table.head.table.scan().plan_files()]
    query = f"FROM read_parquet({paths}, schema=MAP {{{wanted}}}) ORDER BY __offset"
    answer = duckdb.connect().execute(query)
    names = [description[0] for description in answer.description]
    return [{name: cell for name, cell in zip(names, row, strict=True) if name in columns} for row in answer.fetchall()]


def test_every_step_is_read_right_by_pyiceberg_and_duckdb(tmp_path: Path) -> None:
    """Rows of before stay as they were written; new columns of theirs are null, widened ones have the same values."""
    with open_world(tmp_path) as world:
        table = open_typed_table(world)
        first = {"city": "Oslo", "amount": 2**31 - 1, "lines": [{"n": 1}, None]}
        table.take("typed")
        kinds = {"city": "VARCHAR", "amount": "INTEGER", "lines": "STRUCT(n INTEGER)[]"}
        check_rows(table, kinds, [first])

        table.take("wider")
        first = {**first, "lines": [{"n": 1, "sku": None}, None], "city__long": None, "id": None, "rates": None}
        second = {
            "city": None,
            "amount": 2**40,
            "lines": [{"n": 2**50, "sku": "a"}],
            "city__long": 7,
            "id": UUID(int=5),
            "rates": {"x": None},
        }
        kinds = {**kinds, "amount": "BIGINT", "lines": "STRUCT(n BIGINT, sku VARCHAR)[]"}
        kinds |= {"city__long": "BIGINT", "id": "UUID", "rates": "MAP(VARCHAR, DECIMAL(20, 2))"}
        check_rows(table, kinds, [first, second])

        table.take("renamed")
        kinds = {"town" if name == "city" else name: kind for name, kind in kinds.items()}
        rows = [{"town" if name == "city" else name: cell for name, cell in row.items()} for row in (first, second)]
        check_rows(table, kinds, [*rows, {**dict.fromkeys(kinds), "town": "Rome", "amount": 3, "lines": []}])

        table.return_to_bytes()
        assert table.head.table.schema().fields == LOG_SCHEMA.fields
        world.ingest([record(1, b"b", b"2")])
        update_latest_table(world.installation, TOPIC)
        rows = table.head.table.scan().to_arrow().sort_by("offset").to_pylist()
        assert [(row["offset"], row["key"], row["value"]) for row in rows] == [(0, b"a", b"1"), (1, b"b", b"2")]


def check_rows(table: TypedTable, kinds: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """PyIceberg and DuckDB read these columns, and the segments are those that were written."""
    assert [{name: row[name] for name in kinds} for row in read_by_pyiceberg(table)] == rows
    assert read_by_duckdb(table, kinds) == rows
    assert table.latest.segments(table.head) == {0: tuple(table.files)}


def test_no_program_is_told_to_write_bounds_of_what_comes_from_keys_and_values(tmp_path: Path) -> None:
    """Neither in manifests nor by the table's properties, also where a field has the name of a column of the log."""
    with open_world(tmp_path) as world:
        table = open_typed_table(world)
        table.take("typed")
        schema = table.evolve(pa.struct([("offset", pa.int64())]))
        assert table.commit(schema, add=[], remove=[]) is not None
        properties = table.head.table.properties
        full = [name for name, mode in properties.items() if name.startswith("write.metadata.metrics.column")]
        assert {name.rpartition(".")[2] for name in full if properties[name] == "full"} == {
            *("__partition", "__offset", "__timestamp")
        }
        assert "write.metadata.metrics.column.offset" not in properties
        assert set(names_of(properties["schema.name-mapping.default"])) == {field.name for field in schema.fields}
        (task,) = table.head.table.scan().plan_files()
        for figures in (task.file.lower_bounds, task.file.upper_bounds, task.file.value_counts):
            assert set(figures) == {1, 2, 3}
        assert set(task.file.null_value_counts) == {1, 2}


def names_of(mapping: str) -> list[str]:
    return [name for entry in json.loads(mapping) for name in entry["names"]]


def test_rows_without_undecoded_bytes_are_found_by_a_query_for_them(tmp_path: Path) -> None:
    """Nothing is said of nulls in ``__raw``, so no reader leaves a file out."""
    with open_world(tmp_path) as world:
        table = open_typed_table(world)
        table.take("typed")
        assert table.head.table.scan(row_filter="__raw is null").to_arrow().num_rows == 1


def test_a_commit_fails_if_another_process_partitioned_the_table_meanwhile(tmp_path: Path) -> None:
    """Its files have the values of a spec that would not be the table's."""
    with open_world(tmp_path) as world:
        table = open_typed_table(world)
        table.take("typed")
        head = table.head
        with table.head.table.update_spec() as update:
            update.add_identity("city")
        assert head.reflected is not None
        schema = head.table.schema()
        placement = TablePlacement(TOPIC, parse_layout("amount"), [schema.find_field("amount").field_id])
        reflected = replace(head.reflected, layout=placement.layout)
        stale = table.latest.commit(
            head, reflected, add=[], remove=[], operation="test", schema=schema, placement=placement
        )
        assert stale is None


def test_a_commit_fails_if_another_process_changed_the_schema_meanwhile(tmp_path: Path) -> None:
    """Its files have the columns of a schema that is no more the table's."""
    with open_world(tmp_path) as world:
        table = open_typed_table(world)
        schema = table.evolve(WRITER_TYPES["typed"])
        head = table.head
        added = table.write("typed", schema)
        with table.head.table.update_schema() as update:
            update.add_column("other", StringType())
        assert head.reflected is not None
        stale = table.latest.commit(head, head.reflected, add=[added], remove=[], operation="test", schema=schema)
        assert stale is None
        assert "other" in table.head.table.schema().column_names
