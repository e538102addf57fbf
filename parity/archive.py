"""Winnow's side: an archive in a folder, with real tables and files, whose clock is the broker's cleaner's."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from winnow import __version__
from winnow.config.settings import load_settings
from winnow.embedded.java import find_java, make_spark_environment
from winnow.engine import staging
from winnow.engine.rewrite import ENGINE_NAME, compact_partition
from winnow.files.segments import ARROW_SCHEMA
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.plan import plan_topic
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.kafka.reading import ReadingRules
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values import documents
from winnow.values.model import Assessment, Record
from winnow.values.results import PartitionReceipt, StagingManifest, Verdict
from winnow.values.topic_state import PartitionState, TopicState

ATTEMPT: Final = "parity"
PAUSED_BY: Final = "parity"


@dataclass
class BrokerClock:
    """A clock that stands where the broker's cleaner last looked at it."""

    now_ms: int = 0

    def __call__(self) -> int:
        """Return the time in ms since the epoch."""
        return self.now_ms


@dataclass
class Archive:
    """Winnow's topics. Get it from :func:`open_archive`."""

    installation: Installation
    clock: BrokerClock
    folder: Path
    _files: int = 0

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create ``topic``."""
        create_topic(self.installation, topic, partitions, config)

    def alter(self, topic: str, changes: Mapping[str, str]) -> None:
        """Change the configuration of ``topic``."""
        alter_topic(self.installation, topic, changes, ())

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Raise the log start of partitions."""
        delete_records(self.installation, topic, before)

    def get_states(self, topic: str) -> Mapping[int, PartitionState]:
        """Return the carried state of each partition."""
        state: TopicState = self.installation.log.open(topic).head().state
        return state.partitions

    def ingest_records(self, topic: str, records: Sequence[Record]) -> None:
        """Ingest ``records`` as one Parquet file, so that each partition gets one segment of it."""
        self._files += 1
        path = self.folder / f"in-{self._files}.parquet"
        pq.write_table(build_table(records), path)
        ingest_files(self.installation, topic, [str(path)], as_of_ms=self.clock())
        path.unlink()

    def ingest_directory(self, topic: str, folder: Path, source_topic: str) -> None:
        """Ingest a copy of a broker's log directory."""
        source = None if source_topic == topic else source_topic
        ingest_files(self.installation, topic, [str(folder)], as_of_ms=self.clock(), source_topic=source)

    def ingest_from_broker(
        self, bootstrap_servers: str, topics: Mapping[str, str], *, creates: bool = True, accepts_gap: bool = False
    ) -> list[str]:
        """Ingest topics as ``winnow ingest kafka`` does; return what failed.

        ``topics``: those of the archive, with the name of each at the broker. ``creates``: as with --create.
        ``accepts_gap``: as with --accept-gap.
        """
        cluster = Cluster(read_client_settings(bootstrap_servers))
        wanted = KafkaRequest(ReadingRules(accepts_gap=accepts_gap), creates=creates)
        done = ingest_kafka_topics(self.installation, cluster, topics, wanted, as_of_ms=self.clock(), on="local")
        return [str(failure) for failure in done.failures]

    def assess(self, topic: str) -> dict[int, Assessment]:
        """Assess ``topic`` now as ``winnow eligibility`` does; return the decisions by partition."""
        found = assess_topics(self.installation, [topic], as_of_ms=self.clock(), record=False)
        return {each.partition: each for each in found}

    def compact(
        self, topic: str, *, leave_out: Collection[int] = (), closes_active: bool = True
    ) -> dict[int, PartitionReceipt]:
        """Compact ``topic`` now, but not the partitions ``leave_out``; return what was published, by partition.

        ``closes_active``: the active segments count as closed.
        """
        with self._pausing(topic, leave_out), hold_lease(self.installation, topic):
            settle_open_runs(self.installation, topic)
            plan = plan_topic(
                self.installation, topic, as_of_ms=self.clock(), attempt=ATTEMPT, closes_active=closes_active
            )
            if plan is None:
                return {}
            self._stage(plan)
            receipt = publish_attempt(self.installation, plan.plan_id, ATTEMPT)
        return {each.partition: each for each in receipt.partitions}

    @contextmanager
    def _pausing(self, topic: str, partitions: Collection[int]) -> Iterator[None]:
        if partitions:
            pause_partitions(self.installation, topic, partitions, by=PAUSED_BY)
        yield
        if partitions:
            resume_partitions(self.installation, topic, partitions, by=PAUSED_BY)

    def _stage(self, plan: PlanReference) -> None:
        """Carry out a plan in this process, and accept it: the comparison with the broker is the validation."""
        document = staging.read_plan(plan.uri)
        store = self.installation.store
        store.runs.begin_attempt(plan.plan_id, ATTEMPT, self.clock())
        parts = tuple(
            compact_partition(
                document, partition, attempt=ATTEMPT, budget=self.installation.budget, folder=f"{ATTEMPT}/t0"
            )
            for partition in sorted(document.partitions, key=lambda each: each.partition)
        )
        manifest = StagingManifest(plan.plan_id, plan.topic, ATTEMPT, parts, ENGINE_NAME, __version__)
        staging.write_manifest(plan.uri, manifest)
        written = staging.read_manifest(plan.uri, ATTEMPT)
        store.runs.set_state(plan.plan_id, RunState.STAGED, self.clock(), attempt=ATTEMPT)
        verdict = Verdict(
            plan.plan_id,
            plan.topic,
            ATTEMPT,
            passed=True,
            broken=False,
            failures=(),
            checked_at_ms=self.clock(),
            manifest_digest=None if written is None else documents.compute_digest(written),
            plan_sha256=plan.sha256,
        )
        store.verdicts.record(verdict)
        store.runs.set_state(plan.plan_id, RunState.VALIDATED, self.clock(), attempt=ATTEMPT)

    def compact_on_spark(self, topics: Sequence[str], as_of_ms: int) -> None:
        """Run ``winnow compact`` on ``topics``: one Spark application, with validation.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        environment = make_spark_environment(os.environ, find_java(os.environ, self.folder / "java"), "local[2]")
        subprocess.run(
            [sys.executable, "-m", "winnow.cli", "compact", *topics, "--now", "--as-of", str(as_of_ms)],
            env={**environment, **_build_variables(self.folder)},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )

    def read_records(self, topic: str, partition: int) -> list[Record]:
        """Read what a reader of ``partition`` sees."""
        return [
            record
            for batch in read_batches(self.installation, topic, partition=partition)
            for record in _build_records(batch)
        ]


@contextmanager
def open_archive(folder: Path) -> Iterator[Archive]:
    """Open an archive in ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = BrokerClock()
    settings = load_settings(cwd=folder, env=_build_variables(folder))
    with open_installation(settings, now_ms=clock) as installation:
        yield Archive(installation, clock, folder)


