"""Makes the adapters of this interpreter report to the simulation, and hides the real clock, chance and threads.

Outside of a simulated process everything is as it was.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, nullcontext
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final

import sqlalchemy
from pyiceberg.catalog import sql as catalog_sql
from pyiceberg.table import metadata as table_metadata
from pyiceberg.table import update as table_update
from pyiceberg.utils.concurrent import ExecutorFactory

from simulation.applications import run_erasure_application
from simulation.disk import SyncedDisk
from simulation.turns import Adapter, ProcessKilled, calling, get_process, sleep_until
from winnow.cli import output
from winnow.engine import erasure_job
from winnow.files import disk_sync, storage
from winnow.log import document_copies, file_io, manifests
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.pipeline import installation
from winnow.pipeline.latest import table as latest_table
from winnow.pipeline.spark import plan_job
from winnow.pipeline.topics import leases
from winnow.store import database, migration

STORAGE_CALLS: Final = {
    "read_bytes": False,
    "write_bytes": True,
    "create_bytes": True,
    "create_file": True,
    "sync": True,
    "read_size_bytes": False,
    "delete": True,
    "list_folders": False,
}
"""Functions of :mod:`winnow.files.storage`, and whether they write."""

DISK_CALLS: Final = ("replace", "rename", "link", "unlink", "rmdir", "mkdir")
"""Functions of `os` that change folders: what a killed process does not do any more."""

CATALOG_CALLS: Final = {
    "find_metadata_location": False,
    "swap_metadata": True,
    "register_table": True,
    "drop_table_at": True,
}

MODULE_STATE: Final[tuple[tuple[Any, str, Callable[[], object]], ...]] = (
    (disk_sync, "_synced_folders", set),
    (document_copies, "_read_from_copies", dict),
    (latest_table, "_one_at_a_time", threading.Lock),
    (migration, "_one_at_a_time", threading.Lock),
    (output, "_printed_messages", set),
)
"""What a process keeps in modules, and how it begins: each simulated process has its own."""

CACHES: Final = (
    manifests._make_entry_reader,
    manifests._make_full_entry_reader,
    manifests._list_reader,
    erasure_job.open_task_source,
)
"""Functions that keep what they read of files whose names come again in another history."""

CONSTANT_STATE: Final = frozenset(
    {
        "winnow.arrivals.planned_erasures._read_erasures",
        "winnow.embedded.postgres._left_running",
        "winnow.files.duckdb_connection._make_filesystem_class",
        "winnow.files.object_store._make_client",
        "winnow.files.object_store._make_vending_client",
        "winnow.files.object_versions._make_client",
        "winnow.files.private_files._find_file_system",
        "winnow.files.private_files._read_boot_id",
        "winnow.kafka.garbage_collection._blocks",
        "winnow.quality.gx_session._sessions",
        "winnow.report.alert_manager._opener",
        "winnow.schemas.protobuf_files._load",
        "winnow.sources.formats.json_records._make_decoder",
        "winnow.sources.kafka_log.tiered.read_manifest",
        "winnow.sources.layouts.aiven.inspect_object",
        "winnow.store.alert_events._number",
        "winnow.store.bulk_statements._make_upsert",
        "winnow.store.row_values._describe_fields",
        "winnow.store.run_progress._insert_transition",
        "winnow.store.tables._list_shared",
        "winnow.store.topic_heads._make_statement",
        "winnow.store.topic_rows.list_tables",
        "winnow.values.documents._decoders",
        "winnow.values.documents._making_decoder",
    }
)
"""What modules keep that no step depends on: decoders, statements, counters, what no simulated step asks for."""


class InlineExecutor(futures.Executor):
    """Runs what is submitted at once, in the thread that submits it."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Run it."""
        future: futures.Future[Any] = futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


