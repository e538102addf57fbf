"""Envelopes of Lenses' sinks: made here as their source code makes them, from a real topic."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.sample_archives import decode, list_rows, load_dump, make_archive, select_fields, store_bytes
from winnow.errors import BadInputError
from winnow.sources.formats.encoding import EncodingEvidence, Reading, decode_fields
from winnow.sources.layouts.lenses import LensesName, find_lenses_forms, parse_name, read_lenses
from winnow.sources.objects import FieldForm, ReadOptions, RecordChunk, StoredObject

SMALL = ReadOptions(batch_bytes=40_000)

RICH = load_dump("kcat/rich-small.read_committed")
RECORDS = [record for _, record in sorted(RICH.items())]


def read(path: Path, data: bytes) -> tuple[dict[str, Reading], list[RecordChunk]]:
    obj = store_bytes(path, data)
    archive = make_archive("lenses", obj, forms=find_lenses_forms(obj))
    chunks = list(read_lenses(archive, SMALL))
    evidence = EncodingEvidence()
    for chunk in chunks:
        evidence.add_chunk(archive, chunk)
    readings = evidence.decide()
    return readings, [decode_fields(archive, chunk, readings) for chunk in chunks]


def make_metadata(record: dict[str, Any]) -> dict[str, Any]:
    names = ("timestamp", "partition", "offset")
    return {"topic": "rich-small", **{name: record[name] for name in names}}


def make_envelope(record: dict[str, Any], *, marks: bool) -> dict[str, Any]:
    """What the sink makes of bytes, without a schema (marked) or with one."""
    envelope: dict[str, Any] = {"headers": dict(record["headers"]), "metadata": make_metadata(record)}
    for name in ("value", "key"):
        envelope[name] = record[name]
        if marks and record[name] is not None:
            envelope[f"{name}IsArray"] = True
    return envelope


def expect_rows() -> list[dict[str, Any]]:
    """The topic, but for repeated headers: the last one is left, at the place of the first."""
    rows = select_fields(RICH)
    for row in rows:
        row["headers"] = list(dict(row["headers"]).items())
    return rows


@pytest.mark.parametrize("marks", [True, False])
def test_json_loses_only_repeated_headers(tmp_path: Path, marks: bool) -> None:
    data = "".join(json.dumps(make_envelope(record, marks=marks)) + "\n" for record in RECORDS)
    readings, chunks = read(tmp_path / "000000000003_1_2.json", data.encode())
    assert readings["key"] is readings["value"] is (Reading.TEXT if marks else Reading.BASE64)
    assert len(chunks) > 3
    assert list_rows(chunks) == expect_rows()
    assert {topic for chunk in chunks if chunk.topics is not None for topic in chunk.topics.to_pylist()} == {
        "rich-small"
    }


LINE = (
    '{"headers":{"h1":"record1","h2":1},"metadata":{"partition":1,"offset":%d,"topic":"myTopic","timestamp":10001},'
    '"value":%s,"key":{"name":"sam","salary":100.430}}'
)


def test_structures_become_json_text(tmp_path: Path) -> None:
    data = "\n".join((LINE % (1, '{"title": null}'), LINE % (2, "null"), LINE % (3, "1.50"))).encode()
    _, chunks = read(tmp_path / "a.json", data)
    rows = chunks[0].records.to_pylist()
    assert [row["value"] for row in rows] == [b'{"title":null}', None, b"1.50"]
    assert rows[0]["key"] == b'{"name":"sam","salary":100.430}'
    assert rows[0]["headers"] == [{"key": "h1", "value": b"record1"}, {"key": "h2", "value": b"1"}]
    assert (rows[0]["partition"], rows[0]["offset"], rows[0]["timestamp"]) == (1, 1, 10001)
    assert chunks[0].structured == {"key", "value", "headers"}


def test_marked_bytes_must_be_base64(tmp_path: Path) -> None:
    line = '{"key":"YQ==","keyIsArray":true,"value":"?","valueIsArray":true,"metadata":{"partition":1,"offset":2}}'
    with pytest.raises(BadInputError, match="line 1: its value is marked as bytes, but is not base64"):
        read(tmp_path / "a.json", line.encode())


def test_what_lacks_value_or_metadata_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="line 1: its envelope has no value"):
        read(tmp_path / "a.json", b'{"key":"a","metadata":{"partition":1,"offset":2}}')
    with pytest.raises(BadInputError, match="line 2: this is not a record"):
        read(tmp_path / "a.json", (LINE % (1, "2") + '\n{"id":1}').encode())


@pytest.mark.parametrize("cut", [-1, -30, -100])
def test_a_cut_off_line_is_named(tmp_path: Path, cut: int) -> None:
    data = (LINE % (1, "2") + "\n" + LINE % (2, '"x"'))[:cut]
    with pytest.raises(BadInputError, match=r"line 2: this is not a record.*cut off"):
        read(tmp_path / "a.json", data.encode())


METADATA_SCHEMA = {
    "type": "record",
    "name": "Metadata",
    "fields": [
        {"name": "timestamp", "type": "long"},
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
    ],
}

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def make_schema(value: Any) -> dict[str, Any]:
    headers = {"type": "record", "name": "Headers", "fields": [{"name": "source", "type": ["null", "bytes"]}]}
    return {
        "type": "record",
        "name": "ConnectDefault",
        "fields": [
            {"name": "key", "type": ["null", "bytes"]},
            {"name": "value", "type": ["null", value]},
            {"name": "headers", "type": headers},
            {"name": "metadata", "type": METADATA_SCHEMA},
        ],
    }


def make_decoded(record: dict[str, Any]) -> dict[str, Any]:
    source = dict(record["headers"]).get("source")
    return {
        "key": decode(record["key"]),
        "value": decode(record["value"]),
        "headers": {"source": decode(source)},
        "metadata": make_metadata(record),
    }


def expect_source_header() -> list[dict[str, Any]]:
    rows = select_fields(RICH)
    for row in rows:
        source = dict(row["headers"]).get("source")
        row["headers"] = [] if source is None else [("source", source)]
    return rows


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_of_bytes(tmp_path: Path, codec: str) -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, make_schema("bytes"), map(make_decoded, RECORDS), codec=codec)
    path = tmp_path / "a.avro"
    _, chunks = read(path, stream.getvalue())
    assert find_lenses_forms(StoredObject(str(path), 1)) == {
        "key": FieldForm.BYTES,
        "value": FieldForm.BYTES,
        "headers": FieldForm.BYTES,
    }
    assert list_rows(chunks) == expect_source_header()
    with pytest.raises(BadInputError, match="cut off"):
        read(path, stream.getvalue()[:-5])


def test_avro_of_structures(tmp_path: Path) -> None:
    stream = io.BytesIO()
    records = [{**make_decoded(RECORDS[0]), "value": value} for value in ({"id": 1}, None)]
    fastavro.writer(stream, make_schema(ORDER), records)
    _, chunks = read(tmp_path / "a.avro", stream.getvalue())
    assert chunks[0].records.column("value").to_pylist() == [b'{"id":1}', None]
    assert "value" in chunks[0].structured


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([make_decoded(record) for record in RECORDS]), path, row_group_size=500)
    _, chunks = read(path, path.read_bytes())
    assert find_lenses_forms(StoredObject(str(path), 1)) == {"key": FieldForm.BYTES, "value": FieldForm.BYTES}
    assert list_rows(chunks) == expect_source_header()


@pytest.mark.parametrize("name", ["avro", "parquet"])
def test_without_envelope_it_is_refused(tmp_path: Path, name: str) -> None:
    stream = io.BytesIO()
    if name == "avro":
        fastavro.writer(stream, ORDER, [{"id": 1}])
    else:
        pq.write_table(pa.table({"id": [1]}), stream)
    obj = store_bytes(tmp_path / "a", stream.getvalue())
    assert find_lenses_forms(obj) is None
    with pytest.raises(BadInputError, match=r"it has no envelope with metadata\..*Set store.envelope=true"):
        list(read_lenses(make_archive("lenses", obj), SMALL))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("backups/myTopic/000000000001/000000000003_10001_10003.json", LensesName("myTopic", 1, 3)),
        ("myTopic/1/3.json", LensesName("myTopic", 1, 3)),
        ("p/_topic=myTopic/_partition=1/3_-5_7_cluster.avro", LensesName("myTopic", 1, 3)),
        ("p/name=a/title=b/myTopic(1_000000000003).parquet", LensesName("myTopic", 1, 3)),
        ("p/myTopic(1_3)-a.json.gz", LensesName("myTopic", 1, 3)),
        ("3.json", None),
        ("myTopic/x/3.json", None),
        ("a/b/c", None),
        ("", None),
    ],
)
def test_names_tell_topic_partition_and_last_offset(path: str, expected: LensesName | None) -> None:
    assert parse_name(path) == expected
