"""Every command that writes, killed at any I/O call, with and without a power cut: the next call completes it.

Or it is stopped there, for hours, and goes on after somebody has erased a key and swept: no record of it comes back.

The call is counted below Python, in a library loaded before all others (fsync_recorder.c), so that it may be one of
SQLite, Arrow or DuckDB; a write has its first half done.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults import every_command
from tests.faults.every_command import ERASED, HOUR_MS, TAIL, Command, Topics
from tests.faults.forked_processes import ForkedProcess, ForkServer, start_fork_server
from tests.faults.power_cut import Recording, find_compiler
from tests.support.world import TOPIC, FakeClock, World, compute_survivors, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import RunAgainError, ServiceError, WinnowError
from winnow.files import file_lock
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.store import database

POINTS = int(os.environ.get("COMMAND_POINTS", "0"))
"""Calls at which each command is killed, evenly spread; 0: one call of :data:`FEW`. `make test-long` takes 28."""
FEW = {
    "ingest": 0.4,
    "compact": 0.4,
    "retention": 0.6,
    "sweep": 0.35,
    "latest-table update": 0.5,
    "topics delete --now": 0.65,
    "topics recover": 0.5,
    "store rebuild": 0.4,
    "ingest undo": 0.5,
    "undo": 0.6,
    "erase": 0.7,
    "erase --registered": 0.5,
    "topics adopt without erased": 0.6,
}
"""Where in a command's calls it is killed."""
STOPPED = {"erase": 0.5, "undo": 0.8, "compact": 0.8, "ingest": 0.7, "ingest undo": 0.5, "latest-table update": 0.5}
"""Where a command is stopped while somebody erases a key, as above; and where it holds no lock of SQLite."""
LOCK_WAIT_S = 2
"""How long a lock is waited for that a stopped process has, which goes on only after that."""
NEVER = 1 << 40
EXIT_CODES = (0, 2, 3, 4, 5, 6)
"""What a command may end with: not 1, which is an error that nobody foresaw."""
DEAD = f"/{every_command.DEAD}/"
NOW_MS = read_wall_clock_ms()
COMMANDS = every_command.make_commands(NOW_MS)