class Adapters:
    """The changed attributes, for as long as they are changed.

    Args:
        read_clock_ms: the clock of the process that asks.
        read_true_ms: the world's clock.
        disk: told of what is synced, and of what is deleted.
        note_swap: told of each commit of a table, and of each table that is entered, in the process that does it:
            identifier and metadata file.
        is_dead: tells whether the process that a lease names is dead.
    """

    def __init__(
        self,
        read_clock_ms: Callable[[], int],
        read_true_ms: Callable[[], int],
        disk: SyncedDisk,
        note_swap: Callable[[str, str], None],
        is_dead: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._changed: list[tuple[Any, str, Any]] = []
        self._read_clock_ms = read_clock_ms
        self._read_true_ms = read_true_ms
        self._disk = disk
        self._note_swap = note_swap
        self._is_dead = is_dead

    def __enter__(self) -> Adapters:
        for name, writes in STORAGE_CALLS.items():
            self._report(storage, name, Adapter.STORAGE, writes=writes)
        self._report_listings()
        for name in DISK_CALLS:
            self._end_with_process(name)
        for name, writes in CATALOG_CALLS.items():
            self._report(LogSqlCatalog, name, Adapter.CATALOG, writes=writes)
        self._report(file_io._SyncedStream, "close", Adapter.DISK, writes=True)
        self._report_transactions("reading", writes=False)
        self._report_transactions("writing", writes=True)
        self._report_syncs()
        self._hide_time()
        self._hide_chance()
        self._hide_threads()
        self._share_compiled_statements()
        self._set(plan_job, "run_job", run_erasure_application)
        for cached in CACHES:
            cached.cache_clear()
        return self

    def __exit__(self, *_: object) -> None:
        for place, name, value in reversed(self._changed):
            setattr(place, name, value)
        self._changed.clear()

    def _set(self, place: Any, name: str, value: Any) -> None:
        self._changed.append((place, name, getattr(place, name)))
        setattr(place, name, value)

    def _report(self, place: Any, name: str, adapter: Adapter, *, writes: bool) -> None:
        genuine = getattr(place, name)

        def report(*args: Any, **kwargs: Any) -> Any:
            if get_process() is None:
                return genuine(*args, **kwargs)
            with calling(adapter, name, writes=writes):
                result = genuine(*args, **kwargs)
                if name in {"swap_metadata", "register_table"}:
                    self._note_swap(str(args[1]), str(args[-1]))
                return result

        self._set(place, name, report)

    def _report_listings(self) -> None:
        genuine = storage.list_named_files

        def report(root: str, folder: str, is_named: Callable[[str], bool]) -> storage.Listing:
            process = get_process()
            if process is None:
                return genuine(root, folder, is_named)
            with calling(Adapter.STORAGE, "list_named_files", writes=False):
                listing = genuine(root, folder, is_named)
                if process.listing_age_ms and storage.is_local(root):
                    top = storage.join(root, folder) if folder else root.rstrip("/")
                    listing = self._disk.make_older(listing, top, is_named, process.listing_age_ms)
                    process.listing_age_ms = 0
                return listing

        self._set(storage, "list_named_files", report)

    def _end_with_process(self, name: str) -> None:
        genuine = getattr(os, name)

        def act(*args: Any, **kwargs: Any) -> Any:
            process = get_process()
            if process is not None and process.is_killed:
                raise ProcessKilled
            if process is not None and name == "unlink":
                self._disk.note_deletion(args[0], kwargs.get("dir_fd"))
            return genuine(*args, **kwargs)

        self._set(os, name, act)

    def _report_transactions(self, name: str, *, writes: bool) -> None:
        genuine = getattr(database.Database, name)

        @contextmanager
        def report(self: database.Database) -> Iterator[Any]:
            if get_process() is None:
                with genuine(self) as session:
                    yield session
                return
            with calling(Adapter.STORE, name, writes=writes), genuine(self) as session:
                yield session

        self._set(database.Database, name, report)

    def _report_syncs(self) -> None:
        genuine = os.fsync

        def sync(descriptor: Any) -> None:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            if get_process() is None:
                genuine(number)
                return
            with calling(Adapter.DISK, "fsync", writes=True):
                self._disk.note_sync(number)

        self._set(os, "fsync", sync)

    def _hide_time(self) -> None:
        read_ms, real_time, real_ns, real_sleep = self._read_clock_ms, time.time, time.time_ns, time.sleep
        self._set(time, "time", lambda: real_time() if get_process() is None else read_ms() / 1000)
        self._set(time, "time_ns", lambda: real_ns() if get_process() is None else read_ms() * 1_000_000)
        for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
            self._hide_counter(name)
        self._set(
            time, "sleep", lambda s: real_sleep(s) if get_process() is None else sleep_until(self._read_true_ms, s)
        )

        class SimulatedDatetime(datetime.datetime):
            """The time of PyIceberg's metadata."""

            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Any:
                """Return the simulated time."""
                if get_process() is None:
                    return datetime.datetime.now(tz)
                return datetime.datetime.fromtimestamp(read_ms() / 1000, tz)

        self._set(table_metadata, "datetime", SimpleNamespace(datetime=SimulatedDatetime))
        self._set(table_update, "datetime", SimulatedDatetime)

    def _hide_counter(self, name: str) -> None:
        genuine = getattr(time, name)
        self._set(time, name, lambda: genuine() if get_process() is None else self._read_clock_ms() / 1000)

    def _hide_chance(self) -> None:
        real_urandom, real_random = os.urandom, random.random

        def draw_bytes(count: int) -> bytes:
            process = get_process()
            return real_urandom(count) if process is None else process.chance.randbytes(count)

        def draw() -> float:
            process = get_process()
            return real_random() if process is None else process.chance.random()

        # What uuid and secrets take from; default factories keep uuid4 itself.
        self._set(os, "urandom", draw_bytes)
        self._set(random, "_urandom", draw_bytes)
        self._set(random, "random", draw)

    def _hide_threads(self) -> None:
        genuine_lock = fcntl.flock

        def lock(handle: Any, operation: int) -> None:
            if get_process() is None or operation & (fcntl.LOCK_NB | fcntl.LOCK_UN):
                genuine_lock(handle, operation)
                return
            while True:
                try:
                    genuine_lock(handle, operation | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    sleep_until(self._read_true_ms, 1)

        self._set(fcntl, "flock", lock)
        self._replace_everywhere("ThreadPoolExecutor", futures.ThreadPoolExecutor, InlineExecutor)
        self._set(ExecutorFactory, "get_or_create", staticmethod(InlineExecutor))
        self._replace_everywhere("renew_in_background", leases.renew_in_background, _do_not_renew)
        self._replace_everywhere("is_process_dead", installation.is_process_dead, self._is_dead)
        for descriptor in _list_locking_properties():
            self._set(descriptor, "lock", nullcontext())

    def _replace_everywhere(self, name: str, genuine: object, other: object) -> None:
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith("winnow.") and getattr(module, name, None) is genuine:
                self._set(module, name, other)

    def _share_compiled_statements(self) -> None:
        """Let all engines share the text of their statements: each process has engines of its own."""
        for module in (database, catalog_sql):
            self._set(module, "create_engine", _create_sharing_engine)


class _SharedStatements(dict[Any, Any]):
    """Compiled statements of all engines; their keys begin with the engine's dialect, and all of them are SQLite's."""

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the statement that any engine compiled."""
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


_statements: Final = _SharedStatements()


def _create_sharing_engine(*args: Any, **kwargs: Any) -> sqlalchemy.Engine:
    engine = sqlalchemy.create_engine(*args, **kwargs)
    engine._compiled_cache = _statements
    return engine


@contextmanager
def _do_not_renew(*_: object, **__: object) -> Iterator[None]:
    """Let leases end: a process that works for longer than its lease is one that stood still."""
    yield


def _list_locking_properties() -> list[Any]:
    """List the descriptors that keep one lock for all instances, as Python up to 3.11 has them."""
    classes = {
        value
        for name, module in list(sys.modules.items())
        if name.startswith(("winnow.", "pyiceberg."))
        for value in vars(module).values()
        if isinstance(value, type)
    }
    descriptors = {id(value): value for kind in classes for value in vars(kind).values()}
    return [value for value in descriptors.values() if isinstance(value, cached_property) and hasattr(value, "lock")]
