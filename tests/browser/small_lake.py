"""Builds a small lake with the real pipeline: every topic state, with history.

python -m tests.browser.small_lake FOLDER

Real tables, real files, real Great Expectations; only Spark's process is left out. The clock is led from five days ago
to the present, in which the page looks.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.support.world import FakeClock, World, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.config.kafka_settings import Origin, RecordedSetting
from winnow.errors import ValidationFailedError
from winnow.files import storage
from winnow.log.head import Change
from winnow.log.recorded_configuration import make_kafka_property
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.store.ingest_lag import IngestLag
from winnow.store.source_states import SourceKind, SourceState
from winnow.values.model import Record
from winnow.values.results import Receipt

HOUR_MS = 3_600_000
DAYS = 5
TURNS = 5

COMMON = {"segment_ms": str(HOUR_MS), "min_cleanable_dirty_ratio": "0.3"}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "orders": (
        3,
        {
            "max_compaction_lag_ms": str(7 * 24 * HOUR_MS),
            "min_compaction_lag_ms": str(6 * HOUR_MS),
            "min_cleanable_dirty_ratio": "0.5",
        },
    ),
    "payments": (2, {"min_cleanable_dirty_ratio": "0.2"}),
    "customers": (
        2,
        {
            "delete_retention_ms": str(24 * HOUR_MS),
            "winnow_key_format": "string",
            "winnow_value_format": "json",
            "winnow_latest_fields": "key,id,amount,note",
            "winnow_latest_table": "true",
        },
    ),
    "inventory": (2, {"max_compaction_lag_ms": str(6 * HOUR_MS), "min_cleanable_dirty_ratio": "0.9"}),
    "sessions": (2, {}),
    "devices": (2, {"compaction_strategy": "timestamp"}),
}


class Writer:
    """Producers of one topic: keys that come again, now and then a tombstone; offsets go on from call to call."""

    def __init__(self, topic: str, partitions: int, keys: int) -> None:
        self.rng = random.Random(topic)
        self.ends = [0] * partitions
        self.keys = keys

    def records(self, count: int, now_ms: int, *, spread_ms: int = HOUR_MS) -> list[Record]:
        """``count`` records per partition with timestamps of the last ``spread_ms``."""
        each = [partition for partition in range(len(self.ends)) for _ in range(count)]
        return [self._record(partition, now_ms - self.rng.randrange(spread_ms)) for partition in each]

    def _record(self, partition: int, timestamp_ms: int) -> Record:
        offset = self.ends[partition]
        self.ends[partition] += 1
        key = f"{partition}-{self.rng.randrange(self.keys)}".encode()
        value = None if self.rng.random() < 0.03 else self._make_value()
        return record(offset, key, value, timestamp_ms, partition=partition, headers=(("source", b"shop-7"),))

    def _make_value(self) -> bytes:
        fields = {
            "id": self.rng.randrange(10**18, 10**19),
            "card": str(self.rng.randrange(10**15, 10**16)),
            "amount": self.rng.randrange(10**5) / 100,
            "note": self.rng.randbytes(self.rng.randint(5, 150)).hex(),
        }
        return json.dumps(fields).encode()


def by_dag_run(world: World, kind: str) -> World:
    """The world as a DAG run of ``compact_topics`` has it; ``kind``: scheduled or manual."""
    run_id = f"{kind}__{datetime.fromtimestamp(world.clock() / 1000, UTC).isoformat(timespec='seconds')}"
    return World(replace(world.installation, holder=f"airflow:compact_topics:{run_id}"), world.clock, world.folder)


def compact(world: World, topic: str, *, judged: bool = False, damaged: int | None = None) -> Receipt | None:
    """One run from plan to publish; ``judged`` by Great Expectations, ``damaged``: a partition whose new file is not
    what was written.
    """
    running = by_dag_run(world, "scheduled" if damaged is None else "manual")
    with hold_lease(running.installation, topic):
        settle_open_runs(running.installation, topic)
        plan = running.plan(world.clock(), topic=topic)
        if plan is None:
            return None
        world.clock.now_ms += 9_000
        manifest = running.stage(plan)
        if damaged is not None:
            (part,) = [part for part in manifest.partitions if part.partition == damaged]
            path = storage.parse_local_path(part.rewrites[0].outputs[0].path)
            content = bytearray(path.read_bytes())
            content[len(content) // 4] ^= 0xFF
            path.write_bytes(bytes(content))
        world.clock.now_ms += 21_000
        if judged or damaged is not None:
            try:
                validate_attempt(running.installation, plan.plan_id, "a1")
            except ValidationFailedError:
                return None
        else:
            running.accept(plan)
        world.clock.now_ms += 4_000
        return publish_attempt(running.installation, plan.plan_id, "a1")


def build(folder: Path, now_ms: int) -> None:
    """Make the lake ``folder/home``, up to ``now_ms``."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_world(folder, FakeClock(now_ms - DAYS * 24 * HOUR_MS)) as world:
        writers = {}
        for topic, (partitions, config) in TOPICS.items():
            world.create(partitions, topic, **{**COMMON, **config})
            writers[topic] = Writer(topic, partitions, keys=90)
        _hold_configuration(world, "sessions")
        for turn in range(TURNS):
            begins_ms = now_ms - (TURNS - turn) * DAYS * 24 * HOUR_MS // TURNS
            is_last = turn == TURNS - 1
            for topic, writer in writers.items():
                if topic != "orders" and turn not in {1, TURNS - 1}:
                    continue
                world.clock.now_ms = begins_ms
                world.ingest(writer.records(260 if topic == "orders" else 120, world.clock()), topic=topic)
                world.clock.now_ms += 7 * HOUR_MS
                compact(world, topic, judged=is_last and topic == "orders")
        _present(world, writers, now_ms)


