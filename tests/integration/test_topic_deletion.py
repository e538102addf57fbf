"""Deleting a topic: nothing is lost before its grace has passed, nothing is left after, and a namesake is never hit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow
from tests.support.world import (
    TOPIC,
    FakeClock,
    World,
    build_versions,
    compute_survivors,
    list_visible_rows,
    open_world,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.clock import read_wall_clock_ms
from winnow.errors import (
    BadInputError,
    ConfigurationError,
    DeletedTopicError,
    UnknownTopicError,
    UsageError,
    WinnowError,
)
from winnow.files import storage
from winnow.log import deleted_topics
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.topics import deletion as topic_deletion
from winnow.pipeline.topics.definition import alter_topic, list_topics
from winnow.pipeline.topics.deletion import delete_topic, describe_contents, restore_topic
from winnow.pipeline.topics.partitions import pause_partitions

GRACE_MS = 3_600_000
RECORDS = [*build_versions(0, 9), record(9, None, b"keyless"), *build_versions(0, 4, partition=1)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A topic with records, a quarantined one, and files that a compaction has retired."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as opened:
        create(opened)
        opened.ingest(RECORDS)
        opened.compact()
        yield opened


def create(world: World) -> None:
    world.create(2, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS), winnow_keyless="quarantine")


def sweep_after(world: World, ms: int) -> str:
    world.clock.now_ms += ms
    return sweep_topics(world.installation)[0].message


def aside(world: World) -> list[bytes]:
    return [
        row["value"]
        for row in list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state).to_pylist()
    ]


def files(world: World) -> set[str]:
    return {path for path in world.listing() if path.startswith(("winnow/", "winnow_quarantine/", "winnow_deleted/"))}


def test_deleted_topic_is_hidden_and_a_restored_one_is_identical(world: World) -> None:
    read, state, quarantined = world.read(), world.head().state, aside(world)
    report = delete_topic(world.installation, TOPIC)
    assert report.restorable_until_ms == world.clock() + GRACE_MS
    assert (report.contents.records, report.contents.records_quarantined) == (len(read), 1)
    assert list_topics(world.installation) == []
    with pytest.raises(DeletedTopicError, match=f"winnow topics restore {TOPIC}"):
        world.read()
    assert "wait for their grace" in sweep_after(world, GRACE_MS - 1)
    assert restore_topic(world.installation, TOPIC)
    assert (list_topics(world.installation), world.read(), aside(world)) == ([TOPIC], read, quarantined)
    assert world.head().state == state
    assert world.installation.store.projection.list_checkpoints([TOPIC])
    assert world.installation.store.overview.find_topic(TOPIC, world.clock()) is not None
    assert not restore_topic(world.installation, TOPIC)


@pytest.mark.parametrize(
    "change",
    [
        lambda world: alter_topic(world.installation, TOPIC, {"segment.ms": "5"}, []),
        lambda world: alter_topic(world.installation, TOPIC, {}, [], partitions=3),
        lambda world: pause_partitions(world.installation, TOPIC, [0], by="ann"),
        lambda world: delete_records(world.installation, TOPIC, {0: 1}),
        lambda world: world.plan(world.clock()),
        lambda world: undo_ingest(world.installation, TOPIC, "x"),
        lambda world: ingest_files(
            world.installation, TOPIC, [write_jsonl(world.path(), build_versions(20, 1))], as_of_ms=world.clock()
        ),
    ],
    ids=["alter", "add partitions", "pause", "delete records", "plan", "undo", "ingest"],
)
def test_deleted_topic_is_refused_by_whatever_writes(world: World, change: Callable[[World], object]) -> None:
    delete_topic(world.installation, TOPIC)
    head = world.installation.log.open(TOPIC).head(even_deleted=True)
    with pytest.raises((DeletedTopicError, BadInputError), match="was deleted at"):
        change(world)
    assert world.installation.log.open(TOPIC).head(even_deleted=True).snapshot_id == head.snapshot_id


def test_ingest_that_meets_the_deletion_at_its_commit_leaves_nothing(world: World) -> None:
    read, before = world.read(), files(world)
    with run_between_head_and_commit(lambda: delete_topic(world.installation, TOPIC)), pytest.raises(DeletedTopicError):
        world.ingest(build_versions(20, 3))
    restore_topic(world.installation, TOPIC)
    assert world.read() == read
    assert {path for path in files(world) - before if path.endswith(".parquet")} == set()


def test_compaction_that_meets_the_deletion_publishes_nothing(world: World) -> None:
    world.ingest(build_versions(20, 6))
    world.clock.now_ms += 1
    read = world.read()
    plan = world.plan(world.clock(), "a2")
    assert plan is not None
    world.stage(plan, "a2")
    world.accept(plan, "a2")
    with run_between_head_and_commit(lambda: delete_topic(world.installation, TOPIC)), pytest.raises(DeletedTopicError):
        publish_attempt(world.installation, plan.plan_id, "a2")
    restore_topic(world.installation, TOPIC)
    assert world.read() == read
    world.clock.now_ms += 1
    world.compact(attempt="a3")
    keyed = [each for each in [*RECORDS, *build_versions(20, 6)] if each.key is not None]
    assert sorted(world.read(), key=lambda each: (each.partition, each.offset)) == compute_survivors(keyed)


def test_grace_counts_from_when_the_deletion_was_seen_though_its_commit_was_paused_for_a_day(world: World) -> None:
    def pause() -> None:
        world.clock.now_ms += 86_400_000

    with run_between_head_and_commit(pause):
        delete_topic(world.installation, TOPIC)
    sweep_topics(world.installation)
    restore_topic(world.installation, TOPIC)
    assert len(world.read()) > 0
    delete_topic(world.installation, TOPIC)
    world.clock.now_ms += GRACE_MS + 1
    sweep_topics(world.installation)
    with pytest.raises(UnknownTopicError):
        world.head()


def test_sweep_after_the_grace_leaves_no_file_and_no_entry(world: World) -> None:
    delete_topic(world.installation, TOPIC)
    assert files(world)
    assert "its grace has passed" in sweep_after(world, GRACE_MS)
    assert files(world) == set()
    assert (world.installation.log.list_deleted(), list_topics(world.installation)) == ([], [])
    with pytest.raises(UnknownTopicError, match="There is no topic"):
        restore_topic(world.installation, TOPIC)
    assert world.installation.store.projection.list_checkpoints([TOPIC]) == []
    assert sweep_topics(world.installation) == []


def test_files_of_others_in_the_folder_stay_and_are_counted(world: World) -> None:
    location = storage.parse_local_path(world.head().location)
    for name in ("notes.txt", "data/notes.txt", "metadata/backup.txt"):
        (location / name).write_text("mine")
    delete_topic(world.installation, TOPIC)
    assert "3 files stay in its folder" in sweep_after(world, GRACE_MS)
    assert len(files(world)) == 3


def test_namesake_is_refused_while_the_deleted_one_waits_and_starts_empty_after_it(world: World) -> None:
    read = world.read()
    delete_topic(world.installation, TOPIC)
    with pytest.raises(ConfigurationError, match=r"topics restore orders.*topics delete orders --now"):
        create(world)
    delete_topic(world.installation, TOPIC, now=True)
    # The refused creation has left metadata of another table, which are not this topic's to delete.
    assert {path for path in files(world) if not path.endswith(".metadata.json")} == set()
    create(world)
    assert (world.read(), aside(world), world.state().log_end_offset) == ([], [], 0)
    world.ingest(RECORDS)
    world.compact(attempt="a2")
    assert world.read() == read
    assert aside(world) == [b"keyless"]


def test_topic_is_deleted_now_in_one_call_and_cannot_be_restored_once_its_files_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(uri: str, *, below: str | None = None) -> bool:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(storage, "delete", die)
        with pytest.raises(Killed):
            delete_topic(world.installation, TOPIC, now=True)
    with pytest.raises(DeletedTopicError, match=f"winnow sweep {TOPIC}"):
        restore_topic(world.installation, TOPIC)
    with pytest.raises(ConfigurationError):
        create(world)
    sweep_topics(world.installation)
    # The refused creation has left metadata of another table, which are not this topic's to delete.
    assert {path for path in files(world) if not path.endswith(".metadata.json")} == set()


def complete_by_sweep(world: World) -> object:
    return sweep_topics(world.installation)


def complete_by_deletion(world: World) -> object:
    with suppress(UnknownTopicError):  # the entry was gone, and with it the topic
        return delete_topic(world.installation, TOPIC, now=True)
    return None


@pytest.mark.parametrize("complete", [complete_by_sweep, complete_by_deletion])
@pytest.mark.parametrize("done", range(0, 50, 9))
def test_removal_that_was_killed_at_any_file_is_completed_by_the_next_call(
    world: World, monkeypatch: pytest.MonkeyPatch, done: int, complete: Callable[[World], object]
) -> None:
    class Killed(BaseException):
        pass

    delete_topic(world.installation, TOPIC)
    genuine, left = storage.delete, [done]

    def delete(uri: str, *, below: str | None = None) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return genuine(uri, below=below)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(storage, "delete", delete)
        sweep_after(world, GRACE_MS)
    complete(world)
    assert list_topics(world.installation) == []
    assert {path for path in files(world) if not path.startswith("winnow/orders-")} <= {"winnow_deleted/orders.deleted"}
    create(world)
    assert world.read() == []


@pytest.mark.parametrize("moment", ["list", "verify", "delete", "drop"])
def test_slow_removal_touches_nothing_of_a_namesake(world: World, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Paused at this line, while another process ends the removal and somebody creates the topic anew and fills it."""
    delete_topic(world.installation, TOPIC)
    world.clock.now_ms += GRACE_MS
    owner, name = {
        "list": (topic_deletion, "_list_files"),
        "verify": (type(world.installation.log.open(TOPIC)), "newest_head"),
        "delete": (storage, "delete"),
        "drop": (deleted_topics, "drop_table"),
    }[moment]
    genuine = getattr(owner, name)
    state = {"calls": 0, "busy": False}

    def pause(*arguments: object, **named: object) -> object:
        state["calls"] += 1
        if state["busy"] or (moment == "verify" and state["calls"] < 3):
            return genuine(*arguments, **named)
        if not state.get("done"):
            state["busy"] = state["done"] = True
            topic_deletion.remove_topic(world.installation, TOPIC, deleted_before_ms=None)
            create(world)
            world.ingest(RECORDS)
            state["busy"] = False
        return genuine(*arguments, **named)

    monkeypatch.setattr(owner, name, pause)
    if moment == "drop":
        monkeypatch.setattr("winnow.log.quarantine.drop_table", pause)
    with suppress(WinnowError):
        topic_deletion.remove_topic(world.installation, TOPIC, deleted_before_ms=None)
    monkeypatch.undo()
    assert state["done"]
    assert list_topics(world.installation) == [TOPIC]
    assert world.read() == sorted([r for r in RECORDS if r.key is not None], key=lambda r: (r.partition, r.offset))
    assert aside(world) == [b"keyless"]


