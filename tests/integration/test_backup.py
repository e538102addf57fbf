"""A backup is made while everything runs, is verified file by file, and restores an installation as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_runner import make_topic, winnow
from tests.support.schema_registry import serve_answers
from tests.support.world import (
    TOPIC,
    FakeClock,
    World,
    build_versions,
    compute_survivors,
    list_visible_rows,
    open_world,
    record,
)
from winnow.config.settings import load_settings
from winnow.errors import DamagedBackupError, DeletedTopicError, PlanVoidError, RunAgainError, UsageError
from winnow.files import storage
from winnow.log.fence import make_fence_change
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.log.table_files import FileKind, find_path_below
from winnow.log.table_pointers import TableRole, list_registered, read_pointers
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.backup_place import BackupPlace
from winnow.pipeline.backup.create import MAXIMUM_TRIES, create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.backup.topic_copies import TopicCopy
from winnow.pipeline.backup.verify import verify_backup
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.installation import open_installation
from winnow.pipeline.latest.records import read_latest_batches
from winnow.pipeline.read.schema_pull import pull_schemas
from winnow.pipeline.topics.adoption import adopt_all
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.store.audit import AuditAction
from winnow.store.rows import Window
from winnow.values.model import Record

OTHER = "clicks"
DELETED = "visits"
LATER_MS = 2_000_000_000_000
"""After the present, so that snapshots are old enough to be swept."""
CONFIG = {"min_cleanable_dirty_ratio": "0", "segment_ms": "1"}


@dataclass(frozen=True)
class Seen:
    """What an installation answers about a topic."""

    records: list[Record]
    quarantined: list[dict[str, Any]]
    latest: list[dict[str, Any]]
    receipts: list[Any]
    checkpoints: list[Any]
    ingests: list[Any]


def look_at(world: World, topic: str) -> Seen:
    """Ask for everything that a restore has to bring back."""
    log = world.installation.log.open(topic)
    head = log.head()
    rows = list_visible_rows(world.installation.log.quarantine(topic), head.state).to_pylist()
    latest = [row for batch in read_latest_batches(world.installation, topic) for row in batch.to_pylist()]
    return Seen(
        records=world.read(topic=topic),
        quarantined=rows,
        latest=sorted(latest, key=lambda row: (row["partition"], row["offset"])),
        receipts=log.receipts(head),
        checkpoints=[head.state.partitions[number] for number in sorted(head.state.partitions)],
        ingests=[(each.ingest_id, each.files) for each in list_ingests(world.installation, topic).calls],
    )


def fill(world: World) -> None:
    """Three topics: one with all kinds of tables and documents, one that was paused, one that is deleted."""
    world.create(2, winnow_keyless="quarantine", winnow_latest_table="true", **CONFIG)
    world.ingest(build_versions(0, 12))
    world.ingest(build_versions(0, 6, partition=1))
    world.ingest([record(12, None, b"no key")])
    world.compact()
    world.ingest(build_versions(13, 3))
    world.create(1, OTHER, **CONFIG)
    world.ingest(build_versions(0, 4), topic=OTHER)
    erase_keys(world.installation, EraseRequest(OTHER, [b"nobody"], "a document of an erasure"))
    keep_schema(world)
    pause_partitions(world.installation, OTHER, [0], by="maintenance")
    world.create(1, DELETED)
    world.ingest(build_versions(0, 3), topic=DELETED)
    delete_topic(world.installation, DELETED)
    record_action(world.installation, AuditAction.ALTER, TOPIC, detail="before the backup")


def keep_schema(world: World) -> None:
    """Of a value that names a schema."""
    world.ingest([record(4, b"framed", b"\0\0\0\0\1")], topic=OTHER)
    with serve_answers(lambda _: (200, b'{"schema": "\\"string\\""}')) as (address, _):
        settings = world.installation.settings
        registry = settings.schema_registry.model_copy(update={"url": address})
        settings = settings.model_copy(update={"schema_registry": registry})
        assert pull_schemas(replace(world.installation, settings=settings), OTHER).pulled == (1,)


def list_audit(world: World) -> list[tuple[str, str, str]]:
    """What people did, oldest first."""
    rows = world.installation.store.audit.list_entries(Window(0, 100)).rows
    return sorted((each.action, each.topic, each.detail) for each in rows)


@contextmanager
def open_empty(folder: Path) -> Iterator[World]:
    """The same place with nothing in it but the register of erasures; what was there stands aside meanwhile."""
    aside = folder / "aside"
    (folder / "home").rename(aside)
    (folder / "home").mkdir()
    if (aside / "erasures").exists():
        shutil.copytree(aside / "erasures", folder / "home" / "erasures")
    try:
        with open_world(folder) as world:
            yield world
    finally:
        shutil.rmtree(folder / "home")
        aside.rename(folder / "home")


@dataclass(frozen=True)
class Lake:
    """An installation in ``folder`` and a backup of it; ``before``: what it answered."""

    folder: Path
    destination: str
    before: dict[str, Seen]
    audit: list[tuple[str, str, str]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """One for all tests that leave both as they are."""
    folder = tmp_path_factory.mktemp("lake")
    destination = str(folder / "backup")
    with open_world(folder) as world:
        fill(world)
        found = Lake(folder, destination, {topic: look_at(world, topic) for topic in (TOPIC, OTHER)}, list_audit(world))
        made = create_backup(world.installation, destination)
    assert (made.topics, made.left_out) == (3, {})
    return found


def test_restored_installation_answers_as_the_one_that_was_backed_up(lake: Lake) -> None:
    """Records, quarantine, latest state, receipts, checkpoints, ingest calls, pauses, audit; deleted topics too."""
    assert lake.before[TOPIC].quarantined
    assert lake.before[TOPIC].latest
    with open_empty(lake.folder) as world:
        report = restore_backup(world.installation, lake.destination)
        assert [topic.notice for topic in report.topics] == ["", "", ""]
        assert world.installation.log.names() == [OTHER, TOPIC]
        assert {topic: look_at(world, topic) for topic in (TOPIC, OTHER)} == lake.before
        assert set(lake.audit) < set(list_audit(world))
        assert world.installation.store.audit.verify_chain().first_break is None
        assert world.state(topic=OTHER).paused_by == ("maintenance",)
        assert world.installation.log.list_deleted() == [DELETED]
        restore_topic(world.installation, DELETED)
        assert len(world.read(topic=DELETED)) == 3
        world.ingest(build_versions(16, 2))
        world.compact()
        sweep_topics(world.installation)
        everything = [*build_versions(0, 12), *build_versions(13, 5), *build_versions(0, 6, partition=1)]
        assert world.read() == compute_survivors(everything)


def list_copied(destination: Path) -> set[str]:
    """The files that are copied, by their paths."""
    return {str(path) for path in destination.glob("files/**/*") if path.is_file()}


def test_second_backup_copies_only_what_is_new_and_the_first_can_still_be_restored(tmp_path: Path) -> None:
    """Counted in files that were copied and in files of the folder."""
    destination = tmp_path / "backup"
    with open_world(tmp_path) as world:
        world.create(1)
        world.ingest(build_versions(0, 16))
        first = create_backup(world.installation, str(destination))
        before = world.read()
        files = list_copied(destination)
        assert first.files_copied == first.files == len(files)
        again = create_backup(world.installation, str(destination))
        assert (again.files_copied, again.bytes_copied, again.files) == (0, 0, first.files)
        world.ingest(build_versions(16, 2))
        third = create_backup(world.installation, str(destination))
        later = list_copied(destination)
        assert third.files_copied == len(later - files) == third.files - first.files
        assert files < later
        gone = next(destination.glob("files/winnow/*/data/**/*.parquet"))
        gone.unlink()
        assert [Path(finding.path).name for finding in verify_backup(str(destination)).findings] == [gone.name]
        assert create_backup(world.installation, str(destination)).files_copied == 1
    assert verify_backup(str(destination)).findings == ()
    with open_empty(tmp_path) as world:
        restore_backup(world.installation, str(destination), first.backup_id)
        assert world.read() == before


def list_one_of_each_kind(place: BackupPlace) -> dict[str, Path]:
    """A file of every kind that a backup has."""
    backup = place.read(place.choose(None))
    found: dict[str, Path] = {}
    for topic in backup.topics:
        found.setdefault("list", Path(place.locate(topic.files.path)))
        for file in place.read_list(topic.files).values():
            found.setdefault(file.kind, Path(place.locate_file(file.path)))
    rows = next(table for table in backup.store if table.parts)
    return found | {"rows": Path(place.locate(rows.parts[0].path))}


def test_damage_of_each_kind_of_file_is_found_and_nothing_is_restored_from_it(lake: Lake) -> None:
    """A flipped bit, a lost byte, a lost file: verify names it, restore refuses, and goes on once it is back."""
    kinds = list_one_of_each_kind(BackupPlace(lake.destination))
    rare = {FileKind.STATISTICS, FileKind.CHAIN}
    assert set(kinds) == {"list", "rows", *(kind.value for kind in FileKind if kind not in rare)}
    with open_empty(lake.folder) as world:
        for path in kinds.values():
            with damaged(path) as ways:
                for _ in ways:
                    findings = verify_backup(lake.destination).findings
                    assert [found for found in findings if path.name in f"{found.path} {found.text}"], path
        for path in kinds.values():
            with damaged(path) as ways:
                next(ways)
                for folder in (Path(lake.folder) / "home" / "warehouse").glob("winnow*/*"):
                    shutil.rmtree(folder)
                with pytest.raises(DamagedBackupError, match=path.name):
                    restore_backup(world.installation, lake.destination)
                assert world.installation.log.names() == []
        restore_backup(world.installation, lake.destination)
        assert world.read() == lake.before[TOPIC].records
    assert verify_backup(lake.destination).findings == ()


@contextmanager
def damaged(path: Path) -> Iterator[Iterator[None]]:
    """Damage a file in one way after another; it is as before in the end."""
    genuine = path.read_bytes()
    flipped = bytearray(genuine)
    flipped[len(genuine) // 2] ^= 1

    def work() -> Iterator[None]:
        for content in (bytes(flipped), genuine[:-1]):
            path.write_bytes(content)
            yield
        path.unlink()
        yield

    try:
        yield work()
    finally:
        path.write_bytes(genuine)


def test_damaged_document_of_a_backup_is_refused(tmp_path: Path) -> None:
    """Its name holds its digest."""
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        made = create_backup(world.installation, destination)
        path = tmp_path / "backup" / "backups" / f"{made.backup_id}.json"
        path.write_bytes(path.read_bytes().replace(b'"topics":[]', b'"topics":[ ]'))
        for work in (verify_backup, lambda place: restore_backup(world.installation, place)):
            with pytest.raises(DamagedBackupError, match=made.backup_id):
                work(destination)


def test_place_with_anything_in_it_is_refused_and_named(lake: Lake) -> None:
    """Tables, rows of the store, files of a table: each alone."""
    with open_world(lake.folder) as world:
        with pytest.raises(UsageError, match=rf"the table winnow\.{OTHER} in the catalog"):
            restore_backup(world.installation, lake.destination)
        location = world.head().location
    with open_empty(lake.folder) as world:
        record_action(world.installation, AuditAction.ALTER, TOPIC)
        with pytest.raises(UsageError, match="rows of winnow_audit in the metadata store"):
            restore_backup(world.installation, lake.destination)
    with open_empty(lake.folder) as world:
        foreign = storage.join(location, "data", "foreign.parquet")
        storage.write_bytes(foreign, b"somebody else's")
        with pytest.raises(UsageError, match=r"foreign\.parquet"):
            restore_backup(world.installation, lake.destination)
        assert storage.read_bytes(foreign) == b"somebody else's"
        assert world.installation.log.names() == []


def test_another_warehouse_is_refused(lake: Lake, tmp_path: Path) -> None:
    """Tables hold full paths; the message says which warehouse it has to be."""
    warehouse = str(lake.folder / "home" / "warehouse")
    with (
        open_world(tmp_path) as world,
        pytest.raises(UsageError, match=f"The backup is of the warehouse file:.*{warehouse}"),
    ):
        restore_backup(world.installation, lake.destination)


def test_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    """Other files, another installation's backups, the warehouse itself and what is around it."""
    foreign = tmp_path / "documents"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        create_backup(world.installation, destination)
        warehouse = world.installation.settings.warehouse
        with pytest.raises(UsageError, match="is not a folder of Winnow's backups"):
            create_backup(world.installation, str(foreign))
        assert [path.name for path in foreign.iterdir()] == ["letter.txt"]
        for within in (warehouse, f"{warehouse}/backup", str(tmp_path / "home"), str(tmp_path)):
            with pytest.raises(UsageError, match="lie within one another"):
                create_backup(world.installation, within)
    with (
        open_world(tmp_path, lake={"WINNOW_HOME": str(tmp_path / "elsewhere")}) as world,
        pytest.raises(UsageError, match="backups of another installation"),
    ):
        create_backup(world.installation, destination)


