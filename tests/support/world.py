"""A topic in a temporary home: real Iceberg table and files, the engine in process without Spark."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oracle import surviving_records
from winnow import __version__
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.engine import staging
from winnow.engine.rewrite import ENGINE_NAME, compact_partition
from winnow.engine.task_resources import ConnectionPool, TaskBudget
from winnow.files.object_store import list_store_properties
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.log.head import Change, Committed, Head
from winnow.log.quarantine import Quarantine
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.plan import plan_topic
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import create_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values import documents
from winnow.values.model import Record, Segment
from winnow.values.results import Receipt, StagingManifest, Verdict
from winnow.values.strategies import Strategy
from winnow.values.topic_state import PartitionState, TopicState

NOW_MS = 1_760_000_000_000
TOPIC = "orders"


class FakeClock:
    """A wall clock that stands still until it is moved."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def json_line(record: Record, *, with_offset: bool = True) -> str:
    """A record as interface's JSON line."""
    fields: dict[str, object] = {"partition": record.partition}
    if with_offset:
        fields["offset"] = record.offset
    headers = None
    if record.headers is not None:
        headers = [{"key": key, "value": _encoded(value)} for key, value in record.headers]
    fields |= {
        "timestamp": record.timestamp_ms,
        "timestampType": record.timestamp_type,
        "key": _encoded(record.key),
        "value": _encoded(record.value),
        "headers": headers,
    }
    return json.dumps(fields)


def write_jsonl(path: Path, records: Sequence[Record], *, with_offset: bool = True) -> str:
    """Write records as JSON lines; returns the path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json_line(record, with_offset=with_offset) + "\n" for record in records))
    return str(path)


_connections = threading.local()


def open_connections(budget: TaskBudget) -> ConnectionPool:
    """The connections of all tasks with this budget in this process and thread: DuckDB's start is a tenth of a test.

    A DuckDB keeps the object stores that are registered with it, so each store of the environment has its own.
    """
    store = tuple(sorted(list_store_properties(os.environ).items()))
    pools: dict[tuple[TaskBudget, object], ConnectionPool] = vars(_connections).setdefault("pools", {})
    budget = replace(budget, spill_folder=None)  # a folder of the test's would go before the pool
    return pools.setdefault((budget, store), ConnectionPool(budget))


class World:
    """One topic and everything around it."""

    def __init__(self, installation: Installation, clock: FakeClock, folder: Path) -> None:
        self.installation = installation
        self.clock = clock
        self.folder = folder
        self.files = 0

    def create(self, partitions: int = 1, topic: str = TOPIC, **config: str) -> None:
        """Create a topic; keyword ``min_cleanable_dirty_ratio`` means ``min.cleanable.dirty.ratio``."""
        overrides = {name.replace("_", "."): value for name, value in config.items()}
        create_topic(self.installation, topic, partitions, overrides)

    def head(self, topic: str = TOPIC) -> Head:
        """The newest snapshot and its state."""
        return self.installation.log.open(topic).head()

    def state(self, partition: int = 0, topic: str = TOPIC) -> PartitionState:
        """The carried state of one partition."""
        return self.head(topic).state.partitions[partition]

    def segments(self, partition: int = 0, topic: str = TOPIC) -> tuple[Segment, ...]:
        """Live segments of one partition."""
        log = self.installation.log.open(topic)
        return log.segments(log.head()).get(partition, ())

    def snapshot_ids(self, topic: str = TOPIC) -> list[int]:
        """Every snapshot the table's metadata still has, oldest first."""
        return [snapshot.snapshot_id for snapshot in self.head(topic).table.metadata.snapshots]

    def log_folder(self, topic: str = TOPIC) -> str:
        """The folder of a topic's table below the warehouse, as :meth:`listing` takes it."""
        location = str(self.installation.log.open(topic).load_table().location())
        return location.removeprefix(f"{self.installation.settings.warehouse}/")

    def quarantine_folder(self, topic: str = TOPIC) -> str:
        """The folder of a topic's quarantine below the warehouse."""
        return self.installation.log.quarantine(topic).location.removeprefix(f"{self.installation.settings.warehouse}/")

    def listing(self, *, below: str = "") -> dict[str, bytes]:
        """Every file below the warehouse (or a part of it), with its bytes."""
        root = Path(self.installation.settings.warehouse.removeprefix("file://")) / below
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def path(self) -> Path:
        """A new file name."""
        self.files += 1
        return self.folder / f"in-{self.files}.jsonl"

    def ingest(self, records: Sequence[Record], *, as_of_ms: int | None = None, topic: str = TOPIC) -> IngestReport:
        """Ingest records as one file."""
        path = write_jsonl(self.path(), records)
        return ingest_files(self.installation, topic, [path], as_of_ms=self.clock() if as_of_ms is None else as_of_ms)

    def plan(self, as_of_ms: int, attempt: str = "a1", topic: str = TOPIC) -> PlanReference | None:
        """Plan what is eligible."""
        return plan_topic(self.installation, topic, as_of_ms=as_of_ms, attempt=attempt)

    def stage(self, plan: PlanReference, attempt: str = "a1") -> StagingManifest:
        """Carry out a plan in process and write its staging manifest."""
        document = staging.read_plan(plan.uri)
        self.installation.store.runs.begin_attempt(plan.plan_id, attempt, self.clock())
        parts = tuple(
            compact_partition(
                document,
                partition,
                attempt=attempt,
                budget=self.installation.budget,
                folder=f"{attempt}/t0",
                connections=open_connections(self.installation.budget),
            )
            for partition in sorted(document.partitions, key=lambda p: p.partition)
        )
        manifest = StagingManifest(plan.plan_id, plan.topic, attempt, parts, ENGINE_NAME, __version__)
        staging.write_manifest(plan.uri, manifest)
        self.installation.store.runs.set_state(plan.plan_id, RunState.STAGED, self.clock(), attempt=attempt)
        return manifest

    def accept(self, plan: PlanReference, attempt: str = "a1") -> None:
        """Record a passed verdict without asking Great Expectations."""
        manifest = staging.read_manifest(plan.uri, attempt)
        verdict = Verdict(
            plan.plan_id,
            plan.topic,
            attempt,
            True,
            False,
            (),
            self.clock(),
            manifest_digest=None if manifest is None else documents.compute_digest(manifest),
            plan_sha256=plan.sha256,
        )
        self.installation.store.verdicts.record(verdict)
        self.installation.store.runs.set_state(plan.plan_id, RunState.VALIDATED, self.clock(), attempt=attempt)

    def compact(self, as_of_ms: int | None = None, topic: str = TOPIC, attempt: str = "a1") -> Receipt | None:
        """Settle, plan, stage, accept and publish; None when nothing is eligible."""
        as_of_ms = self.clock() if as_of_ms is None else as_of_ms
        with hold_lease(self.installation, topic):
            settle_open_runs(self.installation, topic)
            plan = self.plan(as_of_ms, attempt, topic)
            if plan is None:
                return None
            self.stage(plan, attempt)
            self.accept(plan, attempt)
            return publish_attempt(self.installation, plan.plan_id, attempt)

    def read(self, partition: int | None = None, from_offset: int | None = None, topic: str = TOPIC) -> list[Record]:
        """Every record a reader sees."""
        return [
            Record(
                offset=row["offset"],
                key=row["key"],
                value=row["value"],
                timestamp_ms=None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
                headers=None if row["headers"] is None else tuple((h["key"], h["value"]) for h in row["headers"]),
                timestamp_type=row["timestampType"],
                partition=row["partition"],
            )
            for batch in read_batches(self.installation, topic, partition=partition, from_offset=from_offset)
            for row in batch.to_pylist()
        ]


