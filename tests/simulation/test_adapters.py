"""The simulated world's adapters keep the contract of the real ones, and fail as the histories rely on.

They are the real ones, with decisions before and after each call: so each contract runs twice, in a thread of its own
and in a simulated process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from pyiceberg.exceptions import CommitFailedException

from simulation.adapters import MODULE_STATE, Adapters
from simulation.disk import SyncedDisk
from simulation.history import make_error
from simulation.source import BASE_MS
from simulation.turns import Call, Process, ProcessKilled, Turns
from tests.support.world import TOPIC, World, build_versions, open_world
from winnow.errors import ServiceError, TopicBusyError
from winnow.files import disk_sync, storage
from winnow.files.storage_health import make_file_name
from winnow.log.sql_catalog import LogSqlCatalog

DELETION = "DELETE FROM winnow_topic_head"
Body = Callable[[], None]
Meet = Callable[[Process, Call], None]


def run_for_real(body: Body, meet: Meet | None = None) -> BaseException | None:
    """Run it in this thread, where nothing is decided."""
    assert meet is None
    body()
    return None


class SimulatedRunner:
    """Runs bodies as simulated processes on one disk."""

    def __init__(self, folder: Path) -> None:
        self.now_ms = BASE_MS
        self.disk = SyncedDisk(folder, folder.parent / "deleted")
        self.commits: list[str] = []

    def __call__(self, body: Body, meet: Meet | None = None) -> BaseException | None:
        """Run one to its end; return its error."""

        def read_ms() -> int:
            self.now_ms += 1
            return self.now_ms

        def switch(_: Process | None, process: Process) -> None:
            for module, name, make in MODULE_STATE:
                setattr(module, name, make())

        turns = Turns(meet or (lambda process, call: None), switch)
        process = Process("only", "step", Random(1))
        with Adapters(read_ms, read_ms, self.disk, lambda _, location: self.commits.append(location)):
            turns.start(process, body)
            while process.is_running:
                turns.give(process)
        if meet is None and process.error is not None:
            raise process.error
        return ProcessKilled() if process.is_killed else process.error


@pytest.fixture(params=["real", "simulated"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., BaseException | None]:
    """Runs a body with the adapters of one of both worlds."""
    return run_for_real if request.param == "real" else SimulatedRunner(tmp_path)


@pytest.fixture
def simulated(tmp_path: Path) -> SimulatedRunner:
    """A simulated disk."""
    return SimulatedRunner(tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A lake with one topic."""
    with open_world(tmp_path) as opened:
        opened.create(1)
        opened.ingest(build_versions(0, 3))
        yield opened


def test_storage_keeps_its_contract(run: Callable[..., object], tmp_path: Path) -> None:
    def body() -> None:
        uri = (tmp_path / "folder" / "file").as_uri()
        assert storage.read_size_bytes(uri) is None
        with pytest.raises(FileNotFoundError):
            storage.read_bytes(uri)
        storage.write_bytes(uri, b"first")
        storage.write_bytes(uri, b"second")
        assert not storage.create_bytes(uri, b"third")
        assert storage.create_bytes(f"{uri}-new", b"new")
        with storage.create_file(f"{uri}-streamed") as stream:
            stream.write(b"streamed")
        storage.sync([f"{uri}-streamed"])
        assert [storage.read_bytes(f"{uri}{end}") for end in ("", "-new", "-streamed")] == [
            b"second",
            b"new",
            b"streamed",
        ]
        listed = storage.list_named_files(tmp_path.as_uri(), "folder", lambda name: name != "file")
        assert [storage.get_name(entry.uri) for entry in listed.files] == ["file-new", "file-streamed"]
        assert storage.list_folders(tmp_path.as_uri()) == [(tmp_path / "folder").as_uri()]
        assert storage.delete(uri)
        assert storage.delete(uri)
        assert storage.read_size_bytes(uri) is None

    run(body)


def test_catalog_keeps_its_contract(run: Callable[..., object], world: World) -> None:
    """A row is swapped only from what it names, and dropped only at what it names."""

    def body() -> None:
        catalog, identifier = world.installation.log.catalog, world.installation.log.identify(TOPIC)
        assert isinstance(catalog, LogSqlCatalog)
        before = catalog.find_metadata_location(identifier)
        assert before is not None
        with pytest.raises(CommitFailedException):
            catalog.swap_metadata(identifier, f"{before}-other", "new")
        assert catalog.find_metadata_location(identifier) == before
        catalog.swap_metadata(identifier, before, "new")
        assert not catalog.drop_table_at(identifier, before)
        assert catalog.drop_table_at(identifier, "new")
        assert catalog.find_metadata_location(identifier) is None
        assert catalog.find_metadata_location((identifier[0], "unknown")) is None

    run(body)


