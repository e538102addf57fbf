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
    """All others are deleted first. Without a filter both read every row, after a change of the layout, too."""
    with open_world(tmp_path) as world:
        create_partitioned(world, "days(at), bucket(4, address.city)")
        rows = [("Ulm", "2026-01-01T23:59:59Z"), ("Bonn", "2026-01-02T00:00:00Z"), (None, "1969-12-31T23:59:59Z")]
        ingest(world, {f"k{n}": {"address": {"city": city}, "at": at} for n, (city, at) in enumerate(rows)})
        address = {"type": "object", "properties": {"city": {"type": ["string", "null"]}}}
        at = {"type": "string", "format": "date-time"}
        schema: dict[str, Any] = {"type": "object", "properties": {"at": at, "address": address}}
        (tmp_path / "row.json").write_text(json.dumps(schema))
        formats = {"winnow_value_format": "json_schema", "winnow_value_schema": (tmp_path / "row.json").as_uri()}
        alter_layout(world, "days(at), bucket(4, address.city)", **formats)
        update(world)
        program = write_connection(world.installation, TOPIC, ReaderName.SPARK)
        every = f"SELECT key, address.city FROM {TABLE} ORDER BY key"
        by_day = f"SELECT key FROM {TABLE} WHERE at < timestamp'1970-01-01 00:00:00Z'"
        by_city = f"SELECT key FROM {TABLE} WHERE address.city = 'Ulm'"
        files = f"SELECT count(*) FROM {TABLE}.files"
        expected = [["k0", "Ulm"], ["k1", "Bonn"], ["k2", None]]
        answers = ask_spark(tmp_path, program, [every, by_day, by_city, files])
        assert answers == [expected, [["k2"]], [["k0"]], [[3]]]
        table = load_table(world)
        for name, value in (("at < '1970-01-01T00:00:00+00:00'", "k2"), ("address.city = 'Ulm'", "k0")):
            assert table.scan(name).to_arrow().column("key").to_pylist() == [value]
        ulm = {task.file.file_path for task in table.scan("address.city = 'Ulm'").plan_files()}
        assert len(ulm) == 1
        alter_layout(world, "address.city", **formats)
        update(world)
        assert ask_spark(tmp_path, program, [every, by_city, files]) == [expected, [["k0"]], [[3]]]
        for task in load_table(world).scan().plan_files():
            if task.file.partition[1] != "Ulm":
                Path(task.file.file_path.removeprefix("file://")).unlink()
        assert ask_spark(tmp_path, program, [by_city]) == [[["k0"]]]
        assert load_table(world).scan("address.city = 'Ulm'").to_arrow().column("key").to_pylist() == ["k0"]
