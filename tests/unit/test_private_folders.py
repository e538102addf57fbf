"""Private folders: only their owner reads them; leftovers of killed processes are deleted, files in use are not."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from winnow.errors import ConfigurationError, ServiceError
from winnow.files import duckdb_connection, private_files

_USER = """
import sys, time
from winnow.files import private_files
from pathlib import Path
with getattr(private_files, sys.argv[2])(Path(sys.argv[1])) as path:
    (path / "spilled").write_text("a customer's name")
    print(path, flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_user_of(place: Path, kind: str = "make_private_folder") -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a private folder of a kind for ``place``, and that folder."""
    with subprocess.Popen(
        [sys.executable, "-c", _USER, str(place), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def mode(path: Path) -> int:
    """Who may do what with it."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=["open", "usual", "closed"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """The umask of the test."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_what_is_spilled_can_be_read_by_its_owner_alone(tmp_path: Path, umask: None) -> None:
    """Under any umask; a connection spills below such a folder, and it goes with the connection."""
    place = tmp_path / "spill"
    with duckdb_connection.open_connection(memory_limit_bytes=64 << 20, spill_folder=str(place)) as connection:
        row = duckdb_connection.fetch_one_row(connection, "SELECT current_setting('temp_directory')")
        assert row is not None
        (private,) = [path for path in place.glob("*/*") if path.is_dir()]
        assert Path(row[0]).is_relative_to(private)
        assert (mode(private), mode(private.parent)) == (0o700, 0o700)
    assert list(place.glob("*/*")) == []


def test_a_file_with_secrets_and_a_new_database_can_be_read_by_their_owner_alone(tmp_path: Path, umask: None) -> None:
    """Under any umask."""
    with private_files.make_private_folder(tmp_path) as private:
        assert mode(private_files.write_file(private / "secret", "x")) == 0o600
        private_files.create_private(private / "store.db")
        assert mode(private / "store.db") == 0o600


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    """The kernel is asked who lives: a stopped process keeps its folder, too."""
    with another_user_of(tmp_path) as (killed, left), another_user_of(tmp_path) as (stopped, used):
        os.kill(stopped.pid, signal.SIGSTOP)
        killed.kill()
        killed.wait()
        assert left.is_dir()
        with private_files.make_private_folder(tmp_path) as mine:
            assert not left.exists()
            assert (used / "spilled").read_text() == "a customer's name"
            assert private_files.remove_abandoned(tmp_path) == 0
            assert mine.is_dir()
        assert used.is_dir()
        stopped.kill()
        stopped.wait()
    assert private_files.remove_abandoned(tmp_path) == 1
    assert list(tmp_path.glob("*/*")) == []


def test_on_a_shared_file_system_only_folders_of_this_kernel_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks of another machine may not be seen there."""
    with another_user_of(tmp_path) as (killed, left):
        killed.kill()
    theirs = left.with_name(f"{'f' * 16}-{'1' * 16}")
    theirs.mkdir()
    theirs.with_name(f"{theirs.name}.lock").touch()
    monkeypatch.setattr(private_files, "_find_file_system", lambda _: "nfs4")
    assert private_files.remove_abandoned(tmp_path) == 1
    assert (left.exists(), theirs.is_dir()) == (False, True)
    monkeypatch.setattr(private_files, "_find_file_system", lambda _: "ext4")
    assert private_files.remove_abandoned(tmp_path) == 1
    assert not theirs.exists()


def test_a_draft_beside_a_folder_goes_when_its_writer_was_killed_and_nothing_else_there_does(tmp_path: Path) -> None:
    """What people named like one stays, and so does the draft of a process that is at work."""
    place = tmp_path / "rows[1]"
    mine = [tmp_path / name for name in (".rows[1].old", ".rows[1].old.lock", ".rows1.0-0123456789abcdef.lock")]
    mine[0].mkdir()
    for path in mine[1:]:
        path.touch()
    with another_user_of(place, "make_draft_folder") as (killed, left), another_user_of(place, "make_draft_folder"):
        assert left.parent == tmp_path
        killed.kill()
        killed.wait()
        with private_files.make_draft_folder(place) as draft:
            assert mode(draft) == 0o700
            assert not left.exists()
            draft.rename(place)
        assert len(list(tmp_path.iterdir())) == len([place, *mine, "the draft at work", "its lock"])
    with private_files.make_draft_folder(place):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([place, *mine])


def test_a_forked_child_that_ends_leaves_its_parents_folder(tmp_path: Path) -> None:
    """Spark forks its workers."""
    with private_files.make_private_folder(tmp_path) as mine:
        child = os.fork()
        if child == 0:
            with pytest.raises(KeyboardInterrupt), private_files.make_private_folder(tmp_path):
                raise KeyboardInterrupt
            os._exit(0 if mine.is_dir() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert mine.is_dir()


def test_a_folder_that_somebody_else_laid_there_is_not_used(tmp_path: Path) -> None:
    """In a temporary folder anybody may make one first, or a link."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / f"winnow-{os.geteuid()}").symlink_to(tmp_path / "theirs")
    with (
        pytest.raises(ConfigurationError, match="not a folder of this user"),
        private_files.make_private_folder(tmp_path),
    ):
        raise AssertionError
    assert list((tmp_path / "theirs").iterdir()) == []


def test_without_a_setting_tasks_spill_where_spark_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On other machines there is no such home; Spark removes these folders with the application."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'one'},{tmp_path / 'two'}")
    with private_files.make_private_folder(None) as private:
        assert private.is_relative_to(tmp_path / "one")


def test_a_database_that_everybody_could_read_is_closed_to_them_with_what_lies_beside_it(tmp_path: Path) -> None:
    """An installation from before is tightened when it is opened; a link is not followed."""
    names = ("store.db", "store.db-wal", "store.db-shm")
    for name in names:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o664)
    (tmp_path / "catalog.db").symlink_to(tmp_path / "elsewhere.db")
    (tmp_path / "elsewhere.db").touch(0o644)
    private_files.restrict_database_access(tmp_path / "store.db")
    private_files.restrict_database_access(tmp_path / "catalog.db")
    private_files.restrict_database_access(tmp_path / "missing.db")
    assert [mode(tmp_path / name) for name in names] == [0o600] * 3
    assert mode(tmp_path / "elsewhere.db") & 0o044


def test_a_full_disk_is_a_sentence_that_names_the_folder() -> None:
    """/dev/full answers every write so."""
    with (
        pytest.raises(ServiceError, match=r"no space left below /dev/full.*WINNOW_ENGINE__SPILL_FOLDER"),
        private_files.translate_disk_errors("/dev/full"),
        Path("/dev/full").open("wb", buffering=0) as full,
    ):
        full.write(b"x")
