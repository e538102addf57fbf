"""Files of programs that Winnow does not know, by the columns that a person names, and what is said of them before."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc

from winnow.errors import BadInputError, UsageError
from winnow.files.record_batch import RECORD_SCHEMA
from winnow.sources.archive import ArchiveInput, open_archive
from winnow.sources.choices import Choices
from winnow.sources.field_map import FieldMap, parse_field_map, propose_field_map, read_field_map

ROWS: list[dict[str, Any]] = [
    {"kafka_offset": 7, "kafka_partition": 1, "customer": "c1", "ts": 1_700_000_000_123, "amount": 12, "note": "é"},
    {"kafka_offset": 8, "kafka_partition": 1, "customer": "c2", "ts": 1_700_000_000_124, "amount": None, "note": "x"},
]
MAP = ("offset=kafka_offset", "partition=kafka_partition", "key=customer", "value=*:json", "timestamp=ts:ms")


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_orc(path: Path, rows: list[dict[str, Any]]) -> None:
    orc.write_table(pa.Table.from_pylist(rows), path)


def write_avro(path: Path, rows: list[dict[str, Any]]) -> None:
    kinds = {int: "long", str: "string"}
    fields = [{"name": name, "type": ["null", kinds[type(value)]]} for name, value in rows[0].items()]
    with path.open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, rows, codec="deflate")


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()))


def write_json_array(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows, ensure_ascii=False))


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    buffer = io.BytesIO()
    csv.write_csv(pa.Table.from_pylist(rows), buffer)
    path.write_bytes(buffer.getvalue())


def read(path: Path, *options: str, choices: Choices | None = None) -> list[dict[str, Any]]:
    """Read all records as an ingest does."""
    fields = parse_field_map(options)
    archive = open_archive([str(path)], fields=fields)
    chosen = choices or Choices(encodings=fields.encodings, fields=fields)
    source = ArchiveInput(archive, archive.objects, "orders", None, chosen)
    opened = source.open_pass(8)
    rows = [row for number in range(len(archive.objects)) for batch in opened.read(number) for row in batch.to_pylist()]
    opened.finish()
    return rows


def test_the_row_becomes_the_value_without_the_columns_of_other_fields_but_the_key(tmp_path: Path) -> None:
    write_parquet(tmp_path / "part-0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d-0-1.parquet", ROWS)
    first, second = read(tmp_path, *MAP)
    assert (first["partition"], first["offset"], first["timestamp"]) == (1, 7, 1_700_000_000_123)
    assert (first["key"], first["value"]) == (b"c1", '{"customer":"c1","amount":12,"note":"é"}'.encode())
    assert (second["offset"], second["value"]) == (8, b'{"customer":"c2","amount":null,"note":"x"}')


@pytest.mark.parametrize(
    "write", [write_parquet, write_orc, write_avro, write_json, write_json_array], ids=lambda each: each.__name__[6:]
)
def test_every_format_gives_the_same_records(
    write: Callable[[Path, list[dict[str, Any]]], None], tmp_path: Path
) -> None:
    write(tmp_path / "data_0_0_0", ROWS)
    write_parquet(tmp_path / "expected.parquet", ROWS)
    options = (*MAP[:2], "key=customer:text", *MAP[3:])
    assert read(tmp_path / "data_0_0_0", *options) == read(tmp_path / "expected.parquet", *options)


def test_a_column_that_is_called_key_is_the_key_alone(tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows.parquet", [{"offset": 1, "partition": 0, "key": "k", "a": 1}])
    (record,) = read(tmp_path, "offset=offset", "partition=partition", "key=key", "value=*")
    assert (record["key"], record["value"]) == (b"k", b'{"a":1}')


def test_csv_has_text_alone_and_its_empty_values_are_asked_for(tmp_path: Path) -> None:
    rows = [{"o": 5, "p": 0, "k": "k1", "v": "a,b"}, {"o": 6, "p": 0, "k": "k2", "v": ""}]
    write_csv(tmp_path / "rows.csv", rows)
    fields = parse_field_map(["offset=o", "partition=p", "key=k:text", "value=v:text"])
    with pytest.raises(BadInputError, match="--empty-values tombstone"):
        read(tmp_path, *fields.list_options()[1::2])
    chosen = Choices(encodings=fields.encodings, fields=fields, empty_values="tombstone")
    found = read(tmp_path, *fields.list_options()[1::2], choices=chosen)
    assert [(row["offset"], row["key"], row["value"]) for row in found] == [(5, b"k1", b"a,b"), (6, b"k2", None)]


def test_members_of_structures_are_named_with_dots(tmp_path: Path) -> None:
    rows = [{"payload": "YQ==", "meta": {"kafka": {"offset": 3, "partition": 0}}, "h": [{"key": "a", "value": "1"}]}]
    write_json(tmp_path / "lines.json.gz", rows)
    options = ("offset=meta.kafka.offset", "partition=meta.kafka.partition", "value=payload:base64", "headers=h:text")
    (record,) = read(tmp_path, *options)
    assert (record["offset"], record["value"], record["headers"]) == (3, b"a", [{"key": "a", "value": b"1"}])
    write_parquet(tmp_path / "rows.parquet", rows)
    (again,) = read(tmp_path / "rows.parquet", *options)
    assert {name: again[name] for name in RECORD_SCHEMA.names} == {n: record[n] for n in RECORD_SCHEMA.names}


def test_a_null_is_a_tombstone_and_a_missing_member_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"o":1,"p":0,"v":null}\n')
    assert [row["value"] for row in read(path, "offset=o", "partition=p", "value=v")] == [None]
    path.write_text('{"o":1,"p":0,"v":"x y"}\n{"o":2,"p":0}\n')
    with pytest.raises(BadInputError, match=r"line 2: it has no column 'v'.*has to be there as null"):
        read(path, "offset=o", "partition=p", "value=v")


def test_numbers_are_exact_whatever_their_type(tmp_path: Path) -> None:
    number = pa.decimal128(38, 0)
    row = {"o": Decimal(2**53 + 1), "p": Decimal(3), "t": Decimal(1_700_000_000_123), "v": b"a"}
    table = pa.table({name: pa.array([value], number if name != "v" else pa.binary()) for name, value in row.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.json").write_text(f'{{"o":"{2**53 + 1}","p":3,"t":1700000000.123,"v":"a b"}}\n')
    options = ("offset=o", "partition=p", "value=v")
    for name, unit in (("a.parquet", "ms"), ("b.json", "s")):
        (record,) = read(tmp_path / name, *options, f"timestamp=t:{unit}")
        found = record["offset"], record["partition"], record["timestamp"]
        assert found == (2**53 + 1, 3, 1_700_000_000_123)


def test_empty_values_are_tombstones_where_a_person_says_so(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"o":1,"p":0,"v":""}\n{"o":2,"p":0,"v":"x y"}\n')
    fields = parse_field_map(["offset=o", "partition=p", "value=v:text"])
    for said, first in ((None, b""), ("keep", b""), ("tombstone", None)):
        chosen = Choices(encodings=fields.encodings, fields=fields, empty_values=said)
        found = read(path, *fields.list_options()[1::2], choices=chosen)
        assert [row["value"] for row in found] == [first, b"x y"]


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([{"o": 1, "p": 0, "v": "a", "ts": 5}], ("timestamp=ts",), "of which unit they are is not in the file"),
        ([{"o": None, "p": 0, "v": "a"}, {"o": 1, "p": 0, "v": "a"}], (), "it has no offset or no partition"),
        ([{"o": "x1", "p": 0, "v": "a"}], (), "its offset or partition is no number"),
        ([{"o": -1, "p": 0, "v": "a"}], (), "offset is out of range"),
        ([{"p": 0, "v": "a"}], (), "it has no column 'o'"),
        ([{"o": Decimal("1.5"), "p": 0, "v": "a"}], (), "column offset is of type decimal128"),
        ([{"o": 1, "p": 0, "v": "a", "ts": "5.0001"}], ("timestamp=ts:s",), "not a whole number of milliseconds"),
        ([{"o": 1, "p": 0, "v": "a", "ts": "1e9"}], ("timestamp=ts:s",), "its timestamp is no number"),
    ],
)
def test_what_is_no_record_is_refused(
    rows: list[dict[str, Any]], options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "rows.parquet", rows)
    with pytest.raises(BadInputError, match=said) as refused:
        read(tmp_path, "offset=o", "partition=p", "value=v:text", *options)
    assert "Nothing of this call landed." in str(refused.value)


@pytest.mark.parametrize("options", [("timestamp=t",), ("headers=h",), ("topic=t",)])
@pytest.mark.parametrize("damaged", [b"\xff", b"[" * 5_000 + b"]" * 5_000])
def test_a_member_that_cannot_be_decoded_is_refused(options: tuple[str, ...], damaged: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    text = b'"%s"' % damaged if damaged == b"\xff" else damaged
    path.write_bytes(b'{"o":1,"p":0,"v":"a b","t":%s,"h":{"a":%s}}\n' % (text, text))
    with pytest.raises(BadInputError, match=r"line 1"):
        read(path, "offset=o", "partition=p", "value=v", *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("offset=o", "partition=p"), "names no column for value"),
        (("offset=o", "value=v"), "--map partition=COLUMN"),
        (("offset=o", "offset=p", "partition=p", "value=v"), "each once"),
        (("ofset=o",), "FIELD one of"),
        (("offset=o", "partition=p", "value=*:base64"), "is JSON text"),
        (("offset=*", "partition=p", "value=v"), "only value may be"),
    ],
)
def test_a_map_that_cannot_be_is_refused(options: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_field_map(options)


def test_partition_beside_a_map_is_refused_since_a_column_tells_it(tmp_path: Path) -> None:
    """Neither is silently the other's: offsets of one partition would stand in another."""
    write_parquet(tmp_path / "rows.parquet", ROWS)
    with pytest.raises(UsageError, match=r"--partition is not taken beside --map.*Nothing of this call landed"):
        open_archive([str(tmp_path)], fields=parse_field_map(MAP), partition=2)


def test_a_map_comes_back_from_the_ledger_as_it_went_in() -> None:
    fields = parse_field_map(["offset=a:b", "partition=p", "value=*:json", "key=k:base64", "timestamp=t:us"])
    assert fields.columns["offset"] == "a:b"
    assert read_field_map(Choices(fields=fields).to_document()) == fields
    assert Choices().fill_from(Choices(fields=fields).to_document()).fields == fields


def test_a_map_is_proposed_where_names_tell_offset_and_partition() -> None:
    proposed = propose_field_map(["id", "kafka_offset", "kafka_partition", "record_key", "payload", "event_timestamp"])
    assert proposed is not None
    assert proposed.list_options()[1::2] == [
        "offset=kafka_offset",
        "partition=kafka_partition",
        "key=record_key",
        "value=payload",
        "timestamp=event_timestamp",
    ]
    assert propose_field_map(["id", "amount", "offset"]) is None
    assert propose_field_map(["offset", "partition", "id"]) == FieldMap(
        {"offset": "offset", "partition": "partition", "value": "*"}
    )
