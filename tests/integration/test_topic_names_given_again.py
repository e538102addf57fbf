"""A call that stood still while its topic was removed for good changes nothing in another topic of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import TOPIC, World, build_versions, open_world, run_between_head_and_commit
from winnow.errors import UnknownTopicError
from winnow.log.recorded_configuration import read_overrides
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.pipeline.undo.undo import undo_change

OTHERS = build_versions(0, 9)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A topic whose records may be deleted, and were compacted once."""
    with open_world(tmp_path) as opened:
        _create(opened)
        opened.ingest(build_versions(0, 6))
        opened.compact()
        yield opened


def _create(world: World) -> None:
    world.create(1, cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0")


def _give_name_again(world: World) -> None:
    """What other commands do meanwhile: the topic is removed, and another one of its name gets records."""
    delete_topic(world.installation, TOPIC, now=True)
    _create(world)
    world.ingest(OTHERS)


CALLS: dict[str, Callable[[World], object]] = {
    "delete-records": lambda world: delete_records(world.installation, TOPIC, {0: 5}),
    "alter": lambda world: alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, []),
    "undo": lambda world: undo_change(world.installation, TOPIC, world.head().state.receipts[-1].plan_id, [0]),
    "ingest": lambda world: world.ingest(build_versions(6, 3)),
    "pause": lambda world: pause_partitions(world.installation, TOPIC, [0], by="ann"),
    "delete": lambda world: delete_topic(world.installation, TOPIC),
}
AFTER_A_LOOK = ("delete-records", "alter", "ingest", "delete")
"""Calls that look at the topic before their commit does."""


@pytest.mark.parametrize("call", CALLS)
def test_call_that_stands_still_in_its_commit_changes_nothing_in_another_topic(world: World, call: str) -> None:
    with run_between_head_and_commit(lambda: _give_name_again(world)), pytest.raises(UnknownTopicError) as refused:
        CALLS[call](world)
    assert "created again" in str(refused.value)
    _require_untouched(world)


@pytest.mark.parametrize("call", AFTER_A_LOOK)
def test_call_that_stands_still_after_a_look_changes_nothing_in_another_topic(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    commit = TopicLog.commit

    def stand_still(self: TopicLog, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(TopicLog, "commit", commit)
        _give_name_again(world)
        return self.commit(*args, **kwargs)

    monkeypatch.setattr(TopicLog, "commit", stand_still)
    with pytest.raises(UnknownTopicError) as refused:
        CALLS[call](world)
    assert "created again" in str(refused.value)
    _require_untouched(world)


def _require_untouched(world: World) -> None:
    head = world.head()
    assert [each.offset for each in world.read()] == list(range(len(OTHERS)))
    assert world.state() == replace(world.state(), log_start_offset=0, paused_by=())
    assert read_overrides(head.table.properties)["cleanup.policy"] == "compact,delete"
