"""A commit writes to the byte what PyIceberg would write, and neither copies nor parses older snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, update
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate, update_table_metadata

from tests.support.world import World, open_world, run_between_head_and_commit
from winnow.clock import read_wall_clock_ms
from winnow.files import storage
from winnow.log import file_checksums, snapshot_expiry, sql_catalog, topic_log
from winnow.log.head import Change, Head
from winnow.log.namespaces import CATALOG_NAME, DEFAULT_NAMESPACE
from winnow.log.newer_metadata import read_sequence_number
from winnow.log.snapshot_expiry import expire_snapshots
from winnow.log.sql_catalog import MAXIMUM_COMMIT_AGE_MS, LogSqlCatalog
from winnow.log.topic_configuration import add_partitions, set_config
from winnow.values.model import Segment

TOPIC = "paper"
IDENTIFIER = (DEFAULT_NAMESPACE, TOPIC)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A topic of two partitions, nothing in it yet."""
    with open_world(tmp_path) as opened:
        opened.create(2, topic=TOPIC)
        yield opened


def plain_catalog(world: World) -> SqlCatalog:
    """The same catalog as PyIceberg alone opens it: what another process, or another engine, has."""
    settings = world.installation.settings
    return SqlCatalog(CATALOG_NAME, **{**settings.catalog, "warehouse": settings.warehouse})


def paper(number: int, partition: int = 0) -> Segment:
    """A segment of ten records without a file."""
    path = f"file:///nowhere/data/{partition}/{number}.parquet"
    return Segment(path, partition, number * 10, number * 10 + 9, 10, 1000, 1_000, 2_000, 0)


def commit(world: World, add: list[Segment], remove: list[Segment] | None = None, *, topic: str = TOPIC) -> None:
    """One commit that leaves the state as it is."""
    gone = [each.path for each in remove or []]
    world.installation.log.open(topic).commit(lambda head: Change(head.state, add=add, remove=gone))


def text_of(table: Table) -> str:
    """The table's metadata file."""
    return storage.parse_local_path(table.metadata_location).read_text()


@contextmanager
def compared_with_pyiceberg(world: World) -> Iterator[list[str]]:
    """The documents of all commits meanwhile, checked at the end against PyIceberg's application of their updates.

    At the end, because the commit loop takes whatever is raised in between for a lost answer.
    """
    catalog, plain = world.installation.log.catalog, plain_catalog(world)
    genuine, seen = catalog.commit_table, list[str]()
    expected: list[str] = []
    parsed: list[tuple[TableMetadata, TableMetadata, TableMetadata]] = []

    def noted(table: Table, requirements: Any, updates: tuple[TableUpdate, ...]) -> Any:
        before = plain.load_table(IDENTIFIER)
        by_pyiceberg = update_table_metadata(before.metadata, updates, metadata_location=before.metadata_location)
        expected.append(by_pyiceberg.model_dump_json(exclude_none=True))
        response = genuine(table, requirements, updates)
        after = plain.load_table(IDENTIFIER)
        seen.append(text_of(after))
        parsed.append((after.metadata, response.metadata, catalog.load_table(IDENTIFIER).metadata))
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "commit_table", noted)
        # What no snapshot dates is dated by the wall clock, at whose next look it would be another time.
        patch.setattr(update, "datetime_to_millis", lambda _: world.clock())
        patch.setattr(sql_catalog, "read_wall_clock_ms", world.clock)
        yield seen
    assert seen == expected
    for read, answered, kept in parsed:
        assert read == answered == kept


