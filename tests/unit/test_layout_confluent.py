"""Archives of Confluent's S3 sink: against dumps of the topics they were made from, and as its rules say."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from winnow.errors import BadInputError
from winnow.files.record_batch import RECORD_SCHEMA
from winnow.sources.layouts.confluent.names import pair_objects
from winnow.sources.layouts.confluent.reading import read_confluent
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, StoredObject

SAMPLES = Path(__file__).parents[1] / "samples" / "archives" / "sinks"

FIXTURES = {
    "confluent-json-keys": "orders",
    "confluent-defaults": "orders-live",
    "confluent-avro-keys": "orders-schema-deletes",
}


class Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples, unpacked."""
    folder = tmp_path_factory.mktemp("archives")
    for name in FIXTURES:
        with tarfile.open(SAMPLES / f"{name}.tar.xz") as tar:
            tar.extractall(folder / name, filter="data")
    return folder


def list_folder(folder: Path) -> list[StoredObject]:
    return [StoredObject(str(path), path.stat().st_size) for path in folder.rglob("*") if path.is_file()]


def pair(folder: Path) -> list[ArchiveObject]:
    paired = pair_objects(list_folder(folder))
    assert not paired.orphans
    return list(paired.objects)


def read(obj: ArchiveObject, **options: Any) -> list[Record]:
    records: list[Record] = []
    for chunk in read_confluent(obj, ReadOptions(**options)):
        chunk.records.validate(full=True)
        assert chunk.records.schema == RECORD_SCHEMA
        assert chunk.topics is None
        for row in chunk.records.to_pylist():
            assert row["partition"] == obj.partition
            assert row["timestamp"] is None
            assert row["row"] == len(records) + 1
            headers = [(header["key"], header["value"]) for header in row["headers"]]
            records.append(Record(row["offset"], row["key"], row["value"], headers))
    return records


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def read_dump(topic: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    with gzip.open(SAMPLES / f"{topic}.read_committed.jsonl.gz") as lines:
        for line in lines:
            row = json.loads(line)
            headers = [(name, decode(value)) for name, value in row["headers"] or []]
            found[row["partition"]].append(Record(row["offset"], decode(row["key"]), decode(row["value"]), headers))
    return found


@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_record_is_the_topics(archives: Path, fixture: str) -> None:
    has_keys = fixture != "confluent-defaults"
    dump = read_dump(FIXTURES[fixture])
    by_offset = {(partition, record.offset): record for partition, rows in dump.items() for record in rows}
    found: dict[tuple[int, bool], list[Record]] = defaultdict(list)
    for obj in pair(archives / fixture):
        assert obj.topic == FIXTURES[fixture]
        assert obj.partition is not None
        records = read(obj)
        assert records[0].offset == obj.first_offset
        first = by_offset[obj.partition, records[0].offset]
        assert not has_keys or first.key == records[0].key
        assert [record.offset - records[0].offset for record in records] == list(range(len(records)))
        found[obj.partition, "value" in obj.parts] += records
    for partition, rows in dump.items():
        values = [record for record in rows if record.value is not None]
        tombstones = [record for record in rows if record.value is None]
        if not has_keys:
            # Only whole flushes were written, nothing but values.
            values = values[: len(found[partition, True])]
            assert len(values) >= 1000
        compare(found[partition, True], values, has_keys=has_keys)
        compare(found[partition, False], tombstones, has_keys=has_keys)


def compare(found: list[Record], expected: list[Record], *, has_keys: bool) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.key == (theirs.key if has_keys else None)
        assert ours.headers == (theirs.headers if has_keys else [])
        if theirs.value is None:
            assert ours.value is None
        else:
            assert ours.value is not None
            written = json.loads(theirs.value)
            # Topics with Connect's schema have an envelope, of which the sink keeps what is inside.
            assert json.loads(ours.value) == written.get("payload", written)
            assert b" " not in ours.value or b'": ' not in ours.value


@pytest.mark.parametrize("batch_bytes", [1, 500, 1_500])
def test_small_batches_hold_the_same_records(archives: Path, batch_bytes: int) -> None:
    for obj in pair(archives / "confluent-json-keys")[:4] + pair(archives / "confluent-avro-keys")[:4]:
        whole = read(obj)
        chunks = list(read_confluent(obj, ReadOptions(batch_bytes=batch_bytes)))
        assert read(obj, batch_bytes=batch_bytes) == whole
        rows = [chunk.records.num_rows for chunk in chunks]
        assert max(rows) == 1 if batch_bytes == 1 else len(rows) > 1
        # Slices share their buffers: get_total_buffer_size would count them whole.
        assert all(chunk.records.nbytes <= max(batch_bytes, 400) * 1.2 for chunk in chunks), (
            "a batch is larger than asked for"
        )


# ------------------------------------------------------------------------------------------ other settings of the sink

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
HEADER = {
    "name": "H",
    "type": "record",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
}


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def write_avro(path: Path, schema: Any, records: list[Any], codec: str = "null") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, records, codec=codec)
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="snappy")
    return path


