"""``winnow topics`` and ``winnow settings`` against a real catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_runner import make_topic, winnow


def test_created_topic_is_told_with_the_next_command_to_type() -> None:
    """A sentence says what was made and what to do with it."""
    answer = winnow("topics", "create", "orders", "--partitions", 3)
    assert answer.stdout.startswith("Created topic orders with 3 partitions at ")
    assert "Next: winnow ingest files orders PATH..." in answer.stdout
    assert answer.stderr == ""


def test_topics_are_listed_one_a_line_and_sorted() -> None:
    """The list is for scripts, as plain names or as JSON."""
    winnow("topics", "create", "returns", "--partitions", 1)
    winnow("topics", "create", "orders", "--partitions", 1)
    assert winnow("topics", "list").stdout == "orders\nreturns\n"
    assert winnow("topics", "list", "--json").document == ["orders", "returns"]


def test_empty_installation_lists_nothing_and_says_how_to_begin() -> None:
    """No topics is no error."""
    answer = winnow("topics", "list", "--json")
    assert answer.document == []
    assert "winnow topics create TOPIC --partitions N" in answer.stderr


def test_description_holds_configuration_with_sources_and_the_log(tmp_path: Path) -> None:
    """Everything about a topic in one document."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2, config=["segment.ms=1000"])
    described = winnow("topics", "describe", "orders", "--json").document
    config = {entry["name"]: entry for entry in described["config"]}
    assert (described["topic"], described["partitions"]) == ("orders", 2)
    assert (config["segment.ms"]["value"], config["segment.ms"]["source"]) == ("1000", "topic")
    assert config["cleanup.policy"]["source"] == "default (Winnow)"
    assert config["delete.retention.ms"]["source"] == "default"
    first = described["log"][0]
    assert (first["partition"], first["log_start_offset"], first["log_end_offset"], first["records"]) == (0, 0, 6, 6)
    assert first["first_dirty_offset"] is None
    assert first["bytes"] > 0


