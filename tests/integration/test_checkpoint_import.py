"""Kafka's cleaner checkpoints into the log and back: what is taken over, what is kept, and what a crash leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    record,
    run_between_head_and_commit,
)
from winnow.log.head import Head
from winnow.pipeline.admin.checkpoints import (
    OPERATION,
    ImportedEntry,
    ImportOutcome,
    export_checkpoints,
    group_by_topic,
    import_checkpoints,
)
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.planning.cleanable import find_first_dirty_offset
from winnow.sources.checkpoint_file import CheckpointEntry, read_checkpoint_file, write_checkpoint_file
from winnow.values.model import Reason
from winnow.values.topic_state import Cleaning, PartitionState

DAY_MS = 86_400_000
TOPICS = ["orders", "payments", "returns"]
# The middle of an import, killed for good: after so many topics, before or after the commit of the next.
DIE = """
import os, signal, sys
from pathlib import Path
from tests.support.world import FakeClock, open_world
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.checkpoints import group_by_topic, import_checkpoints
from winnow.sources.checkpoint_file import read_checkpoint_file
from winnow.store.projection import Projection

folder, file, moment, now_ms = sys.argv[1:]
left = [1]

def dying(owner, name):
    genuine = getattr(owner, name)
    def call(*arguments, **named):
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left.pop()
        return genuine(*arguments, **named)
    setattr(owner, name, call)

with open_world(Path(folder), FakeClock(int(now_ms))) as world:
    dying(TopicLog, "commit") if moment == "before the commit" else dying(Projection, "record_states")
    for topic, entries in group_by_topic(read_checkpoint_file(file)).items():
        import_checkpoints(world.installation, topic, entries)
"""


def orders(world: World, partitions: int = 1) -> None:
    world.create(partitions, min_cleanable_dirty_ratio="0", segment_bytes="14")
    for partition in range(partitions):
        world.ingest(build_versions(0, 12, partition=partition))


def take_over(world: World, offset: int, partition: int = 0, topic: str = TOPIC) -> ImportedEntry:
    (found,) = import_checkpoints(world.installation, topic, [CheckpointEntry(topic, partition, offset)])
    return found


def imported(world: World, partition: int = 0, topic: str = TOPIC) -> tuple[int | None, tuple[Cleaning, ...]]:
    state = world.state(partition, topic)
    return state.first_dirty_offset, state.history


def covered(offset: int) -> tuple[int, tuple[Cleaning, ...]]:
    """Clean up to ``offset``, at a time nobody knows."""
    return offset, (Cleaning(offset, None, None),)


def operations(world: World, topic: str = TOPIC) -> list[str]:
    return [
        snapshot.summary.additional_properties.get("winnow.operation", "")
        for snapshot in world.head(topic).table.metadata.snapshots
        if snapshot.summary is not None
    ]


@pytest.mark.kafka("87", "100b", "G28")
def test_entry_of_the_old_file_becomes_the_partitions_checkpoint(world: World) -> None:
    """LogCleanerManagerTest.testUpdateCheckpointsShouldAddOffsetToPartition; PR 7175 testCheckpointDirUpgrade.

    Offset 1, as there; the log's files and records are as they were, and the metadata store agrees.
    """
    orders(world)
    files, records = world.segments(), world.read()
    found = take_over(world, 1)
    assert (found.outcome, found.first_dirty_offset) == (ImportOutcome.IMPORTED, 1)
    assert imported(world) == covered(1)
    assert (world.segments(), world.read()) == (files, records)
    assert operations(world)[-1] == OPERATION
    (row,) = world.installation.store.projection.list_checkpoints([TOPIC])
    assert (row.first_dirty_offset, row.history) == covered(1)


@pytest.mark.kafka("88")
def test_partition_without_a_checkpoint_has_no_line_and_the_line_of_a_dropped_one_goes(
    world: World, tmp_path: Path
) -> None:
    """LogCleanerManagerTest.testUpdateCheckpointsShouldRemovePartitionData."""
    orders(world, partitions=3)
    file = str(tmp_path / "file")
    write_checkpoint_file(file, [CheckpointEntry("dropped", 0, 7), CheckpointEntry(TOPIC, 0, 3)])
    take_over(world, 4, partition=2)
    write_checkpoint_file(file, export_checkpoints(world.installation, TOPIC))
    assert read_checkpoint_file(file) == [CheckpointEntry(TOPIC, 2, 4)]


@pytest.mark.kafka("90")
def test_checkpoint_counts_while_it_lies_in_the_log_and_not_beyond_a_log_end_that_fell_below_it(world: World) -> None:
    """LogCleanerManagerTest.testMaybeTruncateCheckpointShouldTruncateData.

    A log end above it changes nothing; below it every decision begins at the log start (2.2), and none is made for
    what is not there.
    """
    orders(world)
    assert take_over(world, 6).message.endswith("cleaning time unknown")
    state = world.state()
    assert find_first_dirty_offset(state) == 6
    assert find_first_dirty_offset(replace(state, log_end_offset=20)) == 6
    assert find_first_dirty_offset(replace(state, log_end_offset=6)) == 6
    assert find_first_dirty_offset(replace(state, log_end_offset=5)) == 0


@pytest.mark.kafka("100")
def test_own_checkpoint_has_offset_and_time_and_both_outlive_the_store(world: World) -> None:
    """PR 7175 OffsetAndTimesCheckpointFileTest: the time of a cleaning of Winnow's own is known."""
    orders(world)
    world.compact()
    history = (Cleaning(12, world.clock(), world.clock() + DAY_MS),)
    assert imported(world) == (12, history)
    world.installation.store.projection.forget_topic(TOPIC)
    rebuild_store(world.installation, [TOPIC])
    (row,) = world.installation.store.projection.list_checkpoints([TOPIC])
    assert (row.first_dirty_offset, row.history) == (12, history)


