"""The short suite of one environment: ingest, compact, read, DAG parse, doctor, a scheduled run; against the oracle.

The commands run in the environment under trial; records are made and compared here, by the project's own Python.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from oracle.surviving_records import compute_survivors
from winnow.values.model import Record
from winnow.values.strategies import Strategy

PARTITIONS = 2
RECORDS = 600
KEYS = 40
SEED = 18
COMMAND_TIMEOUT_S = 600
START_TIMEOUT_S = 300
SCHEDULED_DAG = "compact_topics"
SCHEDULE_INTERVAL = timedelta(minutes=15)
RUN_TIMEOUT_S = 1500
"""The schedule is every quarter of an hour; the run itself takes about a minute."""
STOP_TIMEOUT_S = 120
POLL_S = 10

DAGS = (
    "backfill_topics", "change_partitions", "change_topics", "compact_now", "compact_topics", "example_consumer",
    "ingest_topics", "scrub_topics", "sweep_topics", "watch_topics",
)  # fmt: skip

_PARSE = """
import json, logging
logging.disable(logging.ERROR)
try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:
    from airflow.models.dagbag import DagBag
from winnow.embedded.bundle import find_bundled_folder
bag = DagBag(str(find_bundled_folder("dags")))
errors = [str(each).strip().splitlines()[-1] for each in bag.import_errors.values()]
print("PARSED", json.dumps([sorted(bag.dags), errors]))
"""


class TrialFailedError(Exception):
    """An environment did not do what it has to; the message says at which step."""


def make_records() -> list[Record]:
    """Make a log with overwritten keys and tombstones, the same each time."""
    chance = random.Random(SEED)
    return [
        Record(
            offset=offset,
            key=f"key-{chance.randrange(KEYS)}".encode(),
            value=None if chance.random() < 0.1 else f"value-{partition}-{offset}".encode(),
            timestamp_ms=1_700_000_000_000,
            partition=partition,
        )
        for partition in range(PARTITIONS)
        for offset in range(RECORDS)
    ]


def find_survivors(records: list[Record]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return what the oracle keeps: partition, offset, key and value."""
    return [
        (each.partition, each.offset, each.key, each.value)
        for partition in range(PARTITIONS)
        for each in compute_survivors(
            [record for record in records if record.partition == partition],
            next_first_dirty_offset=RECORDS,
            strategy=Strategy.OFFSET,
            header=None,
            expired=lambda _: False,
        ).kept
    ]


def try_environment(binaries: Path, folder: Path) -> list[str]:
    """Run the suite with the commands in ``binaries``, keeping its data in ``folder``; return the steps that passed.

    Raises:
        TrialFailedError: a step failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env = _build_environment(binaries, folder)
    records = make_records()
    source = folder / "records.jsonl"
    source.write_text("".join(json.dumps(_format_record(each)) + "\n" for each in records))

    def run(*command: str) -> str:
        return _run(command, env, folder)

    def ingest(topic: str) -> None:
        run("winnow", "topics", "create", topic, "--partitions", str(PARTITIONS))
        run("winnow", "ingest", "files", topic, str(source))
        written = [(each.partition, each.offset, each.key, each.value) for each in records]
        _compare("ingest", run("winnow", "read", topic), written)

    ingest("trial")
    run("winnow", "compact", "trial", "--now")
    _compare("compact", run("winnow", "read", "trial"), find_survivors(records))
    parsed = _run(("python", "-W", "ignore", "-c", _PARSE), env | _build_parse_environment(binaries, folder), folder)
    names, errors = json.loads(parsed.rpartition("PARSED ")[2].splitlines()[0])
    if errors or tuple(names) != DAGS:
        raise TrialFailedError(f"DAG parse: {names}, {errors}")
    ingest("scheduled")
    ingested = datetime.now(UTC)
    with _run_airflow(env, folder):
        _judge_doctor(env, folder)
        _await_scheduled_run(env, folder, ingested)
        _compare("scheduled run", run("winnow", "read", "scheduled"), find_survivors(records))
    return ["ingest", "compact by spark-submit", "read", "DAG parse", "doctor", "a scheduled run"]


@contextlib.contextmanager
def _run_airflow(env: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Run the embedded Airflow of the environment, healthy and with no DAG paused, until the block ends."""
    log = folder / "ui.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["python", "-m", "winnow.embedded.airflow_home", "ui"],
            env=dict(env), cwd=folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        until = time.monotonic() + START_TIMEOUT_S
        while "Ctrl-C ends it" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise TrialFailedError(f"Airflow does not start: {log.read_text(errors='replace')[-300:]}")
            time.sleep(1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_TIMEOUT_S)


