"""``winnow latest-table update --engine spark``: real applications make the table that one process makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.world import TOPIC, World, open_world, record
from winnow.log.topic_configuration import set_config

SECRET = "sixteen bytes of secret"


def make_lake(folder: Path) -> None:
    with open_world(folder) as world:
        world.create(2)
        config = {
            "winnow.latest.table": "true",
            "winnow.key.format": "string",
            "winnow.value.format": "json",
            "winnow.latest.fields": "city,email:hmac,visits",
        }
        set_config(world.installation.log.open(TOPIC), config, [])
        rows = []
        for partition in range(2):
            for offset in range(500):
                value: dict[str, Any] = {"city": f"c{offset % 7}", "email": f"{offset}@example.com", "ssn": "078"}
                value |= {"visits": offset} if partition else {}
                key = f"k{offset % 400}".encode()
                rows.append(replace(record(offset, key, json.dumps(value).encode()), partition=partition))
        world.ingest(rows)


def update(folder: Path, engine: str) -> tuple[str, list[dict[str, Any]]]:
    environment = os.environ | {
        "WINNOW_HOME": str(folder / "home"),
        "WINNOW_SPARK__MASTER": "local[2]",
        "WINNOW_LATEST__SECRET": SECRET,
    }
    command = [sys.executable, "-m", "winnow.cli", "latest-table", "update", TOPIC, "--engine", engine]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    with open_world(folder) as world:
        return ended.stdout, read_rows(world)


def read_rows(world: World) -> list[dict[str, Any]]:
    rows = world.installation.log.catalog.load_table(("winnow_latest", TOPIC)).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["__partition"], row["__offset"]))


def test_an_application_makes_the_rows_of_one_process(tmp_path: Path) -> None:
    """Of two partitions with other columns, masked; the first application finds the columns, the second writes."""
    for engine in ("local", "spark"):
        make_lake(tmp_path / engine)
    said, expected = update(tmp_path / "local", "local")
    said_by_spark, rows = update(tmp_path / "spark", "spark")
    assert len(expected) == 800
    assert rows == expected
    assert said_by_spark.partition(":")[2] == said.partition(":")[2]
    staging = tmp_path / "spark" / "home" / "staging"
    assert not [path for path in staging.rglob("*") if path.is_file()]