@pytest.mark.kafka("138")
def test_second_start_makes_no_second_snapshot(world: World) -> None:
    orders(world)
    take_over(world, 6)
    before = (world.snapshot_ids(), world.head().state)
    assert take_over(world, 6).outcome is ImportOutcome.UNCHANGED
    assert (world.snapshot_ids(), world.head().state) == before


@pytest.mark.kafka("138")
def test_checkpoint_of_own_cleaning_is_never_overwritten(world: World) -> None:
    """Neither by a lower nor by a higher offset, whenever the old file is read again."""
    orders(world)
    world.compact()
    before = (world.snapshot_ids(), world.state())
    for offset in (3, 12, 40):
        found = take_over(world, offset)
        assert (found.outcome, found.first_dirty_offset) == (ImportOutcome.KEPT_NEWER, 12)
        assert "Winnow has cleaned it since" in found.message
    assert (world.snapshot_ids(), world.state()) == before


@pytest.mark.kafka("138")
def test_own_cleaning_after_an_import_wins_over_the_file_that_was_imported(world: World) -> None:
    """The defect of PR 7175: each restart wrote the stale offset back, with the time unknown again."""
    orders(world)
    take_over(world, 6)
    world.compact()
    state = world.state()
    assert state.first_dirty_offset == 12
    assert take_over(world, 6).outcome is ImportOutcome.KEPT_NEWER
    assert take_over(world, 13).outcome is ImportOutcome.KEPT_NEWER
    assert world.state() == state


@pytest.mark.kafka("138")
def test_imported_checkpoint_is_raised_by_a_later_file_and_never_lowered(world: World) -> None:
    orders(world)
    take_over(world, 6)
    assert take_over(world, 9).outcome is ImportOutcome.RAISED
    assert imported(world) == covered(9)
    lower = take_over(world, 6)
    assert (lower.outcome, lower.first_dirty_offset) == (ImportOutcome.KEPT_NEWER, 9)
    assert "a higher one was imported before" in lower.message
    assert imported(world) == covered(9)


@pytest.mark.kafka("138")
def test_mixed_old_and_new_entries_are_told_apart_per_partition(world: World) -> None:
    """One partition cleaned by Winnow, one imported before, one new, one that does not exist; one commit."""
    orders(world, partitions=3)
    world.compact()
    world.create(3, topic="fresh")
    world.ingest(build_versions(0, 6, partition=1), topic="fresh")
    take_over(world, 2, partition=0, topic="fresh")
    snapshots = len(world.snapshot_ids("fresh"))
    found = import_checkpoints(world.installation, "fresh", [CheckpointEntry("fresh", n, 4) for n in (0, 1, 2, 3)])
    assert [each.outcome for each in found] == [
        ImportOutcome.RAISED,
        ImportOutcome.IMPORTED,
        ImportOutcome.IMPORTED,
        ImportOutcome.UNKNOWN_PARTITION,
    ]
    assert len(world.snapshot_ids("fresh")) == snapshots + 1
    own = import_checkpoints(world.installation, TOPIC, [CheckpointEntry(TOPIC, n, 4) for n in range(3)])
    assert [each.outcome for each in own] == [ImportOutcome.KEPT_NEWER] * 3


