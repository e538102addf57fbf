"""``winnow restore`` as it is typed: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.restored_topics import Target
from tests.support.cli_runner import make_topic, winnow
from winnow.embedded.kafka_broker import KafkaBroker


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_a_topic_is_restored_and_the_command_says_how_to_find_a_record_again(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    make_topic("orders", tmp_path / "in.jsonl", partitions=2)
    target = Target(broker.bootstrap_servers)
    command = ("restore", "orders", "--bootstrap-servers", target.servers, "--target-topic", target.name)
    first = winnow(*command)
    assert "Restored 12 records of orders" in first.stdout
    assert f"Offsets of both sides: {target.name}.offsets.parquet" in first.stdout
    assert Path(f"{target.name}.offsets.parquet").is_file()
    assert len(target.read()) == 12
    again = winnow(*command)
    assert "Nothing was done." in again.stdout


def test_json_has_each_partition(broker: KafkaBroker, tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "in.jsonl", partitions=2)
    target = Target(broker.bootstrap_servers)
    named = ("--bootstrap-servers", target.servers, "--target-topic", target.name, "--until-offset", "1:4")
    found = winnow("restore", "orders", *named, "--json").document
    assert [(each["partition"], each["records"]) for each in found["partitions"]] == [(0, 6), (1, 4)]
    assert found["records"] == 10
    assert found["bound"] == "offsets 1:4"
    assert winnow("restore", "orders", *named, "--json").document["was_complete"]
    other = winnow("restore", "orders", *named[:-1], "1:5", code=2)
    assert "another restore" in other.stderr


def test_what_cannot_be_restored_ends_with_the_exit_code_of_its_kind(broker: KafkaBroker, tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "in.jsonl")
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    winnow("restore", "unknown", *servers, code=2)
    winnow("restore", "orders", *servers, "--until-offset", "x", code=2)
    winnow("restore", "orders", *servers, "--until-offset", "3:1", "--until-offset", "3:1", code=2)
    winnow("restore", "orders", *servers, "--offsets", "no/such/folder/file", code=2)
    winnow("restore", "orders", *servers, "--snapshot", "17", code=2)
    winnow("restore", "orders", *servers, "--throttle", "fast", code=2)
    winnow("restore", "orders", *servers, "--groups", "missing.csv", code=2)
    target = Target(broker.bootstrap_servers)
    target.create(1)
    target.produce({"key": b"k", "value": b"v"})
    refused = winnow("restore", "orders", *servers, "--target-topic", target.name, code=3)
    assert "is not empty" in refused.stderr
    given_up = winnow("restore", "orders", *servers, "--target-topic", target.name, "--abandon")
    assert "is given up" in given_up.stdout