def test_every_kind_of_commit_writes_the_document_that_pyiceberg_would_write(world: World) -> None:
    """First and later appends, overwrites, properties, partitions, tags, branches, a rollback and an expiry."""
    log = world.installation.log.open(TOPIC)
    with compared_with_pyiceberg(world) as seen:
        commit(world, [paper(0), paper(0, 1)])
        commit(world, [paper(1)])
        commit(world, [paper(2)], [paper(0), paper(1)])
        set_config(log, {"min.cleanable.dirty.ratio": "0", "segment.bytes": "1000000"}, ())
        set_config(log, {}, ("segment.bytes",))
        add_partitions(log, 3, now_ms=world.clock())
        with world.head(TOPIC).table.transaction() as change:
            change.set_properties({"comment": '"snapshots":[]', '"snapshots":[]': "über"})
        first, *_, newest = world.snapshot_ids(TOPIC)
        world.head(TOPIC).table.manage_snapshots().create_tag(first, "kept").create_branch(newest, "looked-at").commit()
        commit(world, [paper(3)])
        world.head(TOPIC).table.manage_snapshots().set_current_snapshot(snapshot_id=newest).commit()
        commit(world, [paper(4)])
        expire_snapshots(log, frozenset(world.snapshot_ids(TOPIC)[1:3]))
        commit(world, [paper(5)], [paper(4)])
    assert len(seen) == 13
    metadata = plain_catalog(world).load_table(IDENTIFIER).metadata
    assert set(metadata.refs) == {"main", "kept", "looked-at"}
    assert (len(metadata.snapshots), metadata.next_sequence_number()) == (7, 10)


def test_more_commits_than_metadata_files_are_kept_leave_the_log_of_them_as_pyiceberg_would(world: World) -> None:
    """The log of older metadata files is cut, and those that fell out of it are deleted."""
    with compared_with_pyiceberg(world) as seen:
        for number in range(23):
            commit(world, [paper(number)])
    metadata = TableMetadataUtil.parse_raw(seen[-1])
    assert len(metadata.metadata_log) == 20
    folder = f"winnow/{storage.get_name(metadata.location)}/metadata"
    there = {path for path in world.listing(below=folder) if path.endswith(".metadata.json")}
    assert len(there) == 21


def test_a_commit_sees_what_another_process_committed(world: World, tmp_path: Path) -> None:
    """The catalog is asked each time which file counts; a commit that loses a race begins again with the other's."""
    commit(world, [paper(0)])
    with open_world(tmp_path) as other:
        commit(other, [paper(1)])
        assert len(world.snapshot_ids(TOPIC)) == 2
        with run_between_head_and_commit(lambda: commit(other, [paper(2)])):
            commit(world, [paper(3)])
        log = world.installation.log.open(TOPIC)
        assert {each.path for found in log.segments(log.head()).values() for each in found} == {
            paper(number).path for number in range(4)
        }
        assert other.snapshot_ids(TOPIC) == world.snapshot_ids(TOPIC)
    assert len(set(world.snapshot_ids(TOPIC))) == 4


def test_a_commit_does_not_bring_back_what_another_process_expired(world: World, tmp_path: Path) -> None:
    """There are as many snapshots as before, but others."""
    for number in range(4):
        commit(world, [paper(number)])
    going = world.snapshot_ids(TOPIC)[:2]
    with open_world(tmp_path) as other:
        expire_snapshots(other.installation.log.open(TOPIC), frozenset(going))
        for number in range(4, 7):
            commit(other, [paper(number)])
    with compared_with_pyiceberg(world):
        commit(world, [paper(7)])
    assert len(world.snapshot_ids(TOPIC)) == 6
    assert not set(going) & set(world.snapshot_ids(TOPIC))


def expire_two_while(world: World, change: Callable[[Table, int], None]) -> tuple[int, TableMetadata]:
    """Expire the first two of four snapshots; just before that commit another engine changes the table.

    ``change`` is given the table and the first snapshot. Returns that and the metadata of afterwards, in which it has
    to be the one that is left of the two.
    """
    for number in range(4):
        commit(world, [paper(number)])
    going = world.snapshot_ids(TOPIC)[:2]
    genuine = snapshot_expiry._commit_expiry
    with pytest.MonkeyPatch.context() as patch:

        def commit_late(table: Table, ids: Sequence[int]) -> None:
            patch.undo()
            change(plain_catalog(world).load_table(IDENTIFIER), going[0])
            genuine(table, ids)

        patch.setattr(snapshot_expiry, "_commit_expiry", commit_late)
        expire_snapshots(world.installation.log.open(TOPIC), frozenset(going))
    metadata = plain_catalog(world).load_table(IDENTIFIER).metadata
    assert set(going) & {each.snapshot_id for each in metadata.snapshots} == {going[0]}
    return going[0], metadata


