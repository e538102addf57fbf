"""The side table of the latest state: what took back records, crashes, races, sweeps, and the end of its topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from tests.integration.test_latest_table import (
    HOUR_MS,
    create,
    expect,
    list_paths,
    load,
    read_rows,
    suppressed_updates,
    undo_newest,
    update,
    world,
)
from tests.support.cli_runner import make_topic, winnow
from tests.support.rest_catalog import serve_rest_catalog
from tests.support.world import TOPIC, FakeClock, World, build_versions, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.engine import latest_update
from winnow.engine.latest_rows import RecordForm, write_rows
from winnow.errors import (
    CommitConflictError,
    DamagedMetadataError,
    DamagedSegmentError,
    ForeignTableError,
    UsageError,
)
from winnow.files import storage
from winnow.log.latest_tables import LatestHead, LatestTable, ReflectedLog
from winnow.log.topic_configuration import add_partitions, set_config
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.doctor.check_runner import CheckStatus
from winnow.pipeline.doctor.services import check_latest_tables
from winnow.pipeline.latest import table as latest_table
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.latest.table_files import drop_latest_table
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.values.strategies import Strategy

__all__ = ["world"]  # the fixture


def list_folder(world: World) -> dict[str, bytes]:
    """Every file below the side tables, but the table's own metadata documents."""
    return {
        name: data for name, data in world.listing(below="winnow_latest").items() if not name.endswith(".metadata.json")
    }


@contextmanager
def run_before_commit(action: Callable[[], object], times: int = 1) -> Iterator[None]:
    """Run ``action`` when the next update has written its files and has not committed yet."""
    genuine = LatestTable.commit
    left = [action] * times

    def commit(self: LatestTable, head: LatestHead | None, reflected: ReflectedLog, **change: Any) -> int | None:
        if left:
            left.pop()()
        return genuine(self, head, reflected, **change)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LatestTable, "commit", commit)
        yield


# ------------------------------------------------------------------ what took back records


def test_key_whose_tombstone_came_and_expired_between_two_updates_leaves_the_table(world: World) -> None:
    """Neither its value nor its tombstone is in the log any more: only that its row's record is gone tells."""
    create(world, delete_retention_ms=str(HOUR_MS))
    world.ingest([record(0, b"a", b"1"), record(1, b"b", b"1"), record(2, b"c", b"1")])
    world.compact()
    with suppressed_updates():
        world.ingest([record(3, b"a", None), record(4, b"x", b"1")])
        world.compact()
        world.clock.now_ms += 2 * HOUR_MS
        world.ingest([record(5, b"y", b"1")])
        world.compact()
        assert b"a" not in {each.key for each in world.read()}
    done = update(world)
    assert (done.rebuilt, done.rows_deleted, done.rows_inserted) == (None, 1, 2)
    assert read_rows(world) == expect(world)


def test_records_that_were_undone_are_replaced_by_those_that_got_their_offsets(world: World) -> None:
    """The same offset is another record, so nothing that was read before counts."""
    create(world)
    world.ingest([record(0, b"a", b"1"), record(1, b"b", b"1")])
    world.ingest([record(2, b"a", b"undone"), record(3, b"c", b"undone")])
    update(world)
    undo_newest(world)
    world.ingest([record(2, b"a", b"2"), record(3, b"c", b"2")])
    done = update(world)
    assert done.rebuilt == "records that it reflected were taken back"
    assert read_rows(world) == expect(world) == [record(1, b"b", b"1"), record(2, b"a", b"2"), record(3, b"c", b"2")]


def test_other_tool_rolled_the_log_back_and_the_table_follows(world: World) -> None:
    """A tombstone that the table reflected is not in the log's history any more: the key has its value again."""
    create(world)
    world.ingest([record(0, b"a", b"1"), record(1, b"b", b"1")])
    before = world.head().snapshot_id
    assert before is not None
    world.ingest([record(2, b"a", None), record(3, b"b", b"2")])
    update(world)
    assert read_rows(world) == [record(3, b"b", b"2")]
    table = world.head().table
    table.manage_snapshots().set_current_snapshot(before).commit()
    world.ingest([record(2, b"c", b"1"), record(3, b"d", b"1"), record(4, b"e", b"1")])
    assert update(world).rebuilt == "records that it reflected were taken back"
    assert read_rows(world) == expect(world)
    assert b"a" in {each.key for each in read_rows(world)}


