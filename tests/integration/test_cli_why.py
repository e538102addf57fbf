"""``winnow why`` and ``winnow compare`` as they are typed: usage, documents, and what people read."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.support.cli_runner import NOW_MS, b64, make_topic, winnow

WHY_KEYS = ["topic", "partition", "offset", "present", "verdict", "sentence"]


def test_key_is_answered_in_one_document_that_does_not_repeat_it(tmp_path: Path) -> None:
    """Coordinates only, in the answer and in the sentences."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=1)
    key = b64("key-1")

    found = winnow("why", "orders", "--key", key, "--json").document

    assert list(found)[:6] == WHY_KEYS
    assert (found["topic"], found["partition"], found["present"], found["verdict"]) == ("orders", 0, True, "undecided")
    assert [(each["offset"], each["section"]) for each in found["records"]] == [(1, "dirty"), (4, "dirty")]
    assert found["next_winner"]["offset"] == 4
    told = winnow("why", "orders", "--key", key)
    assert "offset 4" in told.stdout
    for text in (str(found), told.stdout, told.stderr):
        assert "key-1" not in text
        assert str(key) not in text


@pytest.mark.parametrize(
    "typed", ["text:key-1", "hex:6b65792d31", "hex:6B 65 79 2D 31", "base64:a2V5LTE=", "a2V5LTE=", "key-1"]
)
def test_key_can_be_typed_as_text_in_hexadecimal_or_in_base64(tmp_path: Path, typed: str) -> None:
    """Every form asks about the same bytes; without a prefix it is base64, as it always was, and else text."""
    make_topic("orders", tmp_path / "orders.jsonl")
    found = winnow("why", "orders", "--key", typed, "--json").document
    assert [each["offset"] for each in found["records"]] == [1, 4]


def make_topic_of_key(path: Path, key: bytes) -> None:
    """A topic with one record."""
    line = {"partition": 0, "offset": 0, "timestamp": NOW_MS, "key": base64.b64encode(key).decode(), "value": "YQ=="}
    path.write_text(json.dumps(line) + "\n")
    winnow("ingest", "files", "orders", path, "--create")


def test_key_that_is_there_as_text_alone_is_not_answered_as_base64(tmp_path: Path) -> None:
    """What can be both is base64 as long as a record has it; else the prefix is asked for, and the key not repeated."""
    make_topic_of_key(tmp_path / "orders.jsonl", b"order123")
    asked = winnow("why", "orders", "--key", "order123", "--json", code=2)
    assert "records have it as text. Write text:KEY, or base64:KEY" in asked.stderr
    assert "order123" not in asked.stderr
    assert winnow("why", "orders", "--key", "text:order123", "--json").document["present"] is True
    assert winnow("why", "orders", "--key", "base64:order123", "--json").document["present"] is False
    assert winnow("why", "orders", "--key", "order124", "--json").document["verdict"] == "absent"


def test_missing_key_without_a_prefix_says_how_it_was_read(tmp_path: Path) -> None:
    """So that base64 with a character missing is not taken for an answer."""
    make_topic_of_key(tmp_path / "orders.jsonl", b"order123")
    assert "looked for as text" in winnow("why", "orders", "--key", "a2V5LTE").stderr
    assert "looked for as text" not in winnow("why", "orders", "--key", "text:a2V5LTE").stderr


@pytest.mark.parametrize("command", [["read"], ["read", "--latest"], ["latest"]])
def test_key_that_is_there_as_base64_alone_is_hinted_at(tmp_path: Path, command: list[str]) -> None:
    """Other commands read it as text, as they always did, and say so where that found nothing."""
    make_topic_of_key(tmp_path / "orders.jsonl", b"key-1")
    hinted = winnow(command[0], "orders", *command[1:], "--key", "a2V5LTE=")
    assert hinted.stdout == ""
    assert "No record has this key as text. It may be base64" in hinted.stderr
    for typed in ("key-1", "base64:a2V5LTE=", "text:key-1"):
        found = winnow(command[0], "orders", *command[1:], "--key", typed)
        assert (len(found.stdout.splitlines()), found.stderr) == (1, "")


