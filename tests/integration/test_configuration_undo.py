"""A change of configuration is undone from its entry in the audit log, unless somebody decided otherwise since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import TOPIC, FakeClock, World, define_world, open_world, run_between_head_and_commit
from winnow.clock import read_wall_clock_ms
from winnow.config.kafka_settings import Origin, SourceSetting
from winnow.errors import ForeignConfigurationError, UndoRefusedError, UsageError
from winnow.kafka.cluster import BrokerTopic
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.ingest.kafka.configuration import follow_configuration
from winnow.pipeline.topics.audit import record_request
from winnow.pipeline.topics.bulk import change_reviewed_topic, list_reviewed_values
from winnow.pipeline.topics.configuration_undo import find_entry, list_changed_topics, plan_undo
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.overview import refresh_overview
from winnow.planning.kafka_configuration import TakingRules
from winnow.store.audit import AuditAction
from winnow.store.rows import AuditEntry, Window
from winnow.values.bulk_changes import BulkChange, compute_fingerprint

BEFORE = {"cleanup.policy": "compact,delete", "retention.ms": "100000"}
world = define_world(1, cleanup_policy=BEFORE["cleanup.policy"], retention_ms=BEFORE["retention.ms"])


def overrides(world: World, topic: str = TOPIC) -> dict[str, str]:
    return dict(read_overrides(world.installation.log.open(topic).newest_head().table.properties))


def newest(world: World) -> AuditEntry:
    """The last entry that was written, whatever the clock says."""
    entries = world.installation.store.audit.find_entries("", most=1_000)
    return entries[-1]


def alter(world: World, changes: dict[str, str], deletions: Sequence[str] = (), *, by: str = "anna") -> AuditEntry:
    alter_topic(replace(world.installation, actor=by), TOPIC, changes, deletions)
    return newest(world)


def undo(world: World, entry: AuditEntry, topic: str = TOPIC) -> AuditEntry | None:
    """Undo ``entry``; the entry of that, or None if nothing was left to change."""
    found = plan_undo(world.installation, entry, topic)
    if not found.changes and not found.deletions:
        return None
    alter_topic(world.installation, topic, found.changes, found.deletions, undoes=found)
    return newest(world)


def test_each_key_gets_back_its_value_or_none_and_the_undo_can_be_undone(world: World) -> None:
    """One that was set anew, one that was changed and one that was reset; undoing twice changes nothing."""
    entry = alter(world, {"segment.ms": "5", "retention.ms": "7"}, ["cleanup.policy"])
    done = undo(world, entry)
    assert done is not None
    assert overrides(world) == BEFORE
    assert (
        done.detail == f"undoes {entry.entry_id}, cleanup.policy=compact,delete, retention.ms=100000, reset segment.ms"
    )
    assert undo(world, entry) is None
    assert newest(world) == done
    undo(world, done)
    assert overrides(world) == {"segment.ms": "5", "retention.ms": "7"}


def test_keys_that_the_entry_did_not_change_stay_as_they_are(world: World) -> None:
    entry = alter(world, {"retention.ms": "7"})
    alter(world, {"segment.ms": "5"})
    undo(world, entry)
    assert overrides(world) == {**BEFORE, "segment.ms": "5"}


def test_key_with_another_value_by_now_refuses_the_undo_and_names_who_set_it(world: World) -> None:
    """Nothing of the entry is undone; undoing the later one first leads there."""
    entry = alter(world, {"retention.ms": "7", "segment.ms": "5"})
    later = alter(world, {"retention.ms": "9"}, by="bert")
    with pytest.raises(UndoRefusedError) as caught:
        undo(world, entry)
    assert "retention.ms is 9 (by bert at " in caught.value.what
    assert caught.value.what.endswith(f", entry {later.entry_id}).")
    assert caught.value.next == f"Undo that first: winnow topics alter {TOPIC} --undo {later.entry_id}"
    assert overrides(world)["segment.ms"] == "5"
    undo(world, later)
    undo(world, entry)
    assert overrides(world) == BEFORE


def test_undo_that_was_refused_names_the_entry_and_not_the_undo_of_one_after_it(world: World) -> None:
    """The undo of the third left the value of the second, which is the one to undo next."""
    first, second, third = (alter(world, {"retention.ms": value}) for value in ("7", "8", "9"))
    undo(world, third)
    with pytest.raises(UndoRefusedError, match=f"--undo {second.entry_id}$"):
        undo(world, first)
    undo(world, second)
    undo(world, first)
    assert overrides(world) == BEFORE


def test_value_that_nobody_recorded_refuses_the_undo(world: World) -> None:
    entry = alter(world, {"retention.ms": "7"})
    alter_topic(replace(world.installation, is_recorded_by_caller=True), TOPIC, {}, ["retention.ms"])
    with pytest.raises(UndoRefusedError, match=r"log: retention\.ms is not set\..*winnow audit list --topic orders"):
        undo(world, entry)


def test_change_right_before_the_commit_refuses_the_undo(world: World) -> None:
    entry = alter(world, {"retention.ms": "7"})
    with (
        run_between_head_and_commit(lambda: alter(world, {"retention.ms": "9"}, by="bert")),
        pytest.raises(UndoRefusedError, match="by bert"),
    ):
        undo(world, entry)
    assert overrides(world)["retention.ms"] == "9"


def test_recorded_values_are_those_that_the_commit_replaced(world: World) -> None:
    """Another change came in between the look at the topic and the commit."""
    with run_between_head_and_commit(lambda: alter(world, {"retention.ms": "9"}, by="bert")):
        entry = alter(world, {"retention.ms": "7"})
    undo(world, entry)
    assert overrides(world)["retention.ms"] == "9"


def test_properties_that_another_tool_changed_refuse_the_undo(world: World) -> None:
    entry = alter(world, {"retention.ms": "7"})
    table = world.installation.log.open(TOPIC).newest_head().table
    with table.transaction() as transaction:
        transaction.set_properties({"retention.ms": "9"})
    with pytest.raises(ForeignConfigurationError):
        undo(world, entry)


def test_entry_of_an_earlier_life_of_the_topic_is_not_undone(world: World) -> None:
    entry = alter(world, {"retention.ms": "7"})
    delete_topic(world.installation, TOPIC, now=True)
    create_topic(world.installation, TOPIC, 1, {**BEFORE, "retention.ms": "7"})
    with pytest.raises(UndoRefusedError, match="was created again after the entry"):
        undo(world, entry)


def test_entries_that_do_not_say_what_was_before_are_refused(world: World) -> None:
    """Other actions, and changes that an older Winnow recorded; ids that mean none or several."""
    store = world.installation.store
    with pytest.raises(UndoRefusedError, match=r"\(create\) cannot be undone so"):
        find_entry(world.installation, newest(world).entry_id)
    store.audit.record(AuditEntry(1, "anna", "alter", TOPIC, detail="retention.ms=5", entry_id="older-1"))
    store.audit.record(AuditEntry(1, "anna", "alter", TOPIC, entry_id="older-2", config_changes='{"orders":"x"}'))
    for beginning in ("older-1", "older-2"):
        with pytest.raises(UndoRefusedError, match="before Winnow recorded the values"):
            find_entry(world.installation, beginning)
    with pytest.raises(UsageError, match="more than one entry whose id is 'older'"):
        find_entry(world.installation, "older")
    for beginning in ("", "younger"):
        with pytest.raises(UsageError, match="no entry whose id is"):
            find_entry(world.installation, beginning)
    with pytest.raises(UndoRefusedError, match="changed nothing of topic clicks, but of orders"):
        undo(world, alter(world, {"retention.ms": "7"}), "clicks")


def test_value_that_was_taken_from_kafka_gets_back_the_former_one(world: World) -> None:
    log = world.installation.log.open(TOPIC)

    def follow(value: str) -> None:
        found = BrokerTopic(TOPIC, None, {}, settings={"segment.ms": SourceSetting(value, Origin.TOPIC)})
        follow_configuration(world.installation, log, found, TakingRules(takes=True))

    follow("6000000")
    follow("5000000")
    assert overrides(world)["segment.ms"] == "5000000"
    undo(world, newest(world))
    assert overrides(world) == {**BEFORE, "segment.ms": "6000000"}


def test_change_of_many_topics_is_undone_for_each_of_them(world: World) -> None:
    """Each has other values from before; a topic that was changed since the review is not among them."""
    installation = world.installation
    for name, value in (("clicks", "60000"), ("visits", "70000")):
        create_topic(installation, name, 1, {"segment.ms": value})
    refresh_overview(installation, TOPIC)
    change = BulkChange("alter", {"segment.ms": "5"}, add_tags=("gold",))
    topics = {}
    for name in ("clicks", TOPIC, "visits"):
        topics[name] = compute_fingerprint(installation.log.open(name).newest_head().location, overrides(world, name))
    alter_topic(installation, "visits", {"segment.ms": "80000"}, [])
    values = list_reviewed_values(installation, topics, change)
    assert values == {
        "clicks": {"segment.ms": ("60000", "5"), "winnow.tags": (None, "gold")},
        TOPIC: {"segment.ms": (None, "5"), "winnow.tags": (None, "gold")},
    }
    assert list_reviewed_values(installation, topics, BulkChange("pause")) == {}
    record_request(installation, AuditAction.ALTER, sorted(topics), detail="segment.ms=5", changes=values)
    for name in ("clicks", TOPIC):
        change_reviewed_topic(installation, name, topics[name], change)
    entry = find_entry(installation, newest(world).entry_id)
    assert list_changed_topics(entry) == ["clicks", TOPIC]
    for name in list_changed_topics(entry):
        undo(world, entry, name)
    assert overrides(world, "clicks") == {"segment.ms": "60000"}
    assert overrides(world) == BEFORE


def test_undo_because_of_which_runs_remove_more_takes_the_second_person(tmp_path: Path) -> None:
    """A longer retention is set by one person, and taken back by two."""
    settings = {"WINNOW_CHANGE__APPROVALS": "2"}
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), settings) as world:
        world.create(1, cleanup_policy=BEFORE["cleanup.policy"], retention_ms=BEFORE["retention.ms"])
        entry = alter(world, {"retention.ms": "900000"})
        with pytest.raises(UsageError, match=r"takes two persons \(change\.approvals\)"):
            undo(world, entry)
        assert overrides(world)["retention.ms"] == "900000"
        listed = world.installation.store.audit.list_entries(Window(), topic=TOPIC, action="alter")
        assert listed.total == 1
