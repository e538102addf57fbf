"""docker-compose.yml at work, without containers: its services compact and sweep a topic on S3 with a Spark cluster."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest
from pyarrow import fs

from tests.cluster.airflow_api import AirflowApi
from tests.cluster.compose_file import load
from tests.cluster.local_services import Machine
from tests.cluster.order_log import PARTITIONS, RECORDS, make_order_log
from tests.support.world import compute_survivors, write_jsonl
from winnow.clock import format_ms, read_wall_clock_ms

pytestmark = [
    # Thrice the usual patience: on a machine at work everything that starts here takes its time.
    pytest.mark.timeout(1_800),
    pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR"),
]

TOPIC = "orders"


@dataclass(frozen=True)
class Server:
    """The running services, and an administrator's access to them."""

    machine: Machine
    api: AirflowApi
    compaction: dict[str, str]

    def secret(self, path: str) -> str:
        """A secret that the first start made."""
        return (self.machine.folder / "run" / "winnow" / path).read_text(encoding="utf-8")

    @property
    def secrets(self) -> list[str]:
        """Everything that must not be said anywhere."""
        names = ["database/password", "objects/secret-access-key"]
        names += [f"airflow/{name}" for name in ("fernet-key", "jwt-secret", "api-secret")]
        spark = self.secret("spark/spark-defaults.conf").split()[-1]
        return [spark, *map(self.secret, names), *json.loads(self.secret("airflow/login.json")).values()]

    def winnow(self, *arguments: str) -> str:
        """``docker compose exec airflow-scheduler winnow …``."""
        return self.machine.run("airflow-scheduler", "winnow", *arguments)

    def find_folder(self, topic: str) -> str:
        """The name of the folder of a topic's table."""
        return str(json.loads(self.winnow("topics", "describe", topic, "--json"))["location"]).rpartition("/")[2]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the metadata store, read with PostgreSQL's own client and the generated password."""
        port = self.machine.ports[5432]
        with psycopg.connect(
            host="127.0.0.1", port=port, dbname="store", user="winnow", password=self.secret("database/password")
        ) as connection:
            return list(connection.execute(query.encode()).fetchall())

    @property
    def store(self) -> fs.S3FileSystem:
        """The object store."""
        return fs.S3FileSystem(
            endpoint_override=f"http://127.0.0.1:{self.machine.ports[7070]}",
            region="us-east-1",
            access_key=self.secret("objects/access-key-id"),
            secret_key=self.secret("objects/secret-access-key"),
        )

    def objects(self) -> set[str]:
        """Every object of the bucket."""
        found = self.store.get_file_info(fs.FileSelector("winnow", recursive=True))
        return {each.path for each in found if each.type == fs.FileType.File}


@pytest.fixture(scope="module")
def machine(root: Path) -> Iterator[Machine]:
    """Every service of the file, started in order and healthy."""
    folders = [Path(tempfile.mkdtemp(prefix="winnow-cluster-")) for _ in range(2)]
    machine = Machine(load(root / "docker-compose.yml"), folder=folders[0], postgres_folder=folders[1])
    try:
        machine.up()
        yield machine
    finally:
        machine.down()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def server(machine: Machine) -> Server:
    """A topic with records, and a compaction that an administrator asked for over the REST API."""
    said = machine.run("airflow-apiserver", "team-server", "login").split()
    api = AirflowApi.login(said[0], said[said.index("login:") + 1], said[said.index("password:") + 1])
    path = write_jsonl(machine.folder / "tmp" / "orders.jsonl", make_order_log())
    settings = ["--config", "segment.ms=1000", "--config", "winnow.retired.grace.ms=0"]
    machine.run("airflow-scheduler", "winnow", "topics", "create", TOPIC, "--partitions", str(PARTITIONS), *settings)
    machine.run("airflow-scheduler", "winnow", "ingest", "files", TOPIC, path)
    return Server(machine, api, api.run("compact_topics", topics=[TOPIC], as_of=format_ms(read_wall_clock_ms())))


