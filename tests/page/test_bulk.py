"""The review of an action on many topics: whom it takes, whom it leaves out and why, and what is sent on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import event

from tests.page.conftest import Visitor, WithOwners
from tests.page.sample_rows import put, put_marks
from winnow.store import Store
from winnow.values.bulk_changes import MAXIMUM_TOPICS, BulkChange, compute_review_digest

OWN = {"X-Winnow-Page": "1"}


def configuration(**set_values: str) -> str:
    """The configuration of a topic as its overview has it."""
    default = {"name": "cleanup.policy", "value": "compact", "source": "default", "is_default": True, "sentence": "."}
    entries = [
        {"name": name.replace("_", "."), "value": value, "source": "topic", "is_default": False, "sentence": "."}
        for name, value in set_values.items()
    ]
    return json.dumps([default, *entries])


def ask(visitor: Visitor, **wanted: Any) -> Any:
    """A review; its document."""
    answer = visitor.post("api/bulk/review", wanted, headers=OWN)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_filter_becomes_names_and_each_change_is_shown_with_what_is_for_good(admin: Visitor, home_store: Store) -> None:
    """Units are Kafka's in what is sent; a topic that has it already is counted, and not touched."""
    put(home_store, "orders", configuration=configuration(cleanup_policy="delete", retention_ms="432000000"))
    put(home_store, "sessions", configuration=configuration(cleanup_policy="delete", retention_ms="1000"))
    put(home_store, "refunds", configuration=configuration(retention_ms="172800000"))
    put(home_store, "clicks", configuration=configuration(), tags="silver")
    found = ask(admin, action="alter", only={"tag": "gold"}, config={"retention.ms": "2d"})
    assert (found["dag"], found["total"], found["unchanged"], found["irreversible"]) == ("change_many", 2, 1, 1)
    assert [(row["topic"], row["changes"], row["is_irreversible"]) for row in found["shown"]] == [
        ("orders", [{"name": "retention.ms", "before": "432000000", "after": "172800000"}], True),
        ("sessions", [{"name": "retention.ms", "before": "1000", "after": "172800000"}], False),
    ]
    conf = found["conf"]
    assert (conf["config"], list(conf["topics"])) == ({"retention.ms": "172800000"}, ["orders", "sessions"])
    assert conf["digest"] == compute_review_digest(BulkChange("alter", conf["config"]), conf["topics"])


def test_topics_that_it_cannot_take_are_named_with_the_reason(
    admin: Visitor, home_store: Store, with_owners: WithOwners
) -> None:
    """Of an owner of others, not valid together, not there; not paused, or under another name; wholly paused."""
    put(home_store, "clicks", owner="", configuration=configuration(max_compaction_lag_ms="1000"))
    put(home_store, "orders", owner="payments", configuration=configuration())
    put(home_store, "visits", owner="", configuration=configuration())
    put_marks(home_store, "visits", paused=(0,))
    with_owners({"payments": "ada"})
    named = ["orders", "clicks", "visits", "nowhere"]
    found = ask(admin, action="alter", topics=named, config={"min.compaction.lag.ms": "5000"})
    reasons = {row["topic"]: row["reason"] for row in found["refused"]}
    assert (list(found["conf"]["topics"]), found["refused_total"]) == (["visits"], 3)
    assert reasons["orders"] == "owned by payments, for whom you may not act (setting owners)"
    assert "min.compaction.lag.ms (5000) > max.compaction.lag.ms (1000)" in reasons["clicks"]
    assert reasons["nowhere"] == "there is no such topic, or it was never assessed"
    for name, taken, reason in (("ops", ["visits"], None), ("maria", [], "it is paused by ops, zoe")):
        found = ask(admin, action="resume", topics=["clicks", "visits"], name=name)
        reasons = {row["topic"]: row["reason"] for row in found["refused"]}
        assert (list(found["conf"]["topics"]), reasons.get("visits")) == (taken, reason)
        assert reasons["clicks"] == "it is not paused"
    found = ask(admin, action="compact", topics=["clicks", "visits"])
    assert (found["dag"], found["conf"]) == ("compact_now", {"topics": ["clicks"]})
    assert found["refused"] == [{"topic": "visits", "reason": "all of its partitions are paused"}]


def test_who_may_not_trigger_the_dag_gets_no_review(viewer: Visitor, home_store: Store) -> None:
    for action in ("pause", "alter", "compact", "scrub", "sweep"):
        answer = viewer.post("api/bulk/review", {"action": action, "only": {}}, headers=OWN)
        assert answer.status_code == 403
        assert "may not trigger" in answer.json()["detail"]


def test_key_that_does_not_exist_and_too_many_topics_are_refused(
    admin: Visitor, home_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "clicks"):
        put(home_store, name)
    answer = admin.post("api/bulk/review", {"action": "alter", "only": {}, "config": {"no.key": "1"}}, headers=OWN)
    assert (answer.status_code, "no.key" in answer.json()["detail"]) == (422, True)
    answer = admin.post("api/bulk/review", {"action": "scrub", "topics": ["t"] * (MAXIMUM_TOPICS + 1)}, headers=OWN)
    assert answer.status_code == 422
    monkeypatch.setattr("winnow_airflow.page.bulk.MAXIMUM_TOPICS", 1)
    answer = admin.post("api/bulk/review", {"action": "scrub", "only": {}}, headers=OWN)
    assert (answer.status_code, "Narrow the filter." in answer.json()["detail"]) == (422, True)


def test_more_topics_take_no_more_statements_and_few_rows_are_answered(admin: Visitor, home_store: Store) -> None:
    """A hundred topics cost what three do; all are in the request, and the first twenty are shown."""
    said: list[str] = []
    event.listen(home_store.audit._database.engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    counts = []
    for number in (3, 100):
        for topic in range(number):
            put(home_store, f"t-{topic}", configuration=configuration())
        said.clear()
        found = ask(admin, action="alter", only={}, config={"segment.ms": "5000"})
        counts.append(len(said))
        assert (len(found["conf"]["topics"]), len(found["shown"])) == (number, min(number, 20))
    assert counts[0] == counts[1]


def test_commonest_value_of_a_tags_other_topics_is_told_with_how_many_have_it(
    viewer: Visitor, home_store: Store
) -> None:
    """Values of topics and defaults are compared by what is in force."""
    for name, retention in (("a", "1000"), ("b", "1000"), ("c", "2000"), ("orders", "9")):
        put(home_store, name, configuration=configuration(retention_ms=retention))
    put(home_store, "silver", tags="silver", configuration=configuration(retention_ms="5"))
    found = viewer.json("api/configuration/commonest", tag="gold", without="orders")
    assert found == {
        "topics": 3,
        "keys": {
            "cleanup.policy": {"value": "compact", "count": 3, "is_default": True},
            "retention.ms": {"value": "1000", "count": 2, "is_default": False},
        },
    }
    assert viewer.json("api/configuration/commonest", tag="none") == {"topics": 0, "keys": {}}