def test_ingest_that_was_prepared_for_the_deleted_topic_does_not_land_in_its_namesake(world: World) -> None:
    delete_topic(world.installation, TOPIC, now=True)
    create(world)

    def create_again() -> None:
        delete_topic(world.installation, TOPIC, now=True)
        create(world)

    with run_between_head_and_commit(create_again), pytest.raises(UnknownTopicError, match="created again"):
        world.ingest(RECORDS)
    assert (world.read(), world.snapshot_ids()) == ([], [])


def test_restore_and_removal_decide_by_their_commits(world: World) -> None:
    read = world.read()
    delete_topic(world.installation, TOPIC)
    world.clock.now_ms += GRACE_MS
    with (
        run_between_head_and_commit(lambda: restore_topic(world.installation, TOPIC)),
        pytest.raises(UsageError, match="is not deleted"),
    ):
        sweep_topics(world.installation)
    assert world.read() == read
    delete_topic(world.installation, TOPIC)
    world.clock.now_ms += GRACE_MS
    with run_between_head_and_commit(lambda: sweep_topics(world.installation)), pytest.raises(WinnowError):
        restore_topic(world.installation, TOPIC)
    assert files(world) == set()


def test_missing_note_hides_nothing_from_writers_and_the_next_sweep_writes_it_again(world: World) -> None:
    delete_topic(world.installation, TOPIC)
    deleted_topics.forget_deleted(world.installation.settings.warehouse, TOPIC)
    with pytest.raises((DeletedTopicError, BadInputError)):
        world.ingest(build_versions(20, 1))
    sweep_topics(world.installation)
    assert (list_topics(world.installation), world.installation.log.list_deleted()) == ([], [TOPIC])


