"""``change_topics``: what the page's editor does, each in one commit, and that doing it twice changes nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import RunDag
from tests.dags.test_concurrent_runs import A, compact_as
from tests.support.dag_topics import build_old_lines, make_topic, read_topic, write_lines
from winnow.config.kafka_settings import Origin, SourceSetting
from winnow.config.settings import Settings
from winnow.errors import ConfigurationError, UndoRefusedError, UsageError
from winnow.kafka.cluster import BrokerTopic
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.kafka.configuration import follow_configuration
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import create_topic
from winnow.pipeline.undo.listing import list_undoable
from winnow.planning.kafka_configuration import TakingRules
from winnow.store.rows import Window
from winnow_airflow.assets import build_undo_event
from winnow_airflow.tasks.topic_changes import change_topic

NOTHING: dict[str, Any] = {
    "config": {},
    "reset": [],
    "expected": {},
    "partitions": None,
    "ingest_id": None,
    "change_id": None,
    "only_partitions": [],
    "and_later": False,
    "before_offsets": {},
    "reason": "because",
}


def change(installation: Installation, action: str, **params: Any) -> str:
    """One change of the topic ``orders``."""
    wanted: Any = {"action": action, "topic": "orders", **NOTHING, **params}
    return change_topic(installation, wanted).text


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
        ("create", "dag_test", "new", "2 partitions, retention.ms=604800000"),
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


def compact(installation: Installation, folder: Path) -> str:
    """A run compacts ``orders``; the plan's id."""
    compact_as(installation, A, "orders", folder)
    return list_undoable(installation, "orders").changes[0].change_id


def read_events(settings: Settings) -> list[dict[str, Any]]:
    """What the events of the asset of ``orders`` say, in their order."""
    with closing(sqlite3.connect(settings.airflow_home / "airflow.db")) as database:
        found = database.execute(
            "SELECT asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_event.asset_id "
            "WHERE asset.uri = 'winnow://topic/orders' ORDER BY asset_event.id"
        )
        return [json.loads(extra) for (extra,) in found]


def test_a_run_is_undone_by_a_dag_run_which_tells_readers_and_a_second_one_changes_nothing(
    installation: Installation, run_dag: RunDag, airflow_home: Settings, tmp_path: Path
) -> None:
    """The records are back, the partition is paused, and one event says so; somebody's name is in the audit log."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    plan_id = compact(installation, tmp_path)
    assert len(read_topic(installation, "orders")) == 10
    before = len(read_events(airflow_home))
    for _ in range(2):
        made = run_dag("change_topics", action="undo", topic="orders", change_id=plan_id, reason="wrong strategy")
        assert made["run", -1] == "success"
    assert len(read_topic(installation, "orders")) == 100
    state = installation.log.open("orders").head().state.partitions[0]
    assert state.paused_by == ("undone by dag_test",)
    (event,) = read_events(airflow_home)[before:]
    assert (event["operation"], event["plan_id"], event["records_restored"]) == ("undo", plan_id, 90)
    assert event["offsets"] == {"0": 0}
    (entry,) = installation.store.audit.list_entries(Window(), topic="orders", action="undo").rows
    assert (entry.actor, entry.reason) == ("dag_test", "wrong strategy")


def test_an_undo_says_what_came_back_and_how_to_go_on(installation: Installation, tmp_path: Path) -> None:
    """Repeated, it says that there is nothing left to do."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    plan_id = compact(installation, tmp_path)
    said = change(installation, "undo", change_id=plan_id, only_partitions=[0])
    assert "90 records in 1 file came back into the log: orders-0 begins at 0." in said
    assert "winnow partitions resume orders --partition 0 --by 'undone by" in said
    made = count_commits(installation)
    assert "undone already" in change(installation, "undo", change_id=plan_id)
    assert count_commits(installation) == made


def test_an_undo_that_was_committed_by_a_task_that_was_killed_still_tells_readers(
    installation: Installation, tmp_path: Path
) -> None:
    """Its second try finds it undone. A run that finds what another one undid has nothing to tell."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    plan_id = compact(installation, tmp_path)
    change(installation, "undo", change_id=plan_id)
    wanted: Any = {**NOTHING, "action": "undo", "topic": "orders", "change_id": plan_id}
    assert change_topic(installation, wanted).undone is None
    told = change_topic(installation, wanted, is_first_try=False).undone
    assert told is not None
    event = build_undo_event(*told)
    assert (event["operation"], event["records_restored"]) == ("undo", None)
    assert event["snapshot_id"] == str(installation.log.open("orders").head().snapshot_id)


def test_a_run_on_which_another_one_built_is_undone_only_together_with_it(
    installation: Installation, tmp_path: Path
) -> None:
    """One commit takes back both; without the consent to that, nothing is changed."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    first = compact(installation, tmp_path)
    path = write_lines(tmp_path / "more.jsonl", build_old_lines(50, 10, start=100))
    ingest_files(installation, "orders", [path], as_of_ms=1_700_000_000_000)
    second = compact(installation, tmp_path)
    with pytest.raises(UndoRefusedError, match="--and-later"):
        change(installation, "undo", change_id=first)
    said = change(installation, "undo", change_id=first, and_later=True)
    assert f"Undone: {second}, {first}" in said
    assert len(read_topic(installation, "orders")) == 150
    with pytest.raises(UsageError, match="changed nothing in orders-7"):
        change(installation, "undo", change_id=first, only_partitions=[7])


@pytest.mark.parametrize(
    ("action", "params", "said"),
    [
        ("drop", {}, "no action drop"),
        ("alter", {}, "name keys to set"),
        ("add_partitions", {}, "give the number of partitions"),
        ("undo_ingest", {}, "name the ingest call"),
        ("undo", {}, "name the run or the deletion of records"),
        ("undo", {"change_id": "0" * 32}, "has no run 0000"),
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