def read_one(folder: Path) -> list[Record]:
    (obj,) = pair(folder)
    return read(obj)


def test_formats_may_be_mixed(tmp_path: Path) -> None:
    folder = tmp_path / "archive" / "my_topic_1"
    rows: list[dict[str, Any]] = [{"id": number, "note": None if number else "ä b"} for number in range(3)]
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])
    write_parquet(folder / "partition=2" / "my_topic_1_2_0004.snappy.parquet", rows, schema)
    write_avro(folder / "partition=2" / "my_topic_1_2_0004.keys.avro", ["null", "string"], ["a", "b", "c"])
    headers = b'{"headers":[{"key":"n","value":"1"},{"key":"n","value":""}]}\n{"headers":[]}\n{"headers":null}\n'
    write(folder / "partition=2" / "my_topic_1_2_0004.headers.json", headers)
    write_avro(folder / "__deleted" / "my_topic_1_2_0007.keys.avro", ["null", "string"], ["a"])
    write(folder / "__deleted" / "my_topic_1_2_0007.headers.json", b'{"headers":[{"key":"n","value":"2"}]}\n')

    values, tombstones = pair(tmp_path)

    assert (values.topic, values.partition, values.first_offset) == ("my_topic_1", 2, 4)
    assert read(values) == [
        Record(4, b"a", '{"id":0,"note":"ä b"}'.encode(), [("n", b"1"), ("n", b"")]),
        Record(5, b"b", b'{"id":1,"note":null}', []),
        Record(6, b"c", b'{"id":2,"note":null}', []),
    ]
    assert "value" not in tombstones.parts
    assert read(tombstones) == [Record(7, b"a", None, [("n", b"2")])]


def test_parquet_keys_and_headers_are_in_records(tmp_path: Path) -> None:
    stem = tmp_path / "topics" / "t" / "partition=0" / "t+0+0000000000"
    id_schema = pa.schema([("id", pa.int32()), ("tags", pa.map_(pa.string(), pa.int32()))])
    write_parquet(Path(f"{stem}.snappy.parquet"), [{"id": 1, "tags": [("x", 2)]}, {"id": 2, "tags": None}], id_schema)
    write_parquet(
        Path(f"{stem}.keys.snappy.parquet"), [{"key": b"\xff"}, {"key": None}], pa.schema([("key", pa.binary())])
    )
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    rows: list[dict[str, Any]] = [{"headers": [{"key": "h", "value": "1"}]}, {"headers": []}]
    write_parquet(Path(f"{stem}.headers.snappy.parquet"), rows, pa.schema([("headers", header)]))

    assert read_one(tmp_path) == [
        Record(0, b"\xff", b'{"id":1,"tags":{"x":2}}', [("h", b"1")]),
        Record(1, None, b'{"id":2,"tags":null}', []),
    ]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
