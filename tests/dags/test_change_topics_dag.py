"""``change_topics``: what the page's editor does, each in one commit, and that doing it twice changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import RunDag
from tests.support.dag_topics import build_old_lines, make_topic
from winnow.config.kafka_settings import Origin, SourceSetting
from winnow.errors import ConfigurationError, UsageError
from winnow.kafka.cluster import BrokerTopic
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.kafka.configuration import follow_configuration
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import create_topic
from winnow.planning.kafka_configuration import TakingRules
from winnow.store.rows import Window
from winnow_airflow.tasks.topic_changes import change_topic

NOTHING: dict[str, Any] = {
    "config": {},
    "reset": [],
    "expected": {},
    "partitions": None,
    "ingest_id": None,
    "reason": "because",
}


def change(installation: Installation, action: str, **params: Any) -> str:
    """One change of the topic ``orders``."""
    wanted: Any = {"action": action, "topic": "orders", **NOTHING, **params}
    return change_topic(installation, wanted)


def overrides(installation: Installation) -> dict[str, str]:
    """The configuration of ``orders`` beyond the defaults."""
    return dict(read_overrides(installation.log.open("orders").head().table.properties))


def count_commits(installation: Installation) -> int:
    """How often ``orders`` was committed to."""
    return len(installation.log.open("orders").head().table.metadata.metadata_log)


def test_a_topic_is_created_grows_and_is_configured_by_runs(installation: Installation, run_dag: RunDag) -> None:
    """Three runs of the DAG, as the page triggers them."""
    config = {"retention.ms": "604800000"}
    made = run_dag("change_topics", action="create", topic="orders", partitions=2, config=config, reason="new")
    assert (made["run", -1], made["change", -1]) == ("success", "success")
    assert (installation.log.open("orders").partitions(), overrides(installation)) == (2, config)
    assert (
        run_dag("change_topics", action="add_partitions", topic="orders", partitions=3, reason="more")["run", -1]
        == "success"
    )
    assert installation.log.open("orders").partitions() == 3
    altered = run_dag(
        "change_topics",
        action="alter",
        topic="orders",
        config={"segment.ms": "3600000"},
        reset=["retention.ms"],
        reason="finer",
    )
    assert altered["run", -1] == "success"
    assert overrides(installation) == {"segment.ms": "3600000"}
    recorded = sorted(
        installation.store.audit.list_entries(Window(), topic="orders").rows, key=lambda each: each.action
    )
    assert [(each.action, each.actor, each.reason, each.detail) for each in recorded] == [
        ("add_partitions", "dag_test", "more", "3 partitions"),
        ("alter", "dag_test", "finer", "segment.ms=3600000, reset retention.ms"),
        ("create", "dag_test", "new", "2 partition(s), retention.ms=604800000"),
    ]
    assert all(each.origin.startswith("airflow:change_topics:") for each in recorded)


def test_a_change_that_was_made_already_commits_nothing(installation: Installation) -> None:
    """A task that was killed after its commit runs again: no error, no second commit."""
    create: dict[str, Any] = {"partitions": 2, "config": {"segment.ms": "3600000"}}
    assert "Created orders" in change(installation, "create", **create)
    made = count_commits(installation)
    assert "Nothing was changed" in change(installation, "create", **create)
    assert "Nothing was changed" in change(installation, "add_partitions", partitions=2)
    assert "Nothing was changed" in change(
        installation, "alter", config={"segment.ms": "3600000"}, reset=["retention.ms"], expected={"segment.ms": None}
    )
    assert count_commits(installation) == made
    with pytest.raises(ConfigurationError, match="exists, with other partitions or another configuration"):
        change(installation, "create", partitions=3)


def test_a_change_decided_on_other_values_than_the_present_ones_is_refused(installation: Installation) -> None:
    """Two people edit the same topic: the later one is told, and neither value is lost unseen."""
    create_topic(installation, "orders", 1, {"segment.ms": "3600000"})
    with pytest.raises(UsageError, match=r"segment\.ms got another value since you looked"):
        change(installation, "alter", config={"segment.ms": "7200000"}, expected={"segment.ms": None})
    assert overrides(installation) == {"segment.ms": "3600000"}
    change(installation, "alter", config={"segment.ms": "7200000"}, expected={"segment.ms": "3600000"})
    assert overrides(installation) == {"segment.ms": "7200000"}


def test_the_answer_says_what_retention_will_take(installation: Installation, tmp_path: Path) -> None:
    """The consequence is in the sentence that the run leaves behind."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 4)])
    said = change(installation, "alter", config={"cleanup.policy": "compact,delete", "retention.ms": "1000"})
    assert "Retention would remove" in said
    assert "cannot be brought back" in said


def test_a_change_at_kafka_that_waits_is_accepted_as_it_was_seen_and_once(installation: Installation) -> None:
    """By a person of whom the values are known that were on the page."""
    create_topic(installation, "orders", 1, {})
    shorter = {"delete.retention.ms": SourceSetting("1000", Origin.TOPIC)}
    found = BrokerTopic("orders", None, {}, settings=shorter)
    follow_configuration(installation, installation.log.open("orders"), found, TakingRules(takes=True))
    with pytest.raises(UsageError, match="other values wait"):
        change(installation, "accept_kafka_config", expected={"delete.retention.ms": "5"})
    assert overrides(installation) == {}
    said = change(installation, "accept_kafka_config", expected={"delete.retention.ms": "1000"})
    assert "delete.retention.ms 86400000 → 1000" in said
    assert overrides(installation) == {"delete.retention.ms": "1000"}
    assert "Nothing was changed" in change(
        installation, "accept_kafka_config", expected={"delete.retention.ms": "1000"}
    )


def test_an_ingest_call_is_undone_once(installation: Installation, tmp_path: Path) -> None:
    """By its id; a second run finds it undone."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 4)])
    (call,) = list_ingests(installation, "orders").calls
    assert "Undone" in change(installation, "undo_ingest", ingest_id=call.ingest_id)
    assert "undone already" in change(installation, "undo_ingest", ingest_id=call.ingest_id)


@pytest.mark.parametrize(
    ("action", "params", "said"),
    [
        ("drop", {}, "no action drop"),
        ("alter", {}, "name keys to set"),
        ("add_partitions", {}, "give the number of partitions"),
        ("undo_ingest", {}, "name the ingest call"),
        ("alter", {"config": {"no.such.key": "1"}}, r"no\.such\.key"),
    ],
)
def test_a_change_that_says_too_little_changes_nothing(
    installation: Installation, action: str, params: dict[str, Any], said: str
) -> None:
    """An error with what is missing."""
    create_topic(installation, "orders", 1, {})
    made = count_commits(installation)
    with pytest.raises((UsageError, ConfigurationError), match=said):
        change(installation, action, **params)
    assert count_commits(installation) == made
