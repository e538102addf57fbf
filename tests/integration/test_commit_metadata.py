"""What a commit writes is to the byte what PyIceberg would write, and older snapshots are not copied for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table, Transaction, update
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV2
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, TableUpdate, update_table_metadata
from pyiceberg.typedef import IcebergBaseModel

from tests.support.world import World, open_world, run_between_head_and_commit
from winnow.files import storage
from winnow.log import sql_catalog
from winnow.log.head import Change
from winnow.log.snapshot_expiry import expire_snapshots
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.log.topics import NAMESPACE
from winnow.log.transaction import LogTransaction, keep_head_only
from winnow.model import Segment

TOPIC = "paper"
IDENTIFIER = (NAMESPACE, TOPIC)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A topic of two partitions, nothing in it yet."""
    with open_world(tmp_path) as opened:
        opened.create(2, topic=TOPIC)
        yield opened


def plain_catalog(world: World) -> SqlCatalog:
    """The same catalog as PyIceberg alone opens it: what another process, or another engine, has."""
    settings = world.ctx.settings
    return SqlCatalog(NAMESPACE, **{**settings.catalog, "warehouse": settings.warehouse})


def paper(number: int, partition: int = 0) -> Segment:
    """A segment of ten records without a file."""
    path = f"file:///nowhere/data/{partition}/{number}.parquet"
    return Segment(path, partition, number * 10, number * 10 + 9, 10, 1000, 1_000, 2_000, 0)


def commit(world: World, add: list[Segment], remove: list[Segment] | None = None, *, topic: str = TOPIC) -> None:
    """One commit that leaves the state as it is."""
    gone = [each.path for each in remove or []]
    world.ctx.log.open(topic).commit(lambda head: Change(head.state, add=add, remove=gone))


def text_of(table: Table) -> str:
    """The table's metadata file."""
    return storage.parse_local_path(table.metadata_location).read_text()


@contextmanager
def compared_with_pyiceberg(world: World) -> Iterator[list[str]]:
    """The documents of all commits meanwhile, checked at the end against PyIceberg's application of their updates.

    At the end, because the commit loop takes whatever is raised in between for a lost answer.
    """
    catalog, plain = world.ctx.log.catalog, plain_catalog(world)
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
        yield seen
    assert seen == expected
    for read, answered, kept in parsed:
        assert read == answered == kept


def test_every_kind_of_commit_writes_the_document_that_pyiceberg_would_write(world: World) -> None:
    """First and later appends, overwrites, properties, partitions, tags, branches, a rollback and an expiry."""
    log = world.ctx.log.open(TOPIC)
    with compared_with_pyiceberg(world) as seen:
        commit(world, [paper(0), paper(0, 1)])
        commit(world, [paper(1)])
        commit(world, [paper(2)], [paper(0), paper(1)])
        log.set_config({"min.cleanable.dirty.ratio": "0", "segment.bytes": "1000000"}, ())
        log.set_config({}, ("segment.bytes",))
        log.add_partitions(3, now_ms=world.clock())
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
    there = {path for path in world.listing(below=f"winnow/{TOPIC}/metadata") if path.endswith(".metadata.json")}
    assert len(there) == 21


def test_what_was_staged_is_seen_by_what_is_staged_next(world: World) -> None:
    """A transaction's metadata, at every step, is PyIceberg's; an update is never forgotten."""
    commit(world, [paper(0)])
    table = world.head(TOPIC).table
    ours, theirs = LogTransaction(table), Transaction(table)
    assert ours.table_metadata == theirs.table_metadata
    for name, value in (("winnow.a", "1"), ("winnow.b", "2")):
        for each in (ours, theirs):
            each.set_properties({name: value})
        assert ours.table_metadata.properties == theirs.table_metadata.properties
        assert ours.table_metadata.properties[name] == value
        assert ours.table_metadata.snapshots == theirs.table_metadata.snapshots
    assert "winnow.a" not in table.metadata.properties


def test_updates_that_concern_older_snapshots_see_all_of_them(world: World) -> None:
    """A snapshot that is there already is refused, and a reference may be set to one that is not the newest."""
    for number in range(3):
        commit(world, [paper(number)])
    base = world.head(TOPIC).table.metadata
    older = base.snapshots[0]
    back = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": older.snapshot_id})
    again = AddSnapshotUpdate(snapshot=older.model_copy(update={"sequence_number": 9}))
    assert (keep_head_only(base, [back]), keep_head_only(base, [again])) == (None, None)
    with pytest.raises(ValueError, match="already exists"):
        world.ctx.log.catalog.commit_table(world.head(TOPIC).table, (), (again,))


