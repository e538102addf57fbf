"""Every command that writes, killed at any I/O call, with and without a power cut: the next call completes it.

The call is counted below Python, in a library loaded before all others (fsync_recorder.c), so that it may be one of
SQLite, Arrow or DuckDB; a write has its first half done.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults import every_command
from tests.faults.every_command import HOUR_MS, TAIL, Command, Topics
from tests.faults.forked_processes import ForkServer, start_fork_server
from tests.faults.power_cut import Recording, find_compiler
from tests.support.world import TOPIC, FakeClock, World, compute_survivors, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import WinnowError
from winnow.pipeline.admin.sweep import sweep_topics

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
}
"""Where in a command's calls it is killed."""
NEVER = 1 << 40
DEAD = f"/{every_command.DEAD}/"
NOW_MS = read_wall_clock_ms()
COMMANDS = every_command.make_commands(NOW_MS)


@dataclass(frozen=True)
class Lake:
    """The disk that the processes write, the lake as prepared, and what starts the processes."""

    disk: Recording
    prepared: Path
    server: ForkServer

    def kill(self, name: str, call: int) -> tuple[int | None, str]:
        """Run a command on the prepared lake until its ``call``-th I/O call: exit code, and what it said."""
        self.disk.put(self.prepared / name)
        self.disk.kill_at(call)
        child = self.server.start(
            self.disk.folder.parent, f"every {name}", str(self.disk.folder), str(NOW_MS + 2 * HOUR_MS)
        )
        return child.wait(), child.errors

    def choose_calls(self, name: str) -> list[int]:
        """The calls at which the command is killed."""
        code, said = self.kill(name, NEVER)
        assert code == 0, said
        calls = self.disk.calls
        if not POINTS:
            return [int(calls * FEW[name])]
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
    with start_fork_server(disk.env) as server:
        yield Lake(disk, folder / "prepared", server)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", list(COMMANDS if POINTS else FEW))
def test_a_command_killed_at_any_call_is_completed_by_the_next_and_the_log_goes_on(lake: Lake, name: str) -> None:
    """Every second time the power is cut, too: what was not synced is lost."""
    calls = lake.choose_calls(name)
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
