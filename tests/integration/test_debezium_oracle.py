"""Change events of a database, ingested and compacted, are the database's table: Debezium is the oracle.

A quarter of the keys of a real run of Debezium on PostgreSQL: a snapshot, inserts, updates, deletes with tombstones,
primary keys that change and come back; and the rows of the table at its end, as PostgreSQL's row_to_json writes them.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_archives import SAMPLES, load_dump
from tests.support.world import FakeClock, World, open_world
from winnow.log.topic_configuration import set_config
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.latest.table import update_latest_table
from winnow.values.model import Record

TOPIC = "plain.public.customers"
DAY_MS = 86_400_000
LAST_CHANGE_MS = 1_795_400_000_000
"""Later than all of them."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, FakeClock(LAST_CHANGE_MS)) as opened:
        opened.create(3, TOPIC, min_cleanable_dirty_ratio="0.01", segment_ms=str(DAY_MS))
        yield opened


def load_rows() -> dict[int, dict[str, Any]]:
    """The table's rows by primary key."""
    with gzip.open(SAMPLES / "debezium" / "customers.rows.jsonl.gz") as stream:
        rows = [json.loads(line, parse_float=Decimal) for line in stream]
    return {row["id"]: {**row, "created": datetime.fromisoformat(row["created"])} for row in rows}


def write_events(path: Path, events: list[dict[str, Any]]) -> str:
    """Change events as Winnow's JSON lines."""
    lines = [
        {**event, "timestampType": 0, "headers": [{"key": name, "value": value} for name, value in event["headers"]]}
        for event in events
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def read_row_of(after: Mapping[str, Any]) -> dict[str, Any]:
    """What an event's ``after`` says, as row_to_json writes it.

    The connector writes decimals, dates and times as text (decimal.handling.mode=string,
    time.precision.mode=isostring; with a Z that a date and a timestamp without zone do not have, and six digits of a
    fraction), bytes in base64, and jsonb as text.
    """
    row = dict(after)
    if row["balance"] is not None:
        row["balance"] = Decimal(row["balance"])
    if isinstance(row["rating"], float):
        row["rating"] = Decimal(repr(row["rating"]))
    if row["profile"] is not None:
        row["profile"] = json.loads(row["profile"], parse_float=Decimal)
    if row["photo"] is not None:
        row["photo"] = "\\x" + base64.b64decode(row["photo"]).hex()
    for name in ("born", "seen"):
        if row[name] is not None:
            row[name] = row[name].removesuffix("Z")
    row["created"] = datetime.fromisoformat(row["created"])
    return row


def read_table(world: World) -> dict[int, dict[str, Any] | None]:
    """The log as a table: ``after`` of the only record of each key, None for a tombstone."""
    found: dict[int, dict[str, Any] | None] = {}
    records: list[Record] = world.read(topic=TOPIC)
    for each in records:
        key = json.loads(each.key or b"")["id"]
        assert key not in found
        found[key] = None if each.value is None else read_row_of(json.loads(each.value)["after"])
    return found


def test_a_compacted_log_of_change_events_is_the_table(world: World, tmp_path: Path) -> None:
    events = list(load_dump("debezium/plain.public.customers").values())
    rows = load_rows()
    events.sort(key=lambda event: event["timestamp"])
    middle = len(events) // 2
    for number, part in enumerate([events[:middle], events[middle:]]):
        part.sort(key=lambda event: (event["partition"], event["offset"]))
        path = write_events(tmp_path / f"events-{number}.jsonl", part)
        report = ingest_files(world.installation, TOPIC, [path], as_of_ms=LAST_CHANGE_MS)
        assert report.records_appended == len(part)
        world.clock.now_ms += 2 * DAY_MS
        assert world.compact(topic=TOPIC, attempt=f"a{number}") is not None
    table = read_table(world)
    deleted = {key for key, row in table.items() if row is None}
    assert len(events) == 2205
    assert len(deleted) > 100
    assert {key: row for key, row in table.items() if row is not None} == rows

    world.clock.now_ms += 30 * DAY_MS
    assert world.compact(topic=TOPIC, attempt="a2") is not None
    assert read_table(world) == rows


@pytest.mark.parametrize("tombstones", [True, False], ids=["tombstones", "deletes-alone"])
def test_the_typed_table_of_change_events_is_the_table(world: World, tmp_path: Path, *, tombstones: bool) -> None:
    """With Debezium's envelope taken off: after each half, by one update and by the next; deleted rows are none.

    Some connectors write no tombstone behind the event of a deleted row.
    """
    config = {
        "winnow.latest.table": "true",
        "winnow.key.format": "json",
        "winnow.value.format": "json",
        "winnow.value.envelope": "debezium",
        "winnow.value.envelope.fields": "op,source.lsn,source.nowhere",
    }
    set_config(world.installation.log.open(TOPIC), config, [])
    dump = load_dump("debezium/plain.public.customers").values()
    events = sorted((event for event in dump if tombstones or event["value"]), key=lambda event: event["timestamp"])
    middle = len(events) // 2
    for number, part in enumerate([events[:middle], events[middle:]]):
        part.sort(key=lambda event: (event["partition"], event["offset"]))
        path = write_events(tmp_path / f"events-{number}.jsonl", part)
        ingest_files(world.installation, TOPIC, [path], as_of_ms=LAST_CHANGE_MS)
        done = update_latest_table(world.installation, TOPIC)
        assert (done.rebuilt is None, done.rows_not_decoded) == (number == 1, 0)
    assert read_typed_table(world) == load_rows()
    of_events = {row["id"]: (row["op__event"], row["source_lsn__event"]) for row in read_rows(world)}
    newest = {
        key: (event["op"], event["source"]["lsn"])
        for event in (json.loads(base64.b64decode(event["value"])) for event in events if event["value"])
        if (key := (event["after"] or event["before"])["id"]) in of_events
    }
    assert of_events == newest


def read_rows(world: World) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        world.installation.log.catalog.load_table(("winnow_latest", TOPIC)).scan().to_arrow().to_pylist()
    )
    return rows


def read_typed_table(world: World) -> dict[int, dict[str, Any]]:
    """A field whose JSON type changed has two columns, of which a row has one."""
    rows = {}
    names = next(iter(load_rows().values()))
    for row in read_rows(world):
        shown: dict[str, Any] = {
            name: next(
                (value for column, value in row.items() if column.partition("__")[0] == name and value is not None),
                None,
            )
            for name in names
        }
        rows[shown["id"]] = read_row_of(shown)
    return rows
