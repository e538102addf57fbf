"""``winnow latest`` and ``winnow connect`` as they are typed: rows, columns, SQL, settings, and what is refused."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.support.cli_runner import NOW_MS, make_topic, record, winnow, write_lines
from tests.support.rest_catalog import serve_rest_catalog
from winnow.pipeline.latest.reader_names import ReaderName

SCHEMA = {
    "type": "record",
    "name": "Customer",
    "fields": [
        {"name": "city", "type": ["null", "string"]},
        {"name": "visits", "type": "int"},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "key", "type": "string"},
    ],
}


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def make_customers(tmp_path: Path, values: list[str | None], **fields: object) -> None:
    """One record per value, of the keys k0, k1 and so on."""
    winnow("topics", "create", "customers", "--partitions", 1)
    records = [record(f"k{n}", value, partition=0, offset=n, **fields) for n, value in enumerate(values)]
    winnow("ingest", "files", "customers", write_lines(tmp_path / "a.jsonl", records))


def test_rows_are_key_and_value_with_where_they_are(tmp_path: Path) -> None:
    """The newest version of each key, in offset order; text on demand."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    found = lines(winnow("latest", "orders", "--text").stdout)
    assert [list(each) for each in found] == [["partition", "key", "value", "offset", "timestamp"]] * 6
    assert [(each["partition"], each["key"], each["value"], each["offset"]) for each in found] == [
        (partition, f"key-{n}", "version-1", 3 + n) for partition in range(2) for n in range(3)
    ]
    assert {each["timestamp"] for each in found} == {NOW_MS}
    (one,) = lines(winnow("latest", "orders", "--key", "key-2", "--partition", 1).stdout)
    assert (one["key"], one["offset"]) == (base64.b64encode(b"key-2").decode(), 5)
    assert len(lines(winnow("latest", "orders", "--limit", 4).stdout)) == 4


def test_json_values_become_columns_and_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    """Null where a field is missing, null and a count where it has another type."""
    make_customers(
        tmp_path, ['{"city": "Bonn", "at": {"n": [1, 2]}}', '{"city": 5, "at": {"n": "x"}}', "no json", None]
    )
    answer = winnow("latest", "customers", "--text", "--column", "city:string", "--column", "n:long=$.at.n[1]")
    assert [(each["key"], each["city"], each["n"]) for each in lines(answer.stdout)] == [
        ("k0", "Bonn", 2),
        ("k1", "5", None),
        ("k2", None, None),
    ]
    assert "1 value did not fit column city: null there." in answer.stderr
    assert "1 value did not fit column n: null there." in answer.stderr


@pytest.mark.parametrize("confluent", [False, True])
def test_avro_values_become_the_columns_of_their_schema(tmp_path: Path, confluent: bool) -> None:
    """Plain, or with the bytes that Confluent's serializers put before them; typed in Parquet, too."""
    stream = io.BytesIO(b"\x00\x00\x00\x00\x07" if confluent else b"")
    stream.seek(0, io.SEEK_END)
    row = {"city": "Bonn", "visits": 3, "seen": 1_700_000_000_000, "tags": ["a", "b"], "key": "inner"}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), row)
    (tmp_path / "customer.avsc").write_text(json.dumps(SCHEMA))
    winnow("topics", "create", "customers", "--partitions", 1)
    records = [record("k0", None, offset=0), record("k1", "broken", offset=1)]
    records[0]["value"] = base64.b64encode(stream.getvalue()).decode()
    winnow("ingest", "files", "customers", write_lines(tmp_path / "a.jsonl", records))
    flags = ["--avro-schema", tmp_path / "customer.avsc", *(["--confluent"] if confluent else [])]

    target = tmp_path / "latest.parquet"
    answer = winnow("latest", "customers", *flags, "--format", "parquet", "--output", target)

    table = pq.read_table(target)
    assert table.schema.names == [
        "partition", "key", "city", "visits", "seen", "tags", "value_key", "offset", "timestamp",
    ]  # fmt: skip
    first, second = table.to_pylist()
    assert (first["city"], first["visits"], first["tags"], first["value_key"]) == ("Bonn", 3, '["a","b"]', "inner")
    assert first["seen"].timestamp() == 1_700_000_000
    assert (second["city"], second["visits"]) == (None, None)
    assert "1 value did not fit column visits: null there." in answer.stderr
    assert "Wrote 2 keys" in answer.stderr