def test_offset_is_answered_whether_it_is_there_or_not(tmp_path: Path) -> None:
    """A question that can be answered ends with 0."""
    make_topic("orders", tmp_path / "orders.jsonl")
    there = winnow("why", "orders", "--partition", 0, "--offset", 2, "--json").document
    assert (there["offset"], there["present"], there["record"]["timestamp_ms"]) == (2, True, NOW_MS)
    missing = winnow("why", "orders", "--partition", 0, "--offset", 6, "--json").document
    assert (missing["present"], missing["verdict"], missing["runs"]) == (False, "not_written", [])
    assert winnow("why", "orders", "--partition", 0, "--offset", 6).stdout == (
        "orders-0, offset 6 is not written yet: the log ends at 6.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--key", "base64:c2VjcmV0!"], "is not base64"),
        (["--key", "base64:a"], "is not base64"),
        (["--key", "hex:c2VjcmV0"], "is not hexadecimal"),
        ([], "Ask about a key (--key KEY) or about an offset"),
        (["--key", "YQ==", "--offset", "1", "--partition", "0"], "one of the two"),
        (["--offset", "1"], "--offset needs --partition"),
        (["--key", "YQ==", "--partition", "7"], "there is no partition 7"),
        (["--offset", "1", "--partition", "7"], "there is no partition 7"),
        (["--key", "YQ==", "--partition", "0", "--everywhere"], "contradict one another"),
    ],
)
def test_question_that_makes_no_sense_ends_with_two(tmp_path: Path, arguments: list[str], said: str) -> None:
    """One sentence on standard error, nothing on standard output, and the key is not repeated."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("why", "orders", *arguments, "--json", code=2)
    assert answer.stdout == ""
    assert said in answer.stderr
    assert "c2VjcmV0" not in answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [["why", "missing", "--key", "YQ=="], ["compare", "missing", "--strategy", "timestamp"]],
    ids=["why", "compare"],
)
def test_unknown_topic_ends_with_two(arguments: list[str]) -> None:
    """It is named, with how to create it."""
    answer = winnow(*arguments, code=2)
    assert answer.stdout == ""
    assert "There is no topic missing" in answer.stderr


def test_topic_without_records_is_compared_to_nothing_without_spark() -> None:
    """One document with zeros."""
    winnow("topics", "create", "orders", "--partitions", 1)
    found = winnow("compare", "orders", "--strategy", "timestamp", "--json").document
    assert (found["keys"], found["keys_differing"], found["sample"], found["partitions"]) == (0, 0, [], [])
    assert (found["present"]["strategy"], found["other"]["strategy"]) == ("offset", "timestamp")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--strategy", "newest"], "Invalid value for '--strategy'"),
        ([], "Missing option '--strategy'"),
        (["--strategy", "header"], "compaction.strategy.header must be specified"),
        (["--strategy", "offset", "--header", "v"], "--header goes with --strategy header"),
    ],
)
def test_strategy_that_cannot_be_tried_ends_with_two(arguments: list[str], said: str) -> None:
    """Nothing is compared."""
    winnow("topics", "create", "orders", "--partitions", 1)
    answer = winnow("compare", "orders", *arguments, code=2)
    assert answer.stdout == ""
    assert said in answer.stderr


def test_versions_of_a_key_that_runs_removed_are_shown_with_the_run_while_their_files_exist(tmp_path: Path) -> None:
    """Places only: neither the document nor the table has bytes of them. A question about an offset has none."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=1)
    winnow("topics", "alter", "orders", "--config", "min.cleanable.dirty.ratio=0")
    assert winnow("why", "orders", "--key", "text:key-1", "--json").document["removed"]["records"] == []
    winnow("compact", "orders", "--include-active-segment")

    found = winnow("why", "orders", "--key", "text:key-1", "--json").document["removed"]

    (run,) = winnow("receipts", "orders", "--json").document
    assert [(each["partition"], each["offset"], each["is_certain"]) for each in found["records"]] == [(0, 1, True)]
    assert found["records"][0]["plan_id"] == run["plan_id"]
    assert (found["total"], found["unread_files"], found["damaged_files"]) == (1, 0, 0)
    told = winnow("why", "orders", "--key", "text:key-1").stdout
    assert "Records of this key that runs removed" in told
    assert run["plan_id"][:12] in told
    assert "key-1" not in told
    assert "removed" not in winnow("why", "orders", "--partition", "0", "--offset", "1", "--json").document
