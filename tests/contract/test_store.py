"""What every metadata store keeps to, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from tests.support import store_fixtures
from tests.support.store_fixtures import (
    BIG,
    NOW_MS,
    assessment,
    cleaned_state,
    collect_statements,
    marked_state,
    open_run,
    receipt,
    retired_file,
    verdict,
)
from winnow.errors import (
    CommitUnknownError,
    ConfigurationError,
    FormatVersionError,
    PlanVoidError,
    RunAgainError,
    ServiceError,
    TopicBusyError,
    WinnowError,
)
from winnow.store import CheckpointRow, Lease, RunState, Store, migration
from winnow.store.database import Database
from winnow.store.migration import MIGRATIONS, make_alembic_config
from winnow.store.migrations import FIRST_REVISION, HEAD_REVISION, VERSION_TABLE
from winnow.store.rows import AuditEntry
from winnow.store.runs import TRANSITIONS
from winnow.store.store import PARTS
from winnow.store.tables import Base
from winnow.values.model import Reason, TopicPartition
from winnow.values.topic_state import Append, Cleaning, PartitionState, Uncleanable

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

TTL_MS = 60_000


@contextmanager
def engine_for(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def in_processes(source: str, arguments: Sequence[str], *, processes: int) -> list[str]:
    """Run ``source`` in several processes that begin together; what each printed."""
    ready = "import sys\nfrom winnow.store import Store\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ready + source, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(processes)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()


def in_threads(calls: Sequence[Callable[[], object]]) -> list[object]:
    """Make ``calls`` at once; what each returned or raised."""
    barrier = Barrier(len(calls))

    def one(call: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return call()
        except WinnowError as problem:
            return problem

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


@pytest.fixture
def genuine_migrations(migrated_once: Callable[[Database, Connection], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each store runs every migration, instead of getting the tables of the first one."""
    monkeypatch.setattr(migration, "_upgrade", migrated_once)


# ---------------------------------------------------------------------------------------------- schema and opening


@pytest.mark.usefixtures("genuine_migrations")
def test_an_empty_database_is_migrated_to_the_newest_revision(store_url: str) -> None:
    """Opening creates the tables and writes down the revision in Winnow's own version table."""
    Store.open(store_url).close()
    for module, _ in PARTS.values():  # each declares its tables when it is imported
        import_module(f"winnow.store.{module}")
    with engine_for(store_url) as engine, engine.connect() as connection:
        assert connection.scalars(text(f"SELECT version_num FROM {VERSION_TABLE}")).all() == [HEAD_REVISION]
        assert set(inspect(connection).get_table_names()) == {*Base.metadata.tables, VERSION_TABLE}


def test_the_known_newest_revision_is_the_head_of_the_scripts() -> None:
    """The constant that spares importing Alembic names the head of the packaged scripts."""
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD_REVISION]


@pytest.mark.usefixtures("genuine_migrations")
def test_the_migrated_schema_equals_the_models(store_url: str) -> None:
    """Alembic finds nothing to add, remove or change, types included."""
    Store.open(store_url).close()
    with engine_for(store_url) as engine, engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE},
        )
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.usefixtures("genuine_migrations")
def test_a_downgrade_leaves_no_table_and_the_next_opening_makes_them_again(store_url: str) -> None:
    """The migration can be undone to an empty database, and done again."""
    Store.open(store_url).close()
    with engine_for(store_url) as engine:
        with engine.begin() as connection:
            command.downgrade(make_alembic_config(connection), "base")
        assert inspect(engine).get_table_names() == [VERSION_TABLE]
    with Store.open(store_url) as store:
        assert store.alerts.remember("key", NOW_MS)


@pytest.mark.usefixtures("genuine_migrations")
def test_a_store_of_the_first_schema_is_upgraded_with_its_rows(store_url: str) -> None:
    """Runs from before they counted the partitions that they marked have the marks that are still there."""
    with Store.open(store_url) as store:
        for plan_id in ("plan-1", "plan-2"):
            store.runs.open(plan_id, "orders", attempt="a", as_of_ms=1, plan_uri="file:///plan", now_ms=1)
        mark = Uncleanable("It is damaged.", NOW_MS, "plan-1")
        store.projection.record_states("orders", {0: PartitionState(uncleanable=mark), 1: PartitionState()}, NOW_MS)
        store.audit.record(AuditEntry(1_000, "ann", "alter", "orders", entry_id="old"))
    with engine_for(store_url) as engine, engine.begin() as connection:
        command.downgrade(make_alembic_config(connection), FIRST_REVISION)
    with Store.open(store_url) as store:
        assert {run.plan_id: run.partitions_marked for run in store.runs.list_runs("orders")} == {
            "plan-1": 1,
            "plan-2": None,
        }
        assert list(store.projection.list_uncleanable().values()) == [mark]
        store.audit.record(AuditEntry(2_000, "ann", "alter", "orders", config_changes='{"orders":{}}'))
        assert store.audit.verify_chain().first_break is None
        assert [entry.config_changes for entry in store.audit.find_entries("old")] == [None]


@pytest.mark.usefixtures("genuine_migrations")
def test_a_shared_database_keeps_the_tables_of_others(store_url: str) -> None:
    """Another program's Alembic version table is neither read nor changed."""
    Store.open(store_url).close()
    with engine_for(store_url) as engine:
        with engine.begin() as connection:
            command.downgrade(make_alembic_config(connection), "base")
            connection.execute(text("CREATE TABLE alembic_version (version_num TEXT)"))
            connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
        Store.open(store_url).close()
        with engine.connect() as connection:
            assert connection.scalars(text("SELECT version_num FROM alembic_version")).all() == ["theirs"]


