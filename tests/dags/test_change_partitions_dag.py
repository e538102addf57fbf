"""``change_partitions`` run whole: what the page's buttons do, and that doing it twice changes nothing."""

from __future__ import annotations

import copy
import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.dags.conftest import RunDag
from tests.support.dag_topics import build_old_lines, make_topic
from winnow.config.settings import Settings
from winnow.errors import UnknownTopicError, UsageError
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import create_topic
from winnow.pipeline.topics.marks import mark_uncleanable
from winnow.pipeline.topics.partitions import list_partitions
from winnow.store.rows import Window
from winnow.values.model import TopicPartition
from winnow_airflow.tasks import partition_steps
from winnow_airflow.xcom_values import ChangeRow

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag


def change(installation: Installation, action: str, *partitions: int, reason: str = "airflow") -> str:
    """One change of the topic ``orders``."""
    return partition_steps.change_partitions(
        installation, ChangeRow(action=action, topic="orders", partitions=list(partitions), reason=reason)
    )


def paused(installation: Installation) -> dict[int, tuple[str, ...]]:
    """Who pauses which partition of ``orders``."""
    return {row.partition: row.paused_by for row in list_partitions(installation, "orders") if row.paused_by}


def test_a_run_pauses_partitions_and_another_resumes_them(
    installation: Installation, run_dag: RunDag, airflow_home: Settings
) -> None:
    """The sentence is the task's return value; no run compacts what is paused; repeating it is green."""
    create_topic(installation, "orders", 3, {})
    for _ in range(2):
        states = run_dag("change_partitions", action="pause", topic="orders", partitions=[0, 2], reason="maria")
        assert (states["run", -1], states["change", -1]) == ("success", "success")
        assert paused(installation) == {0: ("maria",), 2: ("maria",)}
    assert run_dag("change_partitions", action="resume", topic="orders", reason="maria")["run", -1] == "success"
    assert paused(installation) == {}
    with sqlite3.connect(airflow_home.airflow_home / "airflow.db") as database:
        rows = database.execute(
            "SELECT value FROM xcom WHERE dag_id = 'change_partitions' AND key = 'return_value' ORDER BY timestamp"
        )
        said = [json.loads(json.loads(row[0])) if row[0].startswith('"\\"') else json.loads(row[0]) for row in rows]
    recorded = installation.store.audit.list_entries(Window(), topic="orders").rows
    origin = recorded[0].origin
    assert origin.startswith("airflow:change_partitions:")
    assert [(each.action, each.actor, each.reason, each.detail) for each in recorded if each.origin != "shell"] == [
        ("resume", "dag_test", "maria", "orders-0, orders-2"),
        ("pause", "dag_test", "maria", "orders-0, orders-2"),
    ]
    assert [text.split(".")[0] for text in said] == [
        "Paused by maria: orders-0, orders-2",
        "Nothing was changed: orders-0, orders-2 was paused by maria already",
        "Resumed by maria: orders-0, orders-2",
    ]


def test_a_run_with_a_wrong_name_fails_once_and_changes_nothing(installation: Installation, run_dag: RunDag) -> None:
    """A topic that is not there is a wrong call: red, with the sentence in the log."""
    states = run_dag("change_partitions", action="release", topic="nobody")
    assert (states["run", -1], states["change", -1]) == ("failed", "failed")


def filled(dagbag: DagBag, conf: dict[str, Any]) -> None:
    """What Airflow does with the form."""
    params = copy.deepcopy(dagbag.dags["change_partitions"].params)
    params.update(conf)
    params.validate()


@pytest.mark.parametrize(
    "conf",
    [
        {"action": "drop", "topic": "orders"},
        {"action": "pause"},
        {"action": "pause", "topic": "no/topic"},
        {"action": "pause", "topic": "orders", "partitions": [-1]},
        {"action": "pause", "topic": "orders", "partitions": ["0"]},
        {"action": "pause", "topic": "orders", "reason": ""},
        {"action": "pause", "topic": "orders", "reason": "x" * 101},
    ],
)
def test_the_trigger_form_refuses_what_cannot_be_meant(dagbag: DagBag, conf: dict[str, Any]) -> None:
    """Airflow checks what a form, the API or the page sends against the Params before a run exists."""
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        filled(dagbag, conf)
    filled(dagbag, {"action": "pause", "topic": "orders"})


def test_a_pause_of_another_name_is_named_when_it_remains(installation: Installation, tmp_path: Path) -> None:
    """Two people pause; one resumes: the partition stays paused, and the sentence says by whom."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    assert "No run compacts it" in change(installation, "pause", reason="maria")
    change(installation, "pause", reason="tom")
    assert change(installation, "resume", reason="maria") == (
        "Resumed by maria: orders-0. Still paused by tom: orders-0."
    )
    assert "Nothing was changed: orders-0 had no pause named airflow. Still paused by tom" in change(
        installation, "resume"
    )
    assert "The next run takes what is due" in change(installation, "resume", reason="tom")


def test_a_release_clears_the_mark_once(installation: Installation, tmp_path: Path) -> None:
    """Marked after a failure, released by a click; a second click finds nothing to release."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    mark_uncleanable(installation, "orders", "p1", {0: "a segment is damaged"})
    assert list(installation.store.projection.list_uncleanable(["orders"])) == [TopicPartition("orders", 0)]
    assert change(installation, "release", 0, reason="disk mended").startswith("Released: orders-0.")
    assert installation.store.projection.list_uncleanable(["orders"]) == {}
    before = installation.log.open("orders").head().snapshot_id
    assert "Nothing was changed" in change(installation, "release", 0)
    assert installation.log.open("orders").head().snapshot_id == before


def test_what_is_not_there_is_refused_with_a_sentence(installation: Installation) -> None:
    """No such topic, partition or action: nothing was changed."""
    with pytest.raises(UnknownTopicError):
        change(installation, "pause")
    create_topic(installation, "orders", 1, {})
    with pytest.raises(UsageError, match="Nothing was changed"):
        change(installation, "pause", 7)
    with pytest.raises(UsageError, match="no action drop"):
        change(installation, "drop")