def test_avro_values_of_any_schema(tmp_path: Path, codec: str) -> None:
    cases: list[tuple[Any, list[Any], list[bytes | None]]] = [
        (ORDER, [{"id": 1, "note": "x"}], [b'{"id":1,"note":"x"}']),
        (["null", "bytes"], [b"\x00\xff", b"", None], [b"\x00\xff", b"", None]),
        ("string", ["a", ""], [b"a", b""]),
        ("long", [12], [b"12"]),
    ]
    for number, (schema, values, expected) in enumerate(cases):
        folder = tmp_path / str(number)
        write_avro(folder / "topics" / "t" / "partition=0" / "t+0+0000000000.avro", schema, values, codec)
        assert [record.value for record in read_one(folder)] == expected


def test_json_values_keep_their_source_text(tmp_path: Path) -> None:
    lines = [
        (b'{"b":1.50,"a":[1e3,-0, null]}', b'{"b":1.50,"a":[1e3,-0,null]}'),
        (b'{"text":"a  b","deep":{"x":""}}', b'{"text":"a  b","deep":{"x":""}}'),
        (b'"\\u00e4 \\"q\\""', 'ä "q"'.encode()),
        (b"null", None),
        (b"12345678901234567890.10", b"12345678901234567890.10"),
        (b'""', b""),
        (b'{"text":"\\u00e4\\/"}', '{"text":"ä/"}'.encode()),
    ]
    for folder, chosen in (("all", lines), ("compact", [lines[1]] * 3), ("strings", [lines[2], lines[5]])):
        path = tmp_path / folder / "topics" / "t" / "partition=0" / "t+0+0000000000.json"
        write(path, b"".join(line + b"\n" for line, _ in chosen))
        assert [record.value for record in read_one(tmp_path / folder)] == [expected for _, expected in chosen]


def test_gzip_by_the_name(tmp_path: Path) -> None:
    stem = tmp_path / "topics" / "t" / "year=2026" / "month=01" / "day=02" / "t+0+0000000009"
    write(Path(f"{stem}.json.gz"), gzip.compress(b'{"a":1}\n{"a":2}\n'))
    write(Path(f"{stem}.keys.json.gz"), gzip.compress(b'"k"\n7\n'))
    assert read_one(tmp_path) == [Record(9, b"k", b'{"a":1}', []), Record(10, b"7", b'{"a":2}', [])]


def test_bytes_are_taken_as_they_are(tmp_path: Path) -> None:
    first = gzip.compress(b"x", mtime=0)
    assert b"\n" not in first
    path = write(tmp_path / "topics" / "t" / "partition=0" / "t+0+0000000000.dat", first + b"\n\n\xff \r\n")
    assert [record.value for record in read_one(tmp_path)] == [first, b"", b"\xff \r"]

    write(path, b"a\nb||c||")
    (obj,) = pair(tmp_path)
    found = [chunk.records.column("value").to_pylist() for chunk in read_confluent(obj, separator=b"||")]
    assert found == [[b"a\nb", b"c"]]


def test_forms_by_format(tmp_path: Path) -> None:
    stem = tmp_path / "topics" / "t" / "partition=0" / "t+0+0000000000"
    write(Path(f"{stem}.bin"), b"a\n")
    write(Path(f"{stem}.keys.json"), b'"a"\n')
    write_avro(Path(f"{stem}.headers.avro"), {"type": "array", "items": HEADER}, [[{"key": "a", "value": "b"}]])
    (obj,) = pair(tmp_path)
    text = FieldForm.TEXT_OR_BASE64
    assert obj.forms == {"value": FieldForm.BYTES, "key": text, "headers": text}


# ------------------------------------------------------------------------------------------------ what belongs together


def make_objects(*names: str) -> list[StoredObject]:
    return [StoredObject(name, 1) for name in names]


@pytest.mark.parametrize(
    "folders",
    [
        ["partition=0", "tombstone"],
        ["partition=0", "__deleted"],
        ["partition=0", "deleted=true"],
        ["year=2026/month=01/day=01", "gone"],
        ["id=5", "gone"],
        ["2026-01-01/10", "gone"],
        ["", "tombstone"],
    ],
)
def test_tombstones_by_their_folder(folders: list[str]) -> None:
    value, gone = (f"topics/t/{folder}".rstrip("/") for folder in folders)
    paired = pair_objects(make_objects(f"{value}/t+0+07.json", f"{value}/t+0+07.keys.json", f"{gone}/t+0+09.keys.json"))
    assert not paired.orphans
    assert [sorted(obj.parts) for obj in paired.objects] == [["key", "value"], ["key"]]