@pytest.mark.usefixtures("genuine_migrations")
@pytest.mark.parametrize(
    ("revision", "who"), [("9999", "a newer Winnow"), ("0021", "a Winnow from before the first release")]
)
def test_a_database_of_a_winnow_that_this_one_does_not_know_is_refused(store_url: str, revision: str, who: str) -> None:
    """A revision that this version does not know stops it before it changes anything."""
    Store.open(store_url).close()
    with engine_for(store_url) as engine, engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))
    with pytest.raises(FormatVersionError, match=f"{who}.*winnow store rebuild"):
        Store.open(store_url)


@pytest.mark.usefixtures("genuine_migrations")
def test_an_open_database_is_opened_again_without_alembic(store_url: str) -> None:
    """A database of the newest revision is used as it is."""
    Store.open(store_url).close()
    with collect_statements() as sent:
        Store.open(store_url).close()
    assert not [statement for statement in sent if "CREATE" in statement]


@pytest.mark.usefixtures("genuine_migrations")
def test_processes_that_open_an_empty_database_at_once_all_succeed(store_url: str) -> None:
    """Three processes race for the migration; each ends up with a store that works."""
    source = "with Store.open(sys.argv[1]) as store: print(store.alerts.remember('key', 1))"
    answers = in_processes(source, [store_url], processes=3)
    assert sorted(answers) == ["False\n", "False\n", "True\n"]


@pytest.mark.usefixtures("genuine_migrations")
def test_threads_that_open_an_empty_database_at_once_all_succeed(store_url: str) -> None:
    """Four threads race for the migration inside one process."""

    def opened() -> object:
        with Store.open(store_url) as store:
            return store.alerts.remember("key", NOW_MS)

    answers = in_threads([opened] * 4)
    assert answers.count(True) == 1
    assert answers.count(False) == 3


def test_a_store_carried_into_a_forked_process_works_in_both(store_url: str) -> None:
    """Parent and child talk to the database at the same time, and never over one connection."""
    source = """
import os
with Store.open(sys.argv[1]) as store:
    store.alerts.remember("both", 1)
    child = os.fork()
    name = "parent" if child else "child"
    for number in range(40):
        answers = [store.alerts.remember(f"{name}-{number}", 2), store.alerts.remember("both", 2)]
        if answers != [True, False] or store.runs.list_runs() or store.leases.find(name):
            print("wrong", name, number, answers, flush=True)
    if not child:
        os._exit(0)
    print(os.waitpid(child, 0)[1], store.alerts.remember("child-39", 3))
"""
    assert in_processes(source, [store_url], processes=1) == ["0 False\n"]


def test_sqlite_has_a_write_ahead_log_and_foreign_keys(tmp_path: Path) -> None:
    """The folder is made; the log mode is the file's; a mark without its checkpoint is refused."""
    url = f"sqlite:///{tmp_path}/not/yet/store.db"
    with Store.open(url) as store:
        with store._database.reading() as session:
            assert session.scalar(text("PRAGMA journal_mode")) == "wal"
            assert session.scalar(text("PRAGMA busy_timeout")) == 30_000
        with pytest.raises(WinnowError, match="FOREIGN KEY"), store._database.writing() as session:
            session.execute(text("INSERT INTO winnow_paused VALUES ('orders', 0, 1)"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://winnow:s3cr%40et@127.0.0.1:1/winnow",
        "postgresql+psycopg://winnow@127.0.0.1:1/winnow?password=s3cr%40et",
    ],
)
def test_an_unreachable_server_is_a_service_error_without_the_password(url: str) -> None:
    """Neither the message nor the traceback shows the password."""
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1.*Wait for the database") as caught:
        Store.open(url)
    told = "".join(traceback.format_exception(caught.value))
    assert "s3cr" not in told


def write_while_the_server_cuts_connections(store: Store, store_url: str) -> None:
    """A write transaction whose connection is ended from another one (PostgreSQL)."""
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND application_name = current_setting('application_name')"
    )
    with engine_for(store_url) as engine, store._database.writing() as session:
        session.execute(text("SELECT 1"))
        with engine.connect() as connection:
            connection.execute(text(others))
        session.execute(text("SELECT 1"))


def test_a_server_that_goes_away_is_a_service_error_and_a_later_call_connects_again(
    store: Store, store_url: str
) -> None:
    """Connections that were cut are replaced without reopening the store."""
    if store_url.startswith("sqlite"):
        path = Path(store_url.removeprefix("sqlite:///"))
        path.rename(path.with_suffix(".away"))
        path.mkdir()
        with pytest.raises(ServiceError, match="cannot be reached"):
            store.runs.list_runs()
        path.rmdir()
        path.with_suffix(".away").rename(path)
    else:
        with pytest.raises(ServiceError, match="cannot be reached"):
            write_while_the_server_cuts_connections(store, store_url)
    assert store.runs.list_runs() == []


