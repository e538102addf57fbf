"""What the carried state remembers of its table: the segments and the configuration that were committed.

A manifest that names other segments, and a configuration that another tool wrote, are noticed by whoever looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow
from tests.support.steps import STEPS
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    run_between_head_and_commit,
)
from winnow.errors import DamagedMetadataError, ForeignConfigurationError, WinnowError
from winnow.log import head_checks, manifests
from winnow.log.head import Change
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.topics.definition import alter_topic, describe_topic
from winnow.values.model import Segment
from winnow.values.topic_state import TopicState

PATH = "file:///nowhere/data/{}.parquet"


world = define_world(2, build_versions(0, 9), min_cleanable_dirty_ratio="0")


def set_by_another_tool(installation: Installation, **properties: str) -> None:
    """ALTER TABLE … SET TBLPROPERTIES, as any engine can."""
    with installation.log.catalog.load_table(("winnow", TOPIC)).transaction() as change:
        change.set_properties({name.replace("_", "."): text for name, text in properties.items()})


def segment(number: int, **fields: object) -> Segment:
    return replace(Segment(PATH.format(number), 0, number, number, 1, 100, 1_000, 1_000, 0), **fields)  # type: ignore[arg-type]


def digest_by_looking(world: World) -> object:
    log = world.installation.log.open(TOPIC)
    found = log.segments(log.head())
    return head_checks.compute_segment_digest(each for some in found.values() for each in some)


# ---------------------------------------------------------------------------------------------------- the segments


def test_the_digest_follows_every_commit_and_is_that_of_the_segments_there_are(world: World) -> None:
    """Ingest, a state change, a compaction and an alteration."""
    seen = [world.head().state.live]
    world.ingest([*build_versions(9, 9), *build_versions(0, 9, partition=1)])
    seen.append(world.head().state.live)
    alter_topic(world.installation, TOPIC, {"segment.bytes": "1000000"}, [])
    assert world.head().state.live == seen[-1]
    world.compact()
    seen.append(world.head().state.live)
    assert len({each.value for each in seen if each is not None}) == 3
    assert seen[-1] == digest_by_looking(world)


@pytest.mark.parametrize(
    "field",
    [
        {"path": PATH.format(7)},
        {"partition": 1},
        {"first_offset": 0},
        {"last_offset": 2},
        {"records": 2},
        {"size_bytes": 101},
        {"min_timestamp_ms": 999},
        {"max_timestamp_ms": None},
        {"tombstones": 1},
        {"keyless": 1},
    ],
    ids=lambda field: next(iter(field)),
)
def test_every_field_of_a_segment_counts_in_the_digest(field: dict[str, object]) -> None:
    sound = head_checks.compute_segment_digest([segment(1), segment(3)])
    assert head_checks.compute_segment_digest([replace(segment(1), **field), segment(3)]) != sound  # type: ignore[arg-type]


def test_the_digest_is_additive_and_knows_no_order() -> None:
    """So a commit costs what it changes, and what comes back after it went is as if it had stayed."""
    one, two, three = segment(1), segment(2), segment(3)
    base = head_checks.compute_segment_digest([one, two])
    assert base == head_checks.compute_segment_digest([two, one])
    after = head_checks.update_segment_digest(base, added=[three], removed=[one])
    assert after == head_checks.compute_segment_digest([two, three])
    assert head_checks.update_segment_digest(after, added=[one], removed=[three]) == base
    assert head_checks.update_segment_digest(base, added=(), removed=[one, two]) == head_checks.NO_SEGMENTS


@pytest.mark.parametrize(
    "act",
    [
        *(STEPS[name] for name in ("compact", "read", "assess", "explain")),
        lambda world: describe_topic(world.installation, TOPIC),
    ],
    ids=["compact", "read", "assess", "explain", "describe"],
)
def test_a_manifest_that_names_other_segments_than_were_committed_stops_every_step(
    world: World, act: Callable[[World], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changed bytes in a manifest without a checksum: one segment less, and nothing else is wrong with it."""
    genuine = manifests.list_live_segments
    world.ingest(build_versions(9, 9))

    def without_the_last(*arguments: object) -> list[Segment]:
        return genuine(*arguments)[:-1]  # type: ignore[arg-type]

    monkeypatch.setattr("winnow.log.topic_log.list_live_segments", without_the_last)
    before = world.listing()
    with pytest.raises(DamagedMetadataError) as refused:
        act(world)
    message = str(refused.value)
    assert refused.value.exit_code == 4
    assert "The manifests of topic orders do not name the segments that were committed" in message
    assert "where 2 segments with 18 records" in message
    assert "Restore these files from a backup" in message
    assert world.listing() == before