@dataclass(frozen=True)
class Lake:
    """The disk that the processes write, the lake as prepared, and what starts the processes."""

    disk: Recording
    prepared: Path
    server: ForkServer
    calls: dict[str, int] = field(default_factory=dict)
    """How many I/O calls a command makes, once it has run to its end."""

    def kill(self, name: str, call: int) -> tuple[int | None, str]:
        """Run a command on the prepared lake until its ``call``-th I/O call: exit code, and what it said."""
        child = self.start(name, call)
        return child.wait(), child.errors

    def start(self, name: str, call: int, *, stops: bool = False) -> ForkedProcess:
        """Start a command on the prepared lake, to be killed or stopped at its ``call``-th I/O call."""
        self.disk.put(self.prepared / name)
        self.disk.kill_at(call, stops=stops)
        return self.server.start(
            self.disk.folder.parent, f"every {name}", str(self.disk.folder), str(NOW_MS + 2 * HOUR_MS)
        )

    def choose_calls(self, name: str, few: Mapping[str, float]) -> list[int]:
        """The calls at which the command is killed or stopped."""
        if name not in self.calls:
            code, said = self.kill(name, NEVER)
            assert code == 0, said
            self.calls[name] = self.disk.calls
        calls = self.calls[name]
        if not POINTS:
            return [int(calls * few[name])]
        return sorted({1 + number * (calls - 1) // (POINTS - 1) for number in range(POINTS)})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that every command finds as it was prepared."""
    assert find_compiler() is not None, "These tests need a C compiler: cc, gcc or clang."
    folder = tmp_path_factory.mktemp("every-command")
    disk = Recording(folder)
    every_command.prepare(disk.folder, NOW_MS)
    for name, command in COMMANDS.items():
        shutil.copytree(disk.folder, folder / "prepared" / name)
        command.damage(folder / "prepared" / name)
    with start_fork_server(disk.env, "tests.faults.every_command") as server:
        yield Lake(disk, folder / "prepared", server)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", list(COMMANDS if POINTS else FEW))
def test_a_command_killed_at_any_call_is_completed_by_the_next_and_the_log_goes_on(lake: Lake, name: str) -> None:
    """Every second time the power is cut, too: what was not synced is lost."""
    calls = lake.choose_calls(name, FEW)
    for number, call in enumerate(calls):
        code, said = lake.kill(name, call)
        if code == 0:
            # Threads sync a folder at once or one after the other, so the last few calls are not always there.
            assert number + 1 == len(calls) > 1, call
            break
        assert code == -signal.SIGKILL, (call, said)
        is_cut = (number + list(COMMANDS).index(name)) % 2 == 1
        if is_cut:
            lake.disk.cut_power()
        complete(lake.disk.folder, COMMANDS[name], f"{name}, call {call}{', power cut' if is_cut else ''}")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", list(STOPPED))
def test_a_command_stopped_at_any_call_brings_nothing_back_that_was_erased_meanwhile(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on after hours; what it says then is its own affair, and the topic and all files hold what they must."""
    monkeypatch.setattr(file_lock, "LOCK_TIMEOUT_S", LOCK_WAIT_S)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", LOCK_WAIT_S)
    erasing, stopped = COMMANDS["erase"], COMMANDS[name]
    after = every_command.sort_records([each for each in stopped.topics.get(TOPIC) or () if each.key != ERASED])
    for call in lake.choose_calls(name, STOPPED):
        process = lake.start(name, call, stops=True)
        where = f"{name}, call {call}"
        try:
            assert process.wait() is None, (where, process.errors)
            is_erased = _erase_beside(lake.disk.folder)
            exit_code, told = process.go_on()
            assert exit_code in EXIT_CODES, (where, told)
            with open_world(lake.disk.folder, FakeClock(NOW_MS + 5 * HOUR_MS)) as world:
                if not is_erased:  # the stopped process held a lock of a database
                    erasing.run(world)
                for _ in range(2):
                    world.clock.now_ms += 2 * HOUR_MS
                    sweep_topics(world.installation, [TOPIC])
                assert every_command.list_files_with(lake.disk.folder, ERASED) == [], where
                assert world.read() in (erasing.topics[TOPIC], after), where
        finally:
            process.kill()


def _erase_beside(folder: Path) -> bool:
    """Erase a key, and sweep after the grace; False: a process that stands still keeps a database."""
    try:
        with open_world(folder, FakeClock(NOW_MS + 3 * HOUR_MS)) as world:
            COMMANDS["erase"].run(world)
            world.clock.now_ms += 2 * HOUR_MS
            sweep_topics(world.installation, [TOPIC])
    except (ServiceError, RunAgainError):
        return False
    return True


def complete(folder: Path, command: Command, where: str) -> None:
    """Run ``command`` again, and what comes after it; the topics hold what they must at each step."""
    before = every_command.list_before(NOW_MS)
    after = {**before, **command.topics}
    with open_world(folder, FakeClock(NOW_MS + 2 * HOUR_MS)) as world:
        if not command.lost:
            assert_one_of(every_command.read_topics(world), before, after, where)
        with suppress(WinnowError):  # it had come to its end, or may not do it again: the topics show which
            command.run(world)
        assert_equal(every_command.read_topics(world), after, where)
        if command.absent is not None:
            assert every_command.list_files_with(folder, command.absent) == [], where
        go_on(world, command, where)
        unnamed = {path for path in every_command.list_unnamed_files(folder) if not command.forgets or DEAD not in path}
        assert unnamed == set(), where


def go_on(world: World, command: Command, where: str) -> None:
    """More records, a compaction, and two sweeps of what the command concerns, each after the grace."""
    world.ingest(TAIL)
    world.compact(attempt="last")
    for _ in range(2):
        world.clock.now_ms += 2 * HOUR_MS
        sweep_topics(world.installation, sorted({TOPIC, *(topic for topic, left in command.topics.items() if left)}))
    records = every_command.sort_records([*command.ingested, *command.select(TAIL)])
    assert world.read() == compute_survivors(records), where
    assert world.installation.store.runs.list_open(TOPIC) == [], where


def assert_equal(seen: Topics, expected: Topics, where: str) -> None:
    """What readers see of each topic is what they must."""
    for topic, records in expected.items():
        assert seen[topic] == records, (where, topic)


def assert_one_of(seen: Topics, before: Topics, after: Topics, where: str) -> None:
    """Of each topic readers see all that was before, or all that is afterwards."""
    for topic, records in seen.items():
        assert records in (before[topic], after[topic]), (where, topic)