@contextmanager
def counted() -> Iterator[tuple[list[int], list[str]]]:
    """Snapshots that are copied, by id, and metadata files that are read."""
    copies, files = list[int](), list[str]()
    genuine_copy: Callable[..., Any] = Snapshot.__deepcopy__
    genuine_open = PyArrowFile.open

    def deepcopy(snapshot: Snapshot, memo: dict[int, Any] | None = None) -> Any:
        copies.append(snapshot.snapshot_id)
        return genuine_copy(snapshot, memo)

    def opened(file: PyArrowFile, seekable: bool = True) -> Any:
        if file.location.endswith(".metadata.json"):
            files.append(file.location)
        return genuine_open(file, seekable)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshot, "__deepcopy__", deepcopy)
        patch.setattr(PyArrowFile, "open", opened)
        copy.deepcopy(Snapshot.model_validate({"snapshot-id": 1, "manifest-list": "none"}))
        assert copies.pop() == 1
        yield copies, files


def test_a_commit_copies_as_many_snapshots_after_thirty_commits_as_after_two(world: World) -> None:
    """None but the newest and its own, and it reads no metadata file that this process wrote."""
    seen = []
    for number in range(32):
        with counted() as (copies, files):
            commit(world, [paper(number)])
        seen.append((len(copies), len(files)))
    assert len(world.snapshot_ids(TOPIC)) == 32
    assert seen[2] == seen[31]
    assert seen[31][0] <= 4
    assert seen[31][1] == 0


def test_snapshots_are_written_down_anew_only_where_they_are_new(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the others is kept, until an expiry leaves others."""
    written: list[int] = []
    genuine: Callable[..., str] = IcebergBaseModel.model_dump_json

    def noted(model: IcebergBaseModel, **how: Any) -> str:
        if isinstance(model, Snapshot):
            written.append(1)
        elif isinstance(model, TableMetadataV2):
            written.append(len(model.snapshots))
        return genuine(model, **how)

    def snapshots_written(act: Callable[[], object]) -> int:
        written.clear()
        act()
        return sum(written)

    commit(world, [paper(0)])
    monkeypatch.setattr(IcebergBaseModel, "model_dump_json", noted)
    for number in range(1, 9):
        assert snapshots_written(partial(commit, world, [paper(number)])) == 1
    going = frozenset(world.snapshot_ids(TOPIC)[:4])
    assert snapshots_written(lambda: expire_snapshots(world.ctx.log.open(TOPIC), going)) == 5
    assert snapshots_written(lambda: commit(world, [paper(9)])) == 1


def test_a_process_that_begins_reads_the_metadata_once_for_a_commit(world: World, tmp_path: Path) -> None:
    """Before the commit and within it the same file is asked for; it is parsed once."""
    commit(world, [paper(0)])
    with open_world(tmp_path) as other, counted() as (_, files):
        commit(other, [paper(1)])
    assert len(files) == 1


def test_what_another_process_committed_is_seen_although_older_metadata_is_kept(world: World, tmp_path: Path) -> None:
    """Which file counts is asked of the catalog every time; a race that is lost begins again with the other's."""
    commit(world, [paper(0)])
    with open_world(tmp_path) as other:
        commit(other, [paper(1)])
        assert len(world.snapshot_ids(TOPIC)) == 2
        with run_between_head_and_commit(lambda: commit(other, [paper(2)])):
            commit(world, [paper(3)])
        log = world.ctx.log.open(TOPIC)
        assert {each.path for found in log.segments(log.head()).values() for each in found} == {
            paper(number).path for number in range(4)
        }
        assert other.snapshot_ids(TOPIC) == world.snapshot_ids(TOPIC)
    assert len(set(world.snapshot_ids(TOPIC))) == 4


def test_what_another_process_expired_is_not_written_down_again(world: World, tmp_path: Path) -> None:
    """As many snapshots as before, but others: the text that was kept is of no use."""
    for number in range(4):
        commit(world, [paper(number)])
    going = world.snapshot_ids(TOPIC)[:2]
    with open_world(tmp_path) as other:
        expire_snapshots(other.ctx.log.open(TOPIC), frozenset(going))
        for number in range(4, 7):
            commit(other, [paper(number)])
    with compared_with_pyiceberg(world):
        commit(world, [paper(7)])
    assert len(world.snapshot_ids(TOPIC)) == 6
    assert not set(going) & set(world.snapshot_ids(TOPIC))


def test_few_metadata_files_are_kept_however_many_topics_are_opened(world: World) -> None:
    """Memory does not follow the number of topics."""
    catalog = world.ctx.log.catalog
    assert type(catalog) is LogSqlCatalog
    for number in range(sql_catalog.MAXIMUM_CACHED_FILES + 3):
        world.create(1, topic=f"one-of-many-{number}")
        world.head(f"one-of-many-{number}")
        commit(world, [paper(0)], topic=f"one-of-many-{number}")
    assert (len(catalog._parsed), len(catalog._texts)) == (
        sql_catalog.MAXIMUM_CACHED_FILES,
        sql_catalog.MAXIMUM_CACHED_FILES,
    )
