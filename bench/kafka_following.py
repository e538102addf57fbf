"""Measures what it costs to follow many topics to which nothing comes: CPU seconds and requests of a tick."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lake import open_home
from broker.kafka_broker import run_broker
from winnow.clock import read_wall_clock_ms
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster

_TOPICS_A_CALL = 100
_REQUESTS = ("_describe", "_list_offsets", "_describe_configurations")


@dataclass(frozen=True, slots=True)
class TickCosts:
    """One tick over ``topics``. ``requests``: CPU seconds of each that the brokers were asked, in their order."""

    topics: int
    appended: int
    cpu_seconds: float
    requests: tuple[tuple[str, float], ...]


def run_following(folder: Path, topics: int, ticks: int, report: Callable[[str], None]) -> list[TickCosts]:
    """Create topics of one partition and one record, follow them, and then so often that nothing has changed."""
    place = folder / "kafka-following"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    costs = []
    try:
        with run_broker(place / "broker") as broker:
            names = create_topics(broker.bootstrap_servers, topics)
            report(f"{topics:,} topics are there")
            (place / "home").mkdir()
            with open_home(place / "home") as installation:
                for number in range(ticks + 2):
                    costs.append(_tick(installation, Cluster(read_client_settings(broker.bootstrap_servers)), names))
                    report(f"tick {number + 1}: {describe_tick(costs[-1])}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return costs


def create_topics(servers: str, topics: int) -> list[str]:
    """Create topics with one record each; return their names."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    names = [f"followed.{number:05d}" for number in range(topics)]
    admin = AdminClient({"bootstrap.servers": servers})
    for start in range(0, topics, _TOPICS_A_CALL):
        for done in admin.create_topics(
            [NewTopic(name, 1, 1) for name in names[start : start + _TOPICS_A_CALL]]
        ).values():
            done.result()
    producer = Producer({"bootstrap.servers": servers})
    for name in names:
        producer.produce(name, b"value", b"key", timestamp=read_wall_clock_ms())
    assert producer.flush(300) == 0
    return names


def describe_tick(costs: TickCosts) -> str:
    """Describe one tick in a line."""
    by_name: dict[str, list[float]] = {}
    for name, seconds in costs.requests:
        by_name.setdefault(name.strip("_"), []).append(seconds)
    requests = ", ".join(f"{len(spent)} {name} {sum(spent):.2f}" for name, spent in by_name.items())
    return f"{costs.appended:,} topics got records, {costs.cpu_seconds:.2f} s CPU; requests, with theirs: {requests}"


def _tick(installation: Any, cluster: Cluster, names: list[str]) -> TickCosts:
    from winnow.pipeline.ingest.kafka.following import follow_topics
    from winnow.pipeline.ingest.kafka.ingest import KafkaRequest
    from winnow.planning.kafka_configuration import TakingRules

    wanted = KafkaRequest(creates=True, configuration=TakingRules(takes=True), follows=True)
    began_s = time.process_time()
    with _time_requests() as requests:
        done = follow_topics(installation, cluster, names, wanted, as_of_ms=read_wall_clock_ms(), missing=())
    spent_s = time.process_time() - began_s
    assert not done.failures
    appended = sum(each.snapshot_id is not None for each in done.reports)
    return TickCosts(len(names), appended, spent_s, tuple(requests))


@contextmanager
def _time_requests() -> Iterator[list[tuple[str, float]]]:
    """Note each request of clusters within the block, with the CPU seconds until its answer is taken apart."""
    noted: list[tuple[str, float]] = []
    genuine = {name: getattr(Cluster, name) for name in _REQUESTS}

    def time_request(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            began_s = time.process_time()
            try:
                return genuine[name](*arguments, **options)
            finally:
                noted.append((name, time.process_time() - began_s))

        return call

    for name in _REQUESTS:
        setattr(Cluster, name, time_request(name))
    try:
        yield noted
    finally:
        for name, function in genuine.items():
            setattr(Cluster, name, function)