def test_late_lower_version_loses_to_the_tombstone_that_the_table_does_not_hold(world: World) -> None:
    """By timestamp: the winner is looked for in the log, not among the rows."""
    create(world, compaction_strategy="timestamp")
    world.ingest([record(0, b"a", b"1", 10), record(1, b"b", b"1", 10), record(2, b"a", None, 90)])
    world.compact()
    world.ingest([record(3, b"a", b"late", 50), record(4, b"b", b"late", 5)])
    done = update(world)
    assert done.rebuilt is None
    assert read_rows(world) == expect(world, Strategy.TIMESTAMP) == [record(1, b"b", b"1", 10)]


def test_other_strategy_has_other_winners(world: World) -> None:
    """Rows chosen by another order say nothing about this one."""
    create(world)
    world.ingest([record(0, b"a", b"high", 90), record(1, b"a", b"low", 10)])
    update(world)
    set_config(world.installation.log.open(TOPIC), {"compaction.strategy": "timestamp"}, [])
    assert update(world).rebuilt == "the topic's strategy is another one"
    assert read_rows(world) == [record(0, b"a", b"high", 90)]


def test_records_below_a_raised_log_start_leave_the_table(world: World) -> None:
    """No file of the log changes, and readers of the topic no longer see them."""
    create(world, cleanup_policy="compact,delete")
    world.ingest([record(0, b"a", b"1"), record(1, b"b", b"1"), record(2, b"c", b"1")])
    update(world)
    delete_records(world.installation, TOPIC, {0: 2})
    done = update(world)
    assert (done.rebuilt, done.rows_deleted) == (None, 2)
    assert read_rows(world) == [record(2, b"c", b"1")]


def test_snapshot_that_another_tool_expired_makes_the_table_be_written_anew(world: World) -> None:
    """The way from there is not known; one commit replaces all files."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    shown = load(world).reflected
    assert shown is not None
    world.ingest(build_versions(6, 6))
    world.head().table.maintenance.expire_snapshots().by_id(shown.snapshot_id).commit()
    snapshots = len(load(world).table.metadata.snapshots)
    done = update(world)
    assert done.rebuilt == "the snapshot of the log that it reflected has expired"
    assert len(load(world).table.metadata.snapshots) == snapshots + 1
    assert read_rows(world) == expect(world)


def test_keys_of_an_added_partition_come_into_the_table(world: World) -> None:
    """The reflected snapshot does not know the partition; nothing else is written again."""
    create(world)
    world.ingest([record(0, b"a", b"1"), record(1, b"b", b"1")])
    update(world)
    before = list_paths(world)
    add_partitions(world.installation.log.open(TOPIC), 3, now_ms=world.clock())
    world.ingest([record(0, b"a", b"2", partition=2), record(1, b"c", b"1", partition=2)])
    done = update(world)
    assert (done.rebuilt, done.rows_inserted, done.rows) == (None, 2, 4)
    assert before < list_paths(world)
    assert read_rows(world) == expect(world)


# ------------------------------------------------------------------ how much is written, and when nothing is


def test_only_files_with_a_changed_row_are_written_again(world: World) -> None:
    """The others stay in the table as they are, by name."""
    create(world, 2)
    for n in range(6):
        world.ingest([record(n, b"%d" % n, b"x", partition=p) for p in range(2)])
        update(world)
    before = list_paths(world)
    assert len(before) == 12
    world.ingest([record(6, b"3", b"new"), record(7, b"2", None)])
    done = update(world)
    assert (done.rows_updated, done.rows_deleted, done.files_replaced, done.files_written) == (1, 1, 2, 1)
    assert len(before - list_paths(world)) == 2
    assert read_rows(world) == expect(world)


def test_small_files_are_put_together_after_a_while(world: World) -> None:
    """New keys only, update by update: the number of files stays small."""
    create(world)
    for n in range(20):
        world.ingest([record(n, b"%d" % n, b"x")])
        update(world)
        assert len(list_paths(world)) <= latest_update.MAXIMUM_SMALL_FILES + 1
    assert read_rows(world) == expect(world)


def test_second_update_and_a_commit_without_records_change_nothing(world: World) -> None:
    """No snapshot, no file; also after a publish of a compaction that was reflected already."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    head, files = load(world).snapshot_id, list_folder(world)
    assert not update(world).changed
    set_config(world.installation.log.open(TOPIC), {"winnow.owner": "shop"}, [])
    assert not update(world).changed
    assert (load(world).snapshot_id, list_folder(world)) == (head, files)


