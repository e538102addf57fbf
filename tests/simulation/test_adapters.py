"""The simulated world's adapters keep the contract of the real ones, and fail as the histories rely on.

They are the real ones, with decisions before and after each call: so each contract runs in a thread of its own, in a
simulated process, and on the other storages, catalogs and stores that Winnow runs on.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest
from psycopg import sql

from simulation.adapters import MODULE_STATE, Adapters
from simulation.disk import SyncedDisk
from simulation.history import make_error
from simulation.source import BASE_MS
from simulation.turns import Call, Process, ProcessKilled, Turns, get_process
from tests.simulation.contracts import (
    DELETION,
    check_commits,
    check_entries,
    check_storage,
    check_store,
    count_rows,
)
from tests.support import store_fixtures
from tests.support.object_store import start_object_store
from tests.support.rest_catalog import serve_rest_catalog
from tests.support.world import World, build_versions, open_world
from winnow.errors import ServiceError
from winnow.files import disk_sync, storage
from winnow.files.storage_health import make_file_name

postgresql_server = store_fixtures.postgresql_server
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
        self.disk = SyncedDisk(folder, folder.parent / "deleted", lambda: self.now_ms)
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


@pytest.fixture
def postgresql_world(tmp_path: Path, postgresql_server: str) -> Iterator[World]:
    """A lake whose catalog and metadata store are in PostgreSQL, with one topic."""
    schemas = {name: f"adapters_{name}_{uuid.uuid4().hex}" for name in ("catalog", "store")}
    with psycopg.connect(postgresql_server, autocommit=True) as server:
        for schema in schemas.values():
            server.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    driver = postgresql_server.replace("postgresql://", "postgresql+psycopg://")
    urls = {name: f"{driver}&options=-csearch_path%3D{schema}" for name, schema in schemas.items()}
    lake = {
        "WINNOW_CATALOG__TYPE": "sql",
        "WINNOW_CATALOG__URI": urls["catalog"],
        "WINNOW_STORE_URL": urls["store"],
    }
    with open_world(tmp_path, None, lake) as opened:
        opened.create(1)
        opened.ingest(build_versions(0, 3))
        yield opened


def test_storage_keeps_its_contract(run: Callable[..., object], tmp_path: Path) -> None:
    run(lambda: check_storage(tmp_path.as_uri()))


def test_object_store_keeps_the_contract_of_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    with start_object_store() as store:
        for name, value in store.variables.items():
            monkeypatch.setenv(name, value)
        store.create_bucket("lake")
        check_storage("s3://lake/place")


@pytest.mark.parametrize("check", [check_commits, check_entries])
def test_catalog_keeps_its_contract(run: Callable[..., object], world: World, check: Callable[[World], None]) -> None:
    run(lambda: check(world))


@pytest.mark.parametrize("check", [check_commits, check_entries, check_store])
def test_postgresql_keeps_the_contracts_of_catalog_and_store(
    postgresql_world: World, check: Callable[[World], None]
) -> None:
    check(postgresql_world)


def test_rest_catalog_refuses_a_commit_over_an_older_head(tmp_path: Path) -> None:
    with serve_rest_catalog() as (_, address):
        lake = {"WINNOW_CATALOG__TYPE": "rest", "WINNOW_CATALOG__URI": address}
        with open_world(tmp_path, None, lake) as opened:
            opened.create(1)
            opened.ingest(build_versions(0, 3))
            check_commits(opened)


def test_store_keeps_its_contract(run: Callable[..., object], world: World) -> None:
    run(lambda: check_store(world))


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


def test_old_listing_lacks_what_is_new_and_has_what_is_gone(simulated: SimulatedRunner, tmp_path: Path) -> None:
    place, listings = tmp_path.as_uri(), []

    def list_before_and_after() -> None:
        for name in ("kept", "gone"):
            storage.write_bytes(f"{place}/folder/{name}", b"1")
        simulated.now_ms += 3_600_000
        storage.write_bytes(f"{place}/folder/new", b"1")
        storage.delete(f"{place}/folder/gone")
        process = get_process()
        assert process is not None
        for age_ms in (60_000, 0):
            process.listing_age_ms = age_ms
            found = storage.list_named_files(place, "folder", lambda name: True)
            listings.append([storage.get_name(entry.uri) for entry in found.files])

    simulated(list_before_and_after)
    assert listings == [["gone", "kept"], ["kept", "new"]]


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