def test_an_expiry_takes_no_snapshot_to_which_another_engine_rolled_back_meanwhile(world: World) -> None:
    first, metadata = expire_two_while(
        world, lambda table, first: table.manage_snapshots().rollback_to_snapshot(first).commit()
    )
    assert metadata.current_snapshot_id == first


def test_an_expiry_takes_no_snapshot_that_was_pinned_meanwhile(world: World) -> None:
    first, metadata = expire_two_while(
        world, lambda table, first: table.manage_snapshots().create_tag(first, "pin").commit()
    )
    assert metadata.refs["pin"].snapshot_id == first


def test_a_commit_that_another_engine_outnumbered_meanwhile_is_prepared_again(world: World) -> None:
    """It appended and rolled back, so the snapshot is the same, and its number was given out."""
    commit(world, [paper(0)])
    (first,) = world.snapshot_ids(TOPIC)
    numbers: list[int] = []

    def build(head: Head) -> Change:
        numbers.append(read_sequence_number(head.table.metadata))
        if len(numbers) == 1:
            table = plain_catalog(world).load_table(IDENTIFIER)
            table.append(pa.Table.from_pylist([], schema=table.schema().as_arrow()))
            table.manage_snapshots().rollback_to_snapshot(first).commit()
        return Change(head.state, add=[paper(1)])

    world.installation.log.open(TOPIC).commit(build)
    assert numbers == [1, 2]


def test_updates_that_concern_older_snapshots_see_all_of_them(world: World) -> None:
    """A snapshot that the table has already is refused, also one that is not the newest."""
    for number in range(3):
        commit(world, [paper(number)])
    metadata = world.head(TOPIC).table.metadata
    again = AddSnapshotUpdate(snapshot=metadata.snapshots[0].model_copy(update={"sequence_number": 9}))
    with pytest.raises(ValueError, match="already exists"):
        sql_catalog._apply_updates(metadata, (again,), "file:///nowhere/before.metadata.json")


