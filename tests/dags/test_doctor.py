"""What ``winnow doctor`` finds in Airflow: everything well in a prepared home, and each thing that is broken."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import copy_home
from winnow.config.settings import Settings
from winnow.embedded.airflow_home import POOLS
from winnow.pipeline.doctor.check_runner import CheckResult, CheckStatus
from winnow_airflow import health
from winnow_airflow.task_defaults import COMMIT_POOL, SPARK_POOL


def asked(home: Path, **env: str) -> dict[str, dict[str, Any]]:
    """What a plain shell is told: no variable of Airflow but those in ``env``."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-m", "winnow.embedded.airflow_home", "check"],
        env={**plain, "WINNOW_HOME": str(home), "WINNOW_SPARK__MASTER": "local[2]", **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return {each["check"]: each for each in json.loads(done.stdout)}


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def listener() -> Iterator[tuple[str, dict[str, Any]]]:
    """Something that answers every GET with the document, which a test may fill."""
    document: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", document
    server.shutdown()
    thread.join()
    server.server_close()


def test_home_that_nobody_prepared_is_left_unprepared(tmp_path: Path) -> None:
    """Looking makes no database and no secret; the command that does is named."""
    found = asked(tmp_path / "home")
    assert found["airflow"]["status"] == "ok"
    assert "is prepared by its first start" in found["airflow"]["detail"]
    assert not (tmp_path / "home").exists()


def on_sqlite(home: Path) -> str:
    """The URL by which a copy of the tests' home is found."""
    return f"sqlite:///{home / 'airflow' / 'airflow.db'}"


def test_prepared_home_is_well_from_a_plain_shell(airflow_home: Settings) -> None:
    """Database, DAGs, plugins, pools and connection; that nothing runs is no fault of the embedded Airflow."""
    home = airflow_home.home
    found = asked(home, WINNOW_UI_PORT=str(free_port()), AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=on_sqlite(home))
    checks = ("", "-database", "-dags", "-schedules", "-pools", "-connection", "-api")
    # Other tests of this process may have paused a DAG; that one is told.
    assert {name: each["status"] for name, each in found.items() if "Paused" not in each["detail"]} | {
        "airflow-schedules": "ok"
    } == dict.fromkeys([f"airflow{check}" for check in checks], "ok")
    assert "compact_topics" in found["airflow-dags"]["detail"]
    for name in (SPARK_POOL, COMMIT_POOL):
        assert f"{name}: {POOLS[name]['slots']} slots" in found["airflow-pools"]["detail"]
    assert "python -m winnow.embedded.airflow_home ui" in found["airflow-api"]["detail"]


def test_broken_home_fails_with_the_command_that_mends_each_thing(
    airflow_home: Settings, tmp_path: Path, listener: tuple[str, dict[str, Any]]
) -> None:
    """A pool without slots, and a port that somebody else has."""
    home = tmp_path / "home"
    copy_home(airflow_home, home)
    with closing(sqlite3.connect(home / "airflow" / "airflow.db")) as database, database:
        database.execute("DELETE FROM slot_pool WHERE pool = 'winnow_commit'")
    port = listener[0].rpartition(":")[2]
    found = asked(home, WINNOW_UI_PORT=port, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=on_sqlite(home))
    pools = found["airflow-pools"]
    assert (pools["status"], pools["exit_code"]) == ("failure", 2)
    assert "No slots in winnow_commit" in pools["detail"]
    assert pools["fix"] == "winnow airflow pools set winnow_commit 4 Winnow"
    api = found["airflow-api"]
    assert (api["status"], api["exit_code"]) == ("failure", 6)
    assert "the port is taken" in api["detail"]
    assert "WINNOW_UI_PORT" in api["fix"]


def test_another_airflow_that_the_shell_names_is_the_one_that_is_asked(tmp_path: Path) -> None:
    """Without tables nothing is asked of them; nothing listens where its API should be; its home is not Winnow's."""
    home = tmp_path / "airflow"
    found = asked(
        tmp_path / "home",
        AIRFLOW_HOME=str(home),
        AIRFLOW__API__BASE_URL=f"http://127.0.0.1:{free_port()}",
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
    )
    assert str(home) in found["airflow"]["detail"]
    assert found["airflow-database"]["status"] == "failure"
    assert found["airflow-database"]["fix"] == "airflow db migrate"
    assert (found["airflow-api"]["status"], found["airflow-api"]["exit_code"]) == ("failure", 6)
    assert "airflow-pools" not in found
    assert not (tmp_path / "home").exists()


def test_dag_that_does_not_parse_is_named_with_its_error(airflow_home: Settings, tmp_path: Path) -> None:
    """The last line of what Airflow says of it."""
    (tmp_path / "broken.py").write_text("from airflow.sdk import DAG\nimport nothing_of_ours\n")
    names, (finding,) = health.check_dags(tmp_path)
    assert names == []
    assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 2)
    assert "broken.py does not parse: ModuleNotFoundError: No module named 'nothing_of_ours'" in finding.detail
    assert "airflow dags list-import-errors" in finding.fix


