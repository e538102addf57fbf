"""Measures how long a record takes from Kafka into the table of the latest state, with an ingest every minute.

A producer writes steadily. Every minute a new process ingests, as a task of Airflow is one, and the table follows each
ingest. A record's delay is from its timestamp, the producer's clock when it wrote it, to the commit of the table's
snapshot that first shows the log behind it. What is not in it: how long Airflow takes to begin a task.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.lake import build_environment, open_home
from broker.kafka_broker import run_broker
from winnow.clock import read_wall_clock_ms

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

TOPIC = "live"
PARTITIONS = 2
INTERVAL_SECONDS = 60
MINUTES = 12
RECORDS_PER_SECOND = 100
KEYS = 20_000


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of ``records``, in seconds; ``tick_seconds``: how long the processes took."""

    records: int
    p50_seconds: float
    p95_seconds: float
    highest_seconds: float
    tick_seconds: Sequence[float]


@dataclass
class _Production:
    """When each record was written, by partition and in the order of offsets."""

    times_ms: dict[int, list[int]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self, servers: str) -> None:
        """Write records until it is over."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": servers, "linger.ms": 10})
        began, written = time.monotonic(), 0
        while not self.is_over.wait(0.05):
            while written < (time.monotonic() - began) * RECORDS_PER_SECOND:
                now_ms, number = read_wall_clock_ms(), written % PARTITIONS
                value = b'{"city": "city-%d", "visits": %d}' % (written % 97, written)
                producer.produce(TOPIC, value, b"%d" % (written * 7_919 % KEYS), partition=number, timestamp=now_ms)
                self.times_ms[number].append(now_ms)
                written += 1
            producer.poll(0)
        producer.flush(60)


def run_delay(folder: Path, minutes: int, report: Callable[[str], None]) -> Delays:
    """Produce and ingest for ``minutes``, and measure the delay of every record that was shown then."""
    from winnow.pipeline.topics.definition import create_topic

    place = folder / "kafka-delay"
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    try:
        with run_broker(place / "broker") as broker, open_home(place / "home") as installation:
            keeps = {
                "winnow.latest.table": "true",
                "winnow.latest.update": "ingest",
                "winnow.value.format": "json",
                "winnow.key.format": "string",
            }
            create_topic(installation, TOPIC, PARTITIONS, keeps)
            _create_topic(broker.bootstrap_servers)
            production = _Production()
            thread = threading.Thread(target=production.run, args=(broker.bootstrap_servers,))
            thread.start()
            try:
                ticks = _tick_for(minutes, place / "home", broker.bootstrap_servers, report)
            finally:
                production.is_over.set()
                thread.join()
            return _measure(installation, production, ticks)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def describe_delays(delays: Delays) -> str:
    """Describe them in a line."""
    ticks = sorted(delays.tick_seconds)
    return (
        f"{delays.records:,} records: p50 {delays.p50_seconds:.1f} s, p95 {delays.p95_seconds:.1f} s, highest "
        f"{delays.highest_seconds:.1f} s; {len(ticks)} processes of {ticks[0]:.1f} to {ticks[-1]:.1f} s"
    )


def _create_topic(servers: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()


def _tick_for(minutes: int, home: Path, servers: str, report: Callable[[str], None]) -> list[float]:
    """Ingest at every full minute since the beginning; return how long each process took."""
    command = [str(Path(sys.executable).with_name("winnow")), "ingest", "kafka", TOPIC, "--bootstrap-servers", servers]
    began, taken = time.monotonic(), []
    for number in range(1, minutes + 1):
        time.sleep(max(0.0, began + number * INTERVAL_SECONDS - time.monotonic()))
        start = time.monotonic()
        subprocess.run(command, check=True, capture_output=True, env=build_environment(home), cwd=home)
        taken.append(time.monotonic() - start)
        report(f"minute {number}: {taken[-1]:.1f} s")
    return taken


def _measure(installation: Installation, production: _Production, ticks: Sequence[float]) -> Delays:
    """Compare what each snapshot of the table first showed with when that was written."""
    table = installation.log.latest_table(TOPIC).table()
    assert table is not None
    log = installation.log.open(TOPIC)
    shown = dict.fromkeys(range(PARTITIONS), 0)
    delays: list[float] = []
    for snapshot in sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0):
        assert snapshot.summary is not None
        reflected = snapshot.summary.additional_properties["winnow.latest.snapshot-id"]
        for number, state in log.snapshot(int(reflected)).state.partitions.items():
            new = production.times_ms[number][shown[number] : state.log_end_offset]
            delays += [(snapshot.timestamp_ms - written_ms) / 1000 for written_ms in new]
            shown[number] = max(shown[number], state.log_end_offset)
    p50, p95 = np.percentile(delays, [50, 95])
    return Delays(len(delays), float(p50), float(p95), max(delays), ticks)
