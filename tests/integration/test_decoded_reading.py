"""``--decoded``: keys and values of records as JSON, by the topic's formats, with what its rules show of them."""

from __future__ import annotations

import base64
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.support.cli_runner import NOW_MS, winnow, write_lines
from tests.support.schema_registry import serve_answers

pytestmark = pytest.mark.usefixtures("winnow_home")

CUSTOMER: dict[str, Any] = {
    "type": "record",
    "name": "Customer",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "balance", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}},
        {"name": "email", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
BALANCE = Decimal("1234567890123456789012345.67")
ANNA = {"city": "Ulm", "balance": BALANCE, "email": "anna@example.com", "tags": ["a", "b"], "seen": NOW_MS}
SHOWN = {"city": "Ulm", "email": "anna@example.com", "tags": ["a", "b"], "seen": "2023-11-14T22:13:20Z"}
RAW = {"partition", "offset", "timestamp", "timestampType", "key", "value", "headers"}
DECODED = {"decoded_key", "decoded_value", "error"}


def encode(value: dict[str, Any]) -> str:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(CUSTOMER), value)
    return base64.b64encode(stream.getvalue()).decode()


def record(key: str, value: str | None) -> dict[str, Any]:
    headers = [{"key": "origin", "value": base64.b64encode(b"secret-header").decode()}]
    shown = base64.b64encode(key.encode()).decode()
    return {"partition": 0, "timestamp": NOW_MS, "timestampType": 0, "key": shown, "value": value, "headers": headers}


def make_customers(folder: Path, *config: str) -> None:
    schema = folder / "customer.avsc"
    schema.write_text(json.dumps(CUSTOMER))
    typed = ["winnow.key.format=string", "winnow.value.format=avro", f"winnow.value.schema={schema}", *config]
    flags = [part for pair in typed for part in ("--config", pair)]
    winnow("topics", "create", "customers", "--partitions", 1, *flags)
    damaged = base64.b64encode(b"\xff secret-bytes").decode()
    values = [("anna", encode(ANNA)), ("bert", damaged), ("anna", encode({**ANNA, "city": "Kiel", "email": None}))]
    records = [record(key, value) for key, value in [*values, ("bert", None)]]
    winnow("ingest", "files", "customers", write_lines(folder / "a.jsonl", records))


def read_lines(*arguments: object) -> list[dict[str, Any]]:
    answer = winnow(*arguments)
    return [json.loads(line, parse_float=Decimal) for line in answer.stdout.splitlines()]


def test_records_are_shown_as_json_beside_their_bytes(tmp_path: Path) -> None:
    """Numbers have all of their digits, null fields are left out; a tombstone has no value."""
    make_customers(tmp_path)
    lines = read_lines("read", "customers", "--decoded")
    assert all(set(line) == RAW | DECODED for line in lines)
    assert lines[0]["decoded_key"] == "anna"
    assert lines[0]["decoded_value"] == {**SHOWN, "balance": BALANCE}
    kept = {name: value for name, value in SHOWN.items() if name != "email"}
    assert lines[2]["decoded_value"] == {**kept, "balance": BALANCE, "city": "Kiel"}
    assert (lines[3]["decoded_key"], lines[3]["decoded_value"], lines[3]["error"]) == ("bert", None, None)
    plain = read_lines("read", "customers")
    assert [{name: line[name] for name in RAW} for line in lines] == plain


def test_a_value_that_does_not_decode_has_an_error_and_its_bytes(tmp_path: Path) -> None:
    """The error quotes nothing of them."""
    make_customers(tmp_path)
    line = read_lines("read", "customers", "--decoded", "--from-offset", 1, "--limit", 1)[0]
    assert (line["decoded_key"], line["decoded_value"]) == ("bert", None)
    assert line["error"].startswith("value: ")
    assert "secret" not in line["error"]
    assert base64.b64decode(line["value"]) == b"\xff secret-bytes"