def _hold_configuration(world: World, topic: str) -> None:
    """At Kafka tombstones stay for an hour only, and nobody has accepted that."""
    held = {"delete.retention.ms": RecordedSetting(str(HOUR_MS), Origin.TOPIC, held=True)}
    world.installation.log.open(topic).commit(lambda head: Change(head.state, properties=make_kafka_property(held)))


def _follow_kafka(world: World, now_ms: int) -> None:
    """The Kafka topic of devices is gone, and an open transaction holds back records of inventory."""
    gone = SourceState("devices", SourceKind.GONE, now_ms - 30 * HOUR_MS, "at-some-head")
    world.installation.store.source_states.record([gone])
    begun_ms = now_ms - 2 * HOUR_MS
    held = IngestLag(
        "inventory", 0, now_ms - 90_000, 0, begun_ms, None, records_uncommitted=1_240, open_since_ms=begun_ms
    )
    behind = IngestLag("inventory", 1, now_ms - 90_000, 35, now_ms - HOUR_MS // 2, None)
    world.installation.store.ingest_lags.record([held, behind])


def _present(world: World, writers: dict[str, Writer], now_ms: int) -> None:
    """What is the matter now: something due, something overdue, something that failed."""
    world.clock.now_ms = now_ms - 9 * HOUR_MS
    for topic, count in (("payments", 240), ("customers", 260), ("inventory", 40), ("orders", 70)):
        world.ingest(writers[topic].records(count, world.clock()), topic=topic)
    # Some of orders is too young to be compacted, and the newest of it lies in the active segment.
    for age_ms, count in ((4 * HOUR_MS, 70), (HOUR_MS // 60, 45)):
        world.clock.now_ms = now_ms - age_ms
        world.ingest(writers["orders"].records(count, world.clock(), spread_ms=HOUR_MS // 2), topic="orders")
    world.clock.now_ms = now_ms - 2 * HOUR_MS
    pause_partitions(world.installation, "sessions", [1], by="restore-2041")
    world.clock.now_ms = now_ms - 10 * 60_000
    compact(world, "customers", damaged=1)
    update_latest_table(world.installation, "customers")
    world.clock.now_ms = now_ms
    _follow_kafka(world, now_ms)
    assess_topics(world.installation, list(TOPICS), as_of_ms=now_ms)


if __name__ == "__main__":
    build(Path(sys.argv[1]), read_wall_clock_ms())
