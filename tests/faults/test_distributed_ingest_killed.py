"""An ingest on Spark that is killed -9 or stopped at any step: run again, the same log, and a sweep leaves nothing.

`make test` tries some steps, `make test-long` each of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.distributed_ingest_steps import ingest, write_archive
from tests.faults.forked_processes import ForkServer
from tests.faults.test_spark_killed import command, descendants
from tests.support.examples import IS_LONG
from tests.support.world import TOPIC, FakeClock, World, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import ServiceError
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.ingest import run_spark
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.planning import ingest_ranges

GRACE_MS = 3_600_000
STEPS = range(1, 400) if IS_LONG else (17, 52, 61)
"""Of all steps there are more than an ingest takes: it ends before."""
LEAST_KILLED = 30 if IS_LONG else 3
OFFSETS = [(0, offset) for offset in range(30, 150)] + [(1, offset) for offset in range(40)]


@pytest.fixture(autouse=True)
def genuine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the ingest by tasks of this process changes is as before after a test."""
    monkeypatch.setattr(ingest_ranges, "MINIMUM_RANGE_BYTES", ingest_ranges.MINIMUM_RANGE_BYTES)
    monkeypatch.setattr(run_spark, "submit_ingest_plan", run_spark.submit_ingest_plan)


@contextlib.contextmanager
def open_prepared(folder: Path) -> Iterator[World]:
    """A world with an archive, of which the log has the first object."""
    with open_world(folder, FakeClock(read_wall_clock_ms())) as opened:
        opened.create(2, winnow_retired_grace_ms=str(GRACE_MS))
        archive = write_archive(opened.folder / "archive")
        first = opened.folder / "first"
        first.mkdir()
        shutil.copy(archive / f"{TOPIC}-0-30.jsonl", first)
        ingest_files(opened.installation, TOPIC, [str(first)], as_of_ms=opened.clock())
        yield opened


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_prepared(tmp_path) as opened:
        yield opened


def assert_complete(world: World) -> None:
    """Every record is there once, and after a sweep no file but those of the log."""
    assert [(each.partition, each.offset) for each in world.read()] == OFFSETS
    assert all(each.value == f"value-{each.offset}\xff".encode("latin-1") for each in world.read())
    for _ in range(3):
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    live = {segment.path for partition in (0, 1) for segment in world.segments(partition)}
    assert {entry.uri for entry in storage.list_files(f"{world.head().location}/data")} == live
    assert world.installation.store.ingests.list_open(TOPIC) == []


def kill_at(world: World, fork_server: ForkServer, step: int) -> bool:
    """Let another process ingest until ``step`` and be killed there; return whether there is such a step."""
    process = fork_server.start(world.folder, str(step), str(world.folder), str(world.clock()))
    code = process.wait()
    assert code in (0, -signal.SIGKILL), process.errors
    return code != 0


def test_killed_at_a_step_it_lands_once_when_it_is_run_again(tmp_path: Path, fork_server: ForkServer) -> None:
    """At some steps; in ``make test-long`` at all of them."""
    killed = 0
    for step in STEPS:
        folder = tmp_path / str(step)
        folder.mkdir()
        with open_prepared(folder) as world:
            if not kill_at(world, fork_server, step):
                break
            killed += 1
            ingest(world)
            assert_complete(world)
        shutil.rmtree(folder)
    assert killed >= LEAST_KILLED


@pytest.mark.parametrize("step", [43, 60])
def test_stopped_at_a_step_it_goes_on_after_another_one_and_a_sweep_and_changes_nothing(
    world: World, fork_server: ForkServer, step: int
) -> None:
    """Its files are gone and the log has gone on: it starts over and skips every record."""
    process = fork_server.start(world.folder, str(step), str(world.folder), str(world.clock()), "stop")
    try:
        assert process.wait() is None, process.errors
        ingest(world)
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
        before = world.read()
        code, errors = process.go_on()
        assert code == 0, errors
        assert world.read() == before
    finally:
        process.kill()
    assert_complete(world)


def start_on_spark(world: World) -> tuple[subprocess.Popen[str], list[int]]:
    """Start ``winnow ingest files`` on Spark; return it and the processes of its application."""
    environment = os.environ | {
        "WINNOW_HOME": str(world.installation.settings.home),
        "WINNOW_SPARK__MASTER": "local[1]",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "winnow.cli", "ingest", "files", TOPIC, str(world.folder / "archive"), "--on", "spark"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        below = descendants(process.pid)
        if any("SparkSubmit" in command(child) for child in below):
            return process, below
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"No Spark was started: {process.communicate()}")


def test_killed_applications_and_submitters_leave_nothing_that_counts(world: World) -> None:
    """Spark is killed and the command says so; the command is killed and its Spark works on, for nobody."""
    before = world.read()
    process, application = start_on_spark(world)
    for each in application:
        with contextlib.suppress(ProcessLookupError):  # they may end one another
            os.kill(each, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == ServiceError.exit_code, errors
    assert "the Spark application ended with exit code" in errors
    assert world.read() == before
    process, application = start_on_spark(world)
    process.kill()
    process.communicate(timeout=60)
    report = ingest(world)
    assert (report.records_appended, report.records_skipped) == (110, 70)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and any("SparkSubmit" in command(each) for each in application):
        time.sleep(0.2)
    assert_complete(world)
