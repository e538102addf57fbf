"""``winnow restore`` as it is typed: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.restored_topics import Target
from tests.support.cli_runner import make_topic, winnow


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


def test_json_has_each_partition_also_of_shares(broker: KafkaBroker, tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "in.jsonl", partitions=2)
    target = Target(broker.bootstrap_servers)
    servers = ("--bootstrap-servers", target.servers)
    named = (*servers, "--target-topic", target.name, "--shares", "3", "--until-offset", "1:4")
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


def test_several_topics_are_restored_and_one_that_fails_stops_no_other(broker: KafkaBroker, tmp_path: Path) -> None:
    unique = Target(broker.bootstrap_servers).name
    for topic in ("shop.a", "shop.b", "shop.c", "other"):
        make_topic(topic, tmp_path / f"{topic}.jsonl")
    taken = Target(broker.bootstrap_servers, f"{unique}.shop.b")
    taken.create(1)
    taken.produce({"key": b"k", "value": b"v"})
    command = ("restore", "--topics-regex", "shop[.].*", "--bootstrap-servers", broker.bootstrap_servers)
    answer = winnow(*command, "--target-prefix", f"{unique}.", "--json", code=3)
    found = [(each["topic"], each["exit_code"], each.get("records")) for each in answer.document]
    assert found == [("shop.a", 0, 6), ("shop.b", 3, None), ("shop.c", 0, 6)]
    assert "is not empty" in answer.document[1]["error"]
    assert "is not empty" in answer.stderr
    for topic in ("shop.a", "shop.c"):
        assert len(Target(broker.bootstrap_servers, f"{unique}.{topic}").read()) == 6
    named = winnow(*command, "--target-topic", rf"{unique}-\g<0>")
    assert named.stdout.count("Restored 6 records of shop.") == 3
    assert "shop.c (3 of 3): Verifying" in named.stderr
    given_up = winnow(*command, "--target-topic", rf"{unique}-\g<0>", "--abandon")
    assert given_up.stdout.count("is given up") == 3


def test_several_topics_that_cannot_be_told_apart_in_kafka_are_refused(tmp_path: Path) -> None:
    for topic in ("shop.a", "shop.b"):
        make_topic(topic, tmp_path / f"{topic}.jsonl")
    command = ("restore", "--topics-regex", "shop[.](.)", "--bootstrap-servers", "localhost:1")
    assert "would both be restored into topic copy" in winnow(*command, "--target-topic", "copy", code=2).stderr
    winnow(*command, "--target-topic", r"\2", code=2)
    winnow(*command, "--target-topic", "x", "--target-prefix", "y", code=2)
    winnow(*command, "--snapshot", "1", code=2)
    winnow(*command[:2], "(", *command[3:], code=2)
    winnow(*command[:2], "nothing", *command[3:], code=2)
    winnow("restore", *command[3:], code=2)
