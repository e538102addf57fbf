"""``winnow schemas``: which schemas keys and values begin with; what a registry says of them, or why not."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.cli_runner import b64, record, winnow, write_lines
from tests.support.schema_registry import serve_answers
from winnow.pipeline.read.schema_ids import MAXIMUM_LISTED_IDS

pytestmark = pytest.mark.usefixtures("winnow_home")


def frame(schema_id: int, body: str = "") -> str:
    return (b"\0" + schema_id.to_bytes(4)).decode("latin-1") + body


def make_topic(path: Path, keys_and_values: list[tuple[str | None, str | None]], partitions: int = 1) -> None:
    winnow("topics", "create", "orders", "--partitions", partitions, "--config", "cleanup.policy=compact,delete")
    records = [
        record(key, value, partition=number % partitions, offset=number // partitions)
        for number, (key, value) in enumerate(keys_and_values)
    ]
    winnow("ingest", "files", "orders", write_lines(path, records))


def test_ids_of_keys_and_values_are_counted(tmp_path: Path) -> None:
    """Over all partitions; tombstones are left out, what begins with no id is counted apart, and no byte is shown."""
    values = [frame(7, "secret"), frame(7), frame(9, "x"), "\0\0\0\0", "secret", None, frame(7)]
    make_topic(tmp_path / "a.jsonl", [(frame(3, f"{number}"), value) for number, value in enumerate(values)], 2)
    answer = winnow("schemas", "list", "orders", "--json")
    document = answer.document
    assert [(use["column"], use["schema_id"], use["records"]) for use in document["uses"]] == [
        ("key", 3, 7),
        ("value", 7, 3),
        ("value", 9, 1),
    ]
    assert document["unframed"] == {"key": 0, "value": 2}
    assert document["unlisted"] == {"key": 0, "value": 0}
    assert document["problem"] == "No schema registry is set (schema_registry.url)."
    shown = winnow("schemas", "list", "orders")
    assert "No schema registry is set" in shown.stderr
    for line in (("value", "7", "3"), ("value", "none", "2")):
        assert any(line == tuple(words.split()) for words in shown.stdout.splitlines()), shown.stdout
    assert "secret" not in f"{answer} {shown}"


def test_schemas_that_headers_and_heads_name_are_counted_by_id_and_by_guid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header goes before the head of its datum; a damaged one is none. A GUID that nobody knows may be anything."""
    guid = UUID(int=5)
    head = "\1" + guid.bytes.decode()
    names: list[str | None] = ["\0\0\0\0\7", head, "\0\0\0", None, "\0\0\0\0\7", None, None]
    names += ["\0\0\0\0\0\0\0\7", "\1\0\0\0\0\0\0\7", "\0\0\0\0\0\0\0\7"]
    headers = ["__value_schema_id"] * 7 + ["apicurio.value.contentId"] * 2 + ["apicurio.value.globalId"]
    values = [frame(9)] * 5 + [head + "body", "\1someone's secret"] + [frame(9)] * 3
    winnow("topics", "create", "orders", "--partitions", 1)
    records = [
        record(
            f"{number}",
            value,
            partition=0,
            offset=number,
            headers=[{"key": header, "value": None if name is None else b64(name)}],
        )
        for number, (header, name, value) in enumerate(zip(headers, names, values, strict=True))
    ]
    winnow("ingest", "files", "orders", write_lines(tmp_path / "a.jsonl", records))
    uses = [("value", 7, 3, "AVRO"), ("value", str(guid), 2, "AVRO"), ("value", 9, 1, "AVRO")]
    unknown = winnow("schemas", "list", "orders", "--json").document
    assert [(use["schema_id"], use["kind"]) for use in unknown["uses"]] == [(7, ""), (9, "")]
    assert unknown["unlisted"] == {"key": 0, "value": 3}

    def answer(path: str) -> tuple[int, bytes]:
        if "versions" in path:
            return 200, b"[]"
        if path.startswith("/schemas/guids/") and not path.endswith(str(guid)):
            return 404, b'{"error_code": 40403}'
        return 200, b'{"schema": "\\"int\\""}'

    with serve_answers(answer) as (url, _):
        monkeypatch.setenv("WINNOW_SCHEMA_REGISTRY__URL", url)
        shown = winnow("schemas", "list", "orders", "--json")
        pulled = winnow("schemas", "pull", "orders", code=4)
    document = shown.document
    found = [(use["column"], use["schema_id"], use["records"], use["kind"]) for use in document["uses"]]
    assert sorted(found, key=str) == sorted(uses, key=str)
    assert (document["unframed"], document["unlisted"]) == ({"key": 10, "value": 3}, {"key": 0, "value": 1})
    assert "3 schemas kept with the topic" in pulled.stderr
    assert "it does not give 1 schema named by GUID" in " ".join(pulled.stderr.split())
    secret = UUID(bytes=b"someone's secret")
    assert str(secret) not in f"{shown} {pulled}"


