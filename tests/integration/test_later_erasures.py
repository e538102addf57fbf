"""Older states of a topic that are brought back: what was erased since is applied before anyone can read them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.cli_runner import winnow
from tests.support.erasing import FIRST, GRACE_MS, KEY, SECOND, erase, list_holding, without
from tests.support.examples import choose_examples
from tests.support.world import TOPIC, FakeClock, World, open_world, record, run_between_head_and_commit
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.errors import (
    ConfigurationError,
    DamagedMetadataError,
    EraseRefusedError,
    RunAgainError,
    UnknownTopicError,
    UsageError,
)
from winnow.log.pinned_snapshots import pin_snapshot
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.doctor.check_runner import CheckStatus
from winnow.pipeline.doctor.erasure_register import check_erasure_register
from winnow.pipeline.erase.certificate import make_certificate
from winnow.pipeline.erase.lift import lift_erasure
from winnow.pipeline.erase.older_states import (
    accept_without_erased,
    adopt_all_without_erased,
    adopt_without_erased,
    apply_registered,
    recover_without_erased,
    restore_without_erased,
)
from winnow.pipeline.erase.purge import purge_deleted_topic
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.pipeline.topics.recovery_report import RecoveryReport
from winnow.store.audit import AuditAction
from winnow.store.rows import Window

WHAT_STAYS = ("erase.secret", "erasures")
"""What of an installation is in no backup."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(read_wall_clock_ms())


@pytest.fixture
def folder(tmp_path: Path, clock: FakeClock) -> Path:
    """A topic with two partitions and records of three keys, as :mod:`tests.integration.test_erase` has it."""
    with open_world(tmp_path, clock) as world:
        world.create(2, min_cleanable_dirty_ratio="0", segment_ms="1", winnow_retired_grace_ms=str(GRACE_MS))
        world.ingest(FIRST)
        world.ingest(SECOND)
        create_backup(world.installation, str(tmp_path / "backup"))
    shutil.copytree(tmp_path / "home", tmp_path / "kept")
    return tmp_path


def erase_since(folder: Path, clock: FakeClock, *keys: bytes) -> str:
    """Erase after the backup and the copy of the home; return the erasure's id."""
    clock.now_ms += 1_000
    with open_world(folder, clock) as world:
        report = erase(world, *keys)
        assert report.deleted
    clock.now_ms += 1_000
    return report.erasure_id


def lose_home(folder: Path) -> Path:
    """Everything is lost but what is in no backup; return where the lost home is."""
    (folder / "home").rename(folder / "lost")
    (folder / "home").mkdir()
    bring_what_stays(folder)
    return folder / "lost"


def bring_what_stays(folder: Path) -> None:
    for name in WHAT_STAYS:
        found = folder / "lost" / name
        if found.is_dir():
            shutil.copytree(found, folder / "home" / name, dirs_exist_ok=True)
        else:
            shutil.copy(found, folder / "home" / name)


def put_kept_home_back(folder: Path) -> None:
    """The whole home is as it was when it was copied, but for what is in no backup."""
    (folder / "home").rename(folder / "lost")
    shutil.copytree(folder / "kept", folder / "home")
    bring_what_stays(folder)


def list_readable(world: World) -> set[bytes]:
    """The keys that a reader of any snapshot in the catalog can read."""
    table = world.installation.log.open(TOPIC).load_table()
    found: set[bytes] = set()
    for snapshot in table.metadata.snapshots:
        paths = {task.file.file_path for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files()}
        for path in paths:
            found.update(pq.read_table(path.removeprefix("file://"), columns=["key"]).column("key").to_pylist())
    return found


def list_erasing_operations(world: World) -> list[str]:
    """What the commits that erased something did besides."""
    summaries = [
        snapshot.summary.additional_properties
        for snapshot in world.head().table.metadata.snapshots
        if snapshot.summary is not None
    ]
    return [summary["winnow.operation"] for summary in summaries if "winnow.erasure" in summary]


