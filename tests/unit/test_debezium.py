"""Change events become rows of their table."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.test_debezium_oracle import load_rows, read_row_of
from tests.support.sample_archives import load_dump
from winnow.schemas.debezium import unwrap_payload, unwrap_row_type, unwrap_rows
from winnow.schemas.json_values import JsonDecoder

ROW = {"id": 1, "name": "a"}


def decode(events: list[Any]) -> list[tuple[list[int], pa.StructArray]]:
    datums = pa.array([json.dumps(event).encode() for event in events], pa.binary())
    return [(group.positions.to_pylist(), group.rows) for group in JsonDecoder().decode(datums).groups]


def decode_all(events: list[Any]) -> pa.StructArray:
    ((_, rows),) = decode(events)
    return rows


@pytest.mark.parametrize("wrapped", [False, True])
def test_events_are_rows_deletes_or_neither(wrapped: bool) -> None:
    """With schemas and without; of a truncated table, or without the row that it says to have, an event is neither."""
    events: list[Any] = [
        {"op": "c", "before": None, "after": ROW},
        {"op": "d", "before": ROW, "after": None},
        {"op": "u", "before": ROW, "after": {"id": 1, "name": None}},
        {"op": "r", "after": ROW},
        {"op": "t"},
        {"op": "u", "before": ROW, "after": None},
        {"after": ROW},
        {"op": "d", "before": ROW, "after": ROW},
    ]
    if wrapped:
        events = [{"schema": {"type": "struct"}, "payload": event} for event in events]
        events.append({"schema": {"type": "struct"}, "payload": None})
    unwrapped = unwrap_rows(decode_all(events))
    assert unwrapped.positions.to_pylist() == [0, 2, 3]
    assert unwrapped.rows.to_pylist() == [ROW, {"id": 1, "name": None}, ROW]
    assert unwrapped.rows.type == unwrap_row_type(decode_all(events).type)
    assert unwrapped.deleted.to_pylist() == [1, 7]
    assert unwrapped.others.to_pylist() == [4, 5, 6, *range(8, len(events))]


def test_fields_of_the_event_stand_behind_those_of_its_row() -> None:
    """One that no event has is no column; a row that has the name keeps it."""
    events = [
        {"op": "c", "after": ROW, "source": {"lsn": 7, "db": "shop"}, "ts_ms": 5},
        {"op": "d", "before": ROW, "after": None, "source": {"lsn": 8}},
        {"op": "u", "after": ROW, "source": None},
    ]
    unwrapped = unwrap_rows(decode_all(events), ["op", "source.lsn", "source.lsn.more", "nothing"])
    assert unwrapped.rows.to_pylist() == [
        {**ROW, "op__event": "c", "source_lsn__event": 7},
        {**ROW, "op__event": "u", "source_lsn__event": None},
    ]
    taken = unwrap_rows(decode_all([{"op": "c", "after": {"op__event": 1}}]), ["op"])
    assert taken.rows.to_pylist() == [{"op__event": 1}]


@pytest.mark.parametrize(
    "events",
    [[ROW], ["text"], [{"op": 5, "after": ROW}], [{"op": "c", "after": "x"}], [{"op": "c"}], [{"payload": ROW}]],
)
def test_rows_that_are_no_envelopes_are_found(events: list[Any]) -> None:
    """None of them is taken for a delete."""
    rows = decode_all(events)
    unwrapped = unwrap_rows(rows)
    assert unwrap_row_type(rows.type) is None
    assert (len(unwrapped.rows), unwrapped.deleted.to_pylist(), unwrapped.others.to_pylist()) == (0, [], [0])


def test_events_that_only_delete_are_envelopes_without_a_row() -> None:
    """The type told from them has no ``after``."""
    rows = decode_all([{"op": "d", "before": ROW, "after": None}])
    assert unwrap_row_type(rows.type) == pa.struct([])
    assert unwrap_rows(rows).deleted.to_pylist() == [0]


def test_the_payload_of_a_key_is_the_key() -> None:
    """A key without a wrapper stays as it is."""
    wrapped = decode_all([{"schema": {"type": "struct"}, "payload": {"id": 1}}])
    assert unwrap_payload(wrapped).to_pylist() == [{"id": 1}]
    for key in ({"id": 1}, {"payload": {"id": 1}}):
        assert unwrap_payload(decode_all([key])).to_pylist() == [key]


def test_the_latest_rows_of_all_events_are_the_databases_table() -> None:
    """As PostgreSQL wrote it; deletes by event and by tombstone."""
    events = sorted(load_dump("debezium/plain.public.customers").values(), key=lambda e: (e["partition"], e["offset"]))
    changes = [event for event in events if event["value"] is not None]
    latest: dict[int, dict[str, Any] | None] = {}
    for positions, rows in decode([json.loads(base64.b64decode(event["value"])) for event in changes]):
        unwrapped = unwrap_rows(rows)
        assert not len(unwrapped.others)
        for position, row in zip(unwrapped.positions.to_pylist(), unwrapped.rows.to_pylist(), strict=True):
            changes[positions[position]]["row"] = row
    for event in events:
        key = json.loads(base64.b64decode(event["key"]))["id"]
        latest[key] = event.get("row")
    assert {key: read_row_of(row) for key, row in latest.items() if row is not None} == load_rows()