@pytest.mark.kafka("138")
@pytest.mark.parametrize("moment", ["before the commit", "between commit and store"])
def test_import_that_was_killed_in_the_middle_ends_as_an_undisturbed_one(
    world: World, tmp_path: Path, moment: str
) -> None:
    """Killed -9 while it is at the second of three topics; then imported again."""
    for topic in TOPICS:
        world.create(1, topic=topic)
        world.ingest(build_versions(0, 6), topic=topic)
    file = tmp_path / "cleaner-offset-checkpoint"
    write_checkpoint_file(str(file), [CheckpointEntry(topic, 0, 4) for topic in TOPICS])
    done = subprocess.run(
        [sys.executable, "-c", DIE, str(world.folder), str(file), moment, str(world.clock())],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    committed = [imported(world, topic=topic)[0] for topic in TOPICS]
    stored = [row.topic for row in world.installation.store.projection.list_checkpoints()]
    assert (committed, stored) == (
        ([4, None, None], ["orders"]) if moment == "before the commit" else ([4, 4, None], ["orders"])
    )
    for _ in range(2):
        for topic, entries in group_by_topic(read_checkpoint_file(str(file))).items():
            import_checkpoints(world.installation, topic, entries)
    assert [imported(world, topic=topic) for topic in TOPICS] == [covered(4)] * 3
    assert [(row.topic, row.first_dirty_offset) for row in world.installation.store.projection.list_checkpoints()] == [
        (t, 4) for t in TOPICS
    ]
    assert [operations(world, topic).count(OPERATION) for topic in TOPICS] == [1, 1, 1]


def test_cleaning_that_comes_first_is_kept(world: World) -> None:
    """The commit loop asks again: what was new a moment ago is Winnow's own now."""
    orders(world)
    with run_between_head_and_commit(world.compact):
        found = take_over(world, 6)
    assert found.outcome is ImportOutcome.KEPT_NEWER
    assert world.state().first_dirty_offset == 12
    assert world.state().history[-1].cleaning_time_ms == world.clock()


def test_cleaning_begins_at_the_imported_offset_and_still_meets_what_lies_below(world: World) -> None:
    orders(world)
    take_over(world, 6)
    (found,) = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    assert found.first_dirty_offset == 6
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 12))


def test_tombstones_below_an_imported_checkpoint_wait_for_a_horizon_of_their_own(world: World) -> None:
    """When the broker covered them nobody knows: they make the partition eligible once, and that run starts it."""
    records = [record(0, b"a", b"1"), record(1, b"a", None), record(2, b"b", b"1")]
    world.create(1, min_cleanable_dirty_ratio="0.9")
    world.ingest(records)
    take_over(world, 3)

    def reason() -> Reason:
        return assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)[0].reason

    assert reason() is Reason.TOMBSTONES_EXPIRED
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].tombstones_expired == 0
    assert world.read() == records[1:]
    assert reason() is Reason.CLEAN
    world.clock.now_ms += DAY_MS
    world.compact()
    assert world.read() == records[2:]


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (40, "beyond the log end 12: counts as the log start until the log reaches it"),
        (12, "cleaning time unknown"),
    ],
)
def test_offset_beyond_the_log_end_is_kept_and_counts_when_the_log_reaches_it(
    world: World, offset: int, said: str
) -> None:
    orders(world)
    found = take_over(world, offset)
    assert found.outcome is ImportOutcome.IMPORTED
    assert found.message.endswith(said)
    assert imported(world) == covered(offset)
    assert find_first_dirty_offset(world.state()) == (0 if offset > 12 else 12)
    assert find_first_dirty_offset(replace(world.state(), log_end_offset=offset)) == offset


def test_offset_below_the_log_start_counts_as_the_log_start(world: World) -> None:
    orders(world)
    raise_log_start(world, 6)
    found = take_over(world, 2)
    assert found.outcome is ImportOutcome.IMPORTED
    assert found.message.endswith("below the log start 6: counts as the log start")
    assert find_first_dirty_offset(world.state()) == 6