def compute_survivors(records: Sequence[Record], end_offset: int | None = None) -> list[Record]:
    """What the oracle keeps of one or more partitions' records when everything below ``end_offset`` is cleaned once."""
    kept: list[Record] = []
    for partition in sorted({each.partition for each in records}):
        mine = [each for each in records if each.partition == partition]
        kept += surviving_records.compute_survivors(
            mine,
            next_first_dirty_offset=mine[-1].offset + 1 if end_offset is None else end_offset,
            strategy=Strategy.OFFSET,
            header=None,
            expired=lambda _: False,
        ).kept
    return kept


def build_versions(first_offset: int, count: int, keys: int = 3, partition: int = 0) -> list[Record]:
    """``count`` records from ``first_offset`` on that take turns on ``keys`` keys; every value is its own."""
    return [
        record(n, f"key-{n % keys}".encode(), f"value-{partition}-{n}".encode(), partition=partition)
        for n in range(first_offset, first_offset + count)
    ]


def list_visible_rows(quarantine: Quarantine, state: TopicState) -> pa.Table:
    """The quarantined rows that the log's state names."""
    batches = [batch.cast(QUARANTINE_SCHEMA) for batch in quarantine.read(state.quarantine_ingests) if batch.num_rows]
    return pa.Table.from_batches(batches, QUARANTINE_SCHEMA)


@contextmanager
def run_between_head_and_commit(action: Callable[[], object], times: int = 1) -> Iterator[None]:
    """Run ``action`` when the next committer has looked at the head and has not committed yet; the first ``times``."""
    genuine = TopicLog._try
    left = [action] * times

    def attempt(log: TopicLog, head: Head, change: Change) -> Committed | None:
        if left:
            left.pop()()
        return genuine(log, head, change)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TopicLog, "_try", attempt)
        yield


@contextmanager
def open_world(folder: Path, clock: FakeClock | None = None, lake: Mapping[str, str] | None = None) -> Iterator[World]:
    """A world in ``folder``, with a clock that stands still; ``lake``: settings that lead elsewhere."""
    clock = clock or FakeClock()
    env = {"WINNOW_HOME": str(folder / "home"), "WINNOW_SPARK__MASTER": "local[2]", **(lake or {})}
    settings = load_settings(cwd=folder, env=env)
    # A world is many short transactions, and no test forks while it has one.
    with open_installation(settings, now_ms=clock) as installation, installation.store.keep_open():
        yield World(installation, clock, folder)


def define_world(
    partitions: int | None = None, *appended: Sequence[Record], in_the_present: bool = False, **config: str
) -> Any:
    """A fixture: a world with a topic of ``partitions`` (None: without one), into which ``appended`` go one by one.

    ``in_the_present``: its clock begins now, as snapshots carry the catalog's own time. ``config``: the topic's, as
    :meth:`World.create` takes it.
    """

    @pytest.fixture
    def world(tmp_path: Path) -> Iterator[World]:
        with open_world(tmp_path, FakeClock(read_wall_clock_ms()) if in_the_present else None) as opened:
            if partitions is not None:
                opened.create(partitions, **config)
            for records in appended:
                opened.ingest(records)
            yield opened

    return world


def record(
    offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = 1_000, **more: object
) -> Record:
    """A record in a few words."""
    return replace(Record(offset, key, value, timestamp_ms), **more)  # type: ignore[arg-type]