def test_store_keeps_its_contract(run: Callable[..., object], world: World) -> None:
    """A lease excludes another holder until it has expired; a transaction that raises leaves nothing."""

    def body() -> None:
        leases, now_ms = world.installation.store.leases, world.clock()
        leases.acquire(TOPIC, "first", now_ms, 1_000)
        with pytest.raises(TopicBusyError):
            leases.acquire(TOPIC, "second", now_ms, 1_000)
        leases.acquire(TOPIC, "second", now_ms + 1_001, 1_000)
        database = world.installation.store.runs._database
        before = count_rows(world)
        with suppress(ZeroDivisionError), database.writing() as session:
            session.connection().exec_driver_sql(DELETION)
            raise ZeroDivisionError
        assert count_rows(world) == before > 0

    run(body)


def count_rows(world: World) -> int:
    """Rows of a table that has some."""
    with world.installation.store.runs._database.reading() as session:
        return int(session.connection().exec_driver_sql("SELECT count(*) FROM winnow_topic_head").scalar_one())


def test_time_chance_and_threads_are_those_of_the_process(simulated: SimulatedRunner) -> None:
    """Sleeping takes no time, and two processes of the same seed draw the same."""
    seen: list[tuple[float, str]] = []
    began = time.monotonic()

    def body() -> None:
        time.sleep(3_600)
        seen.append((time.time() // 3_600, make_file_name()))

    for _ in range(2):
        simulated.now_ms = BASE_MS
        simulated(body)
    assert seen[0] == seen[1]
    assert abs(seen[0][0] - BASE_MS // 3_600_000) <= 1
    assert time.monotonic() - began < 60
    assert threading.active_count() < 50


def at(name: str, *, done: bool, act: Callable[[Process, Call], None]) -> Meet:
    """Meet the call ``name`` with ``act``, before or after it."""

    def meet(process: Process, call: Call) -> None:
        if call.name == name and call.is_done == done:
            act(process, call)

    return meet


def kill(process: Process, _: Call) -> None:
    """Kill the process."""
    process.is_killed = True
    raise ProcessKilled


def fail(_: Process, call: Call) -> None:
    """Let the call fail as the histories do."""
    raise make_error(call)


def test_refused_call_has_no_effect_and_a_lost_answer_has_one(simulated: SimulatedRunner, world: World) -> None:
    """The caller gets an error both times, and Winnow's own afterwards."""
    database = world.installation.store.runs._database

    def body() -> None:
        with database.writing() as session:
            session.connection().exec_driver_sql(DELETION)

    refused = simulated(body, at("writing", done=False, act=fail))
    assert (type(refused), count_rows(world)) == (ServiceError, 1)
    lost = simulated(body, at("writing", done=True, act=fail))
    assert (type(lost), count_rows(world)) == (ServiceError, 0)


def test_killed_process_has_no_effect_any_more_however_it_cleans_up(simulated: SimulatedRunner, tmp_path: Path) -> None:
    first, second = ((tmp_path / name).as_uri() for name in ("first", "second"))

    def body() -> None:
        try:
            storage.write_bytes(first, b"first")
        finally:
            (tmp_path / "kept").rename(tmp_path / "renamed")
            storage.write_bytes(second, b"second")

    (tmp_path / "kept").touch()
    ended = simulated(body, at("write_bytes", done=True, act=kill))
    assert isinstance(ended, ProcessKilled)
    assert storage.read_bytes(first) == b"first"
    assert (tmp_path / "kept").exists()
    assert not (tmp_path / "second").exists()


def test_power_cut_takes_what_was_not_synced_and_leaves_what_was(simulated: SimulatedRunner, tmp_path: Path) -> None:
    """Files, their content, and deletions; each with a probability, so of many some go and some stay."""
    folder = tmp_path / "folder"

    def body() -> None:
        folder.mkdir()
        disk_sync.sync_folder(tmp_path)
        for number in range(20):
            storage.write_bytes((folder / f"synced-{number}").as_uri(), b"synced")
            storage.write_bytes((folder / f"deleted-{number}").as_uri(), b"deleted")
            storage.write_bytes((folder / f"forgotten-{number}").as_uri(), b"forgotten")
        for number in range(20):
            storage.delete((folder / f"forgotten-{number}").as_uri())
        disk_sync.sync_deletions([folder])
        for number in range(20):
            storage.delete((folder / f"deleted-{number}").as_uri())
            (folder / f"unsynced-{number}").write_bytes(b"unsynced")

    simulated(body)
    simulated.disk.cut_power(Random(1))
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name for name in left if name.startswith("synced-")} == {f"synced-{number}" for number in range(20)}
    assert all(content == b"synced" for name, content in left.items() if name.startswith("synced-"))
    assert not any(name.startswith("forgotten-") for name in left)
    for kind in ("deleted-", "unsynced-"):
        assert 0 < sum(name.startswith(kind) for name in left) < 20
    torn = [content for name, content in left.items() if name.startswith("unsynced-") and content != b"unsynced"]
    assert torn
