"""``winnow topics`` and ``winnow settings`` against a real catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow


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
    assert winnow("topics", "list", "--names").stdout == "orders\nreturns\n"
    assert winnow("topics", "list", "--json").document == ["orders", "returns"]


def test_list_tells_partitions_size_and_state_of_what_was_ingested(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    winnow("topics", "create", "returns", "--partitions", 3)
    lines = winnow("topics", "list").stdout.splitlines()
    assert lines[0].split() == ["topic", "partitions", "records", "size", "state", "last", "checked"]
    assert lines[2].split()[:3] == ["orders", "2", "12"]
    assert lines[2].split()[5] == "due"
    assert lines[3].split()[:3] == ["returns", "3", "0"]
    assert lines[3].split()[5] == "healthy"


def test_list_shows_names_where_the_metadata_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    monkeypatch.setenv("WINNOW_STORE_URL", "postgresql+psycopg://winnow@127.0.0.1:1/none")
    answer = winnow("topics", "list", code=6)
    assert answer.stdout.splitlines()[2:] == ["orders"]
    assert "Only names can be shown" in answer.stderr
    assert winnow("topics", "list", "--json").document == ["orders"]
    assert "cannot be reached" in winnow("topics", "list", "--json", "--long", code=6).stderr


def test_long_list_as_json_has_the_table_s_figures(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    found = winnow("topics", "list", "--json", "--long").document["orders"]
    assert (found["partitions"], found["records"], found["state"]) == (2, 12, "due")
    assert found["size_bytes"] > 0
    assert isinstance(found["as_of_ms"], int)


def test_a_misspelt_topic_is_told_the_nearest_name() -> None:
    winnow("topics", "create", "orders", "--partitions", 1)
    said = winnow("topics", "describe", "ordres", code=2).stderr
    assert "There is no topic ordres. Did you mean orders? Create it with: winnow topics create ordres" in said
    assert "Did you mean" not in winnow("topics", "describe", "clicks", code=2).stderr


def test_a_kind_of_catalog_that_does_not_exist_is_a_setting_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_CATALOG__TYPE", "foo")
    said = winnow("topics", "list", code=2).stderr
    assert "catalog.type is 'foo', which PyIceberg does not know: it is one of rest, hive" in said
    assert "WINNOW_CATALOG__TYPE" in said


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


def test_a_topic_is_unfollowed_and_followed_again(tmp_path: Path) -> None:
    """It stands in the topic's configuration, and the description says so."""
    make_topic("orders", tmp_path / "orders.jsonl")
    assert winnow("topics", "describe", "orders", "--json").document["source"] is None
    done = winnow("topics", "unfollow", "orders", "--reason", "it moved")
    assert "Topic orders is not followed any more.\nTo take that back: winnow topics follow orders" in done.stdout
    assert "is not followed already" in winnow("topics", "unfollow", "orders").stdout
    described = winnow("topics", "describe", "orders", "--json").document
    assert described["source"]["state"] == "unfollowed"
    assert {e["name"]: e["value"] for e in described["config"]}["winnow.follow"] == "false"
    assert "winnow topics follow orders" in winnow("topics", "describe", "orders").stdout
    assert "is followed again" in winnow("topics", "follow", "orders").stdout
    assert winnow("topics", "describe", "orders", "--json").document["source"] is None
    entries = winnow("audit", "list", "--topic", "orders", "--json").document
    audited = [(each["action"], each["reason"]) for each in entries if "follow" in each["action"]]
    assert sorted(audited) == [("follow", ""), ("unfollow", "it moved")]


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
    assert "Maximum time a record may stay uncompacted, at any dirty ratio; applies to idle partitions too." in text


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


