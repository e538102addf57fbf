"""Changes that can remove records for good: with ``change.approvals`` = 2 nobody makes one alone, nor another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.erasing import FIRST
from tests.support.world import TOPIC, FakeClock, World, open_world, run_between_head_and_commit
from winnow.clock import read_wall_clock_ms
from winnow.config.kafka_settings import Origin, SourceSetting
from winnow.errors import UsageError
from winnow.kafka.cluster import BrokerTopic
from winnow.log.recorded_configuration import read_overrides
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.delete_records import delete_records, show_deletion
from winnow.pipeline.ingest.kafka.configuration import accept_held, follow_configuration, show_held
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import alter_topic, preview_config
from winnow.pipeline.topics.second_person import ChangeApproval, ShownChange, takes_second_person
from winnow.planning.kafka_configuration import TakingRules
from winnow.store.rows import Window

SHORTER = {"retention.ms": "1000"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A topic with retention, where such changes take two persons."""
    settings = {"WINNOW_CHANGE__APPROVALS": "2"}
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), settings) as opened:
        opened.create(2, cleanup_policy="compact,delete", retention_ms="604800000")
        opened.ingest(FIRST)
        yield opened


def by_anna(world: World) -> Installation:
    """The installation as who asks has it."""
    return replace(world.installation, actor="anna")


def overrides(world: World) -> dict[str, str]:
    return dict(read_overrides(world.installation.log.open(TOPIC).newest_head().table.properties))


def show(world: World, changes: dict[str, str]) -> ShownChange:
    return preview_config(world.installation, TOPIC, changes, []).shown


def approve(shown: ShownChange, *, by: str = "bert") -> ChangeApproval:
    return ChangeApproval(shown.digest, "anna", by)


@pytest.mark.parametrize(
    "changes",
    [
        SHORTER,
        {"retention.bytes": "1000"},
        {"delete.retention.ms": "1"},
        {"compaction.strategy": "timestamp"},
        {"cleanup.policy": "delete", "retention.ms": "1000"},
    ],
    ids=",".join,
)
def test_change_that_can_remove_records_is_refused_for_one_person(world: World, changes: dict[str, str]) -> None:
    before = overrides(world)
    assert takes_second_person(world.installation, show(world, changes))
    with pytest.raises(UsageError, match=r"takes two persons \(change\.approvals\), and nobody approved it"):
        alter_topic(by_anna(world), TOPIC, changes, [])
    assert overrides(world) == before


@pytest.mark.parametrize(
    "changes", [{"retention.ms": "704800000"}, {"segment.ms": "1"}, {"max.compaction.lag.ms": "5"}]
)
def test_change_that_removes_no_more_takes_nobody_else(world: World, changes: dict[str, str]) -> None:
    alter_topic(by_anna(world), TOPIC, changes, [])
    assert overrides(world).items() >= changes.items()


def test_policy_that_begins_to_compact_takes_two(world: World) -> None:
    alter_topic(by_anna(world), TOPIC, {"cleanup.policy": "delete"}, [])
    with pytest.raises(UsageError, match=r"cleanup\.policy"):
        alter_topic(by_anna(world), TOPIC, {"cleanup.policy": "compact"}, [])


def test_approved_change_is_made_and_the_audit_log_names_both(world: World) -> None:
    alter_topic(by_anna(world), TOPIC, SHORTER, [], approval=approve(show(world, SHORTER)))
    assert overrides(world)["retention.ms"] == "1000"
    (entry,) = world.installation.store.audit.list_entries(Window(), topic=TOPIC, action="alter").rows
    assert (entry.actor, entry.detail) == ("anna", "retention.ms=1000, approved by bert")


@pytest.mark.parametrize("name", ["anna", "Anna", "anna@laptop"])
def test_who_asked_for_a_change_may_not_approve_it(world: World, name: str) -> None:
    with pytest.raises(UsageError, match="asked for it"):
        alter_topic(by_anna(world), TOPIC, SHORTER, [], approval=approve(show(world, SHORTER), by=name))
    assert overrides(world)["retention.ms"] == "604800000"


def test_approval_is_for_what_was_shown_and_nothing_else(world: World) -> None:
    """Neither another value nor other partitions' log starts."""
    approval = approve(show(world, SHORTER))
    with pytest.raises(UsageError, match="not what bert saw"):
        alter_topic(by_anna(world), TOPIC, {"retention.ms": "1"}, [], approval=approval)
    with pytest.raises(UsageError, match="not what bert saw"):
        delete_records(by_anna(world), TOPIC, {0: 1}, approval=approval)
    assert overrides(world)["retention.ms"] == "604800000"


def change_other_key(world: World) -> None:
    set_config(world.installation.log.open(TOPIC), {"segment.ms": "5"}, [])


def test_approval_is_void_when_the_configuration_changed_since(world: World) -> None:
    approval = approve(show(world, SHORTER))
    change_other_key(world)
    with pytest.raises(UsageError, match="not what bert saw"):
        alter_topic(by_anna(world), TOPIC, SHORTER, [], approval=approval)
    assert overrides(world)["retention.ms"] == "604800000"


def test_approval_is_void_when_the_configuration_changes_right_before_the_commit(world: World) -> None:
    approval = approve(show(world, SHORTER))
    with (
        run_between_head_and_commit(lambda: change_other_key(world)),
        pytest.raises(UsageError, match="not what bert saw"),
    ):
        alter_topic(by_anna(world), TOPIC, SHORTER, [], approval=approval)
    assert overrides(world)["retention.ms"] == "604800000"


def test_raised_log_start_takes_two(world: World) -> None:
    with pytest.raises(UsageError, match="takes two persons"):
        delete_records(by_anna(world), TOPIC, {0: 1})
    shown = show_deletion(world.installation, TOPIC, {0: 1})
    assert shown.values == {f"{TOPIC}-0": ("0", "1")}
    (row,) = delete_records(by_anna(world), TOPIC, {0: 1}, approval=approve(shown))
    assert row.log_start_offset == 1
    (entry,) = world.installation.store.audit.list_entries(Window(), topic=TOPIC, action="delete_records").rows
    assert entry.detail == f"{TOPIC}-0 below 1, approved by bert"


def test_change_at_kafka_that_waits_takes_two(world: World) -> None:
    """It waits because it would remove records."""
    found = BrokerTopic(TOPIC, None, {}, settings={"delete.retention.ms": SourceSetting("1000", Origin.TOPIC)})
    follow_configuration(world.installation, world.installation.log.open(TOPIC), found, TakingRules(takes=True))
    with pytest.raises(UsageError, match="takes two persons"):
        accept_held(by_anna(world), TOPIC)
    shown = show_held(world.installation, TOPIC)
    assert shown.values == {"delete.retention.ms": (None, "1000")}
    accept_held(by_anna(world), TOPIC, approval=approve(shown))
    assert overrides(world)["delete.retention.ms"] == "1000"


def test_one_person_is_enough_by_default(tmp_path: Path) -> None:
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as world:
        world.create(1, cleanup_policy="compact,delete")
        alter_topic(world.installation, TOPIC, SHORTER, [])
        assert overrides(world)["retention.ms"] == "1000"