def test_empty_installation_is_backed_up_and_restored(tmp_path: Path) -> None:
    """A backup without topics, and none at all."""
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        with pytest.raises(UsageError, match="winnow backup create"):
            verify_backup(destination)
        record_action(world.installation, AuditAction.ALTER, TOPIC, detail="kept")
        assert create_backup(world.installation, destination).topics == 0
    assert verify_backup(destination).findings == ()
    with open_empty(tmp_path) as world:
        restore_backup(world.installation, destination)
        assert "kept" in [detail for _, _, detail in list_audit(world)]


def test_where_everything_is_lost_no_empty_backup_becomes_the_newest(tmp_path: Path) -> None:
    """A scheduled backup goes on; one that restores afterwards would get nothing."""
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        world.create(1, **CONFIG)
        world.ingest(build_versions(0, 2))
        made = create_backup(world.installation, destination)
    with open_empty(tmp_path) as world:
        with pytest.raises(
            UsageError, match=r"nothing was ever committed; the newest backup in .* has 1 topic"
        ) as refused:
            create_backup(world.installation, destination)
        assert f"winnow backup restore {destination}" in str(refused.value)
        assert BackupPlace(destination).list_ids() == [made.backup_id]
        assert [each.topic for each in restore_backup(world.installation, destination).topics] == [TOPIC]
        with pytest.raises(UsageError, match="after a restore, too"):  # what was restored is another installation
            create_backup(world.installation, destination)
        assert create_backup(world.installation, f"{destination}-new").topics == 1