def _build_variables(folder: Path) -> dict[str, str]:
    return {"WINNOW_HOME": str(folder / "home"), "WINNOW_SPARK__MASTER": "local[2]"}


def build_table(records: Sequence[Record]) -> pa.Table:
    """Build a table of ``records`` with the columns of a segment."""
    headers = [
        None if r.headers is None else [{"key": name, "value": value} for name, value in r.headers] for r in records
    ]
    columns = {
        "key": [r.key for r in records],
        "value": [r.value for r in records],
        "partition": [r.partition for r in records],
        "offset": [r.offset for r in records],
        "timestamp": [None if r.timestamp_ms is None else r.timestamp_ms * 1000 for r in records],
        "timestampType": [r.timestamp_type for r in records],
        "headers": headers,
    }
    return pa.table({each.name: pa.array(columns[each.name], each.type) for each in ARROW_SCHEMA}, schema=ARROW_SCHEMA)


def _build_records(batch: pa.RecordBatch) -> Iterator[Record]:
    names = ("offset", "key", "value", "headers", "timestampType", "partition")
    columns = [batch.column(name).to_pylist() for name in names]
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for (offset, key, value, headers, kind, partition), time_us in zip(zip(*columns, strict=True), times, strict=True):
        yield Record(
            offset,
            key,
            value,
            None if time_us is None else time_us // 1000,
            tuple((each["key"], each["value"]) for each in headers) if headers else None,
            kind,
            partition,
        )


def describe_record(record: Record) -> str:
    """Describe a record without any of its bytes."""
    fields = dataclasses.asdict(record)
    sizes = {name: None if fields[name] is None else len(fields[name]) for name in ("key", "value", "headers")}
    return f"offset {record.offset}, timestamp {record.timestamp_ms}, sizes {sizes}"