@pytest.mark.parametrize(
    "folders",
    [
        ["partition=0", "partition=1"],
        ["year=2026/month=01/day=01", "year=2026/month=01/day=02"],
        ["id=5", "id=6"],
        ["2026-01-01/10", "2026-01-01/11"],
        ["partition=0", "partition=0"],
    ],
)
def test_keys_whose_values_are_missing_are_no_tombstones(folders: list[str]) -> None:
    value, other = (f"topics/t/{folder}" for folder in folders)
    paired = pair_objects(
        make_objects(f"{value}/t+0+07.json", f"{value}/t+0+07.keys.json", f"{other}/t+0+09.keys.json")
    )
    assert [orphan.name for orphan in paired.orphans] == ["t+0+09.keys.json"]
    assert len(paired.objects) == 1


def test_folders_of_tombstones_that_are_not_sure() -> None:
    two = make_objects("topics/t/partition=0/t+0+0.json", "topics/t/a/t+0+1.keys.json", "topics/t/b/t+0+2.keys.json")
    assert len(pair_objects(two).orphans) == 2
    assert [orphan.name for orphan in pair_objects(two, "b").orphans] == ["t+0+1.keys.json"]
    alone = make_objects("topics/t/gone/t+0+1.keys.json")
    assert len(pair_objects(alone).orphans) == 1
    assert not pair_objects(make_objects("topics/t/tombstone/t+0+1.keys.json")).orphans
    only_headers = make_objects("topics/t/tombstone/t+0+1.headers.json")
    assert len(pair_objects(only_headers).orphans) == 1


def test_two_objects_for_one_role_are_refused() -> None:
    folder = "topics/t/partition=0/t+0+0"
    with pytest.raises(BadInputError, match=r"keys\.avro.*belong to the same records"):
        pair_objects(make_objects(f"{folder}.json", f"{folder}.keys.json", f"{folder}.keys.avro"))
    # Without keys each is an object by itself; that they overlap is found by their first offsets.
    assert len(pair_objects(make_objects(f"{folder}.json", f"{folder}.json.gz")).objects) == 2
    with pytest.raises(BadInputError, match="not named as Confluent's"):
        pair_objects(make_objects("part-00000.json"))


# ------------------------------------------------------------------------------------------------------ what is refused


def refuse(folder: Path) -> str:
    with pytest.raises(BadInputError) as refused:
        read_one(folder)
    return str(refused.value)


@pytest.mark.parametrize("short", ["json", "keys.json", "headers.json"])
def test_parts_that_do_not_line_up_name_all_objects(tmp_path: Path, short: str) -> None:
    stem = tmp_path / "topics" / "t" / "partition=0" / "t+0+0000000000"
    lines = {"json": b'{"a":1}\n', "keys.json": b'"secret"\n', "headers.json": b'{"headers":[]}\n'}
    for extension, line in lines.items():
        write(Path(f"{stem}.{extension}"), line * (70_000 if extension == short else 70_001))
    message = refuse(tmp_path)
    for extension in lines:
        assert f"{stem}.{extension} has {70_000 if extension == short else 70_001}" in message
    assert "secret" not in message