@contextmanager
def watch_catalog(world: World) -> Iterator[list[set[bytes]]]:
    """Note what can be read from the log after each change of the catalog."""
    seen: list[set[bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("register_table", "swap_metadata", "commit_table"):
            genuine = getattr(LogSqlCatalog, name)

            def change(*arguments: object, _genuine: object = genuine, **named: object) -> object:
                answer = _genuine(*arguments, **named)  # type: ignore[operator]
                with suppress(UnknownTopicError):
                    seen.append(list_readable(world))
                return answer

            patch.setattr(LogSqlCatalog, name, change)
        yield seen


def require_erased(world: World, erasure_id: str) -> None:
    """Nothing of the key is left, its certificate closes, old copies stay out and new records are kept."""
    assert world.read() == without([*FIRST, *SECOND])
    assert list_holding(world, KEY, b"value-0-1", b"value-0-4") == []
    assert list_readable(world) == {b"key-0", b"key-2"}
    for _ in range(2):
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    certificate = make_certificate(world.installation, erasure_id, verify=True)
    assert certificate.open_because is None
    assert certificate.verified is not None
    assert certificate.verified.old_records == 0
    fresh = record(9, KEY, b"legit", world.clock() + 1)
    report = world.ingest([*FIRST, fresh])
    assert (report.records_appended, report.records_erased) == (1, 3)
    assert [each.value for each in world.read() if each.key == KEY] == [b"legit"]


def test_restored_backup_is_never_readable_with_what_was_erased_since(folder: Path, clock: FakeClock) -> None:
    erasure_id = erase_since(folder, clock)
    lose_home(folder)
    with open_world(folder, clock) as world:
        with watch_catalog(world) as seen:
            (topic,) = restore_backup(world.installation, str(folder / "backup")).topics
        assert topic.notice == ""
        assert seen
        assert not any(KEY in keys for keys in seen)
        require_erased(world, erasure_id)


def test_restored_table_of_the_latest_state_is_written_anew(folder: Path, clock: FakeClock) -> None:
    with open_world(folder, clock) as world:
        alter_topic(world.installation, TOPIC, {"winnow.latest.table": "true"}, [])
        update_latest_table(world.installation, TOPIC)
        create_backup(world.installation, str(folder / "backup"))
    erasure_id = erase_since(folder, clock)
    lose_home(folder)
    with open_world(folder, clock) as world:
        restore_backup(world.installation, str(folder / "backup"))
        latest = world.installation.log.latest_table(TOPIC).table()
        assert latest is not None
        assert {row["key"] for row in latest.scan().to_arrow().to_pylist()} == {b"key-0", b"key-2"}
        require_erased(world, erasure_id)


def test_restore_that_was_killed_while_it_landed_goes_on(folder: Path, clock: FakeClock) -> None:
    """What it had written is known to the store, and a sweep takes it away."""
    erasure_id = erase_since(folder, clock)
    lose_home(folder)

    with open_world(folder, clock) as world, pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogSqlCatalog, "register_table", interrupt)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(world.installation, str(folder / "backup"))
    with open_world(folder, clock) as world:
        restore_backup(world.installation, str(folder / "backup"))
        require_erased(world, erasure_id)
        clock.now_ms += world.installation.settings.lease_ms + 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
        assert world.installation.store.ingests.list_open(TOPIC) == []
        written = [path for path in world.listing(below=world.log_folder()) if "/erasure-" in path]
        live = {each.path.rpartition("/")[2] for number in (0, 1) for each in world.segments(number)}
        assert {path.rpartition("/")[2] for path in written} <= live


def test_restore_that_was_killed_at_its_end_copies_nothing_again_that_was_deleted(
    folder: Path, clock: FakeClock
) -> None:
    erasure_id = erase_since(folder, clock)
    lose_home(folder)
    with open_world(folder, clock) as world, pytest.MonkeyPatch.context() as patch:
        patch.setattr("winnow.pipeline.backup.restore.record_action", interrupt)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(world.installation, str(folder / "backup"))
    with open_world(folder, clock) as world:
        restore_backup(world.installation, str(folder / "backup"))
        require_erased(world, erasure_id)


def test_restore_without_the_register_is_refused_if_it_knows_erasures(folder: Path, clock: FakeClock) -> None:
    erase_since(folder, clock)
    with open_world(folder, clock) as world:
        create_backup(world.installation, str(folder / "backup"))
    shutil.rmtree(lose_home(folder).with_name("home") / "erasures")
    with open_world(folder, clock) as world:
        with pytest.raises(ConfigurationError, match="WINNOW_ERASE__REGISTER_FOLDER"):
            restore_backup(world.installation, str(folder / "backup"))
        assert world.listing() == {}


def test_installation_that_never_erased_anything_needs_no_register(folder: Path, clock: FakeClock) -> None:
    (folder / "home").rename(folder / "lost")
    with open_world(folder, clock) as world:
        restore_backup(world.installation, str(folder / "backup"))
        assert world.read() == [*FIRST, *SECOND]
        assert not (folder / "home" / "erasures").exists()


@pytest.mark.parametrize("secret", [None, "another secret of enough bytes"])
def test_restore_without_the_secret_changes_nothing(folder: Path, clock: FakeClock, secret: str | None) -> None:
    erase_since(folder, clock)
    lose_home(folder)
    (folder / "home" / "erase.secret").unlink()
    if secret is not None:
        (folder / "home" / "erase.secret").write_text(secret)
    with open_world(folder, clock) as world:
        with pytest.raises(ConfigurationError, match="secret"):
            restore_backup(world.installation, str(folder / "backup"))
        assert world.listing() == {}


def test_adopted_table_is_never_readable_with_what_was_erased_since(folder: Path, clock: FakeClock) -> None:
    """The warehouse was put back by hand, and its catalog is lost."""
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        location = world.head().location
    (folder / "home" / "catalog.db").unlink()
    with open_world(folder, clock) as world:
        with watch_catalog(world) as seen:
            adopt_without_erased(world.installation, TOPIC, location, run=True)
        assert seen
        assert not any(KEY in keys for keys in seen)
        require_erased(world, erasure_id)


def test_all_adopted_tables_are_without_what_was_erased_since(folder: Path, clock: FakeClock) -> None:
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    (folder / "home" / "catalog.db").unlink()
    with open_world(folder, clock) as world:
        ((_, outcome),) = adopt_all_without_erased(world.installation, run=True)
        assert isinstance(outcome, RecoveryReport)
        require_erased(world, erasure_id)


@pytest.mark.parametrize("rebuild", [False, True])
def test_recovered_metadata_are_never_readable_with_what_was_erased_since(
    folder: Path, clock: FakeClock, *, rebuild: bool
) -> None:
    """The catalog is as after the erasure, the warehouse as before; with or without its states."""
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    if rebuild:
        for path in (folder / "home" / "warehouse").rglob("state/*.json"):
            path.unlink()
    shutil.copy(folder / "lost" / "catalog.db", folder / "home" / "catalog.db")
    with open_world(folder, clock) as world:
        with watch_catalog(world) as seen:
            recover_without_erased(world.installation, TOPIC, rebuild=rebuild, run=True)
        assert seen
        assert not any(KEY in keys for keys in seen)
        require_erased(world, erasure_id)
        assert not recover_without_erased(world.installation, TOPIC, run=True).was_needed


def test_erasure_whose_documents_are_both_gone_is_known_from_the_register(folder: Path, clock: FakeClock) -> None:
    """The state is rebuilt, and nothing beside the table tells of the erasure."""
    first = erase_since(folder, clock)
    second = erase_since(folder, clock, b"key-2")
    with open_world(folder, clock) as world:
        for path in (folder / "home" / "warehouse").rglob("*.json"):
            if path.parent.name == "state" or path.name.startswith((first, second)):
                path.unlink()
        recover_without_erased(world.installation, TOPIC, rebuild=True, run=True)
        assert [each.erasure_id for each in world.head().state.erasures][:2] == [first, second]
        assert world.ingest([*FIRST]).records_erased == 6


def test_accepted_older_head_is_without_what_was_erased_since(folder: Path, clock: FakeClock) -> None:
    """Catalog and warehouse were put back, and the metadata store knows what came after."""
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    for path in (folder / "lost").glob("store.db*"):
        shutil.copy(path, folder / "home" / path.name)
    with open_world(folder, clock) as world:
        accept_without_erased(world.installation, TOPIC, reason="the rest is gone")
        assert list_erasing_operations(world) == ["accept-older-head"]
        require_erased(world, erasure_id)


def test_undeleted_topic_is_without_what_was_erased_since(folder: Path, clock: FakeClock) -> None:
    """It was deleted in the copy that is put back."""
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        delete_topic(world.installation, TOPIC)
        assert restore_without_erased(world.installation, TOPIC)
        assert list_erasing_operations(world) == ["restore-topic"]
        require_erased(world, erasure_id)


def test_stores_that_were_put_back_by_hand_lose_what_was_erased_on_request(folder: Path, clock: FakeClock) -> None:
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        applied = apply_registered(world.installation, TOPIC)
        assert (applied.erasures, applied.records, applied.files) == (1, 5, 2)
        snapshots = world.snapshot_ids()
        assert apply_registered(world.installation, TOPIC).erasure_id is None
        assert world.snapshot_ids() == snapshots
        require_erased(world, erasure_id)


def test_application_has_a_document_of_its_own_that_counts_for_no_record(folder: Path, clock: FakeClock) -> None:
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        applied = apply_registered(world.installation, TOPIC)
        assert applied.erasure_id is not None
        own = make_certificate(world.installation, applied.erasure_id, verify=True)
        assert (own.number, own.chain_length, own.hashes) == (2, 2, [])
        assert own.document.reason == "1 erasure of the register applied again after: winnow erase --registered"
        assert all(each.is_gone for each in own.files)
        again = make_certificate(world.installation, erasure_id)
        lost = json.loads(next((folder / "lost").rglob(f"{erasure_id}.json")).read_text())
        same = ("at_ms", "key_id", "hashes", "reason")
        assert {name: getattr(again.document, name) for name in same} == {name: lost[name] for name in same}
        assert again.document.ends == {0: 9, 1: 6}
        (entry, *_) = world.installation.store.audit.list_entries(Window(), action=AuditAction.ERASE).rows
        assert entry.detail.startswith(f"{applied.erasure_id}: 1 erasure of the register")
        assert {path.name for path in (folder / "home" / "erasures").rglob("*.json")} == {
            f"{erasure_id}.json",
            f"{applied.erasure_id}.json",
        }


def test_original_certificate_is_open_until_the_files_of_the_application_are_gone(
    folder: Path, clock: FakeClock
) -> None:
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("winnow.pipeline.erase.complete.sweep_topics", lambda *_: [])
            with pytest.raises(RunAgainError):
                apply_registered(world.installation, TOPIC)
        before = make_certificate(world.installation, erasure_id)
        assert before.open_because == "erased for readers, not yet from disk: 2 files"
        sweep_topics(world.installation, [TOPIC])
        assert make_certificate(world.installation, erasure_id).open_because is None
        assert list_holding(world, KEY) == []


def test_lifted_erasure_takes_nothing_again(folder: Path, clock: FakeClock) -> None:
    """Its lift came after the copy, too."""
    erase_since(folder, clock)
    erase_since(folder, clock, b"key-2")
    with open_world(folder, clock) as world:
        lift_erasure(world.installation, TOPIC, [KEY], "request withdrawn")
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        assert apply_registered(world.installation, TOPIC).erasures == 3
        assert world.read() == without([*FIRST, *SECOND], b"key-2")
        fresh = [record(9, KEY, b"old", 1_000), record(10, b"key-2", b"old", 1_000)]
        report = world.ingest(fresh)
        assert (report.records_appended, report.records_erased) == (1, 1)


def test_record_that_may_be_newer_than_the_erasure_refuses_until_a_person_decides(
    folder: Path, clock: FakeClock
) -> None:
    """The older state was written to without the erasure."""
    erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        world.ingest([record(9, KEY, b"who knows", clock())])
        before = world.listing()
        with pytest.raises(EraseRefusedError, match=rf"{TOPIC}-0 .*offset 9 .*ended at 9") as refused:
            apply_registered(world.installation, TOPIC)
        assert KEY.decode() not in str(refused.value)
        assert world.listing() == before
        erase(world)
        apply_registered(world.installation, TOPIC)
        assert world.read() == without([*FIRST, *SECOND])
        assert list_holding(world, KEY) == []


def test_record_that_may_be_newer_stays_once_its_erasure_is_lifted(folder: Path, clock: FakeClock) -> None:
    erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        late = record(9, KEY, b"who knows", clock())
        world.ingest([late])
        clock.now_ms += 1_000
        lift_erasure(world.installation, TOPIC, [KEY], "it stays")
        apply_registered(world.installation, TOPIC)
        assert world.read() == [*FIRST, late, *SECOND]
        assert world.ingest([record(10, KEY, b"more", 1_000)]).records_erased == 0


def test_records_of_other_keys_that_came_since_stay(folder: Path, clock: FakeClock) -> None:
    erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        late = record(9, b"key-0", b"since", clock())
        world.ingest([late])
        apply_registered(world.installation, TOPIC)
        assert world.read() == [*without(FIRST), late, *without(SECOND)]


def test_record_that_is_appended_while_erasures_are_applied_is_searched(folder: Path, clock: FakeClock) -> None:
    erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        with (
            run_between_head_and_commit(lambda: world.ingest([record(9, KEY, b"meanwhile", clock())])),
            pytest.raises(EraseRefusedError, match="offset 9"),
        ):
            apply_registered(world.installation, TOPIC)
        assert [path for path in world.listing(below=world.log_folder()) if "/erasures/" in path] == []


def test_retired_files_of_the_older_state_go_if_they_hold_the_key(folder: Path, clock: FakeClock) -> None:
    with open_world(folder, clock) as world:
        assert world.compact() is not None
    shutil.rmtree(folder / "kept")
    shutil.copytree(folder / "home", folder / "kept")
    erase_since(folder, clock)
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        assert apply_registered(world.installation, TOPIC).files == 4
        assert list_holding(world, KEY) == []


def test_tag_refuses_the_erasure_by_hand_and_is_gone_after_a_recovery(folder: Path, clock: FakeClock) -> None:
    with open_world(folder, clock) as world:
        pin_snapshot(world.installation.log.open(TOPIC), "restore-1", world.head())
    shutil.rmtree(folder / "kept")
    shutil.copytree(folder / "home", folder / "kept")
    with open_world(folder, clock) as world:
        erasure_id = erase(world, break_pins=True).erasure_id
    clock.now_ms += 1_000
    put_kept_home_back(folder)
    with open_world(folder, clock) as world:
        with pytest.raises(EraseRefusedError, match="restore-1"):
            apply_registered(world.installation, TOPIC)
        location = world.head().location
    (folder / "home" / "catalog.db").unlink()
    with open_world(folder, clock) as world:
        with watch_catalog(world) as seen:
            adopt_without_erased(world.installation, TOPIC, location, run=True)
        assert not any(KEY in keys for keys in seen)
        require_erased(world, erasure_id)


def test_nothing_is_left_of_snapshots_that_a_landing_leaves_out(folder: Path, clock: FakeClock) -> None:
    erase_since(folder, clock)
    lose_home(folder)
    with open_world(folder, clock) as world:
        restore_backup(world.installation, str(folder / "backup"))
        table = world.installation.log.open(TOPIC).load_table()
        named = {
            path.rpartition("/")[2]
            for snapshot in table.metadata.snapshots
            for path in (snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io)))
        }
        avro = {path.name for path in (folder / "home").rglob("*.avro") if f"/winnow/{TOPIC}" in str(path)}
        assert avro == named


