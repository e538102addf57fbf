"""Typed tables of archives of real programs: each row is what plain Python reads of the oracle's winner."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from oracle.latest_state import compute_latest_state
from tests.integration.test_archives import SAMPLES_THAT_GO_IN, ingest
from tests.integration.test_typed_table import SYSTEM, create, read_table, update
from tests.support.sample_archives import SAMPLES, load_dump, unpack_sample
from tests.support.world import World, define_world
from winnow.values.model import Record
from winnow.values.strategies import Strategy

world = define_world(in_the_present=True)
"""At the present, since snapshots have the real time."""

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "status", "type": ["null", "string"]},
        {"name": "total", "type": ["null", "double"]},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
    ],
}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "status": {"type": "string"},
        "total": {"type": "number"},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
}
PROTOBUF = (
    'syntax = "proto3"; message Order { int64 id = 1; string status = 2; double total = 3; repeated string lines = 4; }'
)


def encode_avro(document: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(ORDER), document)
    return stream.getvalue()


@cache
def make_message() -> Callable[..., Any]:
    """Protobuf's own class of the message, made without the text of its document."""
    field = descriptor_pb2.FieldDescriptorProto
    message = descriptor_pb2.DescriptorProto(name="Order")
    kinds = [field.TYPE_INT64, field.TYPE_STRING, field.TYPE_DOUBLE, field.TYPE_STRING]
    for number, (name, kind) in enumerate(zip(("id", "status", "total", "lines"), kinds, strict=True), 1):
        label = field.LABEL_REPEATED if name == "lines" else field.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3", message_type=[message]))
    made: Callable[..., Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
    return made


def encode_protobuf(document: dict[str, Any]) -> bytes:
    encoded: bytes = make_message()(**document).SerializeToString()
    return encoded


@dataclass(frozen=True)
class Encoding:
    """A format with a schema in a file; ``encode``: how a producer of it writes an order."""

    name: str
    schema: str
    encode: Callable[[dict[str, Any]], bytes]


ENCODINGS = (
    Encoding("avro", json.dumps(ORDER), encode_avro),
    Encoding("json_schema", json.dumps(JSON_SCHEMA), lambda document: json.dumps(document).encode()),
    Encoding("protobuf", PROTOBUF, encode_protobuf),
)
JSON_VALUES = {"winnow_value_format": "json", "winnow_keyless": "quarantine"}
DUMPS = ("orders-small", "orders-schema-deletes", "orders")


def check_rows(world: World, topic: str, documents: Callable[[Record], Any] | None = None) -> int:
    """Compare the table with the oracle's winners; return how many of them have a document with fields."""
    winners = compute_latest_state(world.read(topic=topic), Strategy.OFFSET, None).values()
    rows = {(row["__partition"], row["__offset"]): row for row in read_table(world, topic)}
    assert rows.keys() == {(winner.partition, winner.offset) for winner in winners}
    structured = 0
    for winner in winners:
        row = rows[winner.partition, winner.offset]
        shown = {name: value for name, value in row.items() if name not in SYSTEM and name != "key"}
        document = (documents or read_json)(winner)
        if document is UNREADABLE:
            assert row["__error"].startswith("value: ")
            assert row["__raw"] == winner.value
            assert not any(value is not None for value in shown.values())
            continue
        assert (row["__error"], row["__raw"], row["key"]) == (None, None, winner.key)
        assert is_same(document if isinstance(document, dict) else {"value": document}, shown), (document, shown)
        structured += isinstance(document, dict)
    return structured


UNREADABLE = object()


def read_json(winner: Record) -> Any:
    try:
        return json.loads((winner.value or b"").decode(), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return UNREADABLE


def is_same(document: Any, shown: Any) -> bool:
    """Whether ``shown`` has all of ``document``, each field in one of the columns of its name."""
    if not list_present(document):
        return not list_present(shown)
    match document:
        case dict() if isinstance(shown, dict):
            places = {name: [part for column, part in shown.items() if is_of(column, name)] for name in document}
            present = sum(len([part for part in parts if list_present(part)]) for parts in places.values())
            return present == len(list_present(shown)) and all(
                any(is_same(document[name], part) for part in parts) if list_present(document[name]) else True
                for name, parts in places.items()
            )
        case list() if isinstance(shown, list):
            return len(document) == len(shown) and all(map(is_same, document, shown))
    if isinstance(shown, str) and not isinstance(document, str):
        return bool(json.loads(shown) == document)  # what no column can hold is its text
    return bool(document == shown) and isinstance(document, bool) == isinstance(shown, bool)


def is_of(column: str, name: str) -> bool:
    return column == name or column.startswith(f"{name}__")


def list_present(value: Any) -> list[Any]:
    """What of a value is there; empty lists and objects tell nothing."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return [part for part in parts if (list_present(part) if isinstance(part, dict | list) else part is not None)]


@pytest.mark.parametrize("sample", SAMPLES_THAT_GO_IN, ids=lambda sample: f"{sample.name}-{sample.topic}")
def test_an_archive_becomes_the_table_that_plain_python_reads(world: World, tmp_path: Path, sample: Any) -> None:
    """JSON among values that are none: those are rows with their bytes."""
    dump = load_dump(sample.dump)
    create(world, **JSON_VALUES, topic=sample.topic, partitions=1 + max(place[0] for place in dump))
    unpack_sample(sample.name, tmp_path / "archive")
    ingest(world, sample.topic, [str(tmp_path / "archive" / sample.path)])
    update(world, sample.topic)
    assert check_rows(world, sample.topic) or sample.topic == "txn"


@pytest.mark.parametrize("name", ["rich-small.read_committed", "rich-small.read_uncommitted"])
def test_output_of_kcat_becomes_the_table(world: World, tmp_path: Path, name: str) -> None:
    """As the archives of sinks do."""
    path = tmp_path / "dump.json"
    path.write_bytes(gzip.decompress((SAMPLES / f"kcat/{name}.kcat-J.gz").read_bytes()))
    create(world, **JSON_VALUES, topic="rich-small", partitions=3)
    ingest(world, "rich-small", [str(path)])
    update(world, "rich-small")
    assert check_rows(world, "rich-small")


def test_json_of_confluents_sink_becomes_the_table(world: World, tmp_path: Path) -> None:
    """With the tombstones of unknown order at the end."""
    unpack_sample("sinks/confluent-json-keys", tmp_path / "archive")
    create(world, **JSON_VALUES, topic="orders", partitions=3)
    ingest(world, "orders", [str(tmp_path / "archive")], tombstones="last")
    update(world, "orders")
    assert check_rows(world, "orders")


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.name)
@pytest.mark.parametrize("name", DUMPS)
def test_orders_in_every_format_become_the_table(world: World, tmp_path: Path, name: str, encoding: Encoding) -> None:
    """The records of a topic as producers of other formats would have written them."""
    schema = tmp_path / "schema"
    schema.write_text(encoding.schema)
    dump = load_dump(f"sinks/{name}.read_committed")
    config = {"winnow_value_format": encoding.name, "winnow_value_schema": schema.as_uri()}
    create(world, topic=name, partitions=1 + max(place[0] for place in dump), **config)
    documents: dict[tuple[int, int], Any] = {}
    records = []
    for (partition, offset), row in sorted(dump.items()):
        value = row["value"]
        if value is not None:
            document = json.loads(base64.b64decode(value))
            document = document.get("payload", document)
            documents[partition, offset] = {field["name"]: document.get(field["name"]) for field in ORDER["fields"]}
            value = encoding.encode(documents[partition, offset])
        records.append(Record(offset, base64.b64decode(row["key"]), value, row["timestamp"], None, partition=partition))
    world.ingest(records, topic=name)
    update(world, name)
    assert check_rows(world, name, lambda winner: documents[winner.partition, winner.offset])
