"""The PostgreSQL of the embedded Airflow: who shares it, who stops it, and what a kill leaves."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from tests.support.waiting import wait_until
from winnow.embedded import postgres, postgres_account
from winnow.embedded.postgres import MAXIMUM_SOCKET_PATH_BYTES, PostgresServer, locate_socket_folder, use_postgres
from winnow.embedded.processes import start_guardian, stop_processes
from winnow.errors import ConfigurationError, ServiceError

ROOT = Path(__file__).parents[2]
AS_ROOT = os.geteuid() == 0

USER = """
import sys
from pathlib import Path
from winnow.embedded.postgres import use_postgres
with use_postgres(Path(sys.argv[1])) as server:
    print("ready", flush=True)
    sys.stdin.read()
"""

OWNER = """
import subprocess, sys
from pathlib import Path
from winnow.embedded.postgres import use_postgres
from winnow.embedded.processes import start_guardian
folder = Path(sys.argv[1])
with use_postgres(folder), start_guardian(folder, folder / "guardian.log") as guardian:
    component = subprocess.Popen(["sleep", "600"], start_new_session=True)
    guardian.tell_begun(component.pid)
    print(component.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """The server's folder, in a home that is closed to others and has a short path."""
    home = Path(tempfile.mkdtemp(prefix="winnow-pg-"))
    yield home / "postgres"
    with contextlib.suppress(ServiceError), use_postgres(home / "postgres"):
        pass
    shutil.rmtree(home)


@contextlib.contextmanager
def start_program(text: str, folder: Path, *prefix: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program with ``folder`` as its argument, which has printed its first line, until the block ends."""
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", text, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def connect(folder: Path) -> psycopg.Connection[tuple[object, ...]]:
    """A connection to the server of ``folder``."""
    return psycopg.connect(host=str(locate_socket_folder(folder)), user="winnow", dbname="postgres", autocommit=True)


def find_server(folder: Path) -> psutil.Process:
    """The server's first process."""
    with connect(folder) as connection:
        return psutil.Process(connection.info.backend_pid).parent()


def kill_whole(server: psutil.Process) -> None:
    """Kill the server and its processes, as the end of the machine does."""
    every = [server, *server.children()]
    for each in every:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    wait_until(lambda: all(has_ended(each) for each in every))


def has_ended(process: psutil.Process) -> bool:
    """Whether it has, be it that nobody has collected its exit code."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def write_row(folder: Path) -> None:
    """Commit a row."""
    with connect(folder) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS number")


def test_server_listens_on_a_socket_that_is_its_owners_alone(folder: Path) -> None:
    """No port, no folder that others may enter, no password and nobody else by that name."""
    with use_postgres(folder) as server, connect(folder) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert not find_server(folder).net_connections("inet")
        rules = connection.execute("SELECT type, auth_method FROM pg_hba_file_rules").fetchall()
        assert rules == [("local", "peer")]
        names = connection.execute("SELECT sys_name FROM pg_ident_file_mappings").fetchall()
        assert names == [(pwd.getpwuid(os.geteuid()).pw_name,)]
        for each in (folder, server.data, locate_socket_folder(folder)):
            assert stat.S_IMODE(each.stat().st_mode) == 0o700


def test_server_that_others_use_is_not_started_twice_nor_stopped_under_them(folder: Path) -> None:
    """The last one that leaves stops it."""
    with start_program(USER, folder) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        server = find_server(folder)
        with use_postgres(folder):
            assert find_server(folder) == server
        assert find_server(folder) == server
        with use_postgres(folder) as mine:
            other.communicate("")
            assert mine.is_alive()
            assert find_server(folder) == server
        assert has_ended(server)


def test_server_of_a_killed_user_is_used_on_and_stopped_by_the_next(folder: Path) -> None:
    """Nobody counts users in a file that a kill leaves wrong."""
    with start_program(USER, folder) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "ready\n"
        server = find_server(folder)
        killed.kill()
        killed.wait()
        with use_postgres(folder):
            assert find_server(folder) == server
        assert has_ended(server)


def test_killed_server_is_noticed_and_started_again_with_what_was_committed(folder: Path) -> None:
    """By the one that uses it, from the connection that it holds."""
    with use_postgres(folder) as server:
        write_row(folder)
        assert server.is_alive()
        before = find_server(folder)
        before.kill()
        wait_until(lambda: not server.is_alive())
        server.join()
        assert server.is_alive()
        assert find_server(folder) != before
        with connect(folder) as connection:
            assert connection.execute("SELECT number FROM kept").fetchone() == (1,)


def test_file_of_a_killed_server_whose_pid_is_now_anothers_does_not_block_the_next(folder: Path) -> None:
    """The lock, not the PID, says whether a server lives; the other process is left alone."""
    with start_program(USER, folder) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "ready\n"
        write_row(folder)
        server = find_server(folder)
        killed.kill()
        kill_whole(server)
    data = PostgresServer(folder).data
    with subprocess.Popen(["sleep", "600"], user=data.stat().st_uid if AS_ROOT else None) as stranger:
        try:
            for stale in (data / "postmaster.pid", locate_socket_folder(folder) / ".s.PGSQL.5432.lock"):
                lines = stale.read_text().splitlines()
                stale.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
            with use_postgres(folder), connect(folder) as connection:
                assert connection.execute("SELECT number FROM kept").fetchone() == (1,)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_data_directory_that_was_not_finished_is_made_anew(folder: Path) -> None:
    """A kill in the middle of initdb leaves a draft."""
    (folder / "draft" / "base").mkdir(parents=True)
    (folder / "draft" / "PG_VERSION").write_text("18\n")
    with use_postgres(folder) as server:
        assert server.is_alive()
    assert not (folder / "draft").exists()


def test_home_with_a_long_path_has_its_socket_below_tmp(folder: Path) -> None:
    """A socket's address holds about a hundred bytes; the short folder is the owner's alone, and tells homes apart."""
    deep = folder.parent / ("d" * 60) / ("e" * 60) / "postgres"
    deep.parent.mkdir(parents=True)
    with use_postgres(deep):
        host = locate_socket_folder(deep)
        assert host.parent == Path("/tmp")
        assert len(os.fsencode(host / ".s.PGSQL.5432")) <= MAXIMUM_SOCKET_PATH_BYTES
        assert stat.S_IMODE(host.stat().st_mode) == 0o700
        connect(deep).close()
    assert locate_socket_folder(deep.with_name("other")) != host
    host.rmdir()


def test_socket_folder_that_is_open_to_others_is_refused(folder: Path) -> None:
    """Below /tmp anybody could make it first, and listen in it."""
    deep = folder.parent / ("d" * 60) / ("e" * 60) / "postgres"
    deep.parent.mkdir(parents=True)
    host = locate_socket_folder(deep)
    host.mkdir()
    host.chmod(0o755)
    try:
        with pytest.raises(ConfigurationError, match="is open to others"), use_postgres(deep):
            pytest.fail("it started")
    finally:
        host.rmdir()


def test_server_that_cannot_start_is_said_with_its_log(folder: Path) -> None:
    """At once, not after the patience for recoveries."""
    with use_postgres(folder) as server:
        data = server.data
    (data / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(ServiceError, match=r"instead of starting\. .*postgres\.log"), use_postgres(folder):
        pytest.fail("it started")


@pytest.mark.skipif(not AS_ROOT, reason="only root starts it as another account")
def test_server_of_root_has_no_capability_and_reads_nobody_elses_files(folder: Path) -> None:
    """Neither its first process nor one that serves a connection, though the home above its data is closed to it."""
    folder.parent.chmod(0o700)
    secret = folder.parent / "secret"
    secret.write_text("kept")
    secret.chmod(0o600)
    with use_postgres(folder), connect(folder) as connection:
        for process in (connection.info.backend_pid, find_server(folder).pid):
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            found = dict(line.split(":\t") for line in lines if line.startswith(("Cap", "Groups", "Uid")))
            assert [int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
            assert set(found["Uid"].split()) == {str(pwd.getpwnam("nobody").pw_uid)}
            assert found["Groups"].split() == []
        for path in (secret, Path("/etc/shadow")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT pg_read_file(%s)", [str(path)])
        # By the way that it was handed: its own folder, and nothing above it.
        with pytest.raises(psycopg.errors.Error):
            connection.execute("SELECT pg_read_file(current_setting('data_directory') || '/../../secret')")


@pytest.mark.skipif(not AS_ROOT, reason="only root's programs can be closed to the server's account")
def test_programs_in_a_home_that_is_closed_to_the_servers_account_make_the_data(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that uv keeps in root's cache."""
    closed = Path(tempfile.mkdtemp(prefix="winnow-closed-"))
    try:
        programs = postgres_account.copy_programs(postgres_account.find_programs(), closed)
        with monkeypatch.context() as patch:
            patch.setattr(postgres, "find_programs", lambda: programs)
            with use_postgres(folder) as server:
                assert server.is_alive()
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    finally:
        shutil.rmtree(closed)


@pytest.mark.skipif(not AS_ROOT, reason="only root can be another account; the other tests run as none")
def test_server_runs_for_an_ordinary_account(folder: Path) -> None:
    """Under that account itself."""
    nobody = pwd.getpwnam("nobody")
    os.chown(folder.parent, nobody.pw_uid, nobody.pw_gid)
    # The programs may be in a folder of root's.
    capability = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    account = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups")
    with start_program(USER, folder, "setpriv", *account, *capability) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        found = psutil.process_iter(["cmdline"])
        (server,) = [each for each in found if str(folder / "18") in (each.info["cmdline"] or [])]
        assert server.username() == "nobody"
        process.communicate("")
        assert process.returncode == 0
        assert has_ended(server)
    shutil.rmtree(folder)


def test_components_and_server_of_a_killed_process_end_with_it(folder: Path) -> None:
    """A guardian ends them, which a kill of that process does not reach."""
    with start_program(OWNER, folder) as killed:
        assert killed.stdout is not None
        component = psutil.Process(int(killed.stdout.readline()))
        server = find_server(folder)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        wait_until(lambda: has_ended(component) and has_ended(server))


def test_guardian_of_a_process_that_ends_by_itself_ends_nothing(folder: Path) -> None:
    """What has ended before, or goes on, is that process's own business."""
    folder.mkdir()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as component:
        with start_guardian(folder, folder / "guardian.log") as guardian:
            guardian.tell_begun(component.pid)
        assert component.poll() is None
        stop_processes([component])