def test_document_in_the_register_that_is_another_one_is_refused(folder: Path, clock: FakeClock) -> None:
    erasure_id = erase_since(folder, clock)
    put_kept_home_back(folder)
    (path,) = (folder / "home" / "erasures").rglob(f"{erasure_id}.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "topic": "another"}))
    with open_world(folder, clock) as world:
        before = world.listing()
        with pytest.raises(DamagedMetadataError, match="register of erasures"):
            apply_registered(world.installation, TOPIC)
        assert world.listing() == before


# ------------------------------------------------------------------ deleted topics


def test_deleted_topic_is_removed_for_good_and_its_copies_come_back_without_the_key(
    folder: Path, clock: FakeClock
) -> None:
    with open_world(folder, clock) as world:
        assert purge_deleted_topic(world.installation, TOPIC, [KEY], "request 4711") is None
        delete_topic(world.installation, TOPIC)
        clock.now_ms += 1_000
        purged = purge_deleted_topic(world.installation, TOPIC, [KEY], "request 4711")
        assert purged is not None
        assert (purged.keys, purged.files_deleted > 0) == (1, True)
        with pytest.raises(UnknownTopicError):
            world.head()
        assert list_holding(world, KEY) == []
        (entry, *_) = world.installation.store.audit.list_entries(Window(), action=AuditAction.ERASE).rows
        assert (entry.reason, "removed for good" in entry.detail) == ("request 4711", True)
    clock.now_ms += 1_000
    lose_home(folder)
    with open_world(folder, clock) as world:
        restore_backup(world.installation, str(folder / "backup"))
        require_erased(world, purged.erasure_id)


def test_one_person_removes_no_deleted_topic_for_its_keys_where_an_erasure_takes_two(
    folder: Path, clock: FakeClock
) -> None:
    with open_world(folder, clock, {"WINNOW_ERASE__APPROVALS": "2"}) as world:
        delete_topic(world.installation, TOPIC)
        with pytest.raises(EraseRefusedError, match="two persons"):
            purge_deleted_topic(world.installation, TOPIC, [KEY], "request 4711")
        restore_topic(world.installation, TOPIC)
        assert KEY in {each.key for each in world.read()}


def test_purge_that_was_killed_is_ended_by_the_next_call(folder: Path, clock: FakeClock) -> None:
    with open_world(folder, clock) as world:
        delete_topic(world.installation, TOPIC)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("winnow.pipeline.erase.purge.delete_topic", interrupt)
            with pytest.raises(KeyboardInterrupt):
                purge_deleted_topic(world.installation, TOPIC, [KEY], "request 4711")
        assert purge_deleted_topic(world.installation, TOPIC, [KEY], "request 4711") is not None
        assert list_holding(world, KEY) == []


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


# ------------------------------------------------------------------ commands


def test_doctor_names_topics_that_lack_an_erasure_and_the_command_that_applies_it(
    folder: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase_since(folder, clock)
    monkeypatch.setenv("WINNOW_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    assert [each.status for each in check_erasure_register(load_settings())] == [CheckStatus.OK]
    put_kept_home_back(folder)
    (found,) = check_erasure_register(load_settings())
    assert (found.status, found.fix) == (CheckStatus.FAILURE, f"winnow erase {TOPIC} --registered")
    assert f"{TOPIC} (1)" in found.detail
    assert "Applied 1 erasure " in winnow("erase", TOPIC, "--registered").stdout
    assert "nothing was changed" in winnow("erase", TOPIC, "--registered").stdout
    assert winnow("erase", TOPIC, "--registered", "--json").document["erasure_id"] is None
    assert [each.status for each in check_erasure_register(load_settings())] == [CheckStatus.OK]
    shutil.rmtree(folder / "home" / "erasures" / TOPIC)
    (folder / "home" / "erasures" / "other" / "life").mkdir(parents=True)
    assert [each.status for each in check_erasure_register(load_settings())] == [CheckStatus.OK]


def test_doctor_names_erasures_that_are_not_registered(
    folder: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    erasure_id = erase_since(folder, clock)
    erase_since(folder, clock, b"key-2")
    monkeypatch.setenv("WINNOW_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    (path,) = (folder / "home" / "erasures").rglob(f"{erasure_id}.json")
    path.unlink()
    (found,) = check_erasure_register(load_settings())
    assert (found.status, found.fix) == (CheckStatus.WARNING, f"winnow sweep {TOPIC}")


def test_commands_that_bring_an_older_state_back_apply_erasures(
    folder: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is the one that a person types."""
    erase_since(folder, clock)
    monkeypatch.setenv("WINNOW_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    for command in (
        ("topics", "recover", TOPIC, "--yes"),
        ("topics", "adopt", "--all", "--yes"),
        ("topics", "alter", TOPIC, "--accept-older-head", "--reason", "gone"),
        ("topics", "restore", TOPIC),
        ("erase", TOPIC, "--registered"),
    ):
        shutil.rmtree(folder / "lost", ignore_errors=True)
        put_kept_home_back(folder)
        if "adopt" in command:
            (folder / "home" / "catalog.db").unlink()
        if "recover" in command:
            shutil.copy(folder / "lost" / "catalog.db", folder / "home" / "catalog.db")
        if "alter" in command:
            for path in (folder / "lost").glob("store.db*"):
                shutil.copy(path, folder / "home" / path.name)
        if "restore" in command:
            winnow("topics", "delete", TOPIC, "--yes")
        winnow(*command)
        with open_world(folder, clock) as world:
            assert world.read() == without([*FIRST, *SECOND]), command
            assert list_holding(world, KEY) == [], command


def test_deleted_topic_is_purged_by_its_option_only(
    folder: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    winnow("topics", "delete", TOPIC, "--yes")
    asked = ("erase", TOPIC, "--key", "key-1", "--reason", "request 4711")
    assert "--purge-deleted" in winnow(*asked, code=2).stderr
    assert "removed for good" in winnow(*asked, "--purge-deleted").stdout
    assert "no topic" in winnow(*asked, code=2).stderr


def test_registered_takes_no_keys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    winnow("erase", TOPIC, "--registered", "--key", "key-1", code=2)


# ------------------------------------------------------------------ the register


def test_every_erasure_and_lift_is_in_the_register_as_it_was_committed(folder: Path, clock: FakeClock) -> None:
    erasure_id = erase_since(folder, clock)
    with open_world(folder, clock) as world:
        lift = lift_erasure(world.installation, TOPIC, [KEY], "request withdrawn")
        life = folder / "home" / "erasures" / TOPIC / world.head().table_uuid
        assert {path.name for path in life.glob("*.json")} == {f"{erasure_id}.json", f"{lift.erasure_id}.json"}
        for reference in world.head().state.erasures:
            committed = Path(reference.path.removeprefix("file://")).read_bytes()
            assert (life / f"{reference.erasure_id}.json").read_bytes() == committed
        data = b"".join(path.read_bytes() for path in (folder / "home" / "erasures").rglob("*") if path.is_file())
        assert KEY not in data


@pytest.mark.parametrize("lifts", [False, True])
def test_register_that_cannot_be_written_refuses_before_anything_is_done(
    folder: Path, clock: FakeClock, *, lifts: bool
) -> None:
    if lifts:
        erase_since(folder, clock)
    shutil.rmtree(folder / "home" / "erasures", ignore_errors=True)
    (folder / "home" / "erasures").write_text("in the way")
    with open_world(folder, clock) as world:
        before = world.listing()
        with pytest.raises(ConfigurationError, match="register of erasures cannot be written"):
            lift_erasure(world.installation, TOPIC, [KEY], "withdrawn") if lifts else erase(world)
        assert world.listing() == before


def test_certificate_is_open_until_its_document_is_in_the_register(folder: Path, clock: FakeClock) -> None:
    erasure_id = erase_since(folder, clock)
    shutil.rmtree(folder / "home" / "erasures")
    with open_world(folder, clock) as world:
        assert make_certificate(world.installation, erasure_id).open_because is not None
        sweep_topics(world.installation, [TOPIC])
        assert make_certificate(world.installation, erasure_id).open_because is None


def test_erasure_that_could_not_be_registered_is_no_success_and_its_repetition_registers_it(
    folder: Path, clock: FakeClock
) -> None:
    from winnow.log.erasure_register import ErasureRegister

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with open_world(folder, clock) as world:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ErasureRegister, "add", refuse)
            with pytest.raises(RunAgainError, match="not yet in the register"):
                erase(world)
            sweep_topics(world.installation, [TOPIC])
            (reference,) = world.head().state.erasures
            said = make_certificate(world.installation, reference.erasure_id).open_because
            assert said == "not in the register yet; the next sweep tries again"
            assert (reference.deleted_at_ms is None, reference.closed_at_ms) == (False, None)
        report = erase(world)
        assert report.was_erased
        sweep_topics(world.installation, [TOPIC])
        assert make_certificate(world.installation, report.erasure_id).open_because is None


# ------------------------------------------------------------------ any history

Step = tuple[str, bytes]
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "erase", "lift", "compact"]), st.sampled_from([KEY, b"key-2"])), max_size=4
)


def take(world: World, step: Step) -> None:
    what, key = step
    world.clock.now_ms += 1_000
    if what == "append":
        world.ingest([record(world.state(0).log_end_offset, key, b"value-new", world.clock())])
    elif what == "erase":
        erase(world, key)
    elif what == "lift":
        with suppress(UsageError):  # it was not erased
            lift_erasure(world.installation, TOPIC, [key], "withdrawn")
    else:
        world.compact()


@given(before=STEPS, after=STEPS, way=st.sampled_from(["backup", "copy", "adopt"]))
@example(before=[("erase", KEY), ("append", KEY)], after=[("erase", KEY), ("append", KEY)], way="backup")
@example(before=[("compact", KEY)], after=[("erase", KEY), ("lift", KEY), ("erase", b"key-2")], way="adopt")
@settings(max_examples=choose_examples(quick=2), deadline=None)
def test_older_state_of_any_history_lacks_what_was_erased_since_and_nothing_else(
    before: list[Step], after: list[Step], way: str
) -> None:
    """Appended, erased, lifted and compacted, before and after the copy that is brought back."""
    with tempfile.TemporaryDirectory() as name:
        folder, clock = Path(name), FakeClock(read_wall_clock_ms())
        with open_world(folder, clock) as world:
            world.create(1, min_cleanable_dirty_ratio="0", segment_ms="1", winnow_retired_grace_ms=str(GRACE_MS))
            world.ingest(FIRST)
            for step in (*before, ("erase", b"nobody")):
                take(world, step)
            create_backup(world.installation, str(folder / "backup"))
            kept, location = world.read(), world.head().location
        shutil.copytree(folder / "home", folder / "kept")
        with open_world(folder, clock) as world:
            for step in after:
                take(world, step)
            named = {each.erasure_id for each in world.head().state.erasures}
        last = {key: what for what, key in after if what in {"erase", "lift"}}
        gone = [key for key, what in last.items() if what == "erase"]
        lose_home(folder) if way == "backup" else put_kept_home_back(folder)
        if way == "adopt":
            (folder / "home" / "catalog.db").unlink()
        with open_world(folder, clock) as world:
            if way == "backup":
                restore_backup(world.installation, str(folder / "backup"))
            elif way == "adopt":
                adopt_without_erased(world.installation, TOPIC, location, run=True)
            else:
                apply_registered(world.installation, TOPIC)
            assert world.read() == [each for each in kept if each.key not in gone]
            assert named <= {each.erasure_id for each in world.head().state.erasures}
            assert not list_readable(world) & set(gone)
            assert apply_registered(world.installation, TOPIC).erasure_id is None
