"""Plain Avro container files: records with a Kafka record's fields, and values alone."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from winnow.errors import BadInputError
from winnow.files.record_batch import MAXIMUM_OFFSET, MAXIMUM_TIMESTAMP_MS, RECORD_SCHEMA
from winnow.sources.layouts.avro import read_avro, read_avro_fields
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, StoredObject


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


def make_schema(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


HEADER = {
    "type": "record",
    "name": "H",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": optional("bytes")}],
}
FULL = make_schema(
    topic="string",
    partition="int",
    offset="long",
    timestamp=optional("long"),
    timestampType=optional("int"),
    key=optional("bytes"),
    value=optional("bytes"),
    headers=optional({"type": "array", "items": HEADER}),
)


def write(path: Path, schema: Any, records: list[Any], codec: str = "deflate") -> ArchiveObject:
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, records, codec=codec)
    return describe(path)


def describe(path: Path, **named: Any) -> ArchiveObject:
    return ArchiveObject("avro", str(path), {"value": StoredObject(str(path), path.stat().st_size)}, **named)


def read(obj: ArchiveObject, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for chunk in read_avro(obj, ReadOptions(**options)):
        chunk.records.validate(full=True)
        assert chunk.records.schema == RECORD_SCHEMA
        topics = [None] * chunk.records.num_rows if chunk.topics is None else chunk.topics.to_pylist()
        rows += [{**row, "topic": topic} for row, topic in zip(chunk.records.to_pylist(), topics, strict=True)]
    assert [row["row"] for row in rows] == list(range(1, len(rows) + 1))
    return rows


def refuse(obj: ArchiveObject, **options: Any) -> str:
    with pytest.raises(BadInputError) as refused:
        read(obj, **options)
    assert "secret" not in str(refused.value)
    return str(refused.value)


def make_record(offset: int = 7, **changed: Any) -> dict[str, Any]:
    record = {"topic": "t", "partition": 2, "offset": offset, "timestamp": 5, "timestampType": 1, "key": b"\xff"}
    return {**record, "value": b"v", "headers": [{"key": "h", "value": None}, {"key": "h", "value": b""}], **changed}


def test_all_fields(tmp_path: Path) -> None:
    gone = make_record(8, key=None, value=None, timestamp=None, timestampType=None, headers=None)
    first, second = read(write(tmp_path / "a.avro", FULL, [make_record(), gone]))
    headers = [{"key": "h", "value": None}, {"key": "h", "value": b""}]
    where = {"topic": "t", "partition": 2}
    known = {"key": b"\xff", "value": b"v", "headers": headers, "timestamp": 5, "timestampType": 1}
    assert first == {**where, "row": 1, "offset": 7, **known}
    unknown: dict[str, Any] = {"key": None, "value": None, "headers": [], "timestamp": None, "timestampType": 0}
    assert second == {**where, "row": 2, "offset": 8, **unknown}


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz", "zstandard"])
def test_codecs(tmp_path: Path, codec: str) -> None:
    records = [make_record(offset) for offset in range(3000)]
    assert [row["offset"] for row in read(write(tmp_path / "a", FULL, records, codec))] == list(range(3000))


@pytest.mark.parametrize(
    "names",
    [
        {"key": "key", "value": "value", "offset": "offset"},
        {"key": "kafka_key", "value": "kafka_value", "offset": "_kafka_metadata_offset"},
        {"key": "recordKey", "value": "Value", "offset": "kafkaOffset"},
        {"key": "message_key", "value": "message_value", "offset": "record_offset"},
    ],
)
def test_usual_names(tmp_path: Path, names: dict[str, str]) -> None:
    schema = make_schema(**{names["key"]: "string", names["value"]: "bytes", names["offset"]: "long"})
    record = {names["key"]: "k", names["value"]: b"v", names["offset"]: 4}
    (row,) = read(write(tmp_path / "a", schema, [record]))
    assert (row["key"], row["value"], row["offset"], row["partition"]) == (b"k", b"v", 4, None)


@pytest.mark.parametrize(
    ("fields", "has_fields", "extra"),
    [
        (["key", "value"], True, ()),
        (["offset", "value"], True, ()),
        (["key", "value", "timestamp", "headers"], True, ()),
        (["offset", "value", "region"], True, ("region",)),
        (["key", "kafka_key", "value"], False, ()),
        (["key", "kafka_key", "value", "offset"], True, ("kafka_key",)),
        (["value"], False, ()),
        (["timestamp", "value"], False, ()),
        (["key", "value", "region"], False, ()),
        (["key", "offset", "partition"], False, ()),
    ],
)
def test_which_records_carry_a_kafka_records_fields(
    tmp_path: Path, fields: list[str], has_fields: bool, extra: tuple[str, ...]
) -> None:
    obj = write(tmp_path / "a", make_schema(**dict.fromkeys(fields, "int")), [])
    found = read_avro_fields(obj.parts["value"])
    assert bool(found.names) == has_fields
    assert found.extra == extra
    assert read(obj) == []


def test_forms(tmp_path: Path) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    for schema, form in [
        (optional("bytes"), FieldForm.BYTES),
        ({"type": "fixed", "name": "F", "size": 2}, FieldForm.BYTES),
        (optional("string"), FieldForm.TEXT),
        ({"type": "string", "avro.java.string": "String"}, FieldForm.TEXT),
        (["bytes", "string"], FieldForm.BYTES),
        (make_schema(a="int") | {"name": "Key"}, FieldForm.JSON),
        ("long", FieldForm.JSON),
        (decimal, FieldForm.JSON),
    ]:
        path = tmp_path / "a"
        fields = make_schema(key=schema, value={"type": "array", "items": "int"})
        assert read_avro_fields(write(path, fields, []).parts["value"]).forms["key"] is form
        assert read_avro_fields(write(path, schema, []).parts["value"]).forms == {"value": form}


def test_values_alone(tmp_path: Path) -> None:
    schema = make_schema(
        id="long",
        price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        tags={"type": "map", "values": "int"},
    )
    records = [{"id": 1, "price": Decimal("12.30"), "tags": {"ä": 1}}, {"id": 2, "price": Decimal("0.00"), "tags": {}}]
    path = tmp_path / "a"
    obj = write(path, schema, records)
    expected = ['{"id":1,"price":12.30,"tags":{"ä":1}}'.encode(), b'{"id":2,"price":0.00,"tags":{}}']
    assert [(row["key"], row["value"], row["offset"]) for row in read(obj)] == [(None, text, None) for text in expected]
    # The object's name tells what the records do not.
    named = describe(path, partition=3, first_offset=70)
    assert [(row["partition"], row["offset"]) for row in read(named, batch_bytes=1)] == [(3, 70), (3, 71)]
    assert "an offset too large" in refuse(describe(path, partition=3, first_offset=MAXIMUM_OFFSET))


def test_a_partition_of_the_name_fills_in_for_the_records(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, make_schema(offset="long", value="bytes"), [{"offset": 9, "value": b""}])
    assert [(row["partition"], row["offset"]) for row in read(describe(path, partition=1, first_offset=5))] == [(1, 9)]


def test_structures_become_json_text(tmp_path: Path) -> None:
    schema = make_schema(
        key=make_schema(id="int") | {"name": "K"}, value=optional(make_schema(at="double") | {"name": "V"})
    )
    rows = read(
        write(tmp_path / "a", schema, [{"key": {"id": 1}, "value": {"at": 1.0}}, {"key": {"id": 2}, "value": None}])
    )
    assert [(row["key"], row["value"]) for row in rows] == [(b'{"id":1}', b'{"at":1.0}'), (b'{"id":2}', None)]


def test_headers_as_a_map(tmp_path: Path) -> None:
    schema = make_schema(
        key="bytes", value="bytes", headers=optional({"type": "map", "values": ["null", "bytes", "string"]})
    )
    records = [
        {"key": b"", "value": b"", "headers": headers} for headers in (None, {}, {"b": b"\xff", "a": "ä", "c": None})
    ]
    expected = [{"key": "b", "value": b"\xff"}, {"key": "a", "value": "ä".encode()}, {"key": "c", "value": None}]
    assert [row["headers"] for row in read(write(tmp_path / "a", schema, records))] == [[], [], expected]


# ----------------------------------------------------------------------------------------------------------- timestamps

MOMENT = datetime(2026, 3, 1, 0, 47, 41, 52_000, tzinfo=UTC)
MOMENT_MS = 1772326061052


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("long", MOMENT_MS),
        ({"type": "long", "logicalType": "timestamp-millis"}, MOMENT),
        ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT),
        ("string", "2026-03-01T00:47:41.052Z"),
        ("string", "2026-03-01T01:47:41.052+01:00"),
    ],
)
def test_timestamps(tmp_path: Path, kind: Any, moment: Any) -> None:
    schema = make_schema(offset="long", value="bytes", timestamp=kind)
    (row,) = read(write(tmp_path / "a", schema, [{"offset": 1, "value": b"", "timestamp": moment}]))
    assert row["timestamp"] == MOMENT_MS


def test_finer_timestamps_are_rounded_down_if_asked_for(tmp_path: Path) -> None:
    schema = make_schema(offset="long", value="bytes", timestamp={"type": "long", "logicalType": "timestamp-micros"})
    moments = [MOMENT + timedelta(microseconds=999), datetime(1969, 12, 31, 23, 59, 59, 998_500, tzinfo=UTC)]
    obj = write(tmp_path / "a", schema, [{"offset": 1, "value": b"", "timestamp": moment} for moment in moments])
    assert "--timestamps floor" in refuse(obj)
    # -2 ms is before what a timestamp of Kafka can be; -1 would be none.
    assert "row 2" in refuse(obj, floors_timestamps=True)
    obj = write(tmp_path / "b", schema, [{"offset": 1, "value": b"", "timestamp": moments[0]}])
    assert read(obj, floors_timestamps=True)[0]["timestamp"] == MOMENT_MS


def test_no_timestamp(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a", FULL, [make_record(timestamp=-1)]))[0]["timestamp"] is None


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"partition": -1}, "row 2 (partition 4): its partition is no integer from 0 to 2147483647"),
        ({"offset": -1}, "its offset is no integer from 0"),
        ({"timestampType": 2}, "its timestampType is no integer from -1 to 1"),
        ({"timestamp": MAXIMUM_TIMESTAMP_MS + 1}, "its timestamp is outside of what Kafka can hold"),
        ({"timestamp": -2}, "its timestamp is outside of what Kafka can hold"),
    ],
)
def test_fields_out_of_range(tmp_path: Path, changed: dict[str, Any], expected: str) -> None:
    path = tmp_path / "a"
    write(path, FULL, [make_record(), make_record(**changed)])
    for size in (1, 1 << 20):
        message = refuse(describe(path, partition=4), batch_bytes=size)
        assert message.startswith(f"{path}, row 2 ")
        assert expected in message


@pytest.mark.parametrize(
    ("name", "kind", "content", "expected"),
    [
        ("partition", "string", "secret", "its partition is no integer"),
        ("timestamp", "string", "secret", "its timestamp is not a timestamp"),
        ("topic", "bytes", b"secret", "its topic is not text"),
        ("headers", "string", "secret", "its key, value or headers"),
        ("headers", {"type": "array", "items": "string"}, ["secret"], "its key, value or headers"),
    ],
)
def test_fields_of_other_types(tmp_path: Path, name: str, kind: Any, content: Any, expected: str) -> None:
    schema = make_schema(offset="long", value="bytes", **{name: kind})
    assert expected in refuse(write(tmp_path / "a", schema, [{"offset": 1, "value": b"", name: content}]))


def test_damage_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, FULL, [make_record(offset, value=b"secret" * 50) for offset in range(300)], "null")
    whole = path.read_bytes()
    rng = random.Random(3)
    for size in rng.sample(range(len(whole)), 100):
        path.write_bytes(whole[:size])
        assert str(path) in refuse(describe(path))
    damaged = 0
    for place in rng.sample(range(len(whole)), 300):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << rng.randrange(8))]) + whole[place + 1 :])
        try:
            read(describe(path))
        except BadInputError as refused:
            damaged += str(path) in str(refused)
    assert damaged > 0


def test_dates_without_a_counterpart(tmp_path: Path) -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    assert "damaged" in refuse(write(tmp_path / "a", schema, [10**17]))


# ------------------------------------------------------------------------------------------------------------- batches


def test_batches_are_bounded(tmp_path: Path) -> None:
    sizes = [10, 5000, 10, 10, 100_000, 10] * 20
    obj = write(tmp_path / "a", FULL, [make_record(number, value=b"x" * size) for number, size in enumerate(sizes)])
    chunks = [chunk.records for chunk in read_avro(obj, ReadOptions(batch_bytes=10_000))]
    assert [size for chunk in chunks for size in map(len, chunk.column("value").to_pylist())] == sizes
    assert all(chunk.nbytes < 11_000 or chunk.num_rows == 1 for chunk in chunks)
    assert len(chunks) < 100