def test_alteration_is_undone_by_the_id_that_the_audit_log_shows() -> None:
    """Of one topic, or of all that the entry changed; then nothing is left, and the log names the entry and why."""
    winnow("topics", "create", "orders", "--partitions", 1, "--config", "retention.ms=5")
    winnow("topics", "alter", "orders", "--config", "cleanup.policy=compact,delete", "--delete-config", "retention.ms")
    entry_id = winnow("audit", "list", "--json").document[0]["entry_id"]
    assert winnow("audit", "list").stdout.splitlines()[2].endswith(f" {entry_id[:12]}")
    answer = winnow("topics", "alter", "orders", "--undo", entry_id[:12], "--reason", "too early")
    assert answer.stdout == f"Undid the entry {entry_id} for topic orders: retention.ms=5, cleanup.policy is not set.\n"
    newest = winnow("audit", "list", "--json").document[0]
    assert (newest["detail"], newest["reason"]) == (
        f"undoes {entry_id}, retention.ms=5, reset cleanup.policy",
        "too early",
    )
    assert newest["config_changes"] == {
        "orders": {"cleanup.policy": ["compact,delete", None], "retention.ms": [None, "5"]}
    }
    assert "Nothing is left to change: orders has" in winnow("topics", "alter", "--undo", entry_id).stdout
    winnow("topics", "alter", "--undo", newest["entry_id"])
    winnow("topics", "alter", "orders", "--config", "retention.ms=6")
    for named in (["orders"], []):
        said = winnow("topics", "alter", *named, "--undo", newest["entry_id"], code=2).stderr
        assert "retention.ms is 6 (by " in said
    assert "takes no other change" in winnow("topics", "alter", "--undo", "x", "--partitions", 2, code=2).stderr
    assert "Name the topic" in winnow("topics", "alter", "--partitions", 2, code=2).stderr


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_policy_that_deletes_is_stored_and_assessed(policy: str) -> None:
    """A value that creates a topic is in force from its first day."""
    winnow("topics", "create", "orders", "--partitions", 1, "--config", f"cleanup.policy={policy}")
    described = winnow("topics", "describe", "orders", "--json")
    assert {"cleanup.policy": policy}.items() <= {e["name"]: e["value"] for e in described.document["config"]}.items()
    (assessed,) = winnow("assess", "orders", "--json").document
    assert assessed["eligible"] is False


def test_policy_that_deletes_without_a_limit_is_noticed_when_it_is_set() -> None:
    """Whoever expects Kafka's week hears that nothing will go; back at compact there is nothing to say."""
    winnow("topics", "create", "orders", "--partitions", 1)
    altered = winnow("topics", "alter", "orders", "--config", "cleanup.policy=delete")
    assert "neither retention.ms nor retention.bytes sets a limit" in altered.stderr
    assert winnow("topics", "alter", "orders", "--delete-config", "cleanup.policy").stderr == ""


def test_default_under_a_brokers_name_is_described_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Value, place and sentence, for people and as JSON; what the topic sets itself stays its own."""
    (tmp_path / "winnow.toml").write_text('[kafka]\n"log.roll.hours" = 2\n"log.cleaner.min.cleanable.ratio" = 0.3\n')
    monkeypatch.setenv("WINNOW_CONFIG", str(tmp_path / "winnow.toml"))
    winnow("topics", "create", "orders", "--partitions", 1, "--config", "min.cleanable.dirty.ratio=0.9")
    config = {e["name"]: e for e in winnow("topics", "describe", "orders", "--json").document["config"]}
    place = f"default ({tmp_path}/winnow.toml: log.roll.hours)"
    assert (config["segment.ms"]["value"], config["segment.ms"]["source"]) == ("7200000", place)
    assert config["segment.ms"]["sentence"] == "A segment whose oldest record is older than this is closed."
    assert (config["min.cleanable.dirty.ratio"]["value"], config["min.cleanable.dirty.ratio"]["source"]) == (
        "0.9",
        "topic",
    )
    assert place in winnow("topics", "describe", "orders").stdout


def test_default_under_a_brokers_name_decides_what_is_compacted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same log is idle under one default and eligible under another; the topic sets nothing."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["segment.ms=1"])
    monkeypatch.setenv("WINNOW_KAFKA__LOG_CLEANER_MIN_CLEANABLE_RATIO", "1")
    assert [each["reason"] for each in winnow("assess", "orders", "--json").document] == ["not_dirty_enough"]
    monkeypatch.setenv("WINNOW_KAFKA__LOG_CLEANER_MIN_CLEANABLE_RATIO", "0.3")
    assert [each["reason"] for each in winnow("assess", "orders", "--json").document] == ["dirty_ratio"]


def test_topic_that_contradicts_a_default_is_not_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's sentence, both values, and where they came from."""
    monkeypatch.setenv("WINNOW_KAFKA__LOG_CLEANER_MAX_COMPACTION_LAG_MS", "10")
    flags = ["--config", "min.compaction.lag.ms=11"]
    answer = winnow("topics", "create", "orders", "--partitions", 1, *flags, code=2)
    assert "conflict topic config setting min.compaction.lag.ms (11) > max.compaction.lag.ms (10)" in answer.stderr
    assert "WINNOW_KAFKA__LOG_CLEANER_MAX_COMPACTION_LAG_MS: log.cleaner.max.compaction.lag.ms" in answer.stderr
    assert winnow("topics", "list", "--json").document == []