def test_a_changed_bound_is_noticed_though_all_sums_are_right(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = manifests.list_live_segments

    def shifted(*arguments: object) -> list[Segment]:
        found = genuine(*arguments)  # type: ignore[arg-type]
        return [replace(each, max_timestamp_ms=each.max_timestamp_ms + 1) for each in found]  # type: ignore[operator]

    monkeypatch.setattr("winnow.log.topic_log.list_live_segments", shifted)
    with pytest.raises(DamagedMetadataError, match="as committed, but with another path, partition, offset, timestamp"):
        world.read()


def test_a_commit_in_between_does_not_heal_what_is_damaged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest is moved by what a commit changes, not made anew from what it finds."""
    genuine = manifests.list_live_segments
    with monkeypatch.context() as patch:
        patch.setattr("winnow.log.topic_log.list_live_segments", lambda *arguments: genuine(*arguments)[:-1])
        world.ingest(build_versions(0, 9, partition=1))
        with pytest.raises(DamagedMetadataError):
            world.read()
    assert len(world.read()) == 18


# ----------------------------------------------------------------------------------------------- the configuration


@pytest.mark.parametrize(
    "act",
    [
        *(STEPS[name] for name in ("ingest", "compact", "assess", "explain", "sweep")),
        lambda world: alter_topic(world.installation, TOPIC, {"segment.bytes": "1000000"}, []),
        lambda world: alter_topic(world.installation, TOPIC, {}, [], partitions=3),
    ],
    ids=["ingest", "compact", "assess", "explain", "sweep", "alter", "add-partitions"],
)
def test_a_configuration_that_another_tool_changed_stops_every_step_until_it_is_accepted(
    world: World, act: Callable[[World], object]
) -> None:
    set_by_another_tool(world.installation, cleanup_policy="delete", retention_ms="1")
    before = world.listing()
    with pytest.raises(ForeignConfigurationError) as refused:
        act(world)
    message = str(refused.value)
    assert refused.value.exit_code == 2
    assert "cleanup.policy is 'delete' (committed: not set); retention.ms is '1' (committed: not set)" in message
    assert "winnow topics alter orders --accept-config" in message
    assert "min.cleanable.dirty.ratio" not in message
    assert world.listing() == before
    assert world.read() == build_versions(0, 9)


def test_a_topic_whose_configuration_was_changed_is_described_as_committed_with_the_difference(world: World) -> None:
    set_by_another_tool(world.installation, retention_ms="1")
    found = describe_topic(world.installation, TOPIC)
    assert [entry.value for entry in found.config if entry.name == "retention.ms"] == ["-1"]
    (notice,) = found.notices
    assert "retention.ms is '1' (committed: not set)" in notice


def test_what_is_accepted_holds_and_the_topic_goes_on(world: World) -> None:
    set_by_another_tool(world.installation, segment_bytes="1000000")
    found = alter_topic(world.installation, TOPIC, {}, [], accept_present=True)
    assert [entry.value for entry in found.config if entry.name == "segment.bytes"] == ["1000000"]
    assert found.notices == ()
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 9))


def test_what_was_changed_can_be_set_back_in_the_same_call(world: World) -> None:
    """Also where what the other tool wrote is no configuration at all."""
    set_by_another_tool(world.installation, retention_ms="soon", cleanup_policy="delete")
    with pytest.raises(WinnowError, match=r"retention\.ms"):
        alter_topic(world.installation, TOPIC, {}, [], accept_present=True)
    alter_topic(world.installation, TOPIC, {}, ["retention.ms", "cleanup.policy"], accept_present=True)
    config = world.installation.log.open(TOPIC).config()
    assert (config.retention_ms, config.compacts, config.deletes) == (-1, True, False)


def test_partitions_that_another_tool_takes_away_stay(world: World) -> None:
    set_by_another_tool(world.installation, winnow_partitions="1")
    with pytest.raises(ForeignConfigurationError, match=r"winnow\.partitions is '1' \(committed: '2'\)"):
        world.compact()
    assert world.read() == build_versions(0, 9)
    assert alter_topic(world.installation, TOPIC, {}, [], accept_present=True).partitions == 2
    assert world.head().table.properties["winnow.partitions"] == "2"


def test_partitions_that_another_tool_adds_are_there_once_accepted(world: World) -> None:
    set_by_another_tool(world.installation, winnow_partitions="3")
    assert alter_topic(world.installation, TOPIC, {}, [], accept_present=True).partitions == 3
    world.ingest(build_versions(0, 2, partition=2))
    assert world.read(partition=2) == build_versions(0, 2, partition=2)


def test_properties_that_are_no_configuration_are_anybodys(world: World) -> None:
    set_by_another_tool(
        world.installation, comment="ours", write_parquet_page_size_bytes="65536", commit_manifest_min_count="5"
    )
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 9))


def test_a_change_between_the_look_and_the_commit_is_found_by_the_next_look(world: World) -> None:
    """A commit does not take over along with its own what it did not see."""
    with run_between_head_and_commit(lambda: set_by_another_tool(world.installation, retention_ms="1")):
        world.ingest(build_versions(9, 1))
    with pytest.raises(ForeignConfigurationError):
        world.compact()


def test_a_mark_or_a_pause_does_not_accept_a_changed_configuration(world: World) -> None:
    set_by_another_tool(world.installation, retention_ms="1")
    world.installation.log.open(TOPIC).commit(lambda head: Change(head.state))
    with pytest.raises(ForeignConfigurationError):
        world.compact()


def test_the_configuration_of_a_topic_without_a_commit_is_the_one_it_was_created_with(world: World) -> None:
    """There is no state yet, so a property says what it was."""
    world.create(1, topic="fresh", segment_bytes="1000000")
    with world.installation.log.catalog.load_table(("winnow", "fresh")).transaction() as change:
        change.set_properties({"segment.bytes": "100"})
    with pytest.raises(ForeignConfigurationError, match=r"segment\.bytes is '100' \(committed: '1000000'\)"):
        world.ingest(build_versions(0, 1), topic="fresh")
    alter_topic(world.installation, "fresh", {}, [], accept_present=True)
    world.ingest(build_versions(0, 1), topic="fresh")


def test_a_rollback_past_an_alteration_asks_which_configuration_holds(world: World) -> None:
    """Iceberg rolls back snapshots and not properties: the older state has the older configuration."""
    good = world.snapshot_ids()[-1]
    alter_topic(world.installation, TOPIC, {"segment.bytes": "1000000"}, [])
    world.ingest(build_versions(9, 9))
    world.installation.log.catalog.load_table(("winnow", TOPIC)).manage_snapshots().rollback_to_snapshot(good).commit()
    assert world.read() == build_versions(0, 9)
    with pytest.raises(ForeignConfigurationError, match="the table was rolled back past a change"):
        world.compact()
    alter_topic(world.installation, TOPIC, {}, [], accept_present=True)
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 9))


# ------------------------------------------------------------------------------------------------ old states, places


def rewritten(world: World, change: Callable[[TopicState], TopicState]) -> None:
    """Let the newest snapshot name a state that another Winnow would have written."""
    log = world.installation.log.open(TOPIC)
    genuine = TopicLog._add_digests
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TopicLog, "_add_digests", lambda *arguments: change(genuine(*arguments)))
        log.commit(lambda head: Change(head.state))


def test_a_state_of_an_older_winnow_is_taken_as_it_is_and_the_first_commit_writes_digests(world: World) -> None:
    def older(state: TopicState) -> TopicState:
        return replace(state, live=None, configuration=None, table_uuid=None, location=None)

    rewritten(world, older)
    state = world.head().state
    assert (state.live, state.configuration, state.table_uuid) == (None, None, None)
    assert world.read() == build_versions(0, 9)
    world.ingest(build_versions(9, 9))
    state = world.head().state
    assert state.live == digest_by_looking(world)
    assert state.configuration == {"min.cleanable.dirty.ratio": "0", "winnow.partitions": "2"}
    set_by_another_tool(world.installation, retention_ms="1")
    with pytest.raises(ForeignConfigurationError):
        world.compact()


def test_a_table_at_another_place_than_was_committed_is_not_believed(world: World) -> None:
    rewritten(world, lambda state: replace(state, location="file:///elsewhere"))
    with pytest.raises(DamagedMetadataError, match=r"the table's folder \(location\)") as refused:
        world.read()
    assert "file:///elsewhere was committed" in str(refused.value)


def test_a_table_without_its_current_snapshot_is_not_an_empty_topic(world: World) -> None:
    """A renamed key in metadata.json would make a full topic look empty."""
    log = world.installation.log.open(TOPIC)
    table = log.head().table
    table.metadata = table.metadata.model_copy(update={"current_snapshot_id": None})
    with pytest.raises(DamagedMetadataError, match="there are snapshots, and the current one is none of them"):
        log._head(table)


def test_the_command_that_the_message_names_accepts_and_what_follows_is_told(tmp_path: Path) -> None:
    """On the command line, from the refusal to the run."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["min.cleanable.dirty.ratio=0"])
    with open_installation() as installation:
        set_by_another_tool(installation, segment_bytes="1000000")
    refused = winnow("assess", "orders", code=2)
    assert refused.stderr.startswith("error: The configuration of topic orders is not the one that Winnow committed")
    assert len(refused.stderr.splitlines()) == 1
    assert "segment.bytes is '1000000'" in winnow("topics", "describe", "orders").stderr
    accepted = winnow("topics", "alter", "orders", "--accept-config")
    assert "1000000" in accepted.stdout
    winnow("assess", "orders")