def test_hidden_fields_are_nowhere_in_what_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are bytes and headers; a masked field is the digest that the typed table has."""
    monkeypatch.setenv("WINNOW_LATEST__SECRET", "a secret of sixteen bytes or more")
    make_customers(tmp_path, "winnow.latest.fields=city,email:hmac", "winnow.latest.table=true")
    answers = [
        winnow("read", "customers", "--decoded").stdout,
        winnow("read", "customers", "--decoded", "--text").stdout,
        winnow("read", "customers", "--decoded", "--latest").stdout,
        winnow("changes", "customers", "--decoded", "--from-offset", 0).stdout,
        winnow("why", "customers", "--decoded", "--partition", 0, "--offset", 0).stdout,
        winnow("why", "customers", "--decoded", "--key", "text:anna", "--json").stdout,
    ]
    lines = [json.loads(line) for line in answers[0].splitlines()]
    assert all(set(line) == (RAW - {"key", "value", "headers"}) | DECODED for line in lines)
    digest = lines[0]["decoded_value"]["email"]
    assert lines[0]["decoded_value"] == {"city": "Ulm", "email": digest}
    assert len(digest) == 64
    assert [line["decoded_key"] for line in lines] == [None] * 4
    for answer in answers:
        for hidden in ("anna", "example.com", "1234567890", "secret", "tags", base64.b64encode(b"anna").decode()):
            assert hidden not in answer
    winnow("latest-table", "update", "customers")
    assert [json.loads(line) for line in winnow("read", "customers", "--decoded").stdout.splitlines()] == lines


def test_changes_and_the_records_behind_an_answer_are_shown_as_json(tmp_path: Path) -> None:
    """For programs and for people."""
    make_customers(tmp_path)
    (change,) = read_lines("changes", "customers", "--decoded", "--from-offset", 0)
    assert (change["change"], change["decoded_key"], change["decoded_value"]["city"]) == ("inserted", "anna", "Kiel")
    answer = winnow("why", "customers", "--decoded", "--key", "text:anna", "--json")
    document = json.loads(answer.stdout, parse_float=Decimal)
    assert [(shown["offset"], shown["decoded_value"]["city"]) for shown in document["decoded"]] == [
        (0, "Ulm"),
        (2, "Kiel"),
    ]
    assert document["decoded"][0]["decoded_value"]["balance"] == BALANCE
    del document["decoded"]
    assert document == winnow("why", "customers", "--key", "text:anna", "--json").document
    people = winnow("why", "customers", "--decoded", "--partition", 0, "--offset", 1).stdout
    assert "bert" in people
    assert "value: The datum is damaged" in people


def test_changes_decode_by_the_schema_that_a_header_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the key of a deleted one, and where the bytes look as if they began with the id of another schema."""

    def make_schema(*names: str) -> dict[str, Any]:
        return {"type": "record", "name": "Point", "fields": [{"name": name, "type": "long"} for name in names]}

    schemas = {"1": make_schema(*"abcdef"), "2": make_schema("other")}
    stream = io.BytesIO()
    point = dict.fromkeys("abcd", 0) | {"e": 1, "f": 5}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schemas["1"]), point)
    bare = stream.getvalue()
    assert bare[:5] == b"\0\0\0\0\2"
    shown, header = base64.b64encode(bare).decode(), base64.b64encode(b"\0\0\0\0\1").decode()
    headers = [{"key": f"__{side}_schema_id", "value": header} for side in ("key", "value")]
    records: list[dict[str, Any]] = [
        {"partition": 0, "timestamp": NOW_MS, "timestampType": 0, "key": shown, "value": value, "headers": headers}
        for value in (shown, None)
    ]
    with serve_answers(lambda path: (200, json.dumps({"schema": json.dumps(schemas[path[-1]])}).encode())) as (url, _):
        monkeypatch.setenv("WINNOW_SCHEMA_REGISTRY__URL", url)
        formats = [part for side in ("key", "value") for part in ("--config", f"winnow.{side}.format=avro")]
        winnow("topics", "create", "points", "--partitions", 1, *formats)
        winnow("ingest", "files", "points", write_lines(tmp_path / "a.jsonl", records))
        (inserted,) = read_lines("changes", "points", "--decoded", "--from-offset", 0, "--to-offset", 1)
        (deleted,) = read_lines("changes", "points", "--decoded", "--from-offset", 1)
    assert (inserted["decoded_key"], inserted["decoded_value"], inserted["error"]) == (point, point, None)
    assert (deleted["change"], deleted["decoded_key"], deleted["error"]) == ("deleted", point, None)
    assert "headers" not in inserted


def test_json_documents_come_back_as_they_were(tmp_path: Path) -> None:
    """Each record as it is, whatever the types of its fields in others are."""
    documents: list[Any] = [{"a": 1, "b": {"c": [1, 2]}}, {"a": "x"}, 7, "text", [True], {"deep": {"x": None}}]
    winnow("topics", "create", "events", "--partitions", 1, "--config", "winnow.value.format=json")
    values = [base64.b64encode(json.dumps(document).encode()).decode() for document in documents]
    records = [record(f"k{number}", value) for number, value in enumerate(values)]
    winnow("ingest", "files", "events", write_lines(tmp_path / "a.jsonl", records))
    lines = read_lines("read", "events", "--decoded")
    assert [line["decoded_value"] for line in lines] == [*documents[:-1], {}]
    assert [base64.b64decode(line["decoded_key"]) for line in lines] == [f"k{number}".encode() for number in range(6)]


def test_what_cannot_be_decoded_is_refused_with_the_next_step(tmp_path: Path) -> None:
    """A topic without a format, and what is no record of the log."""
    winnow("topics", "create", "plain", "--partitions", 1)
    assert "winnow topics alter plain" in winnow("read", "plain", "--decoded", code=2).stderr
    for arguments in (["--quarantined"], ["--format", "parquet", "--output", tmp_path / "x.parquet"]):
        assert "--decoded gives JSON lines" in winnow("read", "plain", "--decoded", *arguments, code=2).stderr