def raise_log_start(world: World, offset: int) -> None:
    from winnow.log.head import Change

    def change(head: Head) -> Change:
        state: PartitionState = replace(head.state.partitions[0], log_start_offset=offset)
        return Change(state=replace(head.state, partitions={**head.state.partitions, 0: state}))

    world.installation.log.open(TOPIC).commit(change)


def test_unknown_topic_is_told_per_entry_and_makes_nothing(world: World) -> None:
    found = import_checkpoints(world.installation, "missing", [CheckpointEntry("missing", n, 1) for n in range(2)])
    assert [each.outcome for each in found] == [ImportOutcome.UNKNOWN_TOPIC] * 2
    assert world.installation.log.names() == []


# ------------------------------------------------------------------------------------------------------ command line


def checkpoint_file(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)))
    return path


def test_import_tells_what_became_of_every_entry(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    file = checkpoint_file(tmp_path / "file", "__consumer_offsets 3 9", "orders 0 4", "orders 5 4")
    document = winnow("checkpoints", "import", file, "--json").document
    assert [(row["topic"], row["partition"], row["offset"], row["outcome"]) for row in document] == [
        ("__consumer_offsets", 3, 9, "unknown_topic"),
        ("orders", 0, 4, "imported"),
        ("orders", 5, 4, "unknown_partition"),
    ]
    assert list(document[0]) == ["topic", "partition", "offset", "outcome", "first_dirty_offset", "message"]
    shown = winnow("checkpoints", "orders", "--json").document
    assert [row["first_dirty_offset"] for row in shown] == [4, None]
    assert shown[0]["cleanings"] == [{"end_offset": 4, "cleaning_time_ms": None, "delete_horizon_ms": None}]
    text = winnow("checkpoints", "import", file).stdout
    assert "was imported before" in text
    assert "there is no topic __consumer_offsets" in text


def test_damaged_file_ends_with_three_and_changes_nothing(tmp_path: Path) -> None:
    """The good line before the bad one is not taken over either."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow(
        "checkpoints", "import", checkpoint_file(tmp_path / "file", "orders 0 4", "orders x 4"), "--json", code=3
    )
    assert answer.stdout == ""
    assert "line 4 has no partition" in answer.stderr
    assert "Nothing was imported" in answer.stderr
    assert winnow("checkpoints", "orders", "--json").document[0]["first_dirty_offset"] is None


def test_import_of_an_empty_file_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert winnow("checkpoints", "import", tmp_path / "file", "--json").document == []
    assert "holds no entries" in winnow("checkpoints", "import", tmp_path / "file").stdout


def test_import_of_what_was_exported_changes_nothing(tmp_path: Path) -> None:
    """One partition imported, one never; the file is sorted and names only what has a checkpoint."""
    make_topic("returns", tmp_path / "returns.jsonl")
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    winnow("checkpoints", "import", checkpoint_file(tmp_path / "in", "returns 0 6", "orders 1 3"))
    before = winnow("checkpoints", "--json").document
    out = tmp_path / "out"
    assert winnow("checkpoints", "export", out).stdout == f"Wrote 2 checkpoints to {out}.\n"
    assert out.read_text() == "0\n2\norders 1 3\nreturns 0 6\n"
    rows = winnow("checkpoints", "import", out, "--json").document
    assert [row["outcome"] for row in rows] == ["unchanged", "unchanged"]
    assert winnow("checkpoints", "--json").document == before
    winnow("checkpoints", "export", out, "returns")
    assert out.read_text() == "0\n1\nreturns 0 6\n"


def test_export_of_an_unknown_topic_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    out = checkpoint_file(tmp_path / "out", "orders 0 1")
    answer = winnow("checkpoints", "export", out, "missing", "orders", code=2)
    assert "was not written" in answer.stderr
    assert out.read_text() == "0\n1\norders 0 1\n"


def test_topics_named_like_the_commands_are_still_shown(tmp_path: Path) -> None:
    for topic in ("import", "export", "show"):
        make_topic(topic, tmp_path / f"{topic}.jsonl")
    for arguments in (["--", "import"], ["--", "export"], ["show"]):
        assert f"\n{arguments[-1]}-0 " in winnow("checkpoints", *arguments).stdout
    for arguments in (["--json", "import"], ["--json", "--", "export"], ["show", "--json"]):
        (row,) = winnow("checkpoints", *arguments).document
        assert row["topic"] in arguments
    assert len(winnow("checkpoints", "--json").document) == 3
    assert "Missing argument 'FILE'" in winnow("checkpoints", "import", code=2).stderr
