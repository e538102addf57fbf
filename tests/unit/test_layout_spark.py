"""What Spark writes of the records of its Kafka source is read without loss."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.sample_archives import list_rows, load_dump, make_archive, select_fields, unpack_sample
from winnow.errors import BadInputError, WinnowError
from winnow.sources.formats.encoding import EncodingEvidence, decode_fields
from winnow.sources.layouts.spark import SparkName, find_spark_forms, is_spark_file, parse_path, read_spark
from winnow.sources.objects import FieldForm, ReadOptions, RecordChunk, StoredObject

SMALL = ReadOptions(batch_bytes=60_000)

RICH = load_dump("kcat/rich-small.read_committed")


def find_forms(path: Path) -> dict[str, FieldForm] | None:
    return find_spark_forms(StoredObject(str(path), path.stat().st_size))


def read(path: Path, options: ReadOptions = SMALL, partition: int | None = None) -> list[RecordChunk]:
    archive = make_archive("spark", path, partition=partition, forms=find_forms(path))
    chunks = list(read_spark(archive, options))
    evidence = EncodingEvidence()
    for chunk in chunks:
        evidence.add_chunk(archive, chunk)
    return [decode_fields(archive, chunk, evidence.decide()) for chunk in chunks]


def sort_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def test_parquet_loses_nothing(tmp_path: Path) -> None:
    paths = unpack_sample("spark/parquet-by-topic.rich-small", tmp_path)
    assert {parse_path(str(path)) for path in paths} == {SparkName("rich-small", None)}
    assert all(is_spark_file(path.name) for path in paths)
    chunks = [chunk for path in paths for chunk in read(path)]
    assert len(chunks) > 3
    assert sort_rows(list_rows(chunks)) == select_fields(RICH)


def test_parquet_of_text_by_date(tmp_path: Path) -> None:
    paths = unpack_sample("spark/parquet-text-by-date", tmp_path)
    assert {parse_path(str(path)) for path in paths} == {SparkName(None, None)}
    assert find_forms(paths[0]) == {"key": FieldForm.TEXT, "value": FieldForm.TEXT}
    rows = sort_rows(list_rows(chunk for path in paths for chunk in read(path)))
    assert {len(row.pop("headers")) for row in rows} == {0}
    assert rows == select_fields(load_dump("sinks/orders.read_committed"), "headers")


def write_json(record: dict[str, Any]) -> str:
    """A record as Spark writes it: binary as base64, null columns left out."""
    moment = dt.datetime.fromtimestamp(record["timestamp"] // 1000, dt.UTC)
    columns = {
        "key": record["key"],
        "value": record["value"],
        "partition": record["partition"],
        "offset": record["offset"],
        "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}.{record['timestamp'] % 1000:03}Z",
        "timestampType": 0,
        "headers": [
            {name: each for name, each in (("key", key), ("value", value)) if each is not None}
            for key, value in record["headers"]
        ]
        or None,
    }
    return json.dumps({name: value for name, value in columns.items() if value is not None})


def test_json_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "part-00000-3a48a3c1.c000.json.gz"
    path.write_bytes(gzip.compress("".join(write_json(record) + "\n" for record in RICH.values()).encode()))
    assert set((find_forms(path) or {}).values()) == {FieldForm.TEXT_OR_BASE64}
    assert sort_rows(list_rows(read(path))) == select_fields(RICH)


def test_json_with_text_and_structures(tmp_path: Path) -> None:
    path = tmp_path / "part-0.json"
    lines = [
        '{"topic":"t","key":"order-1","value":{"id":1,"total":1.50},"offset":0,"timestamp":"2026-03-01T01:00:00.5+01:00"}',
        '{"topic":"t","key":"order-2","offset":1,"timestamp":"2026-03-01T00:00:01Z"}',
    ]
    path.write_text("\n".join(lines))
    chunks = read(path, partition=4)
    first, second = (row for chunk in chunks for row in chunk.records.to_pylist())
    assert (first["key"], first["value"], first["timestamp"]) == (b"order-1", b'{"id":1,"total":1.50}', 1772323200500)
    assert (second["value"], second["partition"], second["headers"]) == (None, 4, [])
    assert chunks[0].topics == pa.array(["t", "t"])


def write_parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table({"value": [b"v"], **columns}), path)
    return path


def test_timestamps_finer_than_a_millisecond(tmp_path: Path) -> None:
    stamps = pa.array([-1_000_001], pa.timestamp("ns"))
    path = write_parquet(tmp_path / "part-0.parquet", offset=[1], timestamp=stamps)
    with pytest.raises(BadInputError, match=r"row 1: timestamp is not a whole number .*--timestamps floor"):
        read(path)
    with pytest.raises(BadInputError, match="timestamp is out of range"):
        read(path, ReadOptions(floors_timestamps=True))
    path = write_parquet(
        tmp_path / "part-0.parquet", offset=[1], timestamp=pa.array([1_999_999], pa.timestamp("ns", "UTC"))
    )
    assert list_rows(read(path, ReadOptions(floors_timestamps=True)))[0]["timestamp"] == 1


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ({"offset": [-1]}, "row 1: offset is out of range"),
        ({"offset": pa.array([2**63], pa.uint64())}, "row 1: offset is out of range"),
        ({"offset": [1], "partition": [2**31]}, "row 1: partition is out of range"),
        ({"offset": [1], "partition": [-1]}, "row 1: partition is out of range"),
        ({"offset": ["1"]}, "column offset is of type string"),
        ({"offset": [1], "timestamp": ["1"]}, "column timestamp is of type string"),
        ({"offset": [1], "timestampType": [2]}, "timestampType is out of range"),
        ({"offset": [1], "headers": [1]}, "its headers are of type int64"),
        ({"offset": [1], "headers": [[{"key": None, "value": b""}]]}, "a header has no name"),
    ],
)
def test_columns_are_checked(tmp_path: Path, columns: dict[str, Any], wrong: str) -> None:
    with pytest.raises(BadInputError, match=wrong):
        read(write_parquet(tmp_path / "part-0.parquet", **columns))


def test_values_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"key": [b"a"], "offset": [1]}), path)
    assert find_forms(path) is None
    with pytest.raises(BadInputError, match="it has no column value, only 'key', 'offset'"):
        list(read_spark(make_archive("spark", path), SMALL))


def test_records_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "part-0.json"
    path.write_text('{"id":1}\n')
    assert find_forms(path) is None
    with pytest.raises(BadInputError, match="line 1: it has none of the columns partition, offset and timestamp"):
        list(read_spark(make_archive("spark", path), SMALL))


def test_damage_is_an_error_of_ours(tmp_path: Path) -> None:
    source = unpack_sample("spark/parquet-by-topic.rich-small", tmp_path / "whole")[0]
    data = source.read_bytes()
    path = tmp_path / source.name
    choice = random.Random(3)
    for share in (0.1, 0.5, 0.99):
        path.write_bytes(data[: int(len(data) * share)])
        with pytest.raises(BadInputError, match=source.name):
            read(path)
    for _ in range(60):
        damaged = bytearray(data)
        damaged[choice.randrange(len(damaged))] ^= 1 << choice.randrange(8)
        path.write_bytes(damaged)
        # Most damage shows; some only changes a value.
        with suppress(WinnowError):
            read(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("archive/topic=orders/part-0.parquet", SparkName("orders", None)),
        ("archive/topic=a%3Ab/partition=12/part-0.parquet", SparkName("a:b", 12)),
        ("archive/date=2026-03-01/hour=1/part-0.json", SparkName(None, None)),
        ("topic=__HIVE_DEFAULT_PARTITION__/partition=x/part-0.json", SparkName(None, None)),
        ("part-0.json", SparkName(None, None)),
        ("partition=99999999999/part-0.json", SparkName(None, None)),
    ],
)
def test_folders_tell_topic_and_partition(path: str, expected: SparkName) -> None:
    assert parse_path(path) == expected