def test_installation_whose_topics_are_all_gone_is_backed_up(tmp_path: Path) -> None:
    """It is known by what it committed before."""
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        world.create(1, **CONFIG)
        world.ingest(build_versions(0, 2))
        create_backup(world.installation, destination)
        delete_topic(world.installation, TOPIC, now=True)
        assert create_backup(world.installation, destination).topics == 0


def test_no_topic_is_made_or_adopted_while_a_restore_has_not_ended(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of its topics are not complete, and another topic would be in its way."""
    with open_empty(lake.folder) as world:
        monkeypatch.setattr(LogSqlCatalog, "register_table", fail)
        with pytest.raises(ZeroDivisionError):
            restore_backup(world.installation, lake.destination)
        monkeypatch.undo()
        adopted = {folder.topic: outcome for folder, outcome in adopt_all(world.installation, run=True)}
        assert adopted.keys() == {TOPIC, OTHER, DELETED}
        assert {type(outcome) for outcome in adopted.values()} == {RunAgainError}
        with pytest.raises(RunAgainError, match="has begun here and not ended") as refused:
            world.create(1, "another")
        assert f"winnow backup restore {lake.destination} --backup " in str(refused.value)
        assert list_registered(world.installation.log) == set()
        restore_backup(world.installation, lake.destination)
        assert {topic: look_at(world, topic) for topic in lake.before} == lake.before
        world.create(1, "another")


def fail(*_: object) -> None:
    """Fail as nothing of Winnow's does."""
    raise ZeroDivisionError


def test_table_that_another_process_enters_during_a_restore_is_a_reason_to_run_it_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore and an adoption of what it has copied already."""
    register = LogSqlCatalog.register_table

    def register_second(catalog: LogSqlCatalog, identifier: tuple[str, ...], location: str) -> Any:
        monkeypatch.undo()
        register(catalog, identifier, location)
        return catalog.register_table(identifier, location)

    with open_empty(lake.folder) as world:
        monkeypatch.setattr(LogSqlCatalog, "register_table", register_second)
        with pytest.raises(RunAgainError, match="another process did so at this moment"):
            restore_backup(world.installation, lake.destination)
        restore_backup(world.installation, lake.destination)
        assert {topic: look_at(world, topic) for topic in lake.before} == lake.before


def test_topic_that_is_swept_while_it_is_copied_is_copied_as_it_is_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a grace, compaction and sweep take away what the backup was about to copy."""
    destination = str(tmp_path / "backup")
    genuine = TopicCopy._copy
    swept: list[int] = []

    def copy_late(*arguments: Any) -> Any:
        if len(swept) < 2:
            swept.append(1)
            world.ingest(build_versions(12 * len(swept), 12))
            world.compact(attempt=f"b{len(swept)}")
            world.clock.now_ms += 1
            sweep_topics(world.installation, [TOPIC])
        return genuine(*arguments)

    with open_world(tmp_path, FakeClock(LATER_MS)) as world:
        world.create(1, winnow_retired_grace_ms="0", **CONFIG)
        world.ingest(build_versions(0, 12))
        monkeypatch.setattr(TopicCopy, "_copy", copy_late)
        create_backup(world.installation, destination)
        before = world.read()
    assert len(swept) == 2
    assert verify_backup(destination).findings == ()
    with open_empty(tmp_path) as world:
        restore_backup(world.installation, destination)
        assert world.read() == before == compute_survivors(build_versions(0, 36))


def test_topic_that_is_swept_again_and_again_is_held_until_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few tries the backup takes the topic's lease, and the sweeps wait."""
    destination = str(tmp_path / "backup")
    genuine = TopicCopy._copy
    tries: list[int] = []

    def copy_late(*arguments: Any) -> Any:
        tries.append(1)
        with open_installation(world.installation.settings, now_ms=world.clock) as other:
            rival = World(other, world.clock, tmp_path)
            rival.files = 100 + len(tries)
            try:
                rival.ingest(build_versions(12 * len(tries), 12))
                rival.compact(attempt=f"b{len(tries)}")
                world.clock.now_ms += 1
                sweep_topics(other, [TOPIC])
            except Exception as problem:
                busy.append(problem)
        return genuine(*arguments)

    busy: list[Exception] = []
    with open_world(tmp_path, FakeClock(LATER_MS)) as world:
        world.create(1, winnow_retired_grace_ms="0", **CONFIG)
        world.ingest(build_versions(0, 12))
        monkeypatch.setattr(TopicCopy, "_copy", copy_late)
        assert create_backup(world.installation, destination).left_out == {}
    assert len(tries) < MAXIMUM_TRIES
    assert [type(problem).__name__ for problem in busy] == ["TopicBusyError"]
    assert verify_backup(destination).findings == ()


def test_damaged_topic_is_left_out_and_named_and_all_others_are_in_the_backup(
    tmp_path: Path, winnow_home: Path
) -> None:
    """Exit code 4, and 0 again once the file is back; verify and restore say what a backup lacks."""
    make_topic(TOPIC, tmp_path / "a.jsonl")
    make_topic(OTHER, tmp_path / "b.jsonl")
    lost = next(winnow_home.glob(f"warehouse/winnow/{TOPIC}*/data/**/*.parquet"))
    content = lost.read_bytes()
    lost.unlink()
    answer = winnow("backup", "create", tmp_path / "backup", code=4)
    assert f"{TOPIC} was left out" in answer.stderr
    assert lost.name in answer.stderr
    assert f"does not have {TOPIC}" in winnow("backup", "verify", tmp_path / "backup").stderr
    winnow_home.rename(tmp_path / "aside")
    assert f"does not have {TOPIC}" in winnow("backup", "restore", tmp_path / "backup").stderr
    assert winnow("topics", "list", "--json").document == [OTHER]
    shutil.rmtree(winnow_home)
    (tmp_path / "aside").rename(winnow_home)
    lost.write_bytes(content)
    winnow("backup", "create", tmp_path / "backup")


def test_file_of_another_size_than_its_entry_is_not_backed_up(tmp_path: Path) -> None:
    """A segment that was cut short would be restored as a damaged one."""
    with open_world(tmp_path) as world:
        world.create(1)
        world.ingest(build_versions(0, 4))
        path = storage.parse_local_path(world.segments()[0].path)
        path.write_bytes(path.read_bytes()[:-1])
        made = create_backup(world.installation, str(tmp_path / "backup"))
        assert path.name in made.left_out[TOPIC]


def test_attempt_from_before_the_backup_cannot_be_published_into_what_is_restored(tmp_path: Path) -> None:
    """Its files were not restored; the first commit after the restore raised the fence above it."""
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        world.create(1, **CONFIG)
        world.ingest(build_versions(0, 12))
        with hold_lease(world.installation, TOPIC):
            plan = world.plan(world.clock())
            assert plan is not None
            world.stage(plan)
            world.accept(plan)
            create_backup(world.installation, destination)
    with open_empty(tmp_path) as world:
        restore_backup(world.installation, destination)
        shutil.copytree(tmp_path / "aside" / "staging", tmp_path / "home" / "staging", dirs_exist_ok=True)
        with pytest.raises(PlanVoidError):
            publish_attempt(world.installation, plan.plan_id, "a1")
        assert world.read() == build_versions(0, 12)
        assert world.compact(attempt="a2") is not None
        assert world.read() == compute_survivors(build_versions(0, 12))


def test_fence_and_ingest_number_rise_above_those_of_the_future_that_was_given_up(tmp_path: Path) -> None:
    """What was prepared after the backup was made fits nowhere in what is restored."""
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        world.create(1)
        world.ingest(build_versions(0, 3))
        create_backup(world.installation, destination)
        for number in range(5):
            world.installation.log.open(TOPIC).commit(lambda head: make_fence_change(head, [], operation="fence"))
            world.installation.store.ingests.open(
                f"late-{number}", TOPIC, least_number=0, holder="late", now_ms=world.clock()
            )
        lost = world.head().fence
        numbers = [call.number for call in world.installation.store.ingests.list_open(TOPIC)]
    with open_empty(tmp_path) as world:
        world.clock.now_ms += 1_000
        restore_backup(world.installation, destination)
        assert world.head().fence > lost
        assert world.head().state.first_valid_ingest > max(numbers)
        assert all(world.head().state.is_voided(f"late-{number}", number) for number in numbers)
        world.ingest(build_versions(3, 3))
        assert world.read() == build_versions(0, 6)


def test_leases_are_not_restored(tmp_path: Path) -> None:
    """Who held a topic when the backup was made holds nothing in what is restored."""
    destination = str(tmp_path / "backup")
    with open_world(tmp_path) as world:
        world.create(1)
        with hold_lease(world.installation, TOPIC):
            create_backup(world.installation, destination)
    with open_empty(tmp_path) as world:
        restore_backup(world.installation, destination)
        assert world.installation.store.leases.find(TOPIC) is None


def test_topic_that_is_being_removed_is_no_part_of_a_backup(tmp_path: Path) -> None:
    """Nothing could restore it, and its files go one after another."""
    with open_world(tmp_path) as world:
        world.create(1)
        delete_topic(world.installation, TOPIC)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage, "delete", lambda uri, **_: (_ for _ in ()).throw(OSError(28, "stopped", uri)))
            with pytest.raises(OSError, match="stopped"):
                delete_topic(world.installation, TOPIC, now=True)
        with pytest.raises(DeletedTopicError):
            world.head()
        made = create_backup(world.installation, str(tmp_path / "backup"))
        assert (made.topics, made.left_out) == (0, {})


