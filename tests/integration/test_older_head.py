"""What an older head means to processes that are at work, to rollbacks, to other lives of a topic, to a lost store."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.world import TOPIC, World, build_versions, define_world, open_world, write_jsonl
from winnow.errors import OlderHeadError, PlanVoidError
from winnow.log import newer_metadata
from winnow.log.topic_configuration import set_config
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.older_head import accept_older_head
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.doctor.older_catalog import check_older_catalog
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.store import RunState

GRACE_MS = 3_600_000


world = define_world(
    1, build_versions(0, 12), in_the_present=True, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS)
)


def read_sequence_number(world: World) -> int:
    """The sequence number of the newest commit."""
    return newer_metadata.read_sequence_number(world.head().table.metadata)


def back_up(world: World, name: str = "backup") -> None:
    source, copy = world.folder / "home" / "catalog.db", world.folder / name
    with closing(sqlite3.connect(source)) as before, closing(sqlite3.connect(copy)) as after:
        before.backup(after)


def put_back(world: World, name: str = "backup") -> None:
    world.installation.log.catalog.engine.dispose()  # type: ignore[attr-defined]
    shutil.copyfile(world.folder / name, world.folder / "home" / "catalog.db")


def sweep_twice(world: World) -> None:
    for _ in range(2):
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])


def test_a_publisher_of_the_given_up_history_meets_the_fence(world: World) -> None:
    """Planned and validated before the catalog went back; what it planned is in the older head, too."""
    back_up(world)
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    world.ingest(build_versions(12, 3))
    put_back(world)
    with pytest.raises(OlderHeadError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    accept_older_head(world.installation, TOPIC, reason="gone")
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert [each.offset for each in world.read()] == list(range(12))
    sweep_twice(world)
    assert not list(Path(world.head().location.removeprefix("file://")).glob(f"data/{plan.plan_id}/**/*.parquet"))


def test_an_ingest_call_of_the_given_up_history_is_void(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paused before its commit, it begins again over the accepted head under another number."""
    back_up(world)
    world.ingest(build_versions(12, 3))
    path = write_jsonl(world.path(), build_versions(12, 6))
    genuine, paused = TopicLog.commit, list[int]()

    def commit(log: TopicLog, *arguments: object, **named: object) -> object:
        if not paused and not named:
            paused.append(world.installation.store.ingests.list_open(TOPIC)[-1].number)
            put_back(world)
            accept_older_head(world.installation, TOPIC, reason="gone")
            assert world.head().state.first_valid_ingest > paused[0]
        return genuine(log, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(TopicLog, "commit", commit)
    ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert paused
    assert [each.offset for each in world.read()] == list(range(18))


def test_a_table_that_was_rolled_back_is_not_older_and_its_published_run_is_not_swept(world: World) -> None:
    """Another tool rolled the table back past a publish: the work goes on, the run's files stay for ever."""
    world.compact()
    before = world.head()
    world.ingest(build_versions(12, 6))
    receipt = world.compact()
    assert receipt is not None
    outputs = {segment.path for segment in world.segments()}
    world.installation.log.catalog.load_table(("winnow", TOPIC)).manage_snapshots().rollback_to_snapshot(
        before.snapshot_id or 0
    ).commit()
    world.ingest(build_versions(12, 3))
    sweep_twice(world)
    sweep_twice(world)
    left = set(world.listing())
    assert all(any(path.endswith(name) for name in left) for path in outputs)
    assert [each.offset for each in world.read()][-3:] == [12, 13, 14]


def test_a_catalog_that_went_back_and_was_written_to_is_noticed_though_its_numbers_are_higher(world: World) -> None:
    """A replica took over and other commits went on there, which the metadata store never heard of."""
    back_up(world)
    world.ingest(build_versions(12, 3))
    recorded = read_sequence_number(world)
    put_back(world)
    foreign = TopicLog(
        world.installation.log.catalog, ("winnow", TOPIC), TOPIC, world.installation.log.copies
    )  # of an installation with another metadata store
    for number in range(3):
        set_config(foreign, {"retention.ms": str(10**12 + number)}, [])
    assert read_sequence_number(world) > recorded
    with pytest.raises(OlderHeadError, match="other commits were made there"):
        sweep_topics(world.installation, [TOPIC])


def test_a_topic_that_was_created_again_is_a_new_life_and_its_former_table_is_not_gone_back_to(world: World) -> None:
    """A new table of the name has lower numbers, and is not older. The catalog of before names the former one."""
    back_up(world)
    kept = world.folder / "kept"
    delete_topic(world.installation, TOPIC)
    shutil.copytree(world.folder / "home" / "warehouse", kept)
    delete_topic(world.installation, TOPIC, now=True)
    world.create(1, min_cleanable_dirty_ratio="0")
    world.ingest(build_versions(0, 3))
    sweep_topics(world.installation, [TOPIC])
    put_back(world)
    shutil.copytree(kept, world.folder / "home" / "warehouse", dirs_exist_ok=True)
    with pytest.raises(OlderHeadError, match="before it was created again"):
        sweep_topics(world.installation, [TOPIC])


def test_with_the_store_lost_too_the_folder_of_the_table_tells(world: World) -> None:
    """Where nothing is recorded, whoever writes lists the folder once; so do a rebuild and the doctor."""
    back_up(world)
    for number in range(3):
        world.ingest(build_versions(12 + 3 * number, 3))
    put_back(world)
    world.installation.store.close()
    for left in (world.folder / "home").glob("store.db*"):
        left.unlink()
    with open_world(world.folder, world.clock) as after:
        for write in (sweep_topics, rebuild_store):
            with pytest.raises(OlderHeadError, match="older than the warehouse"):
                write(after.installation, [TOPIC])
        (found,) = check_older_catalog(after.installation.settings, after.clock)
        assert (found.status, found.exit_code) == ("failure", 4)
        accept_older_head(after.installation, TOPIC, reason="both are gone")
        after.ingest(build_versions(12, 3))
        assert check_older_catalog(after.installation.settings, after.clock)[0].status == "ok"


def test_an_older_store_beside_a_newer_catalog_goes_on(world: World) -> None:
    """The record is older than the head: nothing is missing, and the next commit is recorded."""
    store = world.folder / "home" / "store.db"
    with closing(sqlite3.connect(store)) as before, closing(sqlite3.connect(world.folder / "store")) as after:
        before.backup(after)
    world.ingest(build_versions(12, 3))
    world.compact()
    world.installation.store.close()
    for left in (world.folder / "home").glob("store.db*"):
        left.unlink()
    shutil.copyfile(world.folder / "store", store)
    with open_world(world.folder, world.clock) as again:
        assert again.installation.store.topic_heads.list_lives(TOPIC)[0].fence <= again.head().fence
        sweep_twice(again)
        again.ingest(build_versions(15, 3))
        assert [each.offset for each in again.read()][-3:] == [15, 16, 17]
        newest = read_sequence_number(again)
        assert again.installation.store.topic_heads.list_lives(TOPIC)[-1].last_sequence_number == newest


def test_an_open_run_of_which_the_store_has_the_receipt_is_not_closed_as_void(world: World) -> None:
    """The publish was recorded, its run was not closed, and the head lacks it: settling refuses."""
    back_up(world)
    receipt = world.compact()
    assert receipt is not None
    with closing(sqlite3.connect(world.folder / "home" / "store.db")) as store, store:
        store.execute("UPDATE winnow_run SET status = 'publishing'")
        store.execute("DELETE FROM winnow_topic_head")
    put_back(world)
    with pytest.raises(OlderHeadError, match="has the receipt of plan"):
        sweep_topics(world.installation, [TOPIC])
    run = world.installation.store.runs.find(receipt.plan_id or "")
    assert run is not None
    assert run.status is RunState.PUBLISHING


def test_a_commit_while_a_head_is_looked_up_does_not_look_like_an_older_catalog(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process commits and records it after the table was loaded: neither writer nor reader is told of it."""
    end = world.state().log_end_offset
    genuine = TopicLog.load_table
    commits = iter(range(2))

    def load_before_a_commit(log: TopicLog) -> object:
        table = genuine(log)
        with monkeypatch.context() as patch:
            patch.setattr(TopicLog, "load_table", genuine)
            for number in commits:
                world.ingest(build_versions(end + number, 1))
                break
        return table

    monkeypatch.setattr(TopicLog, "load_table", load_before_a_commit)
    log = world.installation.log.open(TOPIC)
    assert log.newest_head().state.partitions[0].log_end_offset == end
    world.installation.log.open(TOPIC).head()
    assert caplog.messages == []
    assert world.state().log_end_offset == end + 2
