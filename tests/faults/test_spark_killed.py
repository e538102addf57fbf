"""The Spark application killed -9 in the middle of ``winnow compact``: the first row of the crash table about Spark."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.world import TOPIC, World, build_versions, compute_survivors, define_world
from winnow.store import RunState

RECORDS = build_versions(0, 12)


world = define_world(1, RECORDS, in_the_present=True, min_cleanable_dirty_ratio="0")


def descendants(process_id: int) -> list[int]:
    """Every process below ``process_id``, by what the kernel says of parents."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:
                continue
            parents[int(folder.name)] = int(text.rpartition(")")[2].split()[1])
    found = [process_id]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def command(process_id: int) -> str:
    try:
        return (Path("/proc") / str(process_id) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def start_and_wait_for_spark(world: World) -> tuple[subprocess.Popen[str], list[int]]:
    """``winnow compact`` and the processes of its Spark application, once the driver's program runs."""
    environment = os.environ | {
        "WINNOW_HOME": str(world.installation.settings.home),
        "WINNOW_SPARK__MASTER": "local[1]",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "winnow.cli", "compact", TOPIC],
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


@pytest.mark.kafka("76", "78", "115")
def test_a_killed_spark_application_voids_the_plan_and_the_next_run_ends_right(world: World) -> None:
    """The command survives it, says what is left and ends with 6; the log is as before."""
    process, application = start_and_wait_for_spark(world)
    for each in application:
        with contextlib.suppress(ProcessLookupError):  # they may end one another
            os.kill(each, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 6, errors
    assert "the Spark application ended with exit code" in errors
    assert "Nothing was published; run it again." in errors
    (run,) = world.installation.store.runs.list_runs(TOPIC)
    assert run.status is RunState.SPARK_FAILED
    assert world.read() == RECORDS
    assert world.installation.store.leases.find(TOPIC) is None
    world.compact()
    assert world.read() == compute_survivors(RECORDS)


@pytest.mark.kafka("76", "115")
def test_a_killed_command_leaves_a_topic_that_the_next_run_takes_over_at_once(world: World) -> None:
    """Killed while its Spark application works; whatever that zombie still writes, nobody names."""
    process, application = start_and_wait_for_spark(world)
    process.kill()
    process.communicate(timeout=60)
    (run,) = world.installation.store.runs.list_runs(TOPIC)
    assert run.status is RunState.COMPACTING
    assert world.installation.store.leases.find(TOPIC) is not None
    world.clock.now_ms += 1
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id != run.plan_id
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and any("SparkSubmit" in command(each) for each in application):
        time.sleep(0.2)
    assert world.read() == compute_survivors(RECORDS)
    settled = world.installation.store.runs.find(run.plan_id)
    assert settled is not None
    assert settled.status is RunState.VOID


_WORKERS_THAT_CRASH = """
import os, signal, sys
if "winnow.engine.daemon" in sys.orig_argv:
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGSEGV))
"""


def test_a_task_that_crashes_ends_in_a_sentence_and_the_next_run_ends_right(world: World, tmp_path: Path) -> None:
    """SIGSEGV of Spark's Python worker: exit code 6, nothing is published, nothing is held against the partition."""
    (tmp_path / "sitecustomize.py").write_text(_WORKERS_THAT_CRASH)
    environment = os.environ | {
        "WINNOW_HOME": str(world.installation.settings.home),
        "WINNOW_SPARK__MASTER": "local[1]",
        "PYTHONPATH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "winnow.cli", "compact", TOPIC], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 6, done.stderr
    assert "Nothing was published; run it again." in done.stderr
    assert world.read() == RECORDS
    assert world.state().uncleanable is None
    world.compact()
    assert world.read() == compute_survivors(RECORDS)