def test_dags_that_are_unknown_or_paused_are_told(airflow_home: Settings) -> None:
    """Neither fails: somebody may have meant it."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    finding = health.check_schedules(["no_such_dag"], "airflow dag-processor")
    assert finding.status is CheckStatus.WARNING
    assert "has not read no_such_dag" in finding.detail
    assert finding.fix.endswith("airflow dag-processor")
    finding = health.check_schedules(["no_such_dag"], "winnow", is_off=True)
    assert (finding.status, finding.detail) == (CheckStatus.OK, "no_such_dag are read when it is started: winnow")
    with create_session() as session:
        session.add(DagBundleModel(name="doctor"))
        session.flush()
        session.add(DagModel(dag_id="held_dag", bundle_name="doctor", is_paused=True))  # type: ignore[no-untyped-call]
    finding = health.check_schedules(["held_dag"], "", "winnow ")
    assert (finding.status, finding.fix) == (CheckStatus.WARNING, "winnow airflow dags unpause held_dag")
    finding = health.check_schedules(["held_dag", "no_such_dag"], "", "winnow ", is_off=True)
    assert (finding.status, finding.fix) == (CheckStatus.WARNING, "winnow airflow dags unpause held_dag")


def test_connection_that_is_missing_or_leads_elsewhere_is_told(
    airflow_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one Spark would silently look for YARN; with another one shell and Airflow would differ."""
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "spark://head:7077")
    name = "AIRFLOW_CONN_WINNOW_SPARK"

    def with_connection(**fields: Any) -> CheckResult:
        monkeypatch.setenv(name, json.dumps({"conn_type": "spark", **fields}))
        return health.check_connection()

    assert with_connection(host="spark://head", port=7077).status is CheckStatus.OK
    assert with_connection(host="spark://head:7077").status is CheckStatus.OK
    other = with_connection(host="local[2]")
    assert other.status is CheckStatus.WARNING
    assert "points at local[2], and the setting spark.master at spark://head:7077" in other.detail
    monkeypatch.delenv(name)
    missing = health.check_connection("")
    assert (missing.status, missing.exit_code) == (CheckStatus.FAILURE, 2)
    assert missing.fix == "airflow connections add winnow_spark --conn-type spark --conn-host spark://head:7077"


def test_api_is_well_only_when_its_components_are(
    airflow_home: Settings, listener: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler without a heartbeat is named."""
    url, document = listener
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", f"{url}/execution/")
    document |= {name: {"status": "healthy"} for name in health.REQUIRED_COMPONENTS}
    well = health.check_api(embedded=True)
    assert (well.status, well.detail) == (CheckStatus.OK, f"Airflow at {url} is healthy.")
    document["scheduler"] = {"status": "unhealthy"}
    ill = health.check_api(embedded=True)
    assert ill.status is CheckStatus.WARNING
    assert "not healthy: scheduler" in ill.detail
