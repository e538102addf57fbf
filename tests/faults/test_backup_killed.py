"""A backup or a restore that dies at any step leaves nothing half that counts as whole, and the next call goes on."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.backup_steps import FOLDER
from tests.faults.forked_processes import ForkServer, start_fork_server
from tests.integration.test_later_erasures import list_readable
from tests.support.erasing import list_holding
from tests.support.world import NOW_MS, TOPIC, World, build_versions, open_world, record
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.backup_place import BackupPlace
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.backup.verify import verify_backup
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.values.model import Record

POINTS = int(os.environ.get("BACKUP_POINTS", "3"))
"""Steps at which each of both dies, evenly spread; `make test-long` takes all."""
OTHER = "clicks"
NEVER = 1_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """What starts the processes that die."""
    with start_fork_server() as found:
        yield found


def fill(world: World) -> dict[str, list[Record]]:
    """Two topics, a first backup, and what is new since; what each topic holds."""
    world.create(1, winnow_keyless="quarantine", min_cleanable_dirty_ratio="0", segment_ms="1")
    world.ingest(build_versions(0, 12))
    create_backup(world.installation, str(world.folder / FOLDER))
    world.ingest([*build_versions(12, 3), record(15, None, b"no key")])
    world.compact()
    world.create(1, OTHER)
    world.ingest(build_versions(0, 4), topic=OTHER)
    return read_all(world)


def read_all(world: World) -> dict[str, list[Record]]:
    """The records of all topics."""
    return {topic: world.read(topic=topic) for topic in world.installation.log.names()}


def kill_at_each_point(server: ForkServer, folder: Path, work: str, prepare: Path) -> Iterator[int]:
    """Yield each step at which ``work`` died; before each, ``folder`` is as in ``prepare``."""
    whole = run(server, folder, work, NEVER, prepare)
    assert whole[0] == 0, whole[1]
    steps = int(whole[1].split()[-1])
    for point in sorted({1 + number * (steps - 1) // max(POINTS - 1, 1) for number in range(min(POINTS, steps))}):
        code, errors = run(server, folder, work, point, prepare)
        if code == 0:
            break  # threads make a folder at once or one after the other, so the last few steps are not always there
        assert code == -signal.SIGKILL, (point, errors)
        yield point


def run(server: ForkServer, folder: Path, work: str, step: int, prepare: Path) -> tuple[int | None, str]:
    """Put ``folder`` into the state of ``prepare`` and work until ``step``."""
    shutil.rmtree(folder)
    shutil.copytree(prepare, folder)
    child = server.start(folder, f"{work} {step}", str(folder), str(NOW_MS))
    return child.wait(), child.errors


@pytest.mark.timeout(3600)
def test_backup_that_dies_at_any_step_is_none_and_the_next_call_goes_on(tmp_path: Path, server: ForkServer) -> None:
    """What is complete verifies at every point: the earlier one, later the new one, and it is restored in the end."""
    folder, prepare = tmp_path / "lake", tmp_path / "prepared"
    with open_world(folder) as world:
        before = fill(world)
        destination = str(folder / FOLDER)
    shutil.copytree(folder, prepare)
    for point in kill_at_each_point(server, folder, "create", prepare):
        assert verify_backup(destination).findings == (), point
        with open_world(folder) as world:
            made = create_backup(world.installation, destination)
        checked = verify_backup(destination)
        assert (checked.backup_id, checked.findings) == (made.backup_id, ()), point
        assert {topic.topic: topic.records for topic in checked.topics} == {t: len(before[t]) for t in before}
    shutil.rmtree(folder / "home")
    with open_world(folder) as world:
        restore_backup(world.installation, destination)
        assert read_all(world) == before


@pytest.mark.timeout(3600)
def test_restore_that_dies_at_any_step_shows_no_half_topic_and_the_next_call_goes_on(
    tmp_path: Path, server: ForkServer
) -> None:
    """A topic that is there reads as before; the next call restores all, and the installation works on."""
    folder, prepare = tmp_path / "lake", tmp_path / "prepared"
    with open_world(folder) as world:
        before = fill(world)
        destination = str(folder / FOLDER)
        create_backup(world.installation, destination)
        rows = {name: list(found) for name, found in world.installation.store.portable_rows.read_tables()}
        receipts = world.installation.log.open(TOPIC).receipts()
    backup_id = BackupPlace(destination).choose(None)
    prepare.mkdir()
    shutil.copytree(folder / FOLDER, prepare / FOLDER)
    for point in kill_at_each_point(server, folder, "restore", prepare):
        with open_world(folder) as world:
            there = read_all(world)
            assert there == {topic: before[topic] for topic in there}, point
            if (Path(folder) / "home/warehouse/winnow_restore.json").exists() or not there:
                assert restore_backup(world.installation, destination, backup_id).backup_id == backup_id
            assert read_all(world) == before, point
            assert world.installation.log.open(TOPIC).receipts() == receipts
            assert world.installation.store.audit.verify_chain().first_break is None
            now = {name: list(found) for name, found in world.installation.store.portable_rows.read_tables()}
            assert now["winnow_run"] == rows["winnow_run"], point
            world.ingest(build_versions(16, 3))
            assert world.compact(attempt="a9") is not None
            sweep_topics(world.installation)
            assert max(found.offset for found in world.read()) == 18


@pytest.mark.timeout(3600)
def test_restore_that_dies_at_any_step_shows_nothing_that_was_erased_since(tmp_path: Path, server: ForkServer) -> None:
    """No snapshot that the catalog has names a file with the key; the next call ends it, and its bytes are gone."""
    folder, prepare, key = tmp_path / "lake", tmp_path / "prepared", b"key-1"
    with open_world(folder) as world:
        before = fill(world)
        destination = str(folder / FOLDER)
        create_backup(world.installation, destination)
        erase_keys(world.installation, EraseRequest(TOPIC, [key], "request"))
    prepare.mkdir()
    shutil.copytree(folder / FOLDER, prepare / FOLDER)
    shutil.copytree(folder / "home/erasures", prepare / "home/erasures")
    shutil.copy(folder / "home/erase.secret", prepare / "home/erase.secret")
    before[TOPIC] = [each for each in before[TOPIC] if each.key != key]
    for point in kill_at_each_point(server, folder, "restore", prepare):
        with open_world(folder) as world:
            there = read_all(world)
            assert there == {topic: before[topic] for topic in there}, point
            assert TOPIC not in there or key not in list_readable(world), point
            if (Path(folder) / "home/warehouse/winnow_restore.json").exists() or not there:
                report = restore_backup(world.installation, destination)
                assert [topic.notice for topic in report.topics] == ["", ""], point
            assert read_all(world) == before, point
            assert not [path for path in list_holding(world, key) if f"/{TOPIC}-" in path], point
            for _ in range(2):
                world.clock.now_ms += 30 * 86_400_000
                sweep_topics(world.installation)
            assert world.installation.store.ingests.list_open(TOPIC) == [], point
