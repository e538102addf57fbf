"""Rights by owner in DAG runs: of the person who triggered them, whatever the page offered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.conftest import RunDag
from tests.support.dag_topics import build_old_lines, make_topic
from winnow.errors import UsageError
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.topics.deletion import delete_topic
from winnow_airflow import topic_rights
from winnow_airflow.tasks import task_start

PERSON = "dag_test"
"""Whom Airflow names for the runs of these tests."""


def triggered_by(name: str | None, run_type: str = "manual") -> dict[str, Any]:
    """The part of a task's context that tells."""
    return {"dag_run": SimpleNamespace(triggering_user_name=name, run_type=run_type)}


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered", "backfill"])
def test_run_that_another_dag_or_somebody_unnamed_triggered_is_of_a_person_without_a_name(run_type: str) -> None:
    """It may not act on what has an owner; what the schedule or an asset starts acts for nobody, and may."""
    assert topic_rights.find_person(triggered_by(None, run_type)) == ""
    assert topic_rights.find_person(triggered_by("ada", run_type)) == "ada"
    assert topic_rights.find_person(triggered_by(None, "scheduled")) is None
    assert topic_rights.find_person(triggered_by(None, "asset_triggered")) is None


@pytest.fixture
def topics(installation: Installation, tmp_path: Path) -> Installation:
    """``orders`` of the owner payments, and ``clicks`` of nobody."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(20, 4)], winnow_owner="payments", segment_ms="1000")
    make_topic(installation, tmp_path, "clicks", [build_old_lines(20, 4)], segment_ms="1000")
    return installation


def count_commits(installation: Installation, topic: str) -> int:
    """How often the topic was committed to."""
    return len(installation.log.open(topic).head().table.metadata.metadata_log)


@pytest.mark.parametrize(
    ("dag_id", "conf"),
    [
        ("compact_now", {"topics": ["clicks", "orders"]}),
        ("sweep_topics", {"topics": ["orders"]}),
        ("scrub_topics", {"topics": ["orders"]}),
        ("change_topics", {"action": "alter", "topic": "orders", "config": {"winnow.owner": ""}, "reason": "mine"}),
        ("change_partitions", {"action": "pause", "topic": "orders", "reason": "mine"}),
        ("erase_keys", {"topic": "orders", "keys_from": "KEYS", "reason": "mine"}),
        ("ingest_topics", {"topic": "orders", "paths": ["LATER"]}),
    ],
)
def test_no_dag_touches_a_topic_of_an_owner_whom_the_person_may_not_act_for(
    topics: Installation,
    tmp_path: Path,
    run_dag: RunDag,
    monkeypatch: pytest.MonkeyPatch,
    dag_id: str,
    conf: dict[str, Any],
) -> None:
    """Named beside others, or alone; the run fails, and nothing of either topic is changed."""
    later = tmp_path / "later.jsonl"
    later.write_text((tmp_path / "orders-0.jsonl").read_text().replace('"offset": 1', '"offset": 9001'))
    keys = tmp_path / "keys.txt"
    keys.write_text("key-1\n")
    monkeypatch.setenv("WINNOW_ERASE__ROOTS", str(tmp_path))
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")
    before = [count_commits(topics, name) for name in ("orders", "clicks")]
    places = {"KEYS": str(keys), "LATER": str(later)}
    given = {
        key: [places[each] for each in value] if value == ["LATER"] else places.get(str(value), value)
        for key, value in conf.items()
    }
    assert run_dag(dag_id, **given)["run", -1] == "failed"
    assert [count_commits(topics, name) for name in ("orders", "clicks")] == before


def test_who_may_act_for_the_owner_changes_its_topics(
    topics: Installation, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, or for all owners."""
    for variable, value in (("WINNOW_OWNERS__payments", f"ada, {PERSON}"), ("WINNOW_OWNERS__*", PERSON)):
        monkeypatch.setenv(variable, value)
        ended = run_dag("change_partitions", action="pause", topic="orders", reason=variable[-1])
        assert ended["run", -1] == "success"
        monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")


def test_a_run_without_topics_leaves_those_of_others_and_the_schedule_takes_all(
    topics: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of people whom Airflow does not name none has a right; nobody triggers scheduled and asset runs."""
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")
    with open_installation() as installation:
        for person, kind, expected in (
            ("otto", "manual", ["clicks"]),
            ("otto", "backfill", ["clicks"]),
            (None, "manual", ["clicks"]),
            (None, "backfill", ["clicks"]),
            ("ada", "manual", ["clicks", "orders"]),
            (None, "scheduled", ["clicks", "orders"]),
            (None, "asset_triggered", ["clicks", "orders"]),
        ):
            context = triggered_by(person, kind)
            assert sorted(task_start.select_topics(installation, context, [])) == expected, (person, kind)
        with pytest.raises(UsageError, match="orders is owned by payments, for whom otto may not act"):
            task_start.select_topics(installation, triggered_by("otto"), ["orders"])
        with pytest.raises(UsageError, match="nobody by name may not act"):
            task_start.select_topics(installation, triggered_by(None), ["orders"])


def test_a_deleted_topic_is_left_to_those_who_may_act_for_every_owner(
    topics: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner is not read; what a sweep takes of it does not come back."""
    delete_topic(topics, "orders")
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")
    monkeypatch.setenv("WINNOW_OWNERS__*", "root")
    with open_installation() as installation:
        assert topic_rights.keep_permitted(installation, triggered_by("ada"), ["orders", "clicks"]) == ["clicks"]
        assert topic_rights.keep_permitted(installation, triggered_by("root"), ["orders"]) == ["orders"]