def test_no_bounds_of_user_bytes_are_in_the_metadata(world: World) -> None:
    """Neither in manifests nor in the files' own footers."""
    create(world)
    world.ingest([record(0, b"secret-key", b"secret-value", headers=(("h", b"secret-header"),))])
    update(world)
    for name, data in world.listing(below="winnow_latest").items():
        assert name.endswith(".parquet") or b"secret" not in data
    (task,) = load(world).table.scan().plan_files()
    assert set(task.file.lower_bounds) == set(task.file.upper_bounds) == {1, 2, 3}


# ------------------------------------------------------------------ crashes and races


def test_crash_between_publish_and_update_leaves_an_older_table_that_the_next_publish_completes(world: World) -> None:
    """What readers of the table see is complete, as of before."""
    create(world)
    world.ingest(build_versions(0, 6))
    world.compact()
    before = read_rows(world)
    world.ingest(build_versions(6, 6))
    with suppressed_updates():
        world.compact()
    assert read_rows(world) == before
    world.ingest(build_versions(12, 2))
    world.compact()
    assert read_rows(world) == expect(world)


def test_failed_update_never_fails_the_publish_and_says_what_to_do(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint has moved, the files of the update are gone again, and the warning names the command."""
    create(world, 2)
    world.ingest([*build_versions(0, 6), *build_versions(0, 6, partition=1)])
    genuine = write_rows

    def fail_in_the_second(form: RecordForm, partition: int, *more: Any) -> object:
        if partition == 1:
            assert any(name.endswith(".parquet") for name in list_folder(world))
            raise RuntimeError("key-1 is a user's")
        return genuine(form, partition, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_update, "write_rows", fail_in_the_second)
        receipt = world.compact()
    assert receipt is not None
    assert world.state().first_dirty_offset == 6
    assert list_folder(world) == {}
    assert f"winnow latest-table update {TOPIC}" in caplog.text
    assert "key-1" not in caplog.text
    assert update(world).changed


def test_of_two_updates_at_once_one_wins_and_the_other_starts_over(world: World) -> None:
    """Nothing is lost and nothing is there twice; the loser's files are gone."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    world.ingest([record(6, b"own", b"x")])
    with run_before_commit(lambda: locked_update(world)):
        done = update(world)
    assert not done.changed
    assert read_rows(world) == expect(world)
    world.ingest([record(7, b"more", b"x")])

    def ingest_and_overtake() -> None:
        world.ingest([record(8, b"key-0", None), record(9, b"later", b"x")])
        locked_update(world)

    with run_before_commit(ingest_and_overtake):
        update(world)
    assert read_rows(world) == expect(world)
    referenced = {path.rpartition("/")[2] for path in list_paths(world)}
    named = {
        task.file.file_path.rpartition("/")[2]
        for snapshot in load(world).table.metadata.snapshots
        for task in load(world).table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
    }
    present = {name.rpartition("/")[2] for name in list_folder(world) if name.endswith(".parquet")}
    assert referenced <= present == named


def locked_update(world: World) -> None:
    """Update as another process would, which has another lock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_table, "_one_at_a_time", threading.Lock())
        update_latest_table(world.installation, TOPIC)


def test_update_that_was_paused_for_hours_cannot_commit_what_it_computed(world: World) -> None:
    """It begins again from what is there now, instead of putting old rows back."""
    create(world)
    world.ingest([record(0, b"a", b"1")])
    update(world)
    world.ingest([record(1, b"a", b"2")])

    def go_on() -> None:
        world.clock.now_ms += 30 * HOUR_MS
        world.ingest([record(2, b"a", None), record(3, b"b", b"1")])
        with suppressed_updates():
            world.compact()
        locked_update(world)

    with run_before_commit(go_on):
        update(world)
    assert read_rows(world) == expect(world) == [record(3, b"b", b"1")]


def test_update_that_always_comes_second_gives_way(world: World) -> None:
    """It says so, and what the others did stays."""
    create(world)
    world.ingest([record(0, b"a", b"1")])
    update(world)
    world.ingest([record(1, b"b", b"1")])
    genuine, is_nested = LatestTable.commit, threading.Event()

    def commit(table: LatestTable, *values: object, **named: object) -> int | None:
        if not is_nested.is_set():
            is_nested.set()
            locked_update(world)
            end_offset = world.state().log_end_offset
            world.ingest([record(end_offset, b"%d" % end_offset, b"x")])
            is_nested.clear()
        return genuine(table, *values, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LatestTable, "commit", commit)
        with pytest.raises(CommitConflictError, match="latest-table update"):
            update(world)
    update(world)
    assert read_rows(world) == expect(world)


def test_first_update_of_two_creates_the_table_once(world: World) -> None:
    """The second finds it there and starts over."""
    create(world)
    world.ingest(build_versions(0, 6))
    with run_before_commit(lambda: locked_update(world)):
        assert not update(world).changed
    assert read_rows(world) == expect(world)
    assert len(load(world).table.metadata.snapshots) == 1


def test_table_of_another_program_stays_as_it_is(world: World) -> None:
    """By its name alone it is not Winnow's to write to, nor to drop."""
    create(world)
    world.ingest(build_versions(0, 6))
    catalog = world.installation.log.catalog
    catalog.create_namespace_if_not_exists("winnow_latest")
    catalog.create_table(("winnow_latest", TOPIC), schema=world.head().table.schema())
    for action in (lambda: update(world), lambda: drop_latest_table(world.installation, TOPIC)):
        with pytest.raises(ForeignTableError, match="not created by Winnow"):
            action()
    world.compact()  # and no publish fails by it
    assert catalog.load_table(("winnow_latest", TOPIC)).current_snapshot() is None


def test_topic_without_the_setting_keeps_no_table(world: World) -> None:
    """The update is refused with what to type, and a publish makes none."""
    world.create(1, segment_ms="1", min_cleanable_dirty_ratio="0")
    world.ingest(build_versions(0, 6))
    world.compact()
    assert world.installation.log.latest_table(TOPIC).load() is None
    with pytest.raises(UsageError, match=r"winnow\.latest\.table=true"):
        update(world)


# ------------------------------------------------------------------ sweeps and the end


def test_sweeps_keep_what_the_table_is_brought_up_to_date_from(world: World) -> None:
    """However long no update came: the next one still reads only what changed."""
    create(world, winnow_retired_grace_ms=str(HOUR_MS))
    world.ingest(build_versions(0, 6))
    world.compact()
    for n in range(3):
        world.ingest(build_versions(6 + 3 * n, 3))
        with suppressed_updates():
            world.compact()
        world.clock.now_ms += 5 * HOUR_MS
        sweep_topics(world.installation, [TOPIC])
    done = update(world)
    assert done.changed
    assert done.rebuilt is None
    assert read_rows(world) == expect(world)


def test_sweeps_delete_what_no_kept_snapshot_of_the_table_names(world: World) -> None:
    """Replaced files go after their grace, and a crash's files at once; then there is nothing left to do."""
    create(world, winnow_retired_grace_ms=str(HOUR_MS))
    for n in range(4):
        world.ingest(build_versions(3 * n, 3))
        update(world)
        world.clock.now_ms += 2 * HOUR_MS
    stray = storage.join(world.installation.log.latest_table(TOPIC).location, "data", "0" * 32, f"{'1' * 32}.parquet")
    storage.write_bytes(stray, b"left by a crash")
    (report,) = sweep_topics(world.installation, [TOPIC])
    assert not storage.exists(stray)
    assert report.files_deleted >= 4
    assert read_rows(world) == expect(world)
    world.clock.now_ms += 2 * HOUR_MS
    sweep_topics(world.installation, [TOPIC])
    before, head = list_folder(world), load(world).snapshot_id
    assert {name.rpartition("/")[2] for name in before if name.endswith(".parquet")} == {
        path.rpartition("/")[2] for path in list_paths(world)
    }
    sweep_topics(world.installation, [TOPIC])
    assert (list_folder(world), load(world).snapshot_id) == (before, head)
    assert len(load(world).table.metadata.snapshots) == 1
    assert read_rows(world) == expect(world)


def test_update_that_died_while_it_wrote_metadata_leaves_nothing_behind(world: World) -> None:
    """The torn file tells of no table; the folder's name tells whose it is."""
    create(world)
    world.ingest(build_versions(0, 3))
    update(world)
    location = world.installation.log.latest_table(TOPIC).location
    stray = storage.join(location, "data", "0" * 32, f"{'1' * 32}.parquet")
    torn = storage.join(location, "metadata", "00009-6ba7b810-9dad-11d1-80b4-00c04fd430c8.metadata.json")
    storage.write_bytes(stray, b"left by a crash")
    storage.write_bytes(torn, b'{"location": ')
    sweep_topics(world.installation, [TOPIC])
    assert not storage.exists(stray)


def test_sweep_while_an_update_is_written_takes_none_of_its_files_from_the_table(world: World) -> None:
    """Either the update's commit comes first and its files stay, or it meets the sweep's and starts over."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    world.ingest(build_versions(6, 6))
    with run_before_commit(lambda: sweep_topics(world.installation, [TOPIC])):
        assert update(world).changed
    assert read_rows(world) == expect(world)
    world.ingest(build_versions(12, 6))
    stray = storage.join(world.installation.log.latest_table(TOPIC).location, "data", "0" * 32, f"{'1' * 32}.parquet")
    storage.write_bytes(stray, b"left by a crash")
    with run_before_commit(lambda: locked_update(world)):  # the sweep's commit is the second now
        sweep_topics(world.installation, [TOPIC])
    assert storage.exists(stray)
    assert read_rows(world) == expect(world)
    sweep_topics(world.installation, [TOPIC])
    assert not storage.exists(stray)
    assert read_rows(world) == expect(world)


def test_table_goes_with_its_topic_for_good_and_a_namesake_gets_its_own(world: World) -> None:
    """A deleted topic that is restored still has it; of a removed one nothing is left."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    delete_topic(world.installation, TOPIC)
    restore_topic(world.installation, TOPIC)
    assert read_rows(world) == expect(world)
    delete_topic(world.installation, TOPIC, now=True)
    assert world.listing(below="winnow_latest") == {}
    with pytest.raises(NoSuchTableError):
        world.installation.log.catalog.load_table(("winnow_latest", TOPIC))
    create(world)
    world.ingest([record(0, b"new", b"x")])
    assert update(world).rebuilt == "it is new"
    assert read_rows(world) == [record(0, b"new", b"x")]


def test_table_of_a_topic_that_was_created_anew_is_written_anew(world: World) -> None:
    """An entry that a paused process left behind shows another log."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LatestTable, "drop", lambda *_: None)
        patch.setattr("winnow.pipeline.topics.deletion.storage.delete", keep_side)
        delete_topic(world.installation, TOPIC, now=True)
    create(world)
    world.ingest([record(0, b"new", b"x")])
    assert update(world).rebuilt == "the topic was created anew"
    assert read_rows(world) == [record(0, b"new", b"x")]


def keep_side(uri: str, *, below: str | None = None) -> bool:
    return "/winnow_latest/" not in uri and genuine_delete(uri, below=below)


genuine_delete = storage.delete


def test_dropped_table_leaves_no_file_and_can_be_written_again(world: World) -> None:
    """By the command, as after a change by another program."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    assert drop_latest_table(world.installation, TOPIC) is not None
    assert world.listing(below="winnow_latest") == {}
    assert drop_latest_table(world.installation, TOPIC) is None
    assert update(world).rebuilt == "it is new"
    assert read_rows(world) == expect(world)


def test_damaged_table_is_named_and_can_be_dropped_and_written_again(world: World) -> None:
    """A manifest or a file with another byte is never read as if it were right; the publish goes on."""
    create(world)
    world.ingest(build_versions(0, 6))
    update(world)
    (path,) = list_paths(world)
    flip_byte(path)
    world.ingest(build_versions(6, 6))
    with pytest.raises(DamagedSegmentError, match="The log is not concerned"):
        update(world)
    assert world.compact() is not None
    snapshot = load(world).table.current_snapshot()
    assert snapshot is not None
    flip_byte(snapshot.manifests(load(world).table.io)[0].manifest_path)
    with pytest.raises(DamagedMetadataError):
        update(world)
    assert drop_latest_table(world.installation, TOPIC) is not None
    assert world.listing(below="winnow_latest") == {}
    update(world)
    assert read_rows(world) == expect(world)


def flip_byte(uri: str) -> None:
    path = storage.parse_local_path(uri)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def test_doctor_names_tables_that_do_not_show_the_newest_publish(world: World) -> None:
    """Since when, and what to type; an ingest alone makes no table late."""
    logs = world.installation.log
    assert check_latest_tables(logs) == []
    create(world)
    world.ingest(build_versions(0, 6))
    world.compact()
    world.ingest(build_versions(6, 6))
    assert [each.status for each in check_latest_tables(logs)] == [CheckStatus.OK]
    with suppressed_updates():
        world.compact()
    (found,) = check_latest_tables(logs)
    assert found.status is CheckStatus.WARNING
    assert "winnow_latest.orders is behind the newest publish: it shows the log as of 20" in found.detail
    assert found.fix == "winnow latest-table update orders"
    update(world)
    assert [each.status for each in check_latest_tables(logs)] == [CheckStatus.OK]
    set_config(world.installation.log.open(TOPIC), {}, ["winnow.latest.table"])
    (found,) = check_latest_tables(logs)
    assert "is not brought up to date any more" in found.detail


def test_table_lives_in_a_rest_catalog_too(tmp_path: Path) -> None:
    """Created, brought up to date and swept."""
    clock = FakeClock(read_wall_clock_ms())
    with serve_rest_catalog() as (_, address), open_world(tmp_path, clock, {"WINNOW_CATALOG__URI": address}) as world:
        create(world, winnow_retired_grace_ms="0")
        for n in range(3):
            world.ingest(build_versions(4 * n, 4))
            world.compact()
            assert not update(world).changed
            assert read_rows(world) == expect(world)
            world.clock.now_ms += HOUR_MS
            sweep_topics(world.installation, [TOPIC])
            assert read_rows(world) == expect(world)
        assert world.installation.log.list_latest_tables() == [TOPIC]


def test_commands_say_what_they_did(tmp_path: Path) -> None:
    """As they are typed: refused, written, up to date, dropped."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    assert "keeps no table" in winnow("latest", "orders", "--update-table", code=2).stderr
    winnow("topics", "alter", "orders", "--config", "winnow.latest.table=true")
    first = winnow("latest", "orders", "--update-table").stdout
    assert "winnow_latest.orders reflects snapshot" in first
    assert "6 rows. It was written as a whole: it is new." in first
    assert "It was up to date." in winnow("latest", "orders", "--update-table").stdout
    assert "take no other option" in winnow("latest", "orders", "--update-table", "--text", code=2).stderr
    assert "Dropped winnow_latest.orders" in winnow("latest", "orders", "--drop-table").stdout
    assert "There is no table" in winnow("latest", "orders", "--drop-table").stdout
