"""Archives of Aiven's sinks: every record equals the topic's, but for what the sink lost."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import json
import random
from collections.abc import Callable
from itertools import combinations, permutations
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.sample_archives import (
    decode,
    list_rows,
    load_dump,
    make_archive,
    select_fields,
    store_bytes,
    unpack_sample,
)
from winnow.errors import BadInputError, WinnowError
from winnow.files.partitioner import choose_partition
from winnow.sources.formats.encoding import EncodingEvidence, Reading, decode_fields
from winnow.sources.layouts.aiven import AivenFormat, inspect_content, read_aiven
from winnow.sources.layouts.aiven_csv import find_csv_fields
from winnow.sources.layouts.aiven_names import AivenName, is_named_by_key, parse_name
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

SMALL = ReadOptions(batch_bytes=40_000)

RICH = load_dump("sinks/rich-small.read_committed")


def open_archive(path: Path) -> ArchiveObject:
    obj = StoredObject(str(path), path.stat().st_size)
    name = parse_name(path.name)
    forms = inspect_content(obj, name).forms
    if name is None:
        return make_archive("aiven", obj, forms=forms)
    return make_archive(
        "aiven", obj, topic=name.topic, partition=name.partition, first_offset=name.first_offset, forms=forms
    )


def read_call(paths: list[Path], options: ReadOptions = SMALL) -> tuple[dict[str, Reading], list[RecordChunk]]:
    """Read all objects of a call, deciding over all of them what is base64."""
    evidence = EncodingEvidence()
    chunks = []
    for path in paths:
        archive = open_archive(path)
        for chunk in read_aiven(archive, options):
            evidence.add_chunk(archive, chunk)
            chunks.append((archive, chunk))
    readings = evidence.decide()
    return readings, [decode_fields(archive, chunk, readings) for archive, chunk in chunks]


def sort_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


# ---------------------------------------------------------------------------------------------------------- samples


def test_json_of_bytes_loses_nothing(tmp_path: Path) -> None:
    paths = unpack_sample("sinks/aiven-json-bytes", tmp_path)
    readings, chunks = read_call(paths)
    assert set(readings.values()) == {Reading.BASE64}
    assert sort_rows(list_rows(chunks)) == select_fields(RICH)


def test_parquet_loses_only_headers(tmp_path: Path) -> None:
    paths = unpack_sample("sinks/aiven-parquet-headers", tmp_path)
    content = [inspect_content(StoredObject(str(path), 1)) for path in paths]
    assert {each.format for each in content} == {AivenFormat.PARQUET}
    assert {"headers" in each.fields for each in content} == {True, False}
    _, chunks = read_call(paths)
    rows = sort_rows(list_rows(chunks))
    headers = [row.pop("headers") for row in rows]
    assert rows == select_fields(RICH, "headers")
    differing = 0
    for found, (_, record) in zip(headers, sorted(RICH.items()), strict=True):
        # A map: of repeated names the last is left, in any order; or nothing at all.
        assert dict(found) in ({}, dict(record["headers"]))
        differing += dict(found) != dict(record["headers"])
    assert differing == 407


def test_avro_structures_become_json_text(tmp_path: Path) -> None:
    paths = unpack_sample("sinks/aiven-avro-orders", tmp_path)
    assert inspect_content(StoredObject(str(paths[0]), 1)).forms == {
        "key": FieldForm.TEXT,
        "value": FieldForm.JSON,
        "headers": FieldForm.TEXT,
    }
    _, chunks = read_call(paths)
    rows = sort_rows(list_rows(chunks))
    dump = load_dump("sinks/orders-schema.read_committed")
    expected = select_fields(dump)
    assert len(rows) == len(expected) == 3000
    for row, wanted in zip(rows, expected, strict=True):
        payload = json.loads(decode(wanted.pop("value")) or b"")["payload"]
        assert decode(row.pop("value")) == json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
        row["headers"], wanted["headers"] = sorted(row["headers"]), sorted(wanted["headers"])
        assert row == wanted


def test_a_name_that_is_the_key_leaves_one_record_for_each(tmp_path: Path) -> None:
    paths = unpack_sample("sinks/aiven-key-template", tmp_path)
    dump = load_dump("sinks/orders-small.read_committed")
    by_key = {}
    for record in sorted(dump.values(), key=lambda record: record["timestamp"]):
        by_key[record["key"], record["offset"]] = record
    readings, chunks = read_call(paths)
    assert readings == dict.fromkeys(("key", "value", "headers"), Reading.TEXT)
    rows = list_rows(chunks)
    assert len(rows) == len(paths) == 100
    for path, row in zip(paths, rows, strict=True):
        wanted = by_key[row["key"], row["offset"]]
        assert decode(row["key"]) == path.name.encode()
        assert row["partition"] is None
        assert row["timestamp"] == wanted["timestamp"]
        assert row["headers"] == wanted["headers"]
        value, original = decode(row["value"]), decode(wanted["value"])
        assert (value and json.loads(value)) == (original and json.loads(original))


def test_values_with_line_ends_in_plain_csv_are_refused(tmp_path: Path) -> None:
    outcomes = {}
    for path in unpack_sample("sinks/aiven-csv-plain", tmp_path):
        try:
            rows = list_rows(read_aiven(open_archive(path), SMALL))
        except BadInputError as refused:
            outcomes[path.name] = str(refused)
            continue
        # What has no line ends in its values can be taken apart; null and empty are the same.
        for row in rows:
            wanted = RICH[row["partition"], row["offset"]]
            assert (row["key"] or "", row["value"]) == (wanted["key"] or "", wanted["value"] or "")
            assert row["timestamp"] == wanted["timestamp"]
    assert len(outcomes) == 5
    assert all("value.encoding=base64" in text for text in outcomes.values())


# -------------------------------------------------------------------------------------------------------------- csv

FIELDS = ("key", "value", "offset", "timestamp", "headers")


def write_cell(record: dict[str, Any], name: str) -> bytes:
    """A cell as the sink writes it."""
    if name in ("key", "value"):
        return (record[name] or "").encode()
    if name == "headers":
        return b"".join(
            base64.b64encode(key.encode()) + b":" + (value or "").encode() + b";" for key, value in record["headers"]
        )
    return str(record[name]).encode()


def write_csv(records: list[dict[str, Any]], fields: tuple[str, ...]) -> bytes:
    return b"\n".join(b",".join(write_cell(record, name) for name in fields) for record in records)


def select_partition(partition: int) -> list[dict[str, Any]]:
    return [record for (found, _), record in sorted(RICH.items()) if found == partition]


ARRANGEMENTS = [
    order
    for count in range(1, 6)
    for some in combinations(FIELDS, count)
    if "value" in some
    for order in permutations(some)
    if "key" not in order or order.index("key") < order.index("value")
]


def test_any_order_of_any_fields_is_found() -> None:
    records = select_partition(0)
    for order in ARRANGEMENTS:
        for size in (3, 300):
            for first_offset in (0, None):
                lines = write_csv(records[:size], order).split(b"\n")
                found = find_csv_fields(lines, first_offset)
                assert found is not None
                assert (found.names, found.has_plain_values) == (order, False)


@pytest.mark.parametrize("fields", [("value",), ("key", "value", "offset", "timestamp"), ARRANGEMENTS[-1]])
@pytest.mark.parametrize("partition", [0, 1, 2])
def test_csv_loses_only_null_against_empty(tmp_path: Path, fields: tuple[str, ...], partition: int) -> None:
    records = select_partition(partition)
    path = tmp_path / f"rich-small-{partition}-0"
    path.write_bytes(gzip.compress(write_csv(records, fields)))
    readings, chunks = read_call([path])
    assert readings["value"] is Reading.BASE64
    assert len(chunks) > 1
    expected = []
    for at, record in enumerate(records):
        headers = [(key, value or "") for key, value in record["headers"]]
        expected.append(
            {
                "partition": partition,
                "offset": record["offset"] if "offset" in fields else at,
                "timestamp": record["timestamp"] if "timestamp" in fields else None,
                "key": (record["key"] or None) if "key" in fields else None,
                "value": record["value"] or "",
                "headers": headers if "headers" in fields else [],
            }
        )
    assert list_rows(chunks) == expected


@pytest.mark.parametrize("choose", [lambda key: choose_partition(key, 5), lambda key: crc32(key) % 5])
def test_the_partitioner_tells_key_from_value(choose: Callable[[bytes], int]) -> None:
    records = [record for record in load_dump("sinks/orders.read_committed").values() if record["value"]]
    records = [record for record in records if choose(decode(record["key"]) or b"") == 2]
    for size in (40, 200):
        lines = write_csv(records[:size], ("value", "key", "timestamp")).split(b"\n")
        found = find_csv_fields(lines, records[0]["offset"], 2)
        assert found is not None
        assert found.names == ("value", "key", "timestamp")
        assert found.is_key_certain


def test_without_the_partition_keys_come_first_unless_they_look_otherwise() -> None:
    records = [record for record in load_dump("sinks/orders.read_committed").values() if record["partition"] == 1]
    for order in (("value", "key", "offset"), ("key", "value", "offset")):
        found = find_csv_fields(write_csv(records[:300], order).split(b"\n"))
        assert found is not None
        assert (found.names, found.is_key_certain) == (order, False)


def test_plain_values_may_hold_commas(tmp_path: Path) -> None:
    records = [record for record in load_dump("sinks/orders.read_committed").values() if record["partition"] == 0]
    lines = [
        b",".join(
            decode(record["value"]) or b"" if name == "value" else write_cell(record, name)
            for name in ("key", "value", "offset", "timestamp")
        )
        for record in records
    ]
    path = tmp_path / "orders-0-0"
    path.write_bytes(b"\n".join(lines))
    content = inspect_content(StoredObject(str(path), 1), AivenName("orders", 0, 0))
    assert content.csv is not None
    assert content.csv.has_plain_values
    readings, chunks = read_call([path])
    assert readings["value"] is Reading.TEXT
    assert [row["value"] for row in list_rows(chunks)] == [record["value"] or "" for record in records]


@pytest.mark.parametrize("kept", [3, 20, -1, -2, -3])
def test_a_cut_off_csv_is_named(tmp_path: Path, kept: int) -> None:
    records = [record for record in select_partition(0) if record["value"]][:50]
    data = write_csv(records, ("key", "offset", "timestamp", "value"))
    end = data.rindex(b"\n") + 1
    path = tmp_path / "rich-small-0-0"
    path.write_bytes(data[: end + kept] if kept > 0 else data[:kept])
    with pytest.raises(BadInputError, match=r"line 50.*cut.off"):
        read_call([path])


def test_an_empty_object_is_refused_and_an_empty_value_is_not(tmp_path: Path) -> None:
    path = tmp_path / "orders-0-0"
    path.write_bytes(b"")
    with pytest.raises(BadInputError, match="the object is empty"):
        list(read_aiven(make_archive("aiven", path), SMALL))
    path.write_bytes(gzip.compress(b"\n\n"))
    assert [row["value"] for row in list_rows(read_aiven(make_archive("aiven", path), SMALL))] == ["", "", ""]


# ------------------------------------------------------------------------------------------------------------- json


def write_json(record: dict[str, Any]) -> dict[str, Any]:
    moment = dt.datetime.fromtimestamp(record["timestamp"] // 1000, dt.UTC)
    fraction = f".{record['timestamp'] % 1000:03}" if record["timestamp"] % 1000 else ""
    return {
        "headers": [{"key": key, "value": value} for key, value in record["headers"]],
        "offset": record["offset"],
        "value": record["value"],
        "key": record["key"],
        "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z",
    }


def test_json_lines_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rich-small-1-0"
    records = select_partition(1)
    path.write_bytes("\n".join(json.dumps(write_json(record)) for record in records).encode())
    _, chunks = read_call([path])
    assert list_rows(chunks) == select_fields({(1, record["offset"]): record for record in records})


def read_lines(path: Path, *lines: str, options: ReadOptions = SMALL) -> list[dict[str, Any]]:
    path.write_bytes("\n".join(lines).encode())
    return [row for chunk in read_call([path], options)[1] for row in chunk.records.to_pylist()]


def test_values_without_envelope_get_offsets_from_the_name(tmp_path: Path) -> None:
    lines = ['{"id": 1, "total": 1.50}', "null", '"YWI="', "12", "[1, 2]", '{"id":2,"value":3}']
    rows = read_lines(tmp_path / "orders-3-17", *lines)
    assert [row["value"] for row in rows] == [
        b'{"id":1,"total":1.50}',
        None,
        b"YWI=",
        b"12",
        b"[1,2]",
        b'{"id":2,"value":3}',
    ]
    assert [(row["partition"], row["offset"], row["key"]) for row in rows] == [(3, at, None) for at in range(17, 23)]


def test_numbers_are_copied_and_make_a_field_text(tmp_path: Path) -> None:
    line = '{"key":"YWI=","value":{"b":1.10,"a":"\\u00fc"},"offset":%d,"headers":[{"key":"n","value":%s}]}'
    rows = read_lines(tmp_path / "orders-0-5", line % (5, "1724936659254010"), line % (7, '"YWI="'))
    assert rows[0]["key"] == b"ab"
    assert rows[0]["value"] == '{"b":1.10,"a":"ü"}'.encode()
    assert [row["headers"][0]["value"] for row in rows] == [b"1724936659254010", b"YWI="]


def test_strings_stay_json_if_the_user_wants_it(tmp_path: Path) -> None:
    options = ReadOptions(encodings={"key": "json", "value": "json"})
    rows = read_lines(tmp_path / "orders-0-5", '{"key":"YWI=","value":"\\u00fc","offset":5}', options=options)
    assert (rows[0]["key"], rows[0]["value"]) == (b'"YWI="', '"ü"'.encode())


def test_what_lacks_a_value_is_no_tombstone(tmp_path: Path) -> None:
    path = tmp_path / "orders-0-5"
    with pytest.raises(BadInputError, match="line 2: it has no value, which the first record has"):
        read_lines(path, '{"key":"a","value":"b","offset":5}', '{"key":"a","offset":6}')
    with pytest.raises(BadInputError, match="line 2: it has no value, which the first record has"):
        read_lines(path, '{"key":"a","value":{},"offset":5}', '{"key":"a","offset":6}')
    with pytest.raises(BadInputError, match="its records have no values"):
        read_lines(path, '{"key":"a","offset":5}')


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01T00:00:00Z", ""])
def test_a_timestamp_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    lines = [
        '{"value":"b","offset":5,"timestamp":"2026-03-01T00:00:00Z"}',
        f'{{"value":"b","offset":6,"timestamp":"{text}"}}',
    ]
    with pytest.raises(BadInputError, match="line 2: timestamp is not ISO 8601 text"):
        read_lines(tmp_path / "orders-0-5", *lines)


def test_timestamps_finer_than_a_millisecond_are_floored_if_the_user_wants_it(tmp_path: Path) -> None:
    line = '{"value":"b","offset":%d,"timestamp":"%s"}'
    lines = [line % (5, "1969-12-31T23:59:59.999999999Z"), line % (6, "2026-03-01T01:00:00.25+01:00")]
    path = tmp_path / "orders-0-5"
    with pytest.raises(BadInputError, match=r"line 1: timestamp is not a whole number .*--timestamps floor"):
        read_lines(path, *lines)
    rows = read_lines(path, *lines, options=ReadOptions(floors_timestamps=True))
    assert [row["timestamp"] for row in rows] == [-1, 1772323200250] or [row["timestamp"] for row in rows] == [
        None,
        1772323200250,
    ]


def test_an_offset_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    for number in (2**63, 2**64, -1):
        with pytest.raises(BadInputError, match=r"line 1: (this is not a record|offset is out of range)"):
            read_lines(tmp_path / "orders", f'{{"key":"a","value":"b","offset":{number}}}')


def test_an_array_must_end(tmp_path: Path) -> None:
    path = tmp_path / "orders-0-5"
    record = '{"key":"a","value":"b","offset":%d}'
    assert len(read_lines(path, "[", record % 5 + ",", record % 6, "]")) == 2
    with pytest.raises(BadInputError, match="its JSON array does not end: it is cut off"):
        read_lines(path, "[", record % 5 + ",", record % 6)
    with pytest.raises(BadInputError, match="line 3: this is not a record"):
        read_lines(path, "[", record % 5 + ",", (record % 6)[:-4])
    with pytest.raises(BadInputError, match="something follows the end"):
        read_lines(path, "[", record % 5, "]", "", record % 6)


@pytest.mark.parametrize(
    "text",
    [
        '[\n{"value":"b","offset":5},\n\n]',
        '{"value":"b","offset":5}\n',
        '{"value":"b","offset":5}\n\n',
    ],
)
def test_a_separator_at_the_end_shows_that_the_sink_failed_at_the_next_record(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInputError, match="it is cut off: it ends with a separator"):
        read_lines(tmp_path / "orders-0-5", *text.split("\n"))


@pytest.mark.parametrize("text", ["[\n\n]", "[]"])
def test_an_object_without_records_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInputError, match="it holds no records"):
        read_lines(tmp_path / "orders-0-5", *text.split("\n"))


def test_base64_that_begins_like_json_is_csv(tmp_path: Path) -> None:
    for text in ("null", "trueAAA=", "12345678,nullAAA="):
        obj = store_bytes(tmp_path / "orders-0-5", f"{text},5\n{text},6".encode())
        assert inspect_content(obj).format is AivenFormat.CSV


def test_a_name_that_contradicts_the_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="it holds offset 4, though its name seems to say that it begins at 5"):
        read_lines(tmp_path / "orders-0-5", '{"key":"a","value":"b","offset":4}')


# ---------------------------------------------------------------------------------------------------------- columns


def test_parquet_without_envelope_is_the_value(tmp_path: Path) -> None:
    path = tmp_path / "orders-2-7"
    table = pa.table({"id": [1, 2], "at": pa.array([0, None], pa.timestamp("ms", "UTC")), "name": ["ü", None]})
    pq.write_table(table, path)
    rows = [row for chunk in read_call([path])[1] for row in chunk.records.to_pylist()]
    assert [row["value"] for row in rows] == [
        '{"id":1,"at":"1970-01-01T00:00:00Z","name":"ü"}'.encode(),
        b'{"id":2,"at":null,"name":null}',
    ]
    assert [(row["partition"], row["offset"]) for row in rows] == [(2, 7), (2, 8)]


def test_a_dictionary_in_parquet_does_not_take_memory_for_its_records(tmp_path: Path) -> None:
    path = tmp_path / "orders-0-0"
    count = 3000
    values = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([b"x" * (1 << 20)]))
    pq.write_table(pa.table({"value": values, "offset": pa.array(range(count), pa.int64())}), path)
    rows = 0
    for chunk in read_aiven(open_archive(path), ReadOptions(batch_bytes=8 << 20)):
        assert chunk.records.nbytes < 10 << 20
        rows += chunk.records.num_rows
        if rows > 100:
            return
    raise AssertionError


# ---------------------------------------------------------------------------------------------------------- damage


def find_damage(path: Path, data: bytes) -> str | None:
    path.write_bytes(data)
    try:
        for chunk in read_aiven(open_archive(path), SMALL):
            chunk.records.validate(full=True)
    except WinnowError as refused:
        return str(refused)
    return None


SOURCES: dict[str, Callable[[Path], Path]] = {
    "json": lambda folder: unpack_sample("sinks/aiven-json-bytes", folder)[1],
    "parquet": lambda folder: unpack_sample("sinks/aiven-parquet-headers", folder)[1],
    "avro": lambda folder: unpack_sample("sinks/aiven-avro-orders", folder)[0],
    "csv": lambda folder: Path(
        store_bytes(
            folder / "rich-small-0-0", gzip.compress(write_csv(select_partition(0)[:200], ("key", "value", "offset")))
        ).uri
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_cut_off_objects_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = SOURCES[name](tmp_path / "whole")
    data = path.read_bytes()
    target = tmp_path / path.name
    for share in (0.02, 0.3, 0.6, 0.9, 0.99):
        refused = find_damage(target, data[: int(len(data) * share)])
        assert refused is not None
        assert path.name in refused
    assert find_damage(target, data[:-1]) is not None


@pytest.mark.parametrize("name", SOURCES)
def test_damage_is_an_error_of_ours_or_shows_in_no_structure(tmp_path: Path, name: str) -> None:
    path = SOURCES[name](tmp_path / "whole")
    data = path.read_bytes()
    unpacked = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    choice = random.Random(5)
    for content in {data, unpacked}:
        for _ in range(60):
            damaged = bytearray(content)
            damaged[choice.randrange(len(damaged))] ^= 1 << choice.randrange(8)
            find_damage(tmp_path / path.name, bytes(damaged))


# ----------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("path", "topic", "partition", "offset"),
    [
        ("orders-0-0", "orders", 0, 0),
        ("orders-0-0.gz", "orders", 0, 0),
        ("orders-schema-1-492.avro.gz", "orders-schema", 1, 492),
        ("rich-0-0.zst", "rich", 0, 0),
        ("orders-2026-1-5.snappy", "orders-2026", 1, 5),
        ("a.b_c-12-345", "a.b_c", 12, 345),
        ("logs/2026/11/22/orders-0000000003-00000000000000000017", "orders", 3, 17),
        ("archive/orders/0/17.gz", "orders", 0, 17),
        ("orders/partition=3/17", "orders", 3, 17),
        ("topic=orders/partition=3/offset=17.jsonl", "orders", 3, 17),
        ("orders/3-17", "orders", 3, 17),
        ("orders/2026/11/22/3-17", "orders", 3, 17),
        ("orders/year=2026/month=11/day=22/3-17", "orders", 3, 17),
        ("2026-11-22-orders-3-17.gz", "orders", 3, 17),
        ("20261122-orders-3-17.gz", "orders", 3, 17),
        ("orders-3-17-2026-11-22.gz", "orders", 3, 17),
        ("orders_3_17.csv", "orders", 3, 17),
        ("orders-3-17-20261122.gz", "orders", 3, 17),
        ("orders-3-20261122.gz", "orders", 3, 20261122),
        ("orders/2026/11/22/12/17.gz", "orders", 12, 17),
        ("orders/2026/11/22/23/12/17.gz", "orders", 12, 17),
        ("orders/2026-11-22/12-17", "orders", 12, 17),
        ("plain.public.customers-0-0.zst", "plain.public.customers", 0, 0),
    ],
)
def test_names_tell_topic_partition_and_first_offset(path: str, topic: str, partition: int, offset: int) -> None:
    assert parse_name(path) == AivenName(topic, partition, offset)


@pytest.mark.parametrize(
    "path", ["order-00042", "null", "orders", "3-17", "", "orders-99999999999-1", "a-1-99999999999999999999"]
)
def test_other_names_tell_nothing(path: str) -> None:
    assert parse_name(path) is None


def test_names_after_keys_are_recognised() -> None:
    assert is_named_by_key("order-00042", b"order-00042")
    assert is_named_by_key("archive/order-00042.gz", b"order-00042")
    assert is_named_by_key("orders-0-null", None)
    assert not is_named_by_key("orders-0-0", b"order-00042")
    assert not is_named_by_key("orders-0-0", b"")


def test_a_key_and_a_comma_are_no_record() -> None:
    assert find_csv_fields([b"b3JkZXItMQ==,"]) is None
