"""A property: whatever lies in staging and in the folders of tables, no command touches what its records do not name.

Links, odd names, foreign files and the folders of other tables are planted at random; then a topic lives its whole
life. What was planted, and what it leads to, is the same afterwards. Meanwhile each path that Winnow opens for writing,
deletes, renames or makes is compared with a list of names (tests/support/path_watch.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.path_watch import ForbiddenPathError, watch_paths
from tests.support.world import FakeClock, World, build_versions, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.latest.table_files import drop_latest_table
from winnow.pipeline.topics.deletion import delete_topic

GRACE_MS = 1_000
SHORT, LONG = 3, 2_000
EXAMPLES = LONG if settings.get_profile("quick").max_examples < settings().max_examples else SHORT

NAMES = st.sampled_from(
    [
        *("a\nb", "-rf", "\udcff\udcfe", "..hidden", "Plan.JSON", "plan.json~", "%2e%2e", "x" * 200, " ", "0.avro"),
        *("data", "manifest.json.bak", "00000-00000.parquet.tmp", "snap-1.avro", "v1.metadata.json.crc", "_SUCCESS"),
    ]
)
FOLDERS = st.sampled_from(
    [
        *("table", "table/data", "table/data/PLAN", "table/data/PLAN/a1", "table/data/INGEST", "table/metadata"),
        *("table/_winnow/state", "staging/plans/TOPIC/PLAN", "staging/plans/TOPIC/PLAN/a1", "staging/plans/TOPIC"),
        *("staging/plans", "quarantine/data", "latest/data", "copies/_winnow/ingests"),
    ]
)
KINDS = st.sampled_from(["link to a folder", "link to a file", "file", "folder", "hard link", "pipe", "table"])
TREES = st.lists(st.tuples(FOLDERS, NAMES, KINDS), min_size=1, max_size=12, unique_by=lambda each: each[:2])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("lake")
    with open_world(folder, FakeClock(read_wall_clock_ms())) as opened:
        canary = folder / "canary"
        (canary / "metadata").mkdir(parents=True)
        for name in ("plan.json", "manifest.json", "metadata/00000-0.metadata.json", "precious.txt"):
            (canary / name).write_text("mine")
        opened.create(1, "other")
        opened.ingest(build_versions(0, 6), topic="other")
        yield opened


def list_tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def list_places(world: World, topic: str) -> dict[str, Path]:
    """The folder behind the first part of each place."""
    head = world.installation.log.open(topic).head()
    uris = {
        "table": head.location,
        "copies": head.copies,
        "quarantine": world.installation.log.quarantine(topic, head).location,
        "latest": world.installation.log.latest_table(topic, head).location,
        "staging": world.installation.settings.staging,
    }
    return {name: storage.parse_local_path(uri) for name, uri in uris.items()}


def plant(world: World, topic: str, tree: list[tuple[str, str, str]]) -> dict[Path, tuple[int, int]]:
    """Plant ``tree``; the identity of each thing that was planted."""
    places = list_places(world, topic)
    plan_id = world.installation.store.runs.list_runs(topic)[0].plan_id
    ingest_id = world.head(topic).state.ingests[0].ingest_id
    names = {"PLAN": plan_id, "INGEST": f"ingest-{ingest_id}", "TOPIC": topic}
    canary, other = world.folder / "canary", storage.parse_local_path(world.head("other").location)
    planted: dict[Path, tuple[int, int]] = {}
    for place, name, kind in tree:
        first, *parts = place.split("/")
        folder = places[first].joinpath(*(names.get(part, part) for part in parts))
        path = folder / name
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            make(kind, path, canary, other)
            found = path.lstat()
            planted[path] = (found.st_dev, found.st_ino)
    return planted


def make(kind: str, path: Path, canary: Path, other: Path) -> None:
    actions: dict[str, Callable[[], object]] = {
        "link to a folder": lambda: path.symlink_to(canary if len(path.name) % 2 else other),
        "link to a file": lambda: path.symlink_to(canary / "plan.json"),
        "file": lambda: path.write_text("somebody's"),
        "folder": lambda: write_file(path / "notes.txt"),
        "hard link": lambda: os.link(canary / "precious.txt", path),
        "pipe": lambda: os.mkfifo(path),
        "table": lambda: write_file(path / "metadata" / "x.avro"),
    }
    actions[kind]()


def write_file(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("somebody's")


def live(world: World, topic: str, tree: list[tuple[str, str, str]]) -> dict[Path, tuple[int, int]]:
    """Every command in the life of a topic, each with what was planted in its way."""
    quarantine = {"winnow_keyless": "quarantine", "winnow_latest_table": "true"}
    world.create(1, topic, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS), **quarantine)
    world.ingest([*build_versions(0, 6), record(6, None, b"keyless")], topic=topic)
    world.compact(topic=topic)
    planted = plant(world, topic, tree)
    steps: list[Callable[[], object]] = [
        lambda: world.ingest(build_versions(10, 6), topic=topic),
        lambda: world.compact(topic=topic, attempt="a2"),
        lambda: update_latest_table(world.installation, topic),
        lambda: world.ingest(build_versions(20, 3), topic=topic),
        lambda: undo_ingest(world.installation, topic, world.head(topic).state.ingests[-1].ingest_id),
        lambda: world.plan(world.clock(), "a3", topic),
        *[lambda: sweep_topics(world.installation, [topic])] * 3,
        lambda: drop_latest_table(world.installation, topic),
        lambda: delete_topic(world.installation, topic, now=True),
    ]
    for step in steps:
        world.clock.now_ms += 2 * GRACE_MS
        with suppress(WinnowError, FileExistsError, IsADirectoryError):
            step()
    return planted


_lives = iter(range(1_000_000))


@settings(max_examples=EXAMPLES)
@given(tree=TREES)
def test_no_command_touches_a_path_that_its_records_do_not_name(world: World, tree: list[tuple[str, str, str]]) -> None:
    canary, other = world.folder / "canary", storage.parse_local_path(world.head("other").location)
    before = list_tree(canary), list_tree(other), world.read(topic="other")
    planted = live(world, f"orders-{next(_lives)}", tree)
    after = {path: (path.lstat().st_dev, path.lstat().st_ino) for path in planted if os.path.lexists(path)}
    assert after == planted
    assert (list_tree(canary), list_tree(other), world.read(topic="other")) == before


def test_watch_stops_a_deletion_and_a_write_that_no_record_can_name(tmp_path: Path) -> None:
    """The watch itself: without it the property above says little."""
    lake = tmp_path / "home" / "warehouse"
    (lake / "winnow" / "orders").mkdir(parents=True)
    (lake / "winnow" / "orders" / "notes.txt").write_text("mine")
    (lake / "winnow" / "linked").symlink_to(tmp_path)
    with watch_paths():
        for act in (
            lambda: storage.delete(f"{lake}/winnow/orders/notes.txt"),
            lambda: storage.write_bytes(f"{lake}/winnow/orders/notes.json", b""),
            lambda: storage.write_bytes(f"{lake}/winnow/linked/data/ingest-1/x.parquet", b""),
        ):
            with pytest.raises(ForbiddenPathError):
                act()
    assert (lake / "winnow" / "orders" / "notes.txt").exists()