def test_a_compaction_asked_for_over_the_api_leaves_what_the_oracle_keeps(server: Server) -> None:
    """Every task is green, and readers find record for record what the rules say."""
    failures = {task: state for task, state in server.compaction.items() if state in {"failed", "upstream_failed"}}
    assert (failures, server.compaction["run"]) == ({}, "success"), server.compaction

    read = [json.loads(line) for line in server.winnow("read", TOPIC).splitlines()]

    expected = compute_survivors(make_order_log())
    assert len(expected) < PARTITIONS * RECORDS / 2
    assert [(each["partition"], each["offset"], _bytes(each["key"]), _bytes(each["value"])) for each in read] == [
        (each.partition, each.offset, each.key, each.value) for each in expected
    ]
    assert [each["headers"] is None for each in read] == [each.headers is None for each in expected]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_table_store_and_receipt_agree_on_the_compaction(server: Server) -> None:
    """The snapshot that the receipt names, the run and the checkpoints in PostgreSQL."""
    (receipt,) = json.loads(server.winnow("receipts", TOPIC, "--json"))
    runs = server.rows("SELECT plan_id, status, holder FROM winnow_run")
    assert runs == [(receipt["plan_id"], "published", f"airflow:compact_topics:{server.compaction['run_id']}")]
    checkpoints = server.rows("SELECT partition, first_dirty_offset FROM winnow_checkpoint ORDER BY partition")
    assert checkpoints == [(number, RECORDS) for number in range(PARTITIONS)]
    survivors = compute_survivors(make_order_log())
    kept = [sum(each.partition == number for each in survivors) for number in range(PARTITIONS)]
    assert [part["records_kept"] for part in receipt["partitions"]] == kept


def test_the_compaction_ran_on_the_spark_cluster(server: Server) -> None:
    """The master lists the application as finished, and the log of its task shows every partition."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.machine.ports[8081]}/json/", timeout=10) as answer:
        master = json.load(answer)

    assert [(each["state"], each["cores"]) for each in master["workers"]] == [("ALIVE", 2)]
    assert [each["state"] for each in master["completedapps"]] == ["FINISHED"]
    assert master["completedapps"][0]["name"].startswith("winnow ")
    log = server.api.log("compact_topics", server.compaction["run_id"], "compact_batch.compact", 0)
    assert f"spark://127.0.0.1:{server.machine.ports[7077]}" in log
    assert all(f'"event": "partition", "partition": {number},' in log for number in range(PARTITIONS))


def test_the_lake_is_in_the_bucket_and_the_sweep_empties_it_of_what_was_replaced(server: Server) -> None:
    """Data, plan and state are objects; afterwards only the files that the table names are left."""
    data = f"winnow/warehouse/winnow/{server.find_folder(TOPIC)}/data/"
    before = server.objects()
    (plan_id,) = server.rows("SELECT plan_id FROM winnow_run")[0]
    assert any(key.startswith(f"winnow/staging/plans/{TOPIC}/{plan_id}/") for key in before)
    assert any(key.startswith(f"{data}{plan_id}/") for key in before)
    assert any(key.startswith(f"{data}ingest-") for key in before)

    swept = server.api.run("sweep_topics", topics=[TOPIC])

    assert swept["run"] == "success", swept
    left = {key for key in server.objects() if key.startswith(data)}
    assert left == {key for key in before if key.startswith(f"{data}{plan_id}/")}
    assert len(server.winnow("read", TOPIC).splitlines()) == len(compute_survivors(make_order_log()))


def test_an_archive_in_the_bucket_is_ingested_by_the_spark_cluster(server: Server) -> None:
    """What a sink wrote, with objects that overlap; each record is in the log once, and nothing else is left."""
    for first in range(0, 600, 150):
        lines = [
            {
                "key": base64.b64encode(b"key-%d\xff" % (offset % 7)).decode(),
                "value": base64.b64encode(b"value-%d\xff" % offset).decode(),
                "offset": offset,
                "timestamp": "2024-01-02T03:04:05.678Z",
                "headers": [],
            }
            for offset in range(first, first + 200)
        ]
        with server.store.open_output_stream(f"winnow/archive/sunk-0-{first}.jsonl") as stream:
            stream.write("\n".join(map(json.dumps, lines)).encode())
    options = ["--create", "--on", "spark", "--json"]
    said = server.machine.run(
        "airflow-scheduler", "winnow", "ingest", "files", "sunk", "s3://winnow/archive/", *options, timeout_s=600
    )
    report = json.loads(said)
    assert (report["records_appended"], report["records_skipped"]) == (650, 150)
    read = [json.loads(line) for line in server.winnow("read", "sunk").splitlines()]
    assert [(each["offset"], _bytes(each["value"])) for each in read] == [
        (offset, b"value-%d\xff" % offset) for offset in range(650)
    ]
    left = {
        key for key in server.objects() if key.startswith(f"winnow/warehouse/winnow/{server.find_folder('sunk')}/data/")
    }
    assert left
    assert all(key.endswith(".parquet") for key in left)


def test_every_service_is_healthy_by_its_own_check(server: Server) -> None:
    """Also after a day's work."""
    services = [each for each in server.machine.services.values() if not each.runs_once and not each.profiles]
    assert len(services) == 8
    assert [each.name for each in services if not server.machine.is_healthy(each)] == []