def _judge_doctor(env: Mapping[str, str], folder: Path) -> None:
    """Run doctor in the environment, with Spark.

    Raises:
        TrialFailedError: it found a failure, or did not ask Airflow.
    """
    done = subprocess.run(
        ["winnow", "doctor", "--spark", "--json", "--timeout", str(COMMAND_TIMEOUT_S)],
        env=dict(env), cwd=folder, capture_output=True, text=True, timeout=2 * COMMAND_TIMEOUT_S,
    )  # fmt: skip
    checks = json.loads(done.stdout)
    failed = [f"{each['check']}: {each['detail']}" for each in checks if each["status"] == "failure"]
    if failed or done.returncode or not {"airflow-dags", "airflow-api"} <= {each["check"] for each in checks}:
        raise TrialFailedError(f"doctor: exit code {done.returncode}: {' '.join(failed)[:400]}")


def _await_scheduled_run(env: Mapping[str, str], folder: Path, ingested: datetime) -> None:
    """Wait for the first run that the scheduler starts of itself after ``ingested``.

    Raises:
        TrialFailedError: it failed, or there was none in time.
    """
    until = time.monotonic() + RUN_TIMEOUT_S
    state = "none"
    while time.monotonic() < until:
        # Airflow's command fails until the DAG has been read.
        command = ["winnow", "airflow", "dags", "list-runs", SCHEDULED_DAG, "--output", "json"]
        done = subprocess.run(command, env=dict(env), cwd=folder, capture_output=True, text=True)
        # Warnings stand on standard output, too.
        said = next((line for line in reversed(done.stdout.splitlines()) if line.startswith(("[{", "[]"))), "[]")
        # Its id has the beginning of its interval, from Airflow 3.2 on the end; an earlier one may start too.
        begun = {each["run_id"].removeprefix("scheduled__"): each for each in json.loads(said)}
        runs = [
            each
            for start, each in sorted(begun.items())
            if each["run_id"] != start and datetime.fromisoformat(start) + SCHEDULE_INTERVAL > ingested
        ]
        state = runs[0]["state"] if runs else "none"
        if state == "success":
            return
        if state == "failed":
            break
        time.sleep(POLL_S)
    raise TrialFailedError(f"scheduled run: {state}")


def _build_environment(binaries: Path, folder: Path) -> dict[str, str]:
    cleared = ("PYTHONPATH", "PYSPARK_", "SPARK_HOME", "VIRTUAL_ENV", "WINNOW_", "AIRFLOW")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(cleared)}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return kept | {
        "PATH": f"{binaries}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "WINNOW_HOME": str(folder / "home"),
        "WINNOW_SPARK__MASTER": "local[2]",
        "WINNOW_UI_PORT": str(port),
    }


def _build_parse_environment(binaries: Path, folder: Path) -> dict[str, str]:
    """Build what an Airflow needs that is not the embedded one."""
    bundled = next(binaries.parent.glob("lib/python3*/site-packages/winnow/_bundled"))
    return {
        "PYTHONPATH": str(bundled / "plugins"),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(bundled / "plugins"),
    }


def _run(command: tuple[str, ...], env: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, errors="replace"
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise TrialFailedError(f"{' '.join(command[:3])}: exit code {done.returncode}: {' '.join(said)}")
    return done.stdout


def _format_record(record: Record) -> dict[str, object]:
    return {
        "partition": record.partition, "offset": record.offset, "timestamp": record.timestamp_ms,
        "key": _encode(record.key), "value": _encode(record.value),
    }  # fmt: skip


def _compare(step: str, read: str, expected: list[tuple[int, int, bytes | None, bytes | None]]) -> None:
    rows = [json.loads(line) for line in read.splitlines()]
    found = [(row["partition"], row["offset"], _decode(row["key"]), _decode(row["value"])) for row in rows]
    if sorted(found) != sorted(expected, key=lambda row: row[:2]):
        raise TrialFailedError(f"{step}: {len(found)} records are read, and the oracle has {len(expected)} others")


def _encode(part: bytes | None) -> str | None:
    return None if part is None else base64.b64encode(part).decode()


def _decode(part: str | None) -> bytes | None:
    return None if part is None else base64.b64decode(part)