def test_catalog_that_answers_table_by_table_never_gives_a_log_with_a_later_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest is undone and swept between both answers: the log is asked again, as it names rows that are gone."""
    monkeypatch.delattr(LogSqlCatalog, "list_all_metadata_locations")
    genuine = LogSqlCatalog.load_table
    asked: list[Any] = []

    def load_late(catalog: LogSqlCatalog, identifier: Any) -> Any:
        asked.append(identifier)
        if asked == [("winnow_latest", TOPIC), ("winnow", TOPIC), ("winnow_quarantine", TOPIC)]:
            (newest,) = list_ingests(world.installation, TOPIC, limit=1).calls
            undo_ingest(world.installation, TOPIC, newest.ingest_id)
            for _ in range(2):
                world.clock.now_ms += 1
                sweep_topics(world.installation, [TOPIC])
        return genuine(catalog, identifier)

    with open_world(tmp_path, FakeClock(LATER_MS)) as world:
        world.create(1, winnow_keyless="quarantine", winnow_retired_grace_ms="0")
        world.ingest([record(0, None, b"no key")])
        monkeypatch.setattr(LogSqlCatalog, "load_table", load_late)
        (pointers,) = read_pointers(world.installation.log, TOPIC)
        assert pointers.locations[TableRole.LOG] == world.head().table.metadata_location
        assert world.head().state.quarantine_ingests == ()


def test_commands_answer_in_json_and_say_who_made_and_restored_a_backup(tmp_path: Path, winnow_home: Path) -> None:
    """The audit log of the restored installation has both."""
    make_topic(TOPIC, tmp_path / "in.jsonl", partitions=2)
    before = winnow("read", TOPIC).stdout
    destination = tmp_path / "backup"
    made = winnow("backup", "create", destination, "--json", "--reason", "nightly").document
    assert (made["topics"], made["records"], made["left_out"]) == (1, 12, {})
    winnow("backup", "create", destination)
    checked = winnow("backup", "verify", destination, "--backup", made["backup_id"], "--json").document
    assert (checked["findings"], checked["topics"][0]["records"]) == ([], 12)
    winnow_home.rename(tmp_path / "aside")
    restored = winnow("backup", "restore", destination, "--json", "--reason", "a fire").document
    assert restored["backup_id"] != made["backup_id"]
    assert winnow("read", TOPIC).stdout == before
    with open_installation(load_settings(cwd=tmp_path)) as installation:
        entries = installation.store.audit.list_entries(Window(0, 10)).rows
    assert {("back_up", "nightly"), ("restore_backup", "a fire")} <= {(e.action, e.reason) for e in entries}
    winnow("backup", "restore", destination, code=2)
    assert "Traceback" not in winnow("backup", "verify", tmp_path / "nothing", code=2).stderr


@pytest.mark.parametrize(
    ("folder", "path", "below"),
    [
        ("file:///lake/w", "file:///lake/w/t/a.avro", "t/a.avro"),
        ("file:///lake/w", "file:/lake/w/t/a.avro", "t/a.avro"),
        ("/lake/w", "file:///lake/w/a%20b", "a b"),
        ("file:///lake/w", "/lake/w/a b", "a%20b"),
        ("s3://lake/w", "s3a://lake/w/t", "t"),
        ("s3://lake/w", "s3://lake/warehouse/t", None),
        ("s3://lake/w", "s3://lake/w/../x", None),
        ("s3://lake/w", "file:///lake/w/t", None),
    ],
)
def test_path_is_found_below_a_folder_however_a_catalog_writes_it(folder: str, path: str, below: str | None) -> None:
    """And never where it is outside."""
    assert find_path_below(folder, path) == below