def test_records_below_the_log_start_are_not_counted(tmp_path: Path) -> None:
    """They are deleted; their files may still be there."""
    make_topic(tmp_path / "a.jsonl", [("a", frame(1)), ("b", frame(2)), ("c", frame(3))])
    winnow("topics", "delete-records", "orders", "--before-offset", "0:2")
    assert [use["schema_id"] for use in winnow("schemas", "list", "orders", "--json").document["uses"]] == [3]


def test_ever_new_ids_are_listed_up_to_a_limit(tmp_path: Path) -> None:
    """Numbers as keys look like framed datums; the rest is counted together."""
    more = MAXIMUM_LISTED_IDS + 5
    make_topic(tmp_path / "a.jsonl", [(frame(number % 128 + (number // 128 << 8), "x"), "v") for number in range(more)])
    document = winnow("schemas", "list", "orders", "--json").document
    assert len(document["uses"]) == MAXIMUM_LISTED_IDS
    assert document["unlisted"] == {"key": 5, "value": 0}


def test_registry_says_what_a_schema_is_or_why_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts are there either way."""
    make_topic(tmp_path / "a.jsonl", [("a", frame(1)), ("b", frame(2))])

    def answer(path: str) -> tuple[int, bytes]:
        if "/2" in path:
            return 404, b'{"error_code": 40403}'
        found = [{"subject": "s", "version": 4}] if path.endswith("versions") else {"schema": '"int"'}
        return 200, json.dumps(found).encode()

    with serve_answers(answer) as (url, _):
        monkeypatch.setenv("WINNOW_SCHEMA_REGISTRY__URL", url)
        uses = winnow("schemas", "list", "orders", "--json").document["uses"]
    assert [(use["schema_id"], use["kind"], use["subjects"]) for use in uses] == [(1, "AVRO", ["s 4"]), (2, "", [])]
    document = winnow("schemas", "list", "orders", "--json").document
    assert [use["records"] for use in document["uses"]] == [1, 1]
    assert "cannot be reached" in document["problem"]


def test_topic_without_records_says_so(tmp_path: Path) -> None:
    """And an unknown one is an error."""
    winnow("topics", "create", "orders", "--partitions", 1)
    assert winnow("schemas", "list", "orders").stderr == "orders has no records.\n"
    assert "nothing" in winnow("schemas", "list", "nothing", code=2).stderr


def test_pull_says_what_it_kept_and_names_what_it_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids that the registry does not know are an error, in words and as a document; the others are kept."""
    make_topic(tmp_path / "a.jsonl", [("a", frame(1, "secret")), ("b", frame(2)), ("c", frame(3))])

    def answer(path: str) -> tuple[int, bytes]:
        known = {"1": (200, b'{"schema": "\\"int\\""}'), "3": (200, b'{"schema": "\\"int\\"", "references": 1}')}
        return known.get(path.rsplit("/", 1)[1], (404, b'{"error_code": 40403}'))

    assert "No schema registry is set" in winnow("schemas", "pull", "orders", code=2).stderr
    with serve_answers(answer) as (url, _):
        monkeypatch.setenv("WINNOW_SCHEMA_REGISTRY__URL", url)
        winnow("schemas", "pull", "orders", code=6)
    with serve_answers(lambda path: answer(path.replace("/3", "/1"))) as (url, _):
        monkeypatch.setenv("WINNOW_SCHEMA_REGISTRY__URL", url)
        shown = winnow("schemas", "pull", "orders", code=4)
        assert "orders: 2 schemas pulled; 2 schemas kept with the topic." in shown.stderr
        assert "the registry does not know 2." in " ".join(shown.stderr.split())
        answered = winnow("schemas", "pull", "orders", "--json", code=4)
        assert (answered.document["pulled"], answered.document["unknown"]) == ([], [2])
        assert [error["exit_code"] for error in answered.errors] == [4]
    assert "secret" not in f"{shown} {answered}"