def test_note_without_a_deletion_hides_nothing(world: World) -> None:
    """The process died between the note and its commit."""
    deleted_topics.note_deleted(world.installation.settings.warehouse, TOPIC)
    assert list_topics(world.installation) == [TOPIC]


def test_empty_topic_can_be_deleted_and_restored(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        create(world)
        assert describe_contents(world.installation, TOPIC).records == 0
        delete_topic(world.installation, TOPIC)
        restore_topic(world.installation, TOPIC)
        assert world.read() == []
        delete_topic(world.installation, TOPIC, now=True)
        assert files(world) == set()


def test_commands_say_what_is_lost_and_ask_before_they_remove_it(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl", partitions=1)
    refused = winnow("topics", "delete", "orders", "--now", code=2)
    assert "--now would remove 6 records of orders (1 partition" in refused.stderr
    assert "Add --yes" in refused.stderr
    deleted = winnow("topics", "delete", "orders")
    assert "To bring it back: winnow topics restore orders" in deleted.stdout
    listed = winnow("topics", "list")
    assert (listed.stdout, "Deleted, and not removed yet: orders" in listed.stderr) == ("", True)
    assert winnow("topics", "restore", "orders").stdout.startswith("Restored topic orders.")
    assert len(winnow("read", "orders").stdout.splitlines()) == 6
    document = winnow("topics", "delete", "orders", "--now", "--yes", "--json").document
    assert (document["topic"], document["restorable_until_ms"], document["contents"]["records"]) == ("orders", None, 6)
    assert winnow("topics", "restore", "orders", code=2).stderr.startswith("error: There is no topic orders")