def test_a_commit_copies_no_older_snapshot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what stages the updates nor the catalog that applies them; both work on the newest one."""
    copied: Counter[int] = Counter()
    genuine_copy: Callable[..., Any] = Snapshot.__deepcopy__

    def deepcopy(snapshot: Snapshot, memo: dict[int, Any] | None = None) -> Any:
        copied[snapshot.snapshot_id] += 1
        return genuine_copy(snapshot, memo)

    for number in range(5):
        commit(world, [paper(number)])
    *older, newest = world.snapshot_ids(TOPIC)
    monkeypatch.setattr(Snapshot, "__deepcopy__", deepcopy)
    commit(world, [paper(5)])
    assert [copied[each] for each in older] == [0] * 4
    assert copied[newest] > 1


def test_what_a_commit_parses_does_not_grow_with_the_snapshots_that_wait_for_a_sweep(world: World) -> None:
    """The head that was read or written last is not parsed again; in a process that has just begun, once."""
    for number in range(5):
        commit(world, [paper(number)])
    with counted_parsing() as parsed:
        commit(world, [paper(5)])
        assert len(world.snapshot_ids(TOPIC)) == 6
        assert parsed == []
        file_checksums._PARSED._kept.clear()
        newest = text_of(world.head(TOPIC).table)
        commit(world, [paper(6)])
        assert len(world.snapshot_ids(TOPIC)) == 7
    assert parsed == [newest]


def test_what_another_program_wrote_is_read_though_this_process_has_written_before(world: World) -> None:
    """Metadata are taken from memory only where every byte of the file is the same."""
    commit(world, [paper(0)])
    with plain_catalog(world).load_table(IDENTIFIER).transaction() as change:
        change.set_properties({"comment": "of another program"})
    assert world.head(TOPIC).table.properties["comment"] == "of another program"


@contextmanager
def counted_parsing() -> Iterator[list[str]]:
    """The metadata files that are parsed meanwhile."""
    parsed: list[str] = []
    genuine = TableMetadataUtil.parse_raw

    def parse(data: str) -> TableMetadata:
        parsed.append(data)
        return genuine(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableMetadataUtil, "parse_raw", parse)
        yield parsed


def test_a_commit_to_a_table_that_is_gone_is_a_conflict(world: World) -> None:
    """As PyIceberg says it: the requirement that the table is the same is not met."""
    commit(world, [paper(0)])
    table = world.head(TOPIC).table
    world.installation.log.catalog.drop_table(IDENTIFIER)
    with pytest.raises(CommitFailedException):
        table.transaction().set_properties({"a": "b"}).commit_transaction()


@pytest.mark.parametrize(("paused_ms", "prepared"), [(MAXIMUM_COMMIT_AGE_MS, 1), (MAXIMUM_COMMIT_AGE_MS + 1_000, 2)])
def test_a_commit_whose_process_was_paused_for_long_is_prepared_again(
    world: World, monkeypatch: pytest.MonkeyPatch, paused_ms: int, prepared: int
) -> None:
    """Else it would bear the time of before, and the snapshot that it replaces would go before its grace."""
    genuine, pauses = LogSqlCatalog._write_version, [paused_ms]

    def write_and_pause(self: LogSqlCatalog, metadata: TableMetadata, before: str) -> str:
        location = genuine(self, metadata, before)
        now_ms = metadata.last_updated_ms + (pauses.pop() if pauses else 0)
        monkeypatch.setattr(sql_catalog, "read_wall_clock_ms", lambda: now_ms)
        return location

    before = list_versions(world)
    monkeypatch.setattr(LogSqlCatalog, "_write_version", write_and_pause)
    commit(world, [paper(0)])
    assert len(list_versions(world) - before) == prepared
    assert [segment.path for segment in world.segments(topic=TOPIC)] == [paper(0).path]


def list_versions(world: World) -> set[str]:
    """The metadata files of the table."""
    location = world.installation.log.open(TOPIC).head().table.location()
    return {file.uri for file in storage.list_files(location) if file.uri.endswith(".metadata.json")}


def test_a_commit_bears_the_time_at_which_it_began_to_be_built(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its state dates is as old: paused after that, it is dated anew."""
    now_ms, built = read_wall_clock_ms() + 60_000, list[Head]()
    begun_ms = [now_ms, now_ms + MAXIMUM_COMMIT_AGE_MS]
    monkeypatch.setattr(sql_catalog, "read_wall_clock_ms", lambda: now_ms + MAXIMUM_COMMIT_AGE_MS + 1)
    monkeypatch.setattr(topic_log, "read_wall_clock_ms", lambda: begun_ms[len(built)])

    def build(head: Head) -> Change:
        built.append(head)
        return Change(head.state)

    world.installation.log.open(TOPIC).commit(build)
    current = world.head(TOPIC).table.current_snapshot()
    assert (len(built), current and current.timestamp_ms) == (2, begun_ms[1])


def test_a_clock_that_is_behind_the_tables_by_minutes_commits_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg refuses a snapshot that is older than the table by more than a minute."""
    commit(world, [paper(0)])
    latest_ms = world.head(TOPIC).table.metadata.last_updated_ms + 60 * 60_000
    monkeypatch.setattr(topic_log, "read_wall_clock_ms", lambda: latest_ms)
    commit(world, [paper(2)])
    monkeypatch.setattr(topic_log, "read_wall_clock_ms", lambda: latest_ms - 5 * 60_000)
    commit(world, [paper(1)])
    assert world.head(TOPIC).table.metadata.last_updated_ms == latest_ms + 1
    assert len(world.segments(topic=TOPIC)) == 3
