"""``winnow compact`` where it has nothing to do: no Spark is started, and the answer says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli_runner import NOW_MS, make_topic, winnow
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.leases import hold_lease

KEYS = ["topic", "plan_id", "status", "snapshot_id", "partitions", "message"]


def test_idle_topic_is_one_entry_that_says_nothing_to_do(tmp_path: Path) -> None:
    """What assess calls idle compact leaves alone, and that is success."""
    make_topic("orders", tmp_path / "orders.jsonl")
    entry = winnow("compact", "orders", "--as-of", NOW_MS, "--json").document[0]
    assert list(entry)[:6] == KEYS
    assert (entry["topic"], entry["plan_id"], entry["status"], entry["snapshot_id"], entry["partitions"]) == (
        "orders",
        None,
        "nothing_to_do",
        None,
        [],
    )
    assert "winnow assess orders" in entry["message"]


def test_idle_topic_is_told_with_where_to_look(tmp_path: Path) -> None:
    """A sentence on standard output, nothing on standard error."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("compact", "--as-of", NOW_MS)
    assert answer.stdout == "Nothing of orders is eligible now. See why with: winnow assess orders\n"
    assert answer.stderr == ""


def test_installation_without_topics_compacts_to_an_empty_list() -> None:
    """No topics is no error."""
    answer = winnow("compact", "--json")
    assert answer.document == []
    assert "There are no topics yet" in answer.stderr


def test_unknown_topic_ends_with_two_and_the_others_are_seen_to(tmp_path: Path) -> None:
    """Every topic asked for has one entry, the unknown one too; why is said on standard error as well."""
    make_topic("orders", tmp_path / "orders.jsonl")
    both = winnow("compact", "missing", "orders", "--as-of", NOW_MS, "--json", code=2)
    assert [(entry["topic"], entry["status"]) for entry in both.document] == [
        ("missing", "refused"),
        ("orders", "nothing_to_do"),
    ]
    (error,) = both.errors
    assert " ".join([error["what"], error["next"]]) == both.document[0]["message"]
    alone = winnow("compact", "missing", code=2)
    assert (alone.stdout, alone.stderr.count("There is no topic missing")) == ("", 1)


def test_as_of_ahead_of_the_present_needs_simulate(tmp_path: Path) -> None:
    """A typing error must not clean what is not due, and expire tombstones before their time."""
    make_topic("orders", tmp_path / "orders.jsonl")
    before = winnow("read", "orders").stdout
    answer = winnow("compact", "orders", "--as-of", "2999-01-01T00:00:00Z", "--json", code=2)
    assert answer.stdout == ""
    (error,) = answer.errors
    assert re.match(r"--as-of 2999-01-01T00:00:00.000Z lies [0-9,]+ days .*ahead of the present .*", error["what"])
    assert error["left"] == "Nothing was done."
    assert error["next"].startswith("Add --simulate if that is what you want;")
    assert winnow("read", "orders").stdout == before
    assert winnow("receipts", "orders", "--json").document == []


def test_as_of_within_a_minute_of_the_present_needs_nothing(tmp_path: Path) -> None:
    """Clocks of two machines differ by seconds."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["min.cleanable.dirty.ratio=1"])
    answer = winnow("compact", "orders", "--as-of", read_wall_clock_ms() + 50_000, "--json")
    assert answer.document[0]["status"] == "nothing_to_do"


@pytest.mark.parametrize("command", ["assess", "explain"])
def test_what_only_looks_may_look_ahead(tmp_path: Path, command: str) -> None:
    """And says that it does."""
    make_topic("orders", tmp_path / "orders.jsonl")
    assert winnow(command, "orders", "--as-of", "2999-01-01T00:00:00Z").stderr.startswith("simulated: ")


def test_as_of_ahead_of_the_present_is_called_simulated_first(tmp_path: Path) -> None:
    """Before anything is decided."""
    winnow("topics", "create", "orders", "--partitions", 1)
    answer = winnow("compact", "orders", "--as-of", "2999-01-01T00:00:00Z", "--simulate", "--json")
    assert answer.stderr.startswith("simulated: everything is decided as of 2999-01-01T00:00:00.000Z")
    assert answer.document[0]["status"] == "nothing_to_do"


def test_retention_alone_is_published_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no segment, so spark-submit may be out of reach; Great Expectations judges it all the same."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["cleanup.policy=delete", "retention.ms=1"])
    monkeypatch.setenv("PATH", str(tmp_path))
    (entry,) = winnow("compact", "orders", "--json").document
    assert entry["status"] == "published"
    (part,) = entry["partitions"]
    assert (part["records_retired"], part["records_in"], part["next_first_dirty_offset"]) == (6, 0, 6)
    assert winnow("read", "orders").stdout == ""
    assert winnow("compact", "orders", "--json").document[0]["status"] == "nothing_to_do"


def test_a_named_topic_that_another_run_holds_is_refused_and_the_others_are_seen_to(tmp_path: Path) -> None:
    """Run it again later: what was asked for was not done. The sentence says who holds it and until when."""
    make_topic("orders", tmp_path / "orders.jsonl")
    make_topic("payments", tmp_path / "payments.jsonl")
    with open_installation(holder="elsewhere:17:night") as other, hold_lease(other, "orders"):
        answer = winnow("compact", "orders", "payments", "--as-of", NOW_MS, "--json", code=5)
    held, idle = answer.document
    assert (held["topic"], held["status"], held["plan_id"]) == ("orders", "refused", None)
    assert held["message"].startswith("Topic orders is held by elsewhere:17:night until ")
    (error,) = answer.errors
    assert " ".join([error["what"], error["left"], error["next"]]) == held["message"]
    assert (idle["topic"], idle["status"]) == ("payments", "nothing_to_do")


def test_where_no_topic_is_named_one_that_another_run_holds_is_left_to_it(tmp_path: Path) -> None:
    """Who compacts whatever there is wants it done, by whichever run."""
    make_topic("orders", tmp_path / "orders.jsonl")
    with open_installation(holder="elsewhere:17:night") as other, hold_lease(other, "orders"):
        (held,) = winnow("compact", "--as-of", NOW_MS, "--json").document
    assert (held["status"], held["message"].split(" until ")[0]) == (
        "nothing_to_do",
        "Topic orders is held by elsewhere:17:night",
    )