@pytest.mark.parametrize("engine", ["spark", "trino", "flink", "duckdb", "clickhouse"])
def test_query_is_printed_for_every_engine_and_reads_nothing(tmp_path: Path, engine: str) -> None:
    """Two comments say what it is and how the table is reached; the rest is the query."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["compaction.strategy=timestamp"])
    for segment in (tmp_path / "winnow-home" / "warehouse").rglob("ingest-*/*.parquet"):
        segment.unlink()
    said = winnow("latest", "orders", "--sql", engine, "--column", "n:long").stdout.splitlines()
    assert said[0] == "-- The latest value of each key of orders, by highest timestamp, then highest offset."
    assert said[1] == f"-- How to reach the table: winnow connect orders --for {engine}"
    assert said[2] == "SELECT"
    assert said[-1].startswith("WHERE winnow_place = 1")
    assert said[-1].endswith(";")


def test_query_leaves_out_records_below_the_log_start_and_says_that_it_grows_old(tmp_path: Path) -> None:
    """A file that is read from its middle on: the engine reads it whole."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["cleanup.policy=compact,delete"])
    winnow("topics", "delete-records", "orders", "--before-offset", "0:2")
    answer = winnow("latest", "orders", "--sql", "duckdb")
    assert 'NOT ("partition" = 0 AND "offset" < 2)' in answer.stdout
    assert "write the query anew" in answer.stderr
    for reader in set(ReaderName) - {ReaderName.TRINO}:
        assert "offset" in winnow("connect", "orders", "--for", reader).stdout
        assert "< 2)" in winnow("connect", "orders", "--for", reader).stdout


def test_catalog_without_views_says_so_and_one_with_views_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's SQL catalogs have none in Python."""
    winnow("topics", "create", "orders", "--partitions", 1)
    assert "has no views" in winnow("latest", "orders", "--create-view", code=2).stderr
    with serve_rest_catalog() as (_, address):
        monkeypatch.setenv("WINNOW_CATALOG__URI", address)
        winnow("topics", "create", "customers", "--partitions", 1)
        for _ in range(2):
            answer = winnow("latest", "customers", "--create-view")
            assert "The view winnow_latest_views.customers shows the latest state of customers." in answer.stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--column", "a"], "is not a column"),
        (["--column", "a:long", "--avro-schema", "x.avsc"], "Leave one out"),
        (["--avro-schema", "missing.avsc"], "is not an Avro schema"),
        (["--confluent"], "--confluent goes with --avro-schema"),
        (["--format", "parquet"], "needs --output FILE"),
        (["--sql", "spark", "--limit", "1"], "take no option but --column and --text"),
        (["--sql", "spark", "--create-view"], "not each other"),
        (["--sql", "oracle"], "Invalid value for '--sql'"),
        (["--key", "base64:?"], "is not base64"),
    ],
)
def test_flags_that_make_no_sense_end_with_two(tmp_path: Path, flags: list[str], said: str) -> None:
    """Before anything is read."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("latest", "orders", *flags, code=2)
    assert answer.stdout == ""
    assert said in answer.stderr


def test_secrets_are_named_and_never_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token, keys of the store, and a password in an address: each by the variable that holds it."""
    with serve_rest_catalog() as (_, address):
        monkeypatch.setenv("WINNOW_CATALOG__URI", address.replace("http://", "http://reader:hidden-1@"))
        monkeypatch.setenv("WINNOW_CATALOG__TOKEN", "hidden-2")
        monkeypatch.setenv("WINNOW_CATALOG__S3__SECRET_ACCESS_KEY", "hidden-3")
        winnow("topics", "create", "orders", "--partitions", 1)
        for reader in ReaderName:
            answer = winnow("connect", "orders", "--for", reader)
            assert "hidden" not in answer.stdout + answer.stderr
            if reader is not ReaderName.CLICKHOUSE:
                assert "WINNOW_CATALOG__TOKEN" in answer.stdout
        program = winnow("connect", "orders", "--for", "pyiceberg").stdout
        assert 'os.environ["WINNOW_CATALOG__URI"]' in program
        assert 'os.environ["WINNOW_CATALOG__S3__SECRET_ACCESS_KEY"]' in program
        compile(program, "pasted.py", "exec")
        found = winnow("connect", "orders", "--for", "spark", "--json").document
        assert (list(found), found["reader"]) == (["topic", "reader", "text"], "spark")
        compile(found["text"], "pasted.py", "exec")


def test_trino_cannot_read_the_embedded_catalog_and_says_what_can(tmp_path: Path) -> None:
    """Rather than settings that do not work."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("connect", "orders", "--for", "trino", code=2)
    assert "Trino cannot read the SQLite file" in answer.stderr
    assert "winnow connect orders --for pyiceberg" in answer.stderr
