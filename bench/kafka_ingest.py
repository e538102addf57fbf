"""Measures how a Kafka topic goes in: Winnow in one process, Winnow on Spark, and Spark's own copy of it to Parquet.

All three read the same broker, with headers and committed records only. Winnow also checks and commits; Spark's copy
goes through its Kafka connector, whose jars are fetched before, and writes Parquet with zstd. What the parts of an
ingest cost in CPU time is measured apart from that.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.kafka_ingest_parts import describe_parts, measure_parts
from bench.lake import build_environment
from bench.peer_runs import MAXIMUM_RUN_SECONDS, SPARK_MEMORY
from bench.peers.spark_kafka import resolve_connector
from bench.peers.timing import parse_times
from bench.process_measurement import measure
from bench.workloads import BASE_MS
from broker.kafka_broker import run_broker

RECORDS = {"small": 200_000, "12m": 12_000_000, "large": 48_000_000}
PARTITIONS = 4
TOPIC = "live"
WAYS = ("local", "spark", "spark-copy")
_VALUE_BYTES = 190
_NOISE = b"%x" % pow(3, 50_000, 1 << 4096)
_NORMAL_JVM = ("-Xmx2g",)
_KEPT = MappingProxyType({"retention.ms": "-1"})


@dataclass(frozen=True, slots=True)
class KafkaRun:
    """One way to read the topic. ``work_seconds``: without the start of Spark, None where that is not known."""

    way: str
    records: int
    seconds: float
    work_seconds: float | None
    cpu_seconds: float
    peak_bytes: int
    note: str = ""


def run_kafka(
    folder: Path, size: str, records: int | None, rounds: int, report: Callable[[str], None]
) -> list[KafkaRun]:
    """Measure every way, in turns; the topic is written once."""
    count = records or RECORDS[size]
    place = folder / "kafka"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    runs = []
    try:
        with run_broker(place / "broker", jvm_options=_NORMAL_JVM) as broker:
            report(f"writing {count:,} records to a broker")
            write_topic(broker.bootstrap_servers, count)
            for number in range(rounds):
                for way in WAYS:
                    runs.append(_measure(place, broker.bootstrap_servers, way, count))
                    report(f"round {number + 1}: {describe_run(runs[-1])}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    report(describe_ratios(runs))
    return runs


def run_parts(folder: Path, records: int, rounds: int, report: Callable[[str], None]) -> None:
    """Measure what the parts of an ingest cost, beside a loop that only counts."""
    place = folder / "kafka-parts"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        with run_broker(place / "broker", jvm_options=_NORMAL_JVM) as broker:
            report(f"writing {records:,} records to a broker")
            write_topic(broker.bootstrap_servers, records)
            for _ in range(rounds):
                report(describe_parts(measure_parts(broker.bootstrap_servers, TOPIC, PARTITIONS, place / "parts")))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def write_topic(servers: str, records: int, configuration: Mapping[str, str] = _KEPT) -> None:
    """Write records of about 216 bytes, ten versions a key, a header on each third one."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    made = NewTopic(TOPIC, PARTITIONS, 1, config=dict(configuration))
    for done in admin.create_topics([made]).values():
        done.result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20, "acks": 1})
    for number in range(records):
        key, value, headers, time_ms = make_record(number, records)
        while True:
            try:
                producer.produce(TOPIC, value, key, headers=headers, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def make_record(number: int, records: int) -> tuple[bytes, bytes, list[tuple[str, str | bytes | None]], int]:
    """Make one of ``records`` records: key, value, headers and time (ms)."""
    at = number * 7919 % 700
    value = b'{"order":%d,"text":"' % number + _NOISE[at : at + _VALUE_BYTES - 30] + b'"}'
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"\x00\x01")] if number % 3 == 0 else []
    return b"customer-%08d" % (number * 7919 % max(1, records // 10)), value, headers, BASE_MS + number


def _measure(place: Path, servers: str, way: str, records: int) -> KafkaRun:
    home, out = place / "home", place / "out"
    for each in (home, out):
        shutil.rmtree(each, ignore_errors=True)
    home.mkdir(parents=True)
    if way == "spark-copy":
        request = place / "request.json"
        jars = [str(path) for path in resolve_connector()]
        document = {"servers": servers, "topic": TOPIC, "out": str(out), "memory": SPARK_MEMORY, "jars": jars}
        request.write_text(json.dumps(document))
        command = [sys.executable, "-m", "bench.peers.spark_kafka", str(request)]
    else:
        ingest = ["ingest", "kafka", TOPIC, "--bootstrap-servers", servers, "--create", "--on", way, "--json"]
        command = [sys.executable, "-m", "winnow.cli", *ingest]
    measured = measure(command, build_environment(home), limit_seconds=MAXIMUM_RUN_SECONDS)
    times = parse_times(measured.output)
    return KafkaRun(
        way=way,
        records=records,
        seconds=measured.seconds,
        work_seconds=measured.ended - times["ready"] if times else None,
        cpu_seconds=measured.cpu_seconds,
        peak_bytes=measured.peak_bytes,
        note="" if measured.exit_code == 0 else measured.output[-500:],
    )


def describe_run(run: KafkaRun) -> str:
    """Describe one run in a line."""
    work = "" if run.work_seconds is None else f" ({run.work_seconds:.1f} s of it work)"
    peak = f"{run.peak_bytes / 2**20:,.0f} MiB"
    failed = f"; FAILED: {run.note}" if run.note else ""
    speed = f"{run.records / run.seconds:,.0f} records/s"
    return f"{run.way}: {run.seconds:.1f} s{work}, {speed}, {run.cpu_seconds:.1f} s CPU, {peak}{failed}"


def describe_ratios(runs: list[KafkaRun]) -> str:
    """Say how fast Winnow is beside Spark's copy, by the best run of each."""
    best = {way: min((run.seconds for run in runs if run.way == way and not run.note), default=0.0) for way in WAYS}
    if not all(best.values()):
        return "no ratio: a run failed"
    shares = ", ".join(f"{way} {best['spark-copy'] / best[way]:.0%}" for way in WAYS[:-1])
    return f"speed beside Spark's own copy of the same topic, whole processes: {shares} (goal: 70 %)"