def test_no_secret_is_in_an_environment_an_argument_or_a_log(server: Server) -> None:
    """Processes name files; what they say, task logs among it, holds neither password nor key."""
    sessions = {name: process.pid for name, process in server.machine.processes.items() if process.poll() is None}
    said = [text for pid in _members(set(sessions.values())) for text in _told(pid, "cmdline")]
    # The object store takes its keys from its environment and from nowhere else.
    said += [text for pid in _members(set(sessions.values()) - {sessions["objects"]}) for text in _told(pid, "environ")]
    assert len(said) > 2 * len(sessions)
    spoken = [path for path in server.machine.folder.rglob("*") if path.suffix == ".log" or path.name == "stderr"]
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in spoken]
    assert "stderr" in {path.name for path in spoken}
    assert len(logs) > 15
    for secret in server.secrets:
        assert not [text for text in (*said, *logs) if secret in text]


def _members(sessions: set[int]) -> list[int]:
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError):
            found += [pid] if os.getsid(pid) in sessions else []
    return found


def _told(pid: int, what: str) -> list[str]:
    """What the kernel tells of a process; nothing if it has just ended."""
    try:
        return [Path(f"/proc/{pid}/{what}").read_bytes().decode(errors="replace")]
    except OSError:
        return []


def test_a_wrong_password_opens_neither_the_database_nor_the_api(server: Server) -> None:
    """What was generated is what counts."""
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(host="127.0.0.1", port=server.machine.ports[5432], dbname="store", user="winnow", password="x")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        AirflowApi.login(server.api.url, "admin", "admin")


def test_an_application_without_the_secret_does_not_get_onto_the_cluster(server: Server) -> None:
    """Neither with none nor with another one; the master lists no application that was not there before."""
    address = f"http://127.0.0.1:{server.machine.ports[8081]}/json/"
    with urllib.request.urlopen(address, timeout=10) as answer:
        before = json.load(answer)
    program = server.machine.folder / "tmp" / "stranger.py"
    program.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().range(9).count()\n")
    environment = server.machine.environment(server.machine.services["airflow-scheduler"])
    del environment["SPARK_CONF_DIR"]
    secret = ["--conf", "spark.authenticate=true", "--conf", "spark.authenticate.secret=guessed"]
    submit = ["spark-submit", "--master", f"spark://127.0.0.1:{server.machine.ports[7077]}"]
    run = partial(subprocess.run, env=environment, capture_output=True, encoding="utf-8", timeout=600)
    with ThreadPoolExecutor() as both:  # each asks the master for a minute
        for done in both.map(run, [[*submit, program], [*submit, *secret, program]]):
            assert done.returncode != 0, done.stderr[-2_000:]
    with urllib.request.urlopen(address, timeout=10) as answer:
        after = json.load(answer)
    assert [each["id"] for each in after["completedapps"]] == [each["id"] for each in before["completedapps"]]
    assert after["activeapps"] == []


def test_a_second_start_keeps_every_secret(server: Server) -> None:
    """What Airflow encrypted stays readable, and nobody has to log in anew."""
    before = server.secrets
    server.machine.run("secrets", "team-server", "secrets")
    assert server.secrets == before
    modes = {path: (server.machine.folder / "run/winnow" / path).stat().st_mode & 0o777 for path in ("airflow/pgpass",)}
    assert modes == {"airflow/pgpass": 0o600}