def test_description_for_people_names_every_key_and_partition(tmp_path: Path) -> None:
    """No cell is cut where standard output is no terminal."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    text = winnow("topics", "describe", "orders").stdout
    for expected in (
        "min.cleanable.dirty.ratio",
        "default (Winnow)",
        "orders-0",
        "orders-1",
        "Next: winnow assess orders",
    ):
        assert expected in text
    assert "How long a record may stay uncompacted, whatever the dirty ratio; holds on idle partitions too." in text


def test_altered_configuration_is_in_force_and_can_be_taken_back() -> None:
    """--config sets, --delete-config leads back to the default."""
    winnow("topics", "create", "orders", "--partitions", 1, "--config", "segment.ms=1000")
    text = winnow(
        "topics", "alter", "orders", "--config", "min.compaction.lag.ms=5", "--delete-config", "segment.ms"
    ).stdout
    assert "Altered topic orders" in text
    config = {e["name"]: e for e in winnow("topics", "describe", "orders", "--json").document["config"]}
    assert (config["min.compaction.lag.ms"]["value"], config["min.compaction.lag.ms"]["source"]) == ("5", "topic")
    assert (config["segment.ms"]["value"], config["segment.ms"]["source"]) == ("604800000", "default")


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_policy_that_deletes_is_stored_with_a_notice_and_not_assessed(policy: str) -> None:
    """What this version has no rule for it says at once and refuses to act on later."""
    created = winnow("topics", "create", "orders", "--partitions", 1, "--config", f"cleanup.policy={policy}")
    assert "neither assessed nor compacted" in created.stderr
    described = winnow("topics", "describe", "orders", "--json")
    assert {"cleanup.policy": policy}.items() <= {e["name"]: e["value"] for e in described.document["config"]}.items()
    assert len(described.document["notices"]) == 1
    refused = winnow("assess", "orders", "--json", code=2)
    assert refused.stdout == ""
    assert "neither assessed nor compacted" in refused.stderr


def test_policy_that_deletes_is_noticed_when_it_is_set_later() -> None:
    """alter gives the same notice as create, and none once the policy is compact again."""
    winnow("topics", "create", "orders", "--partitions", 1)
    altered = winnow("topics", "alter", "orders", "--config", "cleanup.policy=delete")
    assert "neither assessed nor compacted" in altered.stderr
    assert winnow("topics", "alter", "orders", "--delete-config", "cleanup.policy").stderr == ""


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--config", "segment.ms"], "--config takes KEY=VALUE, not 'segment.ms'"),
        (["--config", "=1"], "--config takes KEY=VALUE, not '=1'"),
        (["--config", "segment.ms=1", "--config", "segment.ms=2"], "--config segment.ms is given twice"),
        (["--config", "segment.mss=1"], "Unknown topic config name: segment.mss"),
        (["--config", "segment.ms=soon"], "segment.ms"),
    ],
)
def test_bad_configuration_ends_with_two_and_creates_nothing(flags: list[str], sentence: str) -> None:
    """The message says which key, and nothing was written."""
    answer = winnow("topics", "create", "orders", "--partitions", 1, *flags, code=2)
    assert answer.stdout == ""
    assert sentence in answer.stderr
    assert winnow("topics", "list", "--json").document == []


def test_alter_without_a_change_is_wrong_usage() -> None:
    """Whoever forgot the flag hears of it."""
    winnow("topics", "create", "orders", "--partitions", 1)
    assert "Give --config KEY=VALUE or --delete-config KEY" in winnow("topics", "alter", "orders", code=2).stderr


def test_unknown_topic_ends_with_two_and_says_how_to_create_it() -> None:
    """Standard output stays empty for whoever parses it."""
    answer = winnow("topics", "describe", "orders", "--json", code=2)
    assert answer.stdout == ""
    assert "There is no topic orders. Create it with: winnow topics create orders --partitions N" in answer.stderr


def test_topic_that_exists_is_not_created_again() -> None:
    """The first one stays as it was."""
    winnow("topics", "create", "orders", "--partitions", 2)
    assert "exists already" in winnow("topics", "create", "orders", "--partitions", 3, code=2).stderr
    assert winnow("topics", "describe", "orders", "--json").document["partitions"] == 2


def test_settings_name_value_and_source_and_hide_secrets(monkeypatch: pytest.MonkeyPatch, winnow_home: Path) -> None:
    """What a secret looks like never leaves the process."""
    monkeypatch.setenv("WINNOW_STORE_URL", "postgresql+psycopg://winnow:hunter2@db/winnow")
    answer = winnow("settings", "--json")
    rows = {row["name"]: row for row in answer.document}
    assert rows["home"] == {"name": "home", "value": str(winnow_home), "source": rows["home"]["source"]}
    assert "WINNOW_HOME" in rows["home"]["source"]
    assert rows["warehouse"]["value"] == f"file://{winnow_home}/warehouse"
    assert "WINNOW_STORE_URL" in rows["store_url"]["source"]
    assert "hunter2" not in answer.stdout + winnow("settings").stdout


def test_settings_touch_nothing_on_disk(winnow_home: Path) -> None:
    """Asking what is in force creates neither catalog nor store."""
    winnow("settings")
    assert not winnow_home.exists()


def test_setting_that_is_not_valid_ends_with_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable, on standard error alone."""
    monkeypatch.setenv("WINNOW_ENGINE__THREADS", "none")
    answer = winnow("settings", "--json", code=2)
    assert answer.stdout == ""
    assert "engine.threads" in answer.stderr


def test_misspelt_setting_is_noticed_and_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that looks like a setting and is none is said, not swallowed."""
    monkeypatch.setenv("WINNOW_WAREHOUSES", "s3://elsewhere")
    assert "WINNOW_WAREHOUSES" in winnow("topics", "list").stderr
