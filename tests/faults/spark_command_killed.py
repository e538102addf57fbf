"""``winnow compact`` with Spark, store and catalog on PostgreSQL, killed at any I/O call: the next call completes it.

Whoever makes the call dies: the command, Spark's driver, or a worker. Calls are those on the lake's files and what is
sent to PostgreSQL (fsync_recorder.c).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.faults import every_command
from tests.faults.power_cut import Recording, find_compiler
from tests.support.store_fixtures import postgresql_server
from tests.support.world import TOPIC, FakeClock, World, build_versions, compute_survivors, open_world
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.values.model import Record

__all__ = ["postgresql_server"]

POINTS = int(os.environ.get("SPARK_POINTS", "1"))
"""Calls at which it is killed, evenly spread; `make test-long` takes 60."""
NEVER = 1 << 40
EXIT_CODES = {-signal.SIGKILL, 0, 4, 5, 6}
"""Of a command that was killed, or that says what became of a Spark application that was killed."""


class _Present(FakeClock):
    """The wall clock."""

    def __call__(self) -> int:
        return read_wall_clock_ms()


@dataclass
class Lake:
    """A lake on a disk that kills, with its databases, and all records that went into its topic."""

    disk: Recording
    settings: dict[str, str]
    records: list[Record] = field(default_factory=list)

    @contextlib.contextmanager
    def open(self) -> Iterator[World]:
        """The lake as a process of its own opens it."""
        with open_world(self.disk.folder, _Present(), self.settings) as world:
            yield world

    def append(self, world: World, count: int = 6) -> None:
        """Some more versions of the same keys."""
        more = build_versions(len(self.records), count)
        world.ingest(more, topic=TOPIC)
        self.records += more

    def compact(self, call: int) -> tuple[int, str]:
        """The command, killed at that call: its exit code, and what it said."""
        self.disk.kill_at(call)
        process = subprocess.run(
            [sys.executable, "-m", "winnow.cli", "compact", TOPIC],
            env={**os.environ, **self.settings, **self.disk.env, "WINNOW_HOME": str(self.disk.folder / "home"),
                 "WINNOW_SPARK__MASTER": "local[1]"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )  # fmt: skip
        return process.returncode, process.stderr

    def list_processes(self) -> list[int]:
        """Those that the command has started and that outlive it."""
        mark, found = self.disk.env["LD_PRELOAD"].encode(), []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found


@pytest.fixture
def lake(tmp_path: Path, postgresql_server: str) -> Lake:
    """A topic without a grace."""
    assert find_compiler() is not None, "These tests need a C compiler: cc, gcc or clang."
    url = postgresql_server.replace("postgresql://", "postgresql+psycopg://")
    store, catalog = (f"{name}_{uuid.uuid4().hex}" for name in ("store", "catalog"))
    with psycopg.connect(postgresql_server, autocommit=True) as server:
        for name in (store, catalog):
            server.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    settings = {
        "WINNOW_STORE_URL": f"{url}&options=-csearch_path%3D{store}",
        "WINNOW_CATALOG__TYPE": "sql",
        "WINNOW_CATALOG__URI": f"{url}&options=-csearch_path%3D{catalog}",
    }
    made = Lake(Recording(tmp_path), settings)
    with made.open() as world:
        world.create(1, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms="0")
    return made


@pytest.mark.timeout(7200)
def test_a_compaction_with_spark_killed_at_any_call_is_completed_by_the_next(lake: Lake) -> None:
    """Every second time what it has started lives on beside the next call; whatever that writes, nobody names."""
    with lake.open() as world:
        lake.append(world)
    code, said = lake.compact(NEVER)
    assert code == 0, said
    calls = lake.disk.calls
    reached = 0
    for number in range(POINTS):
        call = 1 + (number * 2 + 1) * calls // (POINTS * 2)
        with lake.open() as world:
            before = world.read()
            lake.append(world)
            fresh = world.read()
        code, said = lake.compact(call)
        where = f"call {call} of {calls}: {code}, {said}"
        assert code in EXIT_CODES, where
        assert "Traceback" not in said, where
        reached += lake.disk.calls >= call
        if number % 2:
            end_processes(lake)
        with lake.open() as world:
            after = compute_survivors(lake.records)
            assert world.read() in (fresh, after), where
            every_command.compact(world)
            assert world.read() == after, where
            assert before != after
        end_processes(lake)
        with lake.open() as world:
            for _ in range(2):
                sweep_topics(world.installation, [TOPIC])
            assert world.read() == after, where
            assert list_unnamed_files(world) == set(), where
    # The first run makes some calls that no later one does, so the last numbers are not always reached.
    assert reached >= POINTS * 3 // 4, reached


def end_processes(lake: Lake) -> None:
    """Kill what the command has left behind."""
    while processes := lake.list_processes():
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def list_unnamed_files(world: World) -> set[str]:
    """The data files below the topic's folder that no snapshot names, nor the state as waiting."""
    return every_command.list_files_unnamed_by(world.folder, [world.head().table.metadata_location])
