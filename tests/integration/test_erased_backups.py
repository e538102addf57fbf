"""Backups that hold records of erased keys are deleted, and every other one stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_runner import winnow
from tests.support.erasing import KEY, define_erasing_world, erase, read_contents
from tests.support.world import TOPIC, World, record
from winnow.errors import ConfigurationError, DamagedBackupError, EraseRefusedError, RunAgainError, UsageError
from winnow.files import storage
from winnow.pipeline.backup.backup_place import BackupPlace, CopiedFile
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.erased_backups import ErasedBackups, erase_backups
from winnow.pipeline.backup.verify import verify_backup
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure
from winnow.pipeline.erase.lift import lift_erasure
from winnow.pipeline.erase.outside import list_outside_places
from winnow.pipeline.topics.definition import create_topic
from winnow.store.audit import AuditAction
from winnow.store.rows import Window

world = define_erasing_world()


@pytest.fixture
def backups(world: World) -> Path:
    """A folder with a backup of before an erasure, and two of after it."""
    back_up(world)
    erase(world)
    back_up(world)
    world.ingest([record(9, b"key-2", b"newer")])
    back_up(world)
    return world.folder / "backup"


def back_up(world: World) -> str:
    world.clock.now_ms += 1_000
    return create_backup(world.installation, str(world.folder / "backup")).backup_id


def erase_all(world: World, **options: Any) -> ErasedBackups:
    return erase_backups(world.installation, str(world.folder / "backup"), **options)


def list_holding_in(folder: Path, *texts: bytes) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if any(text in data for data in read_contents(path) for text in texts)]


def list_tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def list_broken(folder: Path) -> list[str]:
    """List what is wrong with the backups of a folder."""
    place = BackupPlace(str(folder))
    return [finding.text for each in place.list_ids() for finding in verify_backup(str(folder), each).findings]


def test_backup_of_before_an_erasure_goes_with_every_byte_of_the_key_and_newer_ones_stay_whole(
    world: World, backups: Path
) -> None:
    old, *newer = BackupPlace(str(backups)).list_ids()
    assert list_holding_in(backups, KEY)
    seen = erase_all(world, is_preview=True)
    assert list_holding_in(backups, KEY), "a list deletes nothing"
    report = erase_all(world)
    assert (report.deleted, report.kept, report.last_copies) == ((old,), tuple(newer), ())
    assert [(each.backup_id, each.topic) for each in report.held] == [(old, TOPIC)]
    assert (seen.held, seen.files, seen.size_bytes) == (report.held, report.files, report.size_bytes)
    assert report.files > 0
    assert not list_holding_in(backups, KEY)
    assert (BackupPlace(str(backups)).list_ids(), list_broken(backups)) == (newer, [])
    assert not list((backups / "going").glob("*"))
    again = erase_all(world)
    assert (again.deleted, again.held, again.files) == ((), (), 0)


def test_deleted_backup_is_in_the_audit_log_and_named_by_no_later_certificate(world: World, backups: Path) -> None:
    old, *newer = BackupPlace(str(backups)).list_ids()
    erase_all(world)
    deleted = world.installation.store.audit.list_entries(Window(size=10), action=AuditAction.DELETE_BACKUP).rows
    assert [entry.detail.split()[0] for entry in deleted] == [old]
    named = " ".join(list_outside_places(world.installation, world.head().state))
    assert old not in named
    assert all(each in named for each in newer)


def test_without_a_newer_backup_nothing_is_deleted(world: World) -> None:
    back_up(world)
    erase(world)
    before = list_tree(world.folder / "backup")
    with pytest.raises(EraseRefusedError, match=r"no backup newer than .*winnow backup create"):
        erase_all(world)
    assert list_tree(world.folder / "backup") == before


def test_backup_that_misses_a_file_is_no_reason_to_delete_the_others(world: World, backups: Path) -> None:
    place = BackupPlace(str(backups))
    *_, newest = place.list_ids()
    lost = next(iter(place.read_list(place.read(newest).topics[0].files)))
    (backups / "files" / lost).unlink()
    with pytest.raises(DamagedBackupError, match="names 1 missing file"):
        erase_all(world)
    assert list_holding_in(backups, KEY)


def test_last_copy_of_another_topic_is_given_up_only_when_asked_for(world: World) -> None:
    create_topic(world.installation, "other", 1, {})
    back_up(world)
    erase(world)
    world.installation.log.catalog.drop_table(world.installation.log.open("other").head().table.name())
    back_up(world)
    with pytest.raises(EraseRefusedError, match=r"does not have other.*--with-last-copies"):
        erase_all(world)
    assert erase_all(world, with_last_copies=True).last_copies == ("other",)
    assert not list_holding_in(world.folder / "backup", KEY)


def test_lifted_erasure_still_counts_since_the_key_was_erased_then(world: World, backups: Path) -> None:
    lift_erasure(world.installation, TOPIC, [KEY], "came back")
    back_up(world)
    report = erase_all(world)
    assert len(report.deleted) == 1
    assert len({each.erasure_id for each in report.held}) == 1, "the lifting itself erased nothing"


def test_topic_that_is_gone_for_good_is_known_by_the_register(world: World, backups: Path) -> None:
    world.installation.log.catalog.drop_table(world.head().table.name())
    back_up(world)
    assert len(erase_all(world, with_last_copies=True).deleted) == 1
    assert not list_holding_in(backups, KEY)


def test_folder_of_another_kind_and_a_register_that_knows_nothing_are_refused(world: World, backups: Path) -> None:
    with pytest.raises(UsageError, match="no backups of this installation"):
        erase_backups(world.installation, str(world.folder))
    register = Path(world.folder / "home" / "erasures")
    register.rename(world.folder / "elsewhere")
    with pytest.raises(ConfigurationError, match="the register of erasures has nothing of it"):
        erase_all(world)
    assert list_holding_in(backups, KEY)


def test_backup_between_the_commit_of_an_erasure_and_its_last_deletion_goes_too(world: World) -> None:
    """A file that is waiting for its deletion is in no newest snapshot, and may be in an earlier one."""
    commit_erasure(world.installation, EraseRequest(TOPIC, (KEY,), "request 4711"))
    back_up(world)
    erase(world)
    newest = back_up(world)
    assert erase_all(world).kept == (newest,)
    assert not list_holding_in(world.folder / "backup", KEY)


class CutError(Exception):
    """The process ends here."""


@pytest.fixture
def deletions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many deletions are left before the process ends; none: it never does."""
    left: list[int] = []
    delete = storage.delete

    def count(uri: str, *, below: str | None = None) -> bool:
        if left:
            left[0] -= 1
            if left[0] < 0:
                raise CutError
        return delete(uri, below=below)

    monkeypatch.setattr(storage, "delete", count)
    return left