@pytest.mark.parametrize("extension", ["json", "bin", "avro", "snappy.parquet", "json.gz", "keys.json"])
def test_cut_off_objects(tmp_path: Path, extension: str) -> None:
    path = tmp_path / "topics" / "t" / "partition=0" / f"t+0+0000000000.{extension}"
    if extension == "avro":
        write_avro(path, ORDER, [{"id": 1, "note": "secret"}] * 50)
    elif extension == "snappy.parquet":
        write_parquet(path, [{"id": 1, "note": "secret"}] * 50, pa.schema([("id", pa.int64()), ("note", pa.string())]))
    else:
        text = b'{"a":"secret"}\n' * 50
        write(path, gzip.compress(text) if extension.endswith("gz") else text)
    if extension == "keys.json":
        write(path.with_name("t+0+0000000000.bin"), b"x\n" * 50)
    whole = path.read_bytes()
    assert len(read_one(tmp_path)) == 50
    for size in [0, *range(1, len(whole), 1 + len(whole) // 60), len(whole) - 1]:
        if extension in ("json", "bin", "keys.json") and size and whole[size - 1 : size] == b"\n":
            continue
        path.write_bytes(whole[:size])
        message = refuse(tmp_path)
        assert message.startswith(str(path)), message
        assert "secret" not in message


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("json", b'{"a":1}\n\n{"a":2}\n', "line 2 (partition 0): this is not a value"),
        ("json", b'{"a":1}\n{"a":secret}\n', "line 2 (partition 0): this is not a value"),
        ("json", b'"a"\n"secret\n', "line 2 (partition 0): this is not a value"),
        ("json", b'{"a":1} {"a":2}\n', "line 1 (partition 0): this is not a value"),
        ("json", b'"a"\n"\xff"\n', "line 2 (partition 0): this is not a value"),
        ("json", b'{"a":1}\n{"a":"\xff"}\n', "line 2 (partition 0): this is not a value"),
        ("json", b'"\\ud800"\n', "line 1 (partition 0): this is not a value"),
        ("avro", b"secret", "it is not an Avro file"),
        ("parquet", b"PAR1secretPAR1", "this is not Parquet"),
        ("headers.json", b'{"headers":[{"key":"secret"}]}\n', "line 1 (partition 0): this is not an array of headers"),
        ("headers.json", b'{"secret":[]}\n', "line 1 (partition 0): this is not an array of headers"),
        ("headers.bin", b"secret\n", "headers are never in this format"),
        ("keys.parquet", None, "it has no column key"),
    ],
)
def test_damaged_entries(tmp_path: Path, name: str, content: bytes | None, expected: str) -> None:
    folder = tmp_path / "topics" / "t" / "partition=0"
    path = folder / f"t+0+0000000000.{name}"
    if content is None:
        write_parquet(path, [{"id": 1}], pa.schema([("id", pa.int64())]))
    else:
        write(path, content)
    if "." in name:
        write(folder / "t+0+0000000000.bin", b"x\n")
    message = refuse(tmp_path)
    assert str(path) in message
    assert expected in message
    assert "secret" not in message


def test_objects_without_records_are_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "topics" / "t" / "partition=0"
    write_avro(folder / "t+0+0000000000.avro", ORDER, [])
    assert "it has no records" in refuse(tmp_path)
    (folder / "t+0+0000000000.avro").unlink()
    write_parquet(folder / "t+0+0000000000.parquet", [], pa.schema([("id", pa.int64())]))
    assert "it has no records" in refuse(tmp_path)


def test_a_name_with_an_offset_that_is_too_large(tmp_path: Path) -> None:
    write(tmp_path / "topics" / "t" / "partition=0" / f"t+0+{2**63 - 2}.bin", b"a\nb\nc\n")
    assert "an offset too large" in refuse(tmp_path)


def test_errors_do_not_leave_objects_open(archives: Path) -> None:
    records: Iterator[Any] = read_confluent(pair(archives / "confluent-json-keys")[0], ReadOptions(batch_bytes=1))
    next(records)
    records.close()  # type: ignore[attr-defined]


def test_structures_are_told_from_strings(tmp_path: Path) -> None:
    stem = tmp_path / "topics" / "t" / "partition=0" / "t+0+0000000000"
    write(Path(f"{stem}.json"), b'"a"\nnull\n12\n')
    write(Path(f"{stem}.keys.json"), b'"a"\nnull\n"c"\n')
    (obj,) = pair(tmp_path)
    (chunk,) = read_confluent(obj)
    assert chunk.structured == {"value"}
    assert chunk.records.column("value").to_pylist() == [b"a", None, b"12"]