def test_topic_that_a_new_default_contradicts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A default may come later than the topic; the sentence says which topic it does not fit."""
    flags = ["--config", "min.compaction.lag.ms=11"]
    winnow("topics", "create", "orders", "--partitions", 1, *flags)
    monkeypatch.setenv("WINNOW_KAFKA__LOG_CLEANER_MAX_COMPACTION_LAG_MS", "10")
    assert "Topic orders: conflict topic config setting" in winnow("assess", "orders", "--json", code=2).stderr


def test_unknown_topic_key_is_refused_with_the_nearest_name_beside_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults under broker names make no topic keys of them."""
    monkeypatch.setenv("WINNOW_KAFKA__LOG_ROLL_MS", "5")
    answer = winnow("topics", "create", "orders", "--partitions", 1, "--config", "log.roll.ms=5", code=2)
    assert "Unknown topic config name: log.roll.ms. That is a broker's name; a topic's is segment.ms." in answer.stderr


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
    assert (
        "Nothing to change in topic orders. Give --config KEY=VALUE"
        in winnow("topics", "alter", "orders", code=2).stderr
    )


def test_unknown_topic_ends_with_two_and_says_how_to_create_it() -> None:
    """Standard output stays empty for whoever parses it."""
    answer = winnow("topics", "describe", "orders", "--json", code=2)
    assert answer.stdout == ""
    (error,) = answer.errors
    assert error == {
        "kind": "UnknownTopicError",
        "what": "There is no topic orders.",
        "left": "",
        "next": "Create it with: winnow topics create orders --partitions N",
        "exit_code": 2,
    }


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


def test_bad_default_under_a_brokers_name_ends_with_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's sentence, the broker's name and the variable, whatever the command is."""
    monkeypatch.setenv("WINNOW_KAFKA__LOG_CLEANER_MIN_CLEANABLE_RATIO", "1.5")
    answer = winnow("topics", "list", "--json", code=2)
    assert answer.stdout == ""
    assert (
        "Invalid value 1.5 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1. "
        "It comes from environment WINNOW_KAFKA__LOG_CLEANER_MIN_CLEANABLE_RATIO."
    ) in answer.stderr


def test_misspelt_setting_is_noticed_and_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that looks like a setting and is none is said, not swallowed."""
    monkeypatch.setenv("WINNOW_WAREHOUSES", "s3://elsewhere")
    assert "WINNOW_WAREHOUSES" in winnow("topics", "list").stderr


def test_alter_mends_a_topic_that_a_later_default_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the new default made wrong must not refuse the very call that mends it."""
    winnow("topics", "create", "orders", "--partitions", 1, "--config", "max.compaction.lag.ms=1000")
    monkeypatch.setenv("WINNOW_KAFKA__LOG_CLEANER_MIN_COMPACTION_LAG_MS", "5000")
    assert "conflict topic config setting" in winnow("assess", "orders", code=2).stderr
    winnow("topics", "alter", "orders", "--config", "max.compaction.lag.ms=9000")
    winnow("assess", "orders")


def test_records_are_deleted_before_an_offset_of_one_partition_or_of_all(tmp_path: Path) -> None:
    """Told at once; under a strategy by version with a caution; a bad form changes nothing."""
    config = ["cleanup.policy=compact,delete", "compaction.strategy=timestamp"]
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2, config=config)
    answer = winnow("topics", "delete-records", "orders", "--before-offset", "1:2", "--json")
    (row,) = answer.document
    assert row.pop("change_id").startswith("delete-records:orders:")
    assert row == {
        "topic": "orders",
        "partition": 1,
        "log_start_offset": 2,
        "previous_log_start_offset": 0,
        "at_most_records": 6,
    }
    assert "deleted records may have outranked" in answer.stderr
    told = winnow("topics", "delete-records", "orders", "--before-offset", "-1", "--partition", 0).stdout
    assert "winnow undo delete-records:orders:" in told
    starts = [row["log_start_offset"] for row in winnow("topics", "describe", "orders", "--json").document["log"]]
    assert starts == [6, 2]
    assert "PARTITION:OFFSET" in winnow("topics", "delete-records", "orders", "--before-offset", "x:1", code=2).stderr
    assert (
        "twice"
        in winnow("topics", "delete-records", "orders", "--before-offset", "0:1", "--before-offset", "1", code=2).stderr
    )


def test_a_topic_grows_and_says_that_old_keys_may_sit_in_two_partitions(tmp_path: Path) -> None:
    """Never fewer; the notice stays with the topic."""
    make_topic("orders", tmp_path / "orders.jsonl")
    assert "grew from 1 to 3 partitions" in winnow("topics", "alter", "orders", "--partitions", 3).stderr
    described = winnow("topics", "describe", "orders", "--json").document
    assert (described["partitions"], len(described["log"])) == (3, 3)
    assert "two partitions" in described["notices"][0]
    assert "currently has 3 partitions" in winnow("topics", "alter", "orders", "--partitions", 3, code=2).stderr
