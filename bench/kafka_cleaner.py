"""Measures the broker's own log cleaner, with one and with two threads, beside Winnow on the same records.

Each broker has a normal JVM and gets the records while its cleaner is held back by a dirty ratio that nothing exceeds.
The time begins when that is released and ends when the cleaner's checkpoint has reached the active segment of every
partition. Winnow ingests the same topic and compacts it all; its work is the Spark application without its start.
Rates are compared, since the broker's active segments stay as they are.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.kafka_ingest import TOPIC, write_topic
from bench.lake import build_environment
from bench.peer_runs import MAXIMUM_RUN_SECONDS
from bench.phase_times import WORK, compute_phases, read_events
from bench.process_measurement import measure
from broker.kafka_broker import KafkaBroker, run_broker
from winnow.errors import BadInputError

THREADS = (1, 2)
GOALS = {1: 4.0, 2: 2.5}
"""How many times the cleaner's speed Winnow's work is to have, by the cleaner's threads."""
CORES = 2
SEGMENT_BYTES = 64 << 20
_JVM = ("-Xmx2g",)
_DEDUPE_BYTES = 256 << 20
_HELD_BACK = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1.0",
    "segment.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
}
_LIMIT_S = 1_800


@dataclass(frozen=True, slots=True)
class CleanerRun:
    """How fast records were compacted. ``cleaner``: in words."""

    cleaner: str
    records: int
    seconds: float

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds


def run_cleaners(folder: Path, records: int, report: Callable[[str], None]) -> list[CleanerRun]:
    """Measure the broker's cleaner with each number of threads, and Winnow's work on the same records."""
    place = folder / "kafka-cleaner"
    shutil.rmtree(place, ignore_errors=True)
    runs: list[CleanerRun] = []
    try:
        for threads in THREADS:
            properties = {
                "log.cleaner.threads": str(threads),
                "log.cleaner.dedupe.buffer.size": str(_DEDUPE_BYTES),
            }
            with run_broker(place / f"broker-{threads}", jvm_options=_JVM, properties=properties) as broker:
                report(f"writing {records:,} records to a broker")
                write_topic(broker.bootstrap_servers, records, _HELD_BACK)
                if not runs:
                    runs.append(_compact_by_winnow(place, broker.bootstrap_servers))
                    report(describe_run(runs[-1]))
                runs.append(_clean(broker, threads))
                report(describe_run(runs[-1]))
            shutil.rmtree(place / f"broker-{threads}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    report(describe_goals(runs))
    return runs


def _compact_by_winnow(place: Path, servers: str) -> CleanerRun:
    home = place / "home"
    home.mkdir(parents=True)
    environment = build_environment(home)
    command = [sys.executable, "-m", "winnow.cli", "ingest", "kafka", TOPIC, "--bootstrap-servers", servers, "--create"]
    ingested = measure(command, environment, limit_seconds=MAXIMUM_RUN_SECONDS)
    assert ingested.exit_code == 0, ingested.output
    events = place / "events.jsonl"
    command = [sys.executable, "-m", "bench.peers.winnow_cli", str(events), "compact", TOPIC, "--now", "--json"]
    done = measure(command, environment, limit_seconds=MAXIMUM_RUN_SECONDS)
    assert done.exit_code == 0, done.output
    phases = compute_phases(read_events(events), done.ended - done.seconds, done.ended, CORES)
    records = sum(event.get("records_in", 0) for event in read_events(events) if event["event"] == "published")
    shutil.rmtree(home)
    return CleanerRun("Winnow's work", records, sum(phases[name] for name in WORK))


def _clean(broker: KafkaBroker, threads: int) -> CleanerRun:
    from confluent_kafka import admin as kafka_admin

    # The stubs do not export them.
    resource_of, entry_of = vars(kafka_admin)["ConfigResource"], vars(kafka_admin)["ConfigEntry"]
    operation = vars(kafka_admin)["AlterConfigOpType"].SET
    expected = _list_active_segments(broker.data_folder)
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entry = entry_of("min.cleanable.dirty.ratio", "0.0", incremental_operation=operation)
    resource = resource_of(resource_of.Type.TOPIC, TOPIC, incremental_configs=[entry])
    started = time.monotonic()
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result()
    file = broker.data_folder / "cleaner-offset-checkpoint"
    while time.monotonic() - started < _LIMIT_S:
        cleaned = _read_checkpoints(file)
        if all(cleaned.get(number, 0) >= offset for number, offset in expected.items()):
            name = f"the broker's cleaner, {threads} thread{'s' if threads > 1 else ''}"
            return CleanerRun(name, sum(expected.values()), time.monotonic() - started)
        time.sleep(0.1)
    raise TimeoutError(f"the cleaner did not reach the active segments within {_LIMIT_S} s")


def _list_active_segments(data: Path) -> dict[int, int]:
    """Return the first offset of the active segment per partition: the cleaner goes so far."""
    return {
        int(folder.name.rpartition("-")[2]): max(int(path.stem) for path in folder.glob("*.log"))
        for folder in data.glob(f"{TOPIC}-*")
    }


def _read_checkpoints(file: Path) -> dict[int, int]:
    """Return the cleaner's checkpoint per partition of the topic; there is none before the first cleaning."""
    from winnow.sources.checkpoint_file import read_checkpoint_file

    try:
        return {each.partition: each.offset for each in read_checkpoint_file(str(file)) if each.topic == TOPIC}
    except BadInputError:
        return {}


def describe_run(run: CleanerRun) -> str:
    """Describe one run in a line."""
    return f"{run.cleaner}: {run.records:,} records in {run.seconds:.1f} s, {run.rate:,.0f} records/s"


def describe_goals(runs: list[CleanerRun]) -> str:
    """Say how many times the cleaner's speed Winnow's work has."""
    ours, *others = runs
    found = [
        f"{ours.rate / each.rate:.1f} times {each.cleaner} (goal: {GOALS[threads]:g})"
        for threads, each in zip(THREADS, others, strict=True)
    ]
    return f"Winnow's work has {', '.join(found)}"