def test_call_that_was_killed_at_any_deletion_is_completed_by_the_next(
    world: World, backups: Path, deletions: list[int]
) -> None:
    cuts = 0
    while True:
        deletions[:] = [cuts]
        try:
            erase_all(world)
        except CutError:
            cuts += 1
            assert list_broken(backups) == []
            # The whole is repeated with one more step, from where it stands: deletions that were made stay made.
            if cuts == 1:
                with pytest.raises(RunAgainError, match=r"Backups are being deleted.*winnow backup erase"):
                    back_up(world)
            continue
        break
    assert cuts > 1
    deletions.clear()
    assert not list_holding_in(backups, KEY)
    assert not list((backups / "going").glob("*"))
    kept = BackupPlace(str(backups))
    named = {
        path for each in kept.list_ids() for topic in kept.read(each).topics for path in kept.read_list(topic.files)
    }
    assert {path.removeprefix("files/") for path in list_tree(backups) if path.startswith("files/")} == named


def test_backup_that_is_made_while_others_are_deleted_is_given_up(
    world: World, backups: Path, deletions: list[int]
) -> None:
    """It may rely on files that are being deleted: it finds their record when its own document is written."""
    ids = BackupPlace(str(backups)).list_ids()

    def begin_deleting(what: str, done: int, total: int) -> None:
        if not deletions:
            deletions[:] = [1]  # the document, and then the process ends
            with pytest.raises(CutError):
                erase_all(world)
            deletions[:] = [1_000]

    with pytest.raises(RunAgainError, match="Backups are being deleted"):
        create_backup(world.installation, str(backups), begin_deleting)
    assert BackupPlace(str(backups)).list_ids() == ids[1:]
    erase_all(world)
    assert (len(back_up(world)) > 0, list_broken(backups)) == (True, [])


@pytest.mark.parametrize("stands_at", ["a file", "its check"])
def test_call_that_stood_still_while_another_completed_it_deletes_nothing_that_a_later_backup_needs(
    world: World, backups: Path, monkeypatch: pytest.MonkeyPatch, stands_at: str
) -> None:
    """An old file can be live again by an undo. Who stops between check and deletion says what that backup lacks."""
    place = BackupPlace(str(backups))
    old = next(path for path in list_holding_in(backups, KEY) if path.suffix == ".parquet")
    content, path = old.read_bytes(), old.relative_to(backups / "files")
    passed: list[str] = []
    list_going, delete = BackupPlace.list_going, storage.delete

    def complete_otherwise() -> None:
        if passed:
            return
        passed.append("paused")
        erase_all(world)
        old.parent.mkdir(parents=True, exist_ok=True)
        old.write_bytes(content)
        newest = place.read(place.list_ids()[-1])
        (topic,) = newest.topics
        files = [*place.read_list(topic.files).values(), CopiedFile(str(path), "data", len(content), "0" * 64)]
        topics = (replace(topic, files=place.write_list(files)),)
        place.write(replace(newest, created_at_ms=newest.created_at_ms + 1_000, topics=topics))

    def pause_at_check(self: BackupPlace) -> set[str]:
        complete_otherwise()
        return list_going(self)

    def pause_at_file(uri: str, *, below: str | None = None) -> bool:
        if uri.endswith(str(path)):
            complete_otherwise()
        return delete(uri, below=below)

    if stands_at == "its check":
        monkeypatch.setattr(BackupPlace, "list_going", pause_at_check)
        with pytest.raises(RunAgainError, match=r"Another call has deleted backups .*deleted nothing more"):
            erase_all(world)
        assert old.read_bytes() == content
    else:
        monkeypatch.setattr(storage, "delete", pause_at_file)
        with pytest.raises(DamagedBackupError, match=r"lacks 1 file .*winnow backup create"):
            erase_all(world)
    assert passed


def test_command_lists_deletes_and_answers_in_json(
    world: World, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(world.folder / "home"))
    assert "1 backup would be deleted" in winnow("backup", "erase", backups, "--list").stdout
    document = winnow("backup", "erase", backups, "--reason", "request 4711", "--json").document
    assert (len(document["deleted"]), len(document["kept"]), document["is_preview"]) == (1, 2, False)
    assert "No backup in" in winnow("backup", "erase", backups).stdout
