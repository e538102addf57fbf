"""The table of the latest state, partitioned by columns: each file has rows of one place, and readers skip the others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform

from tests.integration.test_typed_table import KEEPS, alter, create, read_table, update
from tests.support.world import TOPIC, World, define_world, open_world, record
from winnow.errors import ConfigurationError, UsageError
from winnow.files import placed_files
from winnow.log import table_placement
from winnow.log.topic_configuration import set_config
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.deletion import delete_topic, restore_topic

world = define_world(in_the_present=True)
"""At the present, since snapshots have the real time."""

JSON = {"winnow_value_format": "json", "winnow_key_format": "string"}


def alter_layout(world: World, text: str, **config: str) -> None:
    """Give the table this layout, and the topic what else is named, with dots for underscores."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    set_config(world.installation.log.open(TOPIC), {**KEEPS, **named, "winnow.latest.partition_by": text}, [])


def create_partitioned(world: World, text: str, **config: str) -> None:
    create(world, partitions=1)
    alter_layout(world, text, **{**JSON, **config})


def load_table(world: World) -> Table:
    table: Table = world.installation.log.catalog.load_table(("winnow_latest", TOPIC))
    return table


def ingest(world: World, rows: dict[str, dict[str, Any] | None], *, first: int | None = None) -> None:
    begin = world.state(0).log_end_offset if first is None else first
    world.ingest(
        [
            record(begin + place, key.encode(), None if row is None else json.dumps(row).encode())
            for place, (key, row) in enumerate(rows.items())
        ]
    )


def list_files(world: World) -> list[dict[str, Any]]:
    """Each data file: the values of its place, the rows in it, and the field ids that have bounds."""
    table = load_table(world)
    files = []
    for task in table.scan().plan_files():
        assert task.file.spec_id == table.metadata.default_spec_id
        files.append(
            {
                "place": tuple(task.file.partition[number] for number in range(1, len(table.spec().fields))),
                "rows": pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist(),
                "lower": task.file.lower_bounds.keys(),
                "upper": task.file.upper_bounds.keys(),
                "path": task.file.file_path,
            }
        )
    return files


def test_each_place_has_files_of_its_own_and_a_row_that_moves_leaves_the_former(world: World) -> None:
    create_partitioned(world, "city, bucket(4, visits)")
    ingest(world, {"anna": {"city": "Ulm", "visits": 1}, "bert": {"city": "Bonn", "visits": 1}, "carl": {"visits": 2}})
    update(world)
    assert {file["place"][0] for file in list_files(world)} == {"Ulm", "Bonn", None}
    assert [str(field.transform) for field in load_table(world).spec().fields] == ["identity", "identity", "bucket[4]"]
    ingest(world, {"anna": {"city": "Bonn", "visits": 1}, "dora": None, "carl": None})
    assert update(world).rebuilt is None
    assert {file["place"][0] for file in list_files(world)} == {"Bonn"}
    assert [(row["key"], row["city"]) for row in read_table(world)] == [("bert", "Bonn"), ("anna", "Bonn")]
