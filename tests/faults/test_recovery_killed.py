"""An adoption or a recovery that dies at any step, or beside a process that was stopped: the next call completes it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.forked_processes import ForkServer, start_fork_server
from tests.support.world import NOW_MS, TOPIC, World, build_versions, compute_survivors, open_world, record
from winnow.errors import UnknownTopicError, WinnowError
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.topics.adoption import adopt_topic
from winnow.pipeline.topics.recovery import recover_topic
from winnow.values.model import Record

POINTS = int(os.environ.get("RECOVERY_POINTS", "2"))
"""Steps at which each of them dies, evenly spread; `make test-long` takes all."""
NEVER = 1_000_000
AHEAD_MS = 61 * 60_000


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """What starts the processes that die."""
    with start_fork_server() as found:
        yield found


def fill(world: World) -> list[Record]:
    """A topic with a compaction, a quarantine and new records, and its catalog of before the last of them."""
    world.create(1, winnow_keyless="quarantine", min_cleanable_dirty_ratio="0")
    world.ingest(build_versions(0, 12))
    shutil.copy(world.folder / "home/catalog.db", world.folder / "older.db")
    world.compact()
    world.ingest([*build_versions(12, 3), record(15, None, b"no key")])
    return world.read()


def lose(folder: Path) -> None:
    """The catalog is lost."""
    (folder / "home/catalog.db").unlink()


def put_back(folder: Path) -> None:
    """The catalog is that of an earlier backup."""
    shutil.copy(folder / "older.db", folder / "home/catalog.db")


def lose_documents(folder: Path) -> None:
    """Another engine's orphan removal, which did not spare Winnow's documents."""
    for path in (folder / "home/warehouse").rglob("*.json"):
        if "_winnow" in path.parts:
            path.unlink()


DAMAGE = {"adopt": lose, "recover": put_back, "rebuild": lose_documents}
COMPLETE: dict[str, Callable[[World], object]] = {
    "adopt": lambda world: adopt_topic(world.installation, TOPIC, str(locate(world)), run=True),
    "recover": lambda world: recover_topic(world.installation, TOPIC, run=True),
    "rebuild": lambda world: recover_topic(world.installation, TOPIC, rebuild=True, run=True),
}


def locate(world: World) -> Path:
    """The folder of the topic's table."""
    (found,) = world.folder.glob(f"home/warehouse/winnow/{TOPIC}-*")
    return found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("work", list(DAMAGE))
def test_what_dies_at_any_step_is_completed_by_the_next_call(tmp_path: Path, server: ForkServer, work: str) -> None:
    """Until then the topic is not there, older, damaged, or whole; afterwards it is what it was, and goes on."""
    folder, prepare = tmp_path / "lake", tmp_path / "prepared"
    with open_world(folder) as world:
        before = fill(world)
    DAMAGE[work](folder)
    shutil.copytree(folder, prepare)
    for point in kill_at_each_point(server, folder, work, prepare):
        with open_world(folder) as world:
            assert read(world) in (None, before, build_versions(0, 12)), point
            if read(world) != before or work != "rebuild":
                COMPLETE[work](world)
            assert world.read() == before, point
            assert world.head().fence > 0
            world.ingest(build_versions(16, 3))
            world.compact(attempt="a9")
            sweep_topics(world.installation)
            records = [*build_versions(0, 15), *build_versions(16, 3)]
            assert world.read() == compute_survivors(records), point


def read(world: World) -> list[Record] | None:
    """What a reader sees; None: an error."""
    try:
        return world.read()
    except (UnknownTopicError, WinnowError):
        return None


def kill_at_each_point(server: ForkServer, folder: Path, work: str, prepare: Path) -> Iterator[int]:
    """Yield each step at which ``work`` died; before each, ``folder`` is as in ``prepare``."""
    code, said = run(server, folder, work, NEVER, prepare)
    assert code == 0, said
    steps = int(said.split()[-1])
    for point in sorted({1 + number * (steps - 1) // max(POINTS - 1, 1) for number in range(min(POINTS, steps))}):
        code, said = run(server, folder, work, point, prepare)
        if code == 0:
            break  # threads make a folder at once or one after the other, so the last few steps are not always there
        assert code == -signal.SIGKILL, (point, said)
        yield point


def run(server: ForkServer, folder: Path, work: str, step: int, prepare: Path) -> tuple[int | None, str]:
    """Put ``folder`` into the state of ``prepare`` and work until ``step``."""
    shutil.rmtree(folder)
    shutil.copytree(prepare, folder)
    child = server.start(folder, f"{work} {step}", str(folder), str(NOW_MS))
    return child.wait(), child.errors


@pytest.mark.parametrize("damage", ["adopt", "recover"])
def test_a_publisher_that_was_stopped_meanwhile_publishes_nothing(
    tmp_path: Path, server: ForkServer, damage: str
) -> None:
    """It holds the catalog of before, lost or not, and has validated its files: its commit harms nothing."""
    with open_world(tmp_path) as world:
        fill(world)
        world.ingest(build_versions(16, 4))
        before, now_ms = world.read(), world.clock()
    child = server.start(tmp_path, "publish before the commit", str(tmp_path), str(now_ms), "stop")
    try:
        assert child.wait() is None, child.errors
        DAMAGE[damage](tmp_path)
        with open_world(tmp_path) as world:
            world.clock.now_ms += AHEAD_MS
            COMPLETE[damage](world)
            fence = world.head().fence
        code, said = child.go_on()
        assert code != 0, said
        with open_world(tmp_path) as world:
            world.clock.now_ms += AHEAD_MS
            assert world.read() == before
            assert world.head().fence == fence
            world.compact(attempt="a9")
            assert world.read() == compute_survivors([*build_versions(0, 15), *build_versions(16, 4)])
    finally:
        child.kill()
