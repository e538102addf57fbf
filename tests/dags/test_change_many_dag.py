"""``change_many``: from the page's review of many topics to what its run does with each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags.conftest import RunDag
from tests.dags.test_outcomes import outcomes
from winnow.config.settings import Settings
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.store.rows import AuditEntry, Window
from winnow.values.config_changes import parse_changes
from winnow_airflow.page import bulk
from winnow_airflow.page.dependencies import ShownInstallation

PERSON = "dag_test"
"""Whom Airflow names for the runs of these tests."""
NAMES = ("clicks", "orders", "refunds", "visits")


@pytest.fixture
def topics(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Four topics: each of the owner ``web`` but ``orders``, of payments."""
    for name in NAMES:
        owner = "payments" if name == "orders" else "web"
        create_topic(installation, name, 1, {"winnow.owner": owner, "winnow.tags": f"{name},old"})
    monkeypatch.setattr(bulk, "may_trigger", lambda user, dag_id: True)
    return installation


def review(installation: Installation, **wanted: Any) -> dict[str, Any]:
    """What the page answers to somebody who may do everything."""
    shown = ShownInstallation(installation.settings, installation.store)
    person: Any = SimpleNamespace(get_name=lambda: PERSON)
    return bulk.review_action(shown, installation.now_ms(), person, bulk.WantedAction(**wanted))


def overrides(installation: Installation, name: str) -> dict[str, str]:
    """What a topic sets."""
    return dict(read_overrides(installation.log.open(name).newest_head().table.properties))


def written(installation: Installation) -> list[AuditEntry]:
    """The audit log without the topics' beginnings."""
    return [entry for entry in installation.store.audit.list_entries(Window()).rows if entry.action != "create"]


def test_what_was_reviewed_is_done_with_each_topic_and_is_one_entry_of_the_audit_log(
    topics: Installation, run_dag: RunDag, airflow_home: Settings
) -> None:
    """Values, a key less, a tag more and one less; again it changes nothing, and is the same request."""
    wanted = review(
        topics, action="alter", only={}, config={"segment.ms": "1h"}, reset=["winnow.owner"], add_tags=["gold"],
        remove_tags=["old"],
    )  # fmt: skip
    for text in ("4 topics changed.", "0 topics changed, 4 had it already."):
        assert run_dag("change_many", **wanted["conf"], reason="finer")["run", -1] == "success"
        assert [outcome["text"] for outcome in outcomes(airflow_home, "change")] == [text]
    for name in NAMES:
        tags = ",".join(sorted(["gold", name]))
        assert overrides(topics, name) == {"segment.ms": "3600000", "winnow.tags": tags}
    newest, entry = written(topics)
    assert (entry.action, entry.actor, entry.topic, entry.reason) == ("alter", PERSON, "", "finer")
    assert entry.detail == (
        "segment.ms=3600000, reset winnow.owner, tag gold, no tag old, 4 topics: clicks, orders, refunds, visits"
    )
    assert newest.detail == entry.detail
    values = {name: before for name, (before, _) in parse_changes(entry.config_changes)["refunds"].items()}
    assert values == {"segment.ms": None, "winnow.owner": "web", "winnow.tags": "refunds,old"}
    assert sorted(parse_changes(entry.config_changes)) == list(NAMES)
    assert newest.config_changes is None
    assert topics.store.audit.list_entries(Window(), topic="refunds", action="alter").total == 2


def test_many_topics_are_paused_and_resumed_under_one_name(topics: Installation, run_dag: RunDag) -> None:
    wanted = review(topics, action="pause", topics=["orders", "clicks"])
    assert run_dag("change_many", **wanted["conf"], reason="ticket 7")["run", -1] == "success"
    assert {name: topics.log.open(name).newest_head().state.partitions[0].paused_by for name in NAMES} == {
        "clicks": ("ticket 7",), "orders": ("ticket 7",), "refunds": (), "visits": (),
    }  # fmt: skip
    wanted = review(topics, action="resume", only={}, name="ticket 7")
    assert (wanted["total"], wanted["refused_total"]) == (2, 2)
    assert run_dag("change_many", **wanted["conf"], reason="ticket 7")["run", -1] == "success"
    assert not topics.store.overview.find_pausing_names()
    assert [(entry.action, entry.detail) for entry in written(topics)] == [
        ("resume", "2 topics: clicks, orders"),
        ("pause", "2 topics: clicks, orders"),
    ]


def test_topic_that_was_changed_since_the_review_is_refused_by_name_and_the_others_are_done(
    topics: Installation, run_dag: RunDag, airflow_home: Settings
) -> None:
    wanted = review(topics, action="alter", topics=["clicks", "visits"], config={"segment.ms": "1000"})
    alter_topic(topics, "visits", {"retention.ms": "1000"}, [])
    assert run_dag("change_many", **wanted["conf"], reason="finer")["run", -1] == "failed"
    assert overrides(topics, "clicks")["segment.ms"] == "1000"
    assert "segment.ms" not in overrides(topics, "visits")
    total, failed = outcomes(airflow_home, "change")
    assert (total["kind"], total["text"]) == ("failed", "1 topic changed, 1 failed or refused.")
    assert (failed["topic"], failed["kind"]) == ("visits", "failed")
    assert failed["text"].startswith("visits was changed since you looked.")


def test_topic_of_an_owner_whom_the_person_may_not_act_for_is_refused_whatever_the_page_said(
    topics: Installation, run_dag: RunDag, airflow_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The review was another person's; the task looks at who triggered the run."""
    wanted = review(topics, action="pause", topics=["clicks", "orders"])
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")
    assert run_dag("change_many", **wanted["conf"], reason="ticket 7")["run", -1] == "failed"
    assert not topics.log.open("orders").newest_head().state.partitions[0].paused_by
    assert topics.log.open("clicks").newest_head().state.partitions[0].paused_by == ("ticket 7",)
    assert "orders is owned by payments" in outcomes(airflow_home, "change")[1]["text"]


def test_request_that_is_not_what_was_reviewed_changes_nothing(
    topics: Installation, run_dag: RunDag, airflow_home: Settings
) -> None:
    """Neither another value, nor a topic more."""
    wanted = review(topics, action="alter", topics=["clicks"], config={"segment.ms": "1000"})["conf"]
    others = review(topics, action="alter", topics=["clicks", "visits"], config={"segment.ms": "1000"})["conf"]
    for conf in ({**wanted, "config": {"segment.ms": "2000"}}, {**wanted, "topics": others["topics"]}):
        assert run_dag("change_many", **conf, reason="finer")["run", -1] == "failed"
        (outcome,) = outcomes(airflow_home, "change")
        assert outcome["text"].startswith("This request is not the one that was reviewed.")
    assert not written(topics)
    assert all("segment.ms" not in overrides(topics, name) for name in NAMES)
