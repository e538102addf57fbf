"""Measures ``winnow restore`` beside a plain loop that writes the same records in transactions of the same size.

The loop has its records in memory; the restore reads its log, checks it, finds the largest record, writes, and reads
everything back. A plain loop that only reads tells what reading back costs at least. All are run in turns, against the
same broker, and CPU seconds are those of the clients alone.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.kafka_ingest import PARTITIONS, TOPIC, write_topic
from bench.lake import build_environment
from bench.peer_runs import MAXIMUM_RUN_SECONDS
from bench.peers.timing import parse_times
from bench.process_measurement import measure
from broker.kafka_broker import run_broker

GOAL = 0.8
"""What a restore's rate is to be of the plain loop's."""
TRANSACTION_RECORDS = 72_000
"""About as many records of this topic as a restore puts into a transaction."""
SHARES = 2
LOOP, READING, RESTORE = "plain transactional loop", "plain reading loop", "restore"
IN_SHARES = f"restore in {SHARES} shares"
PHASES = ("measuring", "writing", "verifying")
_JVM = ("-Xmx2g",)
_LIMITLESS = {"retention.ms": "-1", "segment.ms": str(2**63 - 1)}


@dataclass(frozen=True, slots=True)
class RestoreRun:
    """One run of either. ``figures``: seconds and CPU seconds of a restore's parts, by name."""

    way: str
    records: int
    seconds: float
    cpu_seconds: float
    figures: Mapping[str, float]


def run_restores(folder: Path, records: int, rounds: int, report: Callable[[str], None]) -> list[RestoreRun]:
    """Ingest a topic once, then write it back in turns by both ways."""
    place = folder / "kafka-restore"
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    environment = build_environment(place / "home")
    runs: list[RestoreRun] = []
    try:
        with run_broker(place / "broker", jvm_options=_JVM) as broker:
            servers = broker.bootstrap_servers
            report(f"writing {records:,} records to a broker, and ingesting them")
            write_topic(servers, records)
            command = [
                "winnow.cli",
                "ingest",
                "kafka",
                TOPIC,
                "--bootstrap-servers",
                servers,
                "--create",
                "--on",
                "local",
            ]
            _run(command, environment)
            for number in range(rounds + 1):
                topic = f"copy-{number}"
                _create(servers, topic)
                options = [servers, topic, records, PARTITIONS, TRANSACTION_RECORDS]
                loop = _run(["bench.peers.kafka_producer", *map(str, options)], environment)
                options = [servers, topic, records, PARTITIONS]
                read = _run(["bench.peers.kafka_consumer", *map(str, options)], environment)
                restored = {
                    way: _restore(servers, f"restored-{number}-{shares}", place, shares, environment)
                    for way, shares in ((RESTORE, 1), (IN_SHARES, SHARES))
                }
                measured = [
                    RestoreRun(way, records, times["done"] - times["ready"], times["cpu"], times)
                    for way, times in {LOOP: loop, READING: read, **restored}.items()
                ]
                if number:  # the first round warms the broker
                    runs += measured
                    for run in measured:
                        report(f"round {number}: {describe_run(run)}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    report(describe_ratios(runs))
    return runs


def _create(servers: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=dict(_LIMITLESS))])[topic].result()


def _restore(servers: str, target: str, place: Path, shares: int, environment: Mapping[str, str]) -> dict[str, float]:
    options = [servers, TOPIC, target, place, shares]
    return _run(["bench.peers.kafka_restore", *map(str, options)], environment)


def _run(module: list[str], environment: Mapping[str, str]) -> dict[str, float]:
    found = measure([sys.executable, "-m", *module], environment, limit_seconds=MAXIMUM_RUN_SECONDS)
    assert found.exit_code == 0, found.output
    return parse_times(found.output)


def describe_run(run: RestoreRun) -> str:
    """Describe one run in a line."""
    parts = "".join(
        f"; {name} {run.figures[name]:.1f} s, {run.figures[f'{name}_cpu']:.1f} s CPU"
        for name in PHASES
        if name in run.figures
    )
    rate = f"{run.records / run.seconds:,.0f} records/s"
    return f"{run.way}: {run.seconds:.1f} s, {rate}, {run.cpu_seconds:.1f} s CPU{parts}"


def describe_ratios(runs: list[RestoreRun]) -> str:
    """Say what a restore's rate is of the plain loop's, by the medians of all rounds: of writing, and of all."""
    loops, reads, restores = ([run for run in runs if run.way == way] for way in (LOOP, READING, RESTORE))
    if not loops:
        return "no ratio: nothing was measured"
    rate, work = (_median([getattr(run, name) for run in loops]) for name in ("seconds", "cpu_seconds"))
    whole = rate / _median([run.seconds for run in restores])
    whole_cpu = work / _median([run.cpu_seconds for run in restores])
    writing = rate / _median([run.figures["writing"] for run in restores])
    writing_cpu = work / _median([run.figures["writing_cpu"] for run in restores])
    floor = work / (work + _median([run.cpu_seconds for run in reads]))
    shared = rate / _median([run.seconds for run in runs if run.way == IN_SHARES])
    return (
        f"a restore beside a plain transactional loop: writing {writing:.2f} of its rate ({writing_cpu:.2f} by CPU "
        f"seconds), measured and read back as well {whole:.2f} ({whole_cpu:.2f}; both "
        f"plain loops after one another: {floor:.2f}), in {SHARES} shares {shared:.2f}; goal: {GOAL:g}"
    )


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
