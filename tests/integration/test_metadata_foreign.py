"""A head that somebody else committed: Winnow stops, says what to do, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.support.steps import STEPS
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    run_between_head_and_commit,
)
from winnow.errors import ForeignTableError, FormatVersionError, WinnowError
from winnow.files import storage
from winnow.files.segments import ARROW_SCHEMA
from winnow.log.state import StateReference
from winnow.values import documents
from winnow.values.topic_state import TopicState

world = define_world(1, build_versions(0, 9), min_cleanable_dirty_ratio="0")


def append_by_hand(world: World) -> None:
    rows = [{"partition": 0, "offset": 9, "timestampType": 0, "key": b"k", "value": b"v"}]
    world.installation.log.catalog.load_table(("winnow", TOPIC)).append(pa.Table.from_pylist(rows, schema=ARROW_SCHEMA))


@pytest.mark.parametrize("act", STEPS.values(), ids=STEPS)
def test_a_foreign_commit_stops_every_step_and_is_left_as_it_is(world: World, act: Callable[[World], object]) -> None:
    append_by_hand(world)
    before = world.listing()
    with pytest.raises(ForeignTableError) as refused:
        act(world)
    message = str(refused.value)
    assert refused.value.exit_code == 2
    assert "topic orders was committed by somebody else" in message
    assert "Nothing was changed." in message
    assert "Roll the table back to the last snapshot whose summary has 'winnow.state'" in message
    assert world.listing() == before


def test_a_topic_that_was_rolled_back_as_the_message_says_works_on(world: World) -> None:
    """The advice is enough: afterwards the log is what it was and takes records and compactions."""
    good = world.snapshot_ids()[-1]
    append_by_hand(world)
    world.installation.log.catalog.load_table(("winnow", TOPIC)).manage_snapshots().rollback_to_snapshot(good).commit()
    assert world.read() == build_versions(0, 9)
    world.ingest(build_versions(9, 3))
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 12))


def test_a_foreign_commit_in_the_middle_of_a_run_stops_its_publish(world: World) -> None:
    with run_between_head_and_commit(lambda: append_by_hand(world)), pytest.raises(ForeignTableError):
        world.compact()
    assert len(world.installation.store.projection.list_receipts(TOPIC)) == 0


@pytest.mark.kafka("5")
def test_a_state_file_that_is_gone_is_named_and_nothing_is_guessed(world: World) -> None:
    path = _state_path(world)
    for place in world.head().documents.list_places(path):
        storage.parse_local_path(place).unlink()
    with pytest.raises(WinnowError, match="state file of topic orders is gone") as refused:
        world.ingest(build_versions(9, 1))
    assert path in str(refused.value)
    assert f"winnow topics recover {TOPIC}" in str(refused.value)


def test_a_state_file_that_was_changed_is_not_believed(world: World) -> None:
    for place in map(storage.parse_local_path, world.head().documents.list_places(_state_path(world))):
        place.write_bytes(place.read_bytes().replace(b'"log_end_offset":9', b'"log_end_offset":8'))
    with pytest.raises(WinnowError, match="is not the one that was committed"):
        world.compact()


def test_a_state_of_a_newer_format_is_refused_by_name(world: World) -> None:
    """An older Winnow does not guess at what a newer one wrote."""
    newer = replace(world.head().state, format_version=documents.FORMAT_VERSION + 1)
    text = documents.dump_json(newer)
    with pytest.raises(FormatVersionError):
        documents.load_json(TopicState, text)


def _state_path(world: World) -> str:
    snapshot = world.head().table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return StateReference.from_summary(TOPIC, snapshot.summary.additional_properties).path


def test_an_empty_topic_reads_as_empty(world: World) -> None:
    """It has no snapshot yet, and its state is that of a log from offset 0: nothing foreign about it."""
    world.create(2, topic="empty")
    assert world.read(topic="empty") == []
    assert world.head("empty").snapshot_id is None
    assert world.state(1, topic="empty").log_end_offset == 0
