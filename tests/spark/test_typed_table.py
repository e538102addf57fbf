"""Spark with Iceberg's runtime reads a typed table through every change of its columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.types import TimeType

from tests.integration.test_partitioned_table import alter_layout, create_partitioned, ingest, load_table
from tests.integration.test_typed_table import update
from tests.support.iceberg_spark import ask_spark
from tests.support.rest_catalog import serve_rest_catalog
from tests.support.typed_tables import WRITER_TYPES, open_typed_table
from tests.support.world import TOPIC, open_world
from winnow.pipeline.connect.connect import write_connection
from winnow.pipeline.latest.reader_names import ReaderName

TABLE = f"winnow.winnow_latest.{TOPIC}"


def test_spark_reads_rows_of_before_and_after_every_change_of_the_columns(tmp_path: Path) -> None:
    """Renamed, widened and second columns, nested ones too; a filter on undecoded bytes leaves no row out."""
    with open_world(tmp_path) as world:
        table = open_typed_table(world)
        for step in WRITER_TYPES:
            table.take(step)
        program = write_connection(world.installation, TOPIC, ReaderName.SPARK)
        columns = "town, amount, to_json(lines), city__long, id, to_json(rates), __offset"
        query = f"SELECT {columns} FROM {TABLE} WHERE __raw IS NULL AND __error IS NULL ORDER BY __offset"
        assert ask_spark(tmp_path, program, [query]) == [
            [
                ["Oslo", 2**31 - 1, '[{"n":1},null]', None, None, None, 100],
                [None, 2**40, f'[{{"n":{2**50},"sku":"a"}}]', 7, str(UUID(int=5)), '{"x":null}', 101],
                ["Rome", 3, "[]", None, None, None, 102],
            ]
        ]


def test_a_rest_catalog_takes_every_change_of_the_columns(tmp_path: Path) -> None:
    """Iceberg's own code checks it there, also the way back to bytes."""
    with serve_rest_catalog() as (_, address), open_world(tmp_path, lake={"WINNOW_CATALOG__URI": address}) as world:
        table = open_typed_table(world)
        for step in WRITER_TYPES:
            table.take(step)
        rows = table.head.table.scan().to_arrow().sort_by("__offset").select(["town", "amount"]).to_pylist()
        assert [(row["town"], row["amount"]) for row in rows] == [("Oslo", 2**31 - 1), (None, 2**40), ("Rome", 3)]
        table.return_to_bytes()
        assert table.head.table.scan().to_arrow().column("value").to_pylist() == [b"1"]


def test_spark_refuses_a_table_with_a_time_of_day_as_a_whole(tmp_path: Path) -> None:
    """Therefore a time of day is text; once Spark reads such a column, this test says so."""
    with open_world(tmp_path) as world:
        table = open_typed_table(world)
        table.take("typed")
        with table.head.table.update_schema() as update:
            update.add_column("clock", TimeType())
        program = write_connection(world.installation, TOPIC, ReaderName.SPARK)
        with pytest.raises(AssertionError, match="Spark does not support time fields"):
            ask_spark(tmp_path, program, [f"SELECT city FROM {TABLE}"])


def test_spark_and_pyiceberg_open_the_files_of_a_filter_alone(tmp_path: Path) -> None:
    """Without a filter both read every row, also in a table that was partitioned otherwise before."""
    with open_world(tmp_path) as world:
        create_partitioned(world, "")
        rows = [("Ulm", "2026-01-01T23:59:59Z"), ("Bonn", "2026-01-02T00:00:00Z"), (None, "1969-12-31T23:59:59Z")]
        ingest(world, {f"k{n}": {"address": {"city": city}, "at": at} for n, (city, at) in enumerate(rows)})
        address = {"type": "object", "properties": {"city": {"type": ["string", "null"]}}}
        at = {"type": "string", "format": "date-time"}
        schema: dict[str, Any] = {"type": "object", "properties": {"at": at, "address": address}}
        (tmp_path / "row.json").write_text(json.dumps(schema))
        formats = {"winnow_value_format": "json_schema", "winnow_value_schema": (tmp_path / "row.json").as_uri()}
        alter_layout(world, "bucket(4, address.city)", **formats)
        update(world)
        alter_layout(world, "days(at), address.city, bucket(4, key)", **formats)
        update(world)
        program = write_connection(world.installation, TOPIC, ReaderName.SPARK)
        every = f"SELECT key, address.city FROM {TABLE} ORDER BY key"
        by_day = f"SELECT key FROM {TABLE} WHERE at < timestamp'1970-01-01 00:00:00Z'"
        by_city = f"SELECT key FROM {TABLE} WHERE address.city = 'Ulm'"
        files = f"SELECT count(*) FROM {TABLE}.files"
        explained = [f"EXPLAIN COST {query}" for query in (by_day, by_city)]
        *answers, day_plan, city_plan = ask_spark(tmp_path, program, [every, by_day, by_city, files, *explained])
        assert "rowCount=1)" in day_plan[0][0], day_plan
        assert "rowCount=1)" in city_plan[0][0], city_plan
        assert answers == [[["k0", "Ulm"], ["k1", "Bonn"], ["k2", None]], [["k2"]], [["k0"]], [[3]]]
        table = load_table(world)
        for condition, key in (("at < '1970-01-01T00:00:00+00:00'", "k2"), ("address.city = 'Ulm'", "k0")):
            assert len(list(table.scan(condition).plan_files())) == 1
            assert table.scan(condition).to_arrow().column("key").to_pylist() == [key]