def test_a_folder_that_cannot_be_made_is_a_service_error(tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(ServiceError, match="cannot be opened"):
        Store.open(f"sqlite:///{tmp_path}/taken/store.db")


@pytest.mark.parametrize(
    "url",
    [
        "s3cret",
        "postgres://winnow:s3cret@host/winnow",
        "postgresql+psycopg2://winnow:s3cret@host/winnow",
        "postgresql+psycopg://winnow:p@s3cret@host/winnow",
        "postgresql+psycopg://winnow:p@x:s3cret@host/winnow",
        "postgresql+psycopg://winnow:p@x/s3cret@host/winnow",
        "mysql://winnow:s3cret@host/winnow",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:s3cret?mode=memory&uri=true",
    ],
)
def test_a_url_that_is_not_served_is_a_configuration_error_that_does_not_repeat_it(url: str) -> None:
    """The message says what to write instead; no part of a password is in it."""
    with pytest.raises(ConfigurationError, match=r"postgresql\+psycopg://") as caught:
        Store.open(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_refused_statement_is_told_without_its_values(store: Store) -> None:
    """A constraint that does not hold is no service problem, and parameters stay out of the message."""
    with pytest.raises(WinnowError, match="refused a statement") as caught, store._database.writing() as session:
        session.execute(
            text("INSERT INTO winnow_alert (key, sent_at_ms) VALUES (:key, NULL)"), {"key": "a secret value"}
        )
    assert not isinstance(caught.value, ServiceError)
    assert "a secret value" not in "".join(traceback.format_exception(caught.value))


# ----------------------------------------------------------------------------------------------------------- leases


def test_a_free_topic_is_leased_until_its_expiry(store: Store) -> None:
    """The first lease has a token and ends at now plus time to live."""
    lease = store.leases.acquire("orders", "a", NOW_MS, TTL_MS)
    assert (lease.topic, lease.holder, lease.expires_ms) == ("orders", "a", NOW_MS + TTL_MS)
    assert store.leases.find("orders") == lease
    assert store.leases.find("payments") is None


def test_a_held_topic_is_refused_with_holder_and_expiry(store: Store) -> None:
    """The message names who holds the topic and until when; the lease stays."""
    lease = store.leases.acquire("orders", "host-a:17", NOW_MS, TTL_MS)
    with pytest.raises(TopicBusyError, match=r"orders is held by host-a:17 until 2023-11-14T22:14:20\.000Z"):
        store.leases.acquire("orders", "b", NOW_MS + TTL_MS - 1, TTL_MS)
    assert store.leases.find("orders") == lease


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        ("airflow:compact_topics:scheduled", "No task of that DAG run is at work; if its Airflow was killed, start it"),
        ("other-host:17:night", "Its process may be dead"),
    ],
)
def test_lease_that_nobody_renews_is_said_to_be_one(store: Store, holder: str, said: str) -> None:
    """A live process renews three times per time to live, so half of it without a renewal is told."""
    hour_ms = 3_600_000
    lease = store.leases.acquire("orders", holder, NOW_MS, hour_ms)
    with pytest.raises(TopicBusyError) as fresh:
        store.leases.acquire("orders", "b", NOW_MS + hour_ms // 3, hour_ms)
    with pytest.raises(TopicBusyError, match=rf"\(not renewed for 45 minutes\)\. Nothing was changed\. {said}"):
        store.leases.acquire("orders", "b", NOW_MS + 45 * 60_000, hour_ms)
    store.leases.renew(lease, NOW_MS + 46 * 60_000, hour_ms)
    with pytest.raises(TopicBusyError) as renewed:
        store.leases.acquire("orders", "b", NOW_MS + 50 * 60_000, hour_ms)
    assert "not renewed" not in f"{fresh.value} {renewed.value}"


def test_an_expired_lease_is_taken_over_with_a_higher_token(store: Store) -> None:
    """At its expiry a lease is free for others, and the holder before is fenced off."""
    old = store.leases.acquire("orders", "a", NOW_MS, TTL_MS)
    new = store.leases.acquire("orders", "b", NOW_MS + TTL_MS, TTL_MS)
    assert new.token > old.token
    with pytest.raises(TopicBusyError, match="held by b"):
        store.leases.renew(old, NOW_MS + TTL_MS, TTL_MS)
    assert not store.leases.release(old)
    assert store.leases.find("orders") == new


def test_the_same_holder_acquires_again_with_a_higher_token(store: Store) -> None:
    """A holder that lost track of its lease gets a new one; the old one no longer counts."""
    first = store.leases.acquire("orders", "a", NOW_MS, TTL_MS)
    second = store.leases.acquire("orders", "a", NOW_MS + 1, TTL_MS)
    assert second.token > first.token
    assert not store.leases.release(first)
    assert store.leases.find("orders") == second


def test_a_renewed_lease_keeps_its_token(store: Store) -> None:
    """Renewal moves the expiry, and the lease as it was acquired still releases it."""
    lease = store.leases.acquire("orders", "a", NOW_MS, TTL_MS)
    renewed = store.leases.renew(lease, NOW_MS + 1000, TTL_MS)
    assert renewed == replace(lease, expires_ms=NOW_MS + 1000 + TTL_MS) == store.leases.find("orders")
    assert store.leases.release(lease)
    assert store.leases.find("orders") is None


def test_an_expired_lease_that_nobody_took_is_renewed(store: Store) -> None:
    """A holder that was late loses nothing as long as nobody came between."""
    lease = store.leases.acquire("orders", "a", NOW_MS, TTL_MS)
    assert store.leases.renew(lease, NOW_MS + 5 * TTL_MS, TTL_MS).token == lease.token


def test_a_released_lease_is_free_and_tokens_go_on_rising(store: Store) -> None:
    """Release and a forgotten topic keep the counter, so an old token is never given out again."""
    first = store.leases.acquire("orders", "a", NOW_MS, TTL_MS)
    assert store.leases.release(first)
    assert not store.leases.release(first)
    with pytest.raises(TopicBusyError, match="was released"):
        store.leases.renew(first, NOW_MS, TTL_MS)
    second = store.leases.acquire("orders", "b", NOW_MS, TTL_MS)
    store.leases.release(second)
    store.projection.forget_topic("orders")
    assert first.token < second.token < store.leases.acquire("orders", "c", NOW_MS, TTL_MS).token


@pytest.mark.parametrize("expired", [False, True], ids=["free", "expired"])
def test_of_threads_that_acquire_at_once_exactly_one_wins(store: Store, expired: bool) -> None:
    """Eight holders race, for a topic nobody had and for one whose lease has expired."""
    if expired:
        store.leases.acquire("orders", "late", NOW_MS - TTL_MS, TTL_MS)

    def acquire(holder: str) -> Callable[[], object]:
        return lambda: store.leases.acquire("orders", holder, NOW_MS, TTL_MS)

    answers = in_threads([acquire(f"holder-{number}") for number in range(8)])
    losers = [answer for answer in answers if isinstance(answer, TopicBusyError)]
    winners = [answer for answer in answers if not isinstance(answer, WinnowError)]
    assert (len(winners), len(losers)) == (1, 7)
    assert store.leases.find("orders") == winners[0]


def test_of_scheduler_backfill_and_shell_exactly_one_holds_a_topic_each_time(store_url: str) -> None:
    """Twenty races over connections of their own; the loser is told who holds it."""
    names = ["scheduler", "backfill", "shell"]
    stores = {name: Store.open(store_url) for name in names}

    def acquire(name: str) -> Callable[[], object]:
        return lambda: stores[name].leases.acquire("orders", name, NOW_MS, TTL_MS)

    tokens = []
    for _ in range(20):
        answers = in_threads([acquire(name) for name in names])
        (winner,) = [answer for answer in answers if isinstance(answer, Lease)]
        losers = [answer for answer in answers if isinstance(answer, TopicBusyError)]
        assert len(losers) == 2
        assert all(f"held by {winner.holder}" in str(loser) for loser in losers)
        tokens.append(winner.token)
        assert stores[winner.holder].leases.release(winner)
    assert tokens == sorted(set(tokens))
    for opened in stores.values():
        opened.close()


# ------------------------------------------------------------------------------------------------------ assessments


def test_assessments_come_back_as_they_were_recorded(store: Store) -> None:
    """Every field survives, 64-bit figures and missing deadlines included, in the order of topic and partition."""
    found = [assessment("payments", 0), assessment("orders", 1), assessment("orders", 0)]
    store.assessments.record(NOW_MS, NOW_MS, found)
    assert store.assessments.list_latest() == [found[2], found[1], found[0]]
    assert store.assessments.list_latest(["payments"]) == [found[0]]
    assert store.assessments.list_latest(["nothing"]) == []


def test_the_same_as_of_again_replaces_its_assessment(store: Store) -> None:
    """Repeating a run changes no number of rows."""
    store.assessments.record(NOW_MS, NOW_MS, [assessment()])
    store.assessments.record(NOW_MS, NOW_MS + 1, [assessment(reason=Reason.CLEAN)])
    assert store.assessments.list_latest() == [assessment(reason=Reason.CLEAN)]
    with store._database.reading() as session:
        assert session.scalar(text("SELECT count(*) FROM winnow_assessment")) == 1


def test_the_latest_assessment_is_the_one_recorded_last(store: Store) -> None:
    """Neither a simulated future nor a record that arrives late hides what was looked at last."""
    store.assessments.record(NOW_MS + BIG // 2, NOW_MS, [assessment(reason=Reason.CLEAN)])
    store.assessments.record(NOW_MS, NOW_MS + 2, [assessment()])
    store.assessments.record(NOW_MS - 5, NOW_MS + 1, [assessment(reason=Reason.EMPTY)])
    assert store.assessments.list_latest() == [assessment()]


def test_ten_thousand_assessments_are_few_statements(store: Store) -> None:
    """Rows are folded into statements with many values each."""
    many = [assessment("orders", partition) for partition in range(10_000)]
    with collect_statements() as sent:
        store.assessments.record(NOW_MS, NOW_MS, many)
    assert len(sent) < 40
    assert store.assessments.list_latest() == many


# ------------------------------------------------------------------------------------------------------------- runs


def test_a_run_is_opened_as_planned(store: Store) -> None:
    """Its row exists with attempt, as-of and plan before anything starts."""
    run = open_run(store)
    assert (run.status, run.attempt, run.as_of_ms, run.plan_uri) == (
        RunState.PLANNED,
        "a-1",
        NOW_MS - 1,
        "/staging/plan-1.json",
    )
    assert (run.opened_at_ms, run.updated_at_ms, run.message, run.snapshot_id) == (NOW_MS, NOW_MS, "", None)
    assert store.runs.find("plan-1") == run
    assert store.runs.find("plan-2") is None


def test_a_run_opened_again_takes_the_new_attempt(store: Store) -> None:
    """A plan that was closed begins again as planned; the first opening stays known."""
    open_run(store)
    store.runs.set_state("plan-1", RunState.INVALID, NOW_MS + 1, message="bad", attempt="a-1")
    again = open_run(store, attempt="a-2", now_ms=NOW_MS + 2)
    assert (again.status, again.attempt, again.message) == (RunState.PLANNED, "a-2", "")
    assert (again.opened_at_ms, again.updated_at_ms) == (NOW_MS, NOW_MS + 2)


def test_a_run_knows_the_digest_of_the_plan_it_was_opened_with_last(store: Store) -> None:
    """Rows from before digests have none."""
    assert open_run(store).plan_sha256 is None
    for sha256 in ("ab" * 32, "cd" * 32):
        store.runs.open("plan-1", "orders", attempt="a-1", as_of_ms=1, plan_uri="/p", now_ms=NOW_MS, plan_sha256=sha256)
        found = store.runs.find("plan-1")
        assert found is not None
        assert found.plan_sha256 == sha256


def test_a_published_run_opened_again_is_returned_untouched(store: Store) -> None:
    """The receipt's run keeps attempt, snapshot and times."""
    open_run(store)
    published = store.runs.set_state(
        "plan-1", RunState.PUBLISHED, NOW_MS + 1, message="done", snapshot_id=BIG, attempt="a-1"
    )
    assert open_run(store, attempt="a-2", now_ms=NOW_MS + 2) == published
    assert published.snapshot_id == BIG


@pytest.mark.parametrize("state", [RunState.PUBLISHING, RunState.UNKNOWN])
def test_a_run_that_may_have_committed_is_not_opened_again(store: Store, state: RunState) -> None:
    """It must be settled first; what is known of it stays."""
    open_run(store)
    store.runs.set_state("plan-1", RunState.VALIDATED, NOW_MS, attempt="a-1")
    before = store.runs.set_state("plan-1", state, NOW_MS + 1, attempt="a-1")
    with pytest.raises(CommitUnknownError, match="A compaction determines the outcome"):
        open_run(store, attempt="a-2", now_ms=NOW_MS + 2)
    assert store.runs.find("plan-1") == before


def test_a_run_goes_its_way_step_by_step(store: Store) -> None:
    """Message, attempt and snapshot are written with the state; what is not given stays."""
    open_run(store, attempt="")
    store.runs.begin_attempt("plan-1", "a-1", NOW_MS + 1)
    for number, state in enumerate(("staged", "validated", "publishing"), start=2):
        store.runs.set_state("plan-1", RunState(state), NOW_MS + number, attempt="a-1")
    run = store.runs.set_state("plan-1", RunState.PUBLISHED, NOW_MS + 5, message="done", snapshot_id=7, attempt="a-1")
    assert (run.status, run.attempt, run.snapshot_id, run.message, run.updated_at_ms) == (
        RunState.PUBLISHED,
        "a-1",
        7,
        "done",
        NOW_MS + 5,
    )


def reach(store: Store, state: RunState) -> None:
    """Open a run and bring it to ``state`` by legal steps."""
    open_run(store)
    for step in {
        RunState.PLANNED: (),
        RunState.PUBLISHING: (RunState.VALIDATED, RunState.PUBLISHING),
        RunState.REFUSED: (RunState.VALIDATED, RunState.REFUSED),
    }.get(state, (state,)):
        store.runs.set_state("plan-1", step, NOW_MS + 1, attempt="a-1")


@pytest.mark.kafka("92")
@pytest.mark.parametrize("state", RunState)
def test_transitions_follow_the_table(store: Store, state: RunState) -> None:
    """Every state refuses exactly what the table does not list, and a refusal leaves the row as it was."""
    for target in RunState:
        store.projection.forget_topic("orders")
        reach(store, state)
        before = store.runs.find("plan-1")
        if state in TRANSITIONS[target]:
            moved = store.runs.set_state("plan-1", target, NOW_MS + 2, attempt="a-1", seen=state)
            assert moved.status is target
        elif state is target is RunState.PUBLISHED:
            assert store.runs.set_state("plan-1", target, NOW_MS + 2, attempt="a-1") == before
        else:
            with pytest.raises(WinnowError, match=r"cannot become|may have committed"):
                store.runs.set_state("plan-1", target, NOW_MS + 2, attempt="a-1")
            assert store.runs.find("plan-1") == before


@pytest.mark.parametrize(
    ("state", "target", "error"),
    [
        (RunState.PUBLISHED, RunState.VOID, RunAgainError),
        (RunState.PUBLISHED, RunState.COMPACTING, RunAgainError),
        (RunState.VOID, RunState.PUBLISHING, PlanVoidError),
        (RunState.REFUSED, RunState.STAGED, PlanVoidError),
        (RunState.INVALID, RunState.VALIDATED, PlanVoidError),
        (RunState.UNKNOWN, RunState.COMPACTING, CommitUnknownError),
        (RunState.PUBLISHING, RunState.INVALID, CommitUnknownError),
        (RunState.PLANNED, RunState.PUBLISHING, WinnowError),
    ],
)
def test_an_illegal_transition_says_what_to_do(
    store: Store, state: RunState, target: RunState, error: type[WinnowError]
) -> None:
    """The class of the error follows from the state the run is in."""
    reach(store, state)
    with pytest.raises(WinnowError, match="plan-1 of topic orders") as caught:
        store.runs.set_state("plan-1", target, NOW_MS + 2, attempt="a-1")
    assert type(caught.value) is error


def test_a_state_for_a_run_that_is_not_there_is_an_error(store: Store) -> None:
    """Nothing is made up."""
    with pytest.raises(WinnowError, match="no run of plan plan-9"):
        store.runs.set_state("plan-9", RunState.COMPACTING, NOW_MS, attempt="a-1")
    assert store.runs.list_runs() == []


def test_of_threads_that_end_a_run_at_once_the_table_of_transitions_decides(store: Store) -> None:
    """A publisher and a settler race: whoever comes first, the run ends published and nothing is lost."""
    open_run(store)
    store.runs.set_state("plan-1", RunState.VALIDATED, NOW_MS, attempt="a-1")
    store.runs.set_state("plan-1", RunState.PUBLISHING, NOW_MS, attempt="a-1")
    in_threads(
        [
            lambda: store.runs.set_state("plan-1", RunState.PUBLISHED, NOW_MS + 1, snapshot_id=7, attempt="a-1"),
            *[
                lambda: store.runs.set_state(
                    "plan-1", RunState.VOID, NOW_MS + 1, attempt="a-1", seen=RunState.PUBLISHING
                )
            ]
            * 5,
        ]
    )
    run = store.runs.find("plan-1")
    assert run is not None
    assert (run.status, run.snapshot_id) == (RunState.PUBLISHED, 7)


def test_open_runs_are_those_that_are_not_closed(store: Store) -> None:
    """Publishing, unknown and broken runs are open; published, invalid, refused and void ones are not.

    At work are those that are open but for unknown and broken ones, which wait for another run.
    """
    for state in RunState:
        open_run(store, state.value)
        if state in {RunState.PUBLISHING, RunState.REFUSED}:
            store.runs.set_state(state.value, RunState.VALIDATED, NOW_MS, attempt="a-1")
        if state is not RunState.PLANNED:
            store.runs.set_state(state.value, state, NOW_MS, attempt="a-1")
    assert {run.status.value for run in store.runs.list_open("orders")} == {
        "planned",
        "compacting",
        "staged",
        "validated",
        "publishing",
        "unknown",
        "broken",
    }
    assert store.runs.list_open("payments") == []
    working = {run.status.value for run in store.runs.list_at_work(NOW_MS + 1)}
    assert working == {"planned", "compacting", "staged", "validated", "publishing"}
    assert store.runs.list_at_work(NOW_MS) == []


def test_runs_are_listed_with_the_one_that_moved_last_first(store: Store) -> None:
    """A topic and a limit narrow the list."""
    for number in range(3):
        open_run(store, f"plan-{number}", now_ms=NOW_MS + number)
    store.runs.open("other", "payments", attempt="", as_of_ms=1, plan_uri="/p", now_ms=NOW_MS + 9)
    store.runs.set_state("plan-0", RunState.COMPACTING, NOW_MS + 5, attempt="a-1")
    assert [run.plan_id for run in store.runs.list_runs("orders")] == ["plan-0", "plan-2", "plan-1"]
    assert [run.plan_id for run in store.runs.list_runs("orders", 1)] == ["plan-0"]
    assert [run.plan_id for run in store.runs.list_runs()] == ["other", "plan-0", "plan-2", "plan-1"]


# --------------------------------------------------------------------------------------------------------- verdicts


def test_a_verdict_comes_back_as_it_was_recorded(store: Store) -> None:
    """One per plan and attempt, failures included."""
    store.verdicts.record(verdict())
    assert store.verdicts.find("plan-1", "a-1") == verdict()
    assert store.verdicts.find("plan-1", "a-2") is None


def test_a_second_verdict_of_an_attempt_replaces_the_first(store: Store) -> None:
    """Judging again gives one row."""
    store.verdicts.record(verdict())
    passed = replace(verdict(), passed=True, failures=())
    store.verdicts.record(passed)
    assert store.verdicts.list_verdicts() == [passed]


def test_verdicts_are_listed_newest_first(store: Store) -> None:
    """A topic and a limit narrow the list."""
    old, new = verdict(), verdict(attempt="a-2", checked_at_ms=NOW_MS + 1)
    other = replace(verdict("plan-2"), topic="payments", checked_at_ms=NOW_MS + 2)
    for each in (new, old, other):
        store.verdicts.record(each)
    assert store.verdicts.list_verdicts("orders") == [new, old]
    assert store.verdicts.list_verdicts(limit=1) == [other]


# --------------------------------------------------------------------------------------- receipts, checkpoints, marks


def projection(store: Store) -> list[Any]:
    """Everything that a rebuild restores."""
    ledger = [store.retired_files.list_retired(topic) for topic in ("orders", "payments")]
    paused = [
        store.projection.list_paused(),
        store.projection.list_paused_by("orders"),
        store.projection.list_paused_by("payments"),
    ]
    return [
        store.projection.list_checkpoints(),
        store.projection.list_uncleanable(),
        paused,
        store.projection.list_receipts(),
        ledger,
    ]


def test_a_publication_is_receipt_checkpoints_and_retired_files_together(store: Store) -> None:
    """One call makes all three visible, in the figures that the state has."""
    store.projection.record_publication(
        receipt(), {0: cleaned_state(), 1: marked_state()}, [retired_file("a")], NOW_MS + 7
    )
    assert store.projection.list_receipts() == [receipt()]
    assert store.projection.find_receipt("plan-1") == receipt()
    assert store.projection.list_checkpoints() == [
        CheckpointRow("orders", 0, 50, 3, BIG, "offset", cleaned_state().history, NOW_MS + 7),
        CheckpointRow("orders", 1, None, 0, 9, None, (), NOW_MS + 7),
    ]
    assert store.projection.list_uncleanable() == {TopicPartition("orders", 1): marked_state().uncleanable}
    assert store.projection.list_paused() == {TopicPartition("orders", 1): NOW_MS - 1}
    assert store.projection.list_paused_by("orders") == {1: ("zoe", "ops")}
    assert [(row.path, row.kind, row.plan_id) for row in store.retired_files.list_retired("orders")] == [
        (retired_file("a").path, "data", "plan-1")
    ]


def test_a_publication_recorded_twice_changes_nothing(store: Store) -> None:
    """Not even the time of the last change; and a file that was deleted meanwhile does not come back."""
    states = {0: cleaned_state(), 1: marked_state()}
    store.projection.record_publication(receipt(), states, [retired_file("a"), retired_file("b")], NOW_MS)
    store.retired_files.mark_deleted("orders", [retired_file("a").path], NOW_MS + 1)
    before = projection(store)
    store.projection.record_publication(receipt(), states, [retired_file("a"), retired_file("b")], NOW_MS + 2)
    assert projection(store) == before


def test_a_publication_that_fails_halfway_leaves_nothing(store: Store) -> None:
    """A checkpoint that cannot be written takes the receipt back with it."""
    broken = replace(cleaned_state(), history=(Cleaning(5, None, None), Cleaning(5, 1, 2)))
    with pytest.raises(WinnowError, match="refused a statement"):
        store.projection.record_publication(receipt(), {0: broken}, [retired_file("a")], NOW_MS)
    assert projection(store) == [[], {}, [{}, {}, {}], [], [[], []]]


def test_a_receipt_without_a_plan_is_refused(store: Store) -> None:
    """Nothing was published, so no checkpoint moves."""
    with pytest.raises(WinnowError, match="no plan id"):
        store.projection.record_publication(receipt(None), {0: cleaned_state()}, [], NOW_MS)
    assert projection(store) == [[], {}, [{}, {}, {}], [], [[], []]]


def test_states_replace_checkpoint_history_and_marks_of_their_partitions_only(store: Store) -> None:
    """Partitions that are not named and partitions that say nothing new keep their row and its time."""
    store.projection.record_states("orders", {0: cleaned_state(), 1: marked_state(), 2: cleaned_state()}, NOW_MS)
    store.projection.record_states("payments", {0: marked_state()}, NOW_MS)
    store.projection.record_states("orders", {0: marked_state(), 1: cleaned_state(60), 2: cleaned_state()}, NOW_MS + 1)
    assert [
        (row.partition, row.first_dirty_offset, row.updated_at_ms)
        for row in store.projection.list_checkpoints(["orders"])
    ] == [
        (0, None, NOW_MS + 1),
        (1, 60, NOW_MS + 1),
        (2, 50, NOW_MS),
    ]
    assert [len(row.history) for row in store.projection.list_checkpoints(["orders"])] == [0, 2, 2]
    assert list(store.projection.list_uncleanable()) == [TopicPartition("orders", 0), TopicPartition("payments", 0)]
    assert list(store.projection.list_paused(["orders"])) == [TopicPartition("orders", 0)]
    assert [row.topic for row in store.projection.list_checkpoints(["payments"])] == ["payments"]


def test_appends_alone_are_no_change_of_the_projection(store: Store) -> None:
    """What is projected of a state does not include its appends."""
    store.projection.record_states("orders", {0: cleaned_state()}, NOW_MS)
    grown = replace(cleaned_state(), appends=(Append("digest", 60, 69, 10, NOW_MS),))
    store.projection.record_states("orders", {0: grown}, NOW_MS + 1)
    assert [row.updated_at_ms for row in store.projection.list_checkpoints()] == [NOW_MS]


def test_thousands_of_states_are_few_statements(store: Store) -> None:
    """Checkpoints and histories are written and replaced in bulk."""
    store.projection.record_states("orders", {number: cleaned_state() for number in range(3_000)}, NOW_MS)
    with collect_statements() as sent:
        store.projection.record_states("orders", {number: cleaned_state(60) for number in range(3_000)}, NOW_MS + 1)
    assert len(sent) < 40
    assert {row.first_dirty_offset for row in store.projection.list_checkpoints()} == {60}


def test_threads_that_write_one_topic_at_once_leave_one_whole_state(store: Store) -> None:
    """Histories of two writers never mix."""
    states = [replace(cleaned_state(50 + number), history=(Cleaning(50 + number, 1, 2),)) for number in range(6)]

    def write(state: PartitionState) -> Callable[[], object]:
        return lambda: store.projection.record_states("orders", {0: state, 1: state}, NOW_MS)

    assert in_threads([write(state) for state in states]) == [None] * 6
    first, second = store.projection.list_checkpoints()
    assert first.history == second.history == (Cleaning(first.first_dirty_offset or 0, 1, 2),)


def test_receipts_are_listed_newest_first(store: Store) -> None:
    """A topic and a limit narrow the list."""
    for number in (1, 3, 2):
        store.projection.record_publication(receipt(f"plan-{number}", finished_at_ms=NOW_MS + number), {}, [], NOW_MS)
    store.projection.record_publication(receipt("other", "payments", finished_at_ms=NOW_MS + 9), {}, [], NOW_MS)
    assert [found.plan_id for found in store.projection.list_receipts("orders")] == ["plan-3", "plan-2", "plan-1"]
    assert [found.plan_id for found in store.projection.list_receipts(None, 2)] == ["other", "plan-3"]
    assert store.projection.find_receipt("plan-9") is None


# ---------------------------------------------------------------------------------------------------- retired files


def test_files_of_an_erasure_are_found_by_its_name_also_if_a_run_had_retired_them(store: Store) -> None:
    """What a run retired gets the erasure as its plan; files of others are not counted with them."""
    first, second, other = (retired_file(name) for name in "abc")
    store.retired_files.record("orders", [first, other], "data")
    erased = [replace(each, plan_id="erasure:e1") for each in (first, second)]
    for _ in range(2):
        store.retired_files.record_erased("orders", erased)
    assert {row.path: row.plan_id for row in store.retired_files.list_retired("orders")} == {
        first.path: "erasure:e1",
        second.path: "erasure:e1",
        other.path: other.plan_id,
    }
    (waiting,) = store.retired_files.list_waiting(NOW_MS + 1, plan_prefix="erasure:")
    assert (waiting.topic, waiting.files) == ("orders", 2)
    assert store.retired_files.list_waiting(NOW_MS + 1, plan_prefix="erasure_") == []


def test_retired_files_are_pending_until_they_are_deleted(store: Store) -> None:
    """Marking again changes nothing; a deleted file does not become pending again."""
    files = [retired_file(name, retired_at_ms=NOW_MS - number) for number, name in enumerate("abc")]
    store.retired_files.record("orders", files, "manifest")
    assert [row.path for row in store.retired_files.list_retired("orders")] == [file.path for file in reversed(files)]
    store.retired_files.mark_deleted("orders", [files[0].path, "/elsewhere"], NOW_MS + 1)
    store.retired_files.mark_deleted("orders", [files[0].path], NOW_MS + 2)
    store.retired_files.record("orders", files, "manifest")
    assert {row.path for row in store.retired_files.list_retired("orders")} == {files[1].path, files[2].path}
    everything = store.retired_files.list_retired("orders", pending_only=False)
    assert [row.deleted_at_ms for row in everything] == [None, None, NOW_MS + 1]
    assert [row.size_bytes for row in everything] == [1000, 1000, 1000]
    assert store.retired_files.list_retired("payments", pending_only=False) == []


def test_a_kind_that_is_not_known_is_refused(store: Store) -> None:
    """The message lists the kinds; nothing is written."""
    with pytest.raises(WinnowError, match="data, manifest, manifest_list, metadata, state"):
        store.retired_files.record("orders", [retired_file("a")], "index")
    assert store.retired_files.list_retired("orders") == []


def test_thousands_of_deleted_files_are_marked_in_chunks(store: Store) -> None:
    """More paths than one statement takes."""
    files = [retired_file(f"{number:05}") for number in range(1_700)]
    store.retired_files.record("orders", files, "data")
    store.retired_files.mark_deleted("orders", [file.path for file in files], NOW_MS)
    assert store.retired_files.list_retired("orders") == []
    deleted = store.retired_files.list_retired("orders", pending_only=False)
    assert (len(deleted), {row.deleted_at_ms for row in deleted}) == (1_700, {NOW_MS})
    assert sum(row.size_bytes for row in deleted) == 1_700_000


# ----------------------------------------------------------------------------------------------------------- alerts


def test_an_alert_is_remembered_once_until_it_is_forgotten(store: Store) -> None:
    """True the first time, and again after recovery."""
    assert [store.alerts.remember("validation_failed:orders-0", NOW_MS) for _ in range(3)] == [True, False, False]
    assert store.alerts.remember("validation_failed:orders-1", NOW_MS)
    assert [store.alerts.forget("validation_failed:orders-0") for _ in range(2)] == [True, False]
    assert store.alerts.remember("validation_failed:orders-0", NOW_MS)


def test_of_threads_that_alert_at_once_exactly_one_is_the_first(store: Store) -> None:
    """Eight tasks find the same problem; one message goes out."""
    answers = in_threads([lambda: store.alerts.remember("key", NOW_MS)] * 8)
    assert sorted(map(bool, answers)) == [False] * 7 + [True]


# ---------------------------------------------------------------------------------------------- rebuild and forget


def fill(store: Store) -> None:
    """A topic with two publications and a mark, and another topic beside it."""
    store.assessments.record(NOW_MS, NOW_MS, [assessment()])
    open_run(store)
    store.verdicts.record(verdict())
    store.projection.record_publication(receipt(), {0: cleaned_state(40)}, [retired_file("a")], NOW_MS)
    store.projection.record_publication(
        receipt("plan-2", finished_at_ms=NOW_MS + 1),
        {0: cleaned_state(), 1: marked_state()},
        [retired_file("b", plan_id="plan-2")],
        NOW_MS,
    )
    store.projection.record_publication(receipt("other", "payments"), {0: cleaned_state()}, [], NOW_MS)


REBUILT: dict[str, Any] = {
    "topic": "orders",
    "states": {0: cleaned_state(), 1: marked_state()},
    "receipts": [receipt(), receipt("plan-2", finished_at_ms=NOW_MS + 1)],
    "retired": [retired_file("a"), retired_file("b", plan_id="plan-2")],
    "now_ms": NOW_MS,
}


def test_a_rebuilt_projection_equals_the_one_that_grew(store: Store, new_store_url: Callable[[], str]) -> None:
    """From state and receipts alone, in the same database and in an empty one."""
    fill(store)
    grown = projection(store)
    store.projection.replace(**REBUILT)
    assert projection(store) == grown
    with Store.open(new_store_url()) as empty:
        empty.projection.replace(**REBUILT)
        empty.projection.record_publication(receipt("other", "payments"), {0: cleaned_state()}, [], NOW_MS)
        assert projection(empty) == grown


def test_a_rebuild_removes_what_the_table_does_not_know_and_keeps_history(store: Store) -> None:
    """Partitions, marks, receipts and pending data files go; assessments, runs, verdicts and other kinds stay."""
    fill(store)
    store.projection.record_states("orders", {7: marked_state()}, NOW_MS)
    store.retired_files.record("orders", [retired_file("unknown")], "data")
    store.retired_files.record("orders", [retired_file("manifest")], "manifest")
    store.retired_files.mark_deleted("orders", [retired_file("a").path], NOW_MS)
    store.projection.replace("orders", {0: cleaned_state()}, [receipt()], [retired_file("a")], NOW_MS)
    assert [row.partition for row in store.projection.list_checkpoints(["orders"])] == [0]
    assert store.projection.list_uncleanable() == {}
    assert store.projection.list_paused() == {}
    assert [found.plan_id for found in store.projection.list_receipts("orders")] == ["plan-1"]
    assert [row.path for row in store.retired_files.list_retired("orders")] == [retired_file("manifest").path]
    assert store.assessments.list_latest() == [assessment()]
    assert [run.plan_id for run in store.runs.list_runs()] == ["plan-1"]
    assert store.verdicts.list_verdicts() == [verdict()]


@pytest.mark.kafka("45")
def test_a_forgotten_topic_leaves_the_others_alone(store: Store) -> None:
    """Projection and history of one topic are gone, the rest is as it was."""
    fill(store)
    store.projection.forget_topic("orders")
    assert {row.topic for row in store.projection.list_checkpoints()} == {"payments"}
    assert store.projection.list_uncleanable() == {}
    assert store.projection.list_paused() == {}
    assert [found.topic for found in store.projection.list_receipts()] == ["payments"]
    assert store.assessments.list_latest() == []
    assert store.runs.list_runs() == []
    assert store.verdicts.list_verdicts() == []
    assert store.retired_files.list_retired("orders", pending_only=False) == []


def test_tallies_count_the_runs_of_one_topic_by_state_and_the_bytes_that_are_gone(store: Store) -> None:
    """Other topics and files that still wait count nowhere; nothing is nothing."""
    assert (store.runs.count_by_state("orders"), store.retired_files.sum_deleted_bytes("orders")) == ({}, 0)
    for plan_id in ("plan-1", "plan-2", "plan-3"):
        open_run(store, plan_id)
    store.runs.open("other", "clicks", attempt="a", as_of_ms=1, plan_uri="/p.json", now_ms=NOW_MS)
    store.runs.set_state("plan-1", RunState.PUBLISHED, NOW_MS, attempt="a-1")
    store.runs.set_state("plan-2", RunState.VOID, NOW_MS, attempt="a-1")
    store.retired_files.record("orders", [retired_file("a"), retired_file("b"), retired_file("c")], "data")
    store.retired_files.mark_deleted("orders", [retired_file("a").path, retired_file("b").path], NOW_MS + 1)
    assert store.runs.count_by_state("orders") == {RunState.PUBLISHED: 1, RunState.VOID: 1, RunState.PLANNED: 1}
    assert (store.retired_files.sum_deleted_bytes("orders"), store.retired_files.sum_deleted_bytes("clicks")) == (
        2_000,
        0,
    )
