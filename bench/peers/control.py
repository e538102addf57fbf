"""Measures one part of the control plane in a separate process: ``python -m bench.peers.control WAY HOME TOPIC``.

walk      every manifest entry of the topic once, by PyIceberg
assess    what ``winnow assess`` does for the topic, or for all topics of the home where TOPIC is empty
commits   two hundred small compactions: ingest, plan, rewrite in process, publish; the last in turn with a new topic's
bytes     what the engine reads and writes to carry out the topic's plan, and what the plan requires

It prints one JSON line of figures.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lake import open_home
from bench.peers.timing import PREFIX

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.values.model import PartitionPlan, Plan
    from winnow.values.results import StagedPartition

COMPACTIONS = 200
EDGE = 20
"""Number of last compactions, run in turn with the first ones of a topic in another home; the two are compared."""
_PARTITIONS = 4
_KEYS = 25
Figures = dict[str, Any]


def walk(installation: Installation, topic: str) -> Figures:
    """Read every live manifest entry."""
    table = installation.log.open(topic).head().table
    snapshot = table.current_snapshot()
    assert snapshot is not None
    started = time.monotonic()
    entries = sum(
        1
        for manifest in snapshot.manifests(table.io)
        for _ in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    )
    return {"seconds": time.monotonic() - started, "entries": entries}


def assess(installation: Installation, topic: str) -> Figures:
    """Run all decisions and record them in the metadata store."""
    from winnow.pipeline.compaction import assess as step

    topics = [topic] if topic else installation.log.names()
    started = time.monotonic()
    found = step.assess_topics(installation, topics, as_of_ms=installation.now_ms())
    return {"seconds": time.monotonic() - started, "partitions": len(found), "topics": len(topics)}


def commits(installation: Installation, topic: str) -> Figures:
    """Publish repeatedly; return what each commit took, and how many manifests the snapshot then had.

    The first commits are measured in turn with the last, so that other load on the machine slows both alike.
    """
    old, new = _Commits(installation, topic), Path(f"{installation.settings.home}-new")
    for _ in range(COMPACTIONS - EDGE):
        old.once()
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    with open_home(new) as other:
        young = _Commits(other, topic)
        for _ in range(EDGE):
            young.once()
            old.once()
    return {f"first_{name}": values for name, values in young.figures.items()} | old.figures


class _Commits:
    """A topic and the figures of its compactions so far."""

    def __init__(self, installation: Installation, topic: str) -> None:
        from winnow.pipeline.topics.definition import create_topic

        create_topic(installation, topic, _PARTITIONS, {"min.cleanable.dirty.ratio": "0"})
        self._installation, self._topic = installation, topic
        self.figures: dict[str, list[float]] = {"publish_seconds": [], "ingest_seconds": [], "manifests": []}

    def once(self) -> None:
        """Ingest, compact and publish once."""
        number = len(self.figures["manifests"])
        self.figures["ingest_seconds"].append(_ingest(self._installation, self._topic, number))
        self.figures["publish_seconds"].append(_compact(self._installation, self._topic, number))
        table = self._installation.log.open(self._topic).head().table
        snapshot = table.current_snapshot()
        assert snapshot is not None
        self.figures["manifests"].append(len(snapshot.manifests(table.io)))


def _ingest(installation: Installation, topic: str, number: int) -> float:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from winnow.pipeline.ingest.ingest import ingest_files

    path = installation.settings.home / "arriving.parquet"
    rows = [(partition, number * _KEYS + key, key) for partition in range(_PARTITIONS) for key in range(_KEYS)]
    arriving = {
        "partition": pa.array([row[0] for row in rows], pa.int32()),
        "offset": pa.array([row[1] for row in rows], pa.int64()),
        "timestamp": pa.array([1_700_000_000_000 + number] * len(rows), pa.int64()),
        "key": pa.array([f"key-{row[2]}".encode() for row in rows]),
        "value": pa.array([f"value-{number}".encode() for _ in rows]),
    }
    pq.write_table(pa.table(arriving), path)
    started = time.monotonic()
    ingest_files(installation, topic, [str(path)], as_of_ms=installation.now_ms())
    return time.monotonic() - started


def _compact(installation: Installation, topic: str, number: int) -> float:
    """Plan, rewrite and publish without validation; return the seconds of publishing, since the commit is measured."""
    from winnow import __version__
    from winnow.engine import staging
    from winnow.engine.rewrite import ENGINE_NAME
    from winnow.pipeline.compaction.plan import plan_topic
    from winnow.pipeline.compaction.publish import publish_attempt
    from winnow.pipeline.topics.leases import hold_lease
    from winnow.store import RunState
    from winnow.values import documents
    from winnow.values.results import StagingManifest, Verdict

    attempt = f"a-{number}"
    with hold_lease(installation, topic):
        reference = plan_topic(installation, topic, as_of_ms=installation.now_ms(), attempt=attempt)
        assert reference is not None
        plan = staging.read_plan(reference.uri)
        parts = tuple(_carry_out(installation, plan, part, attempt) for part in plan.partitions)
        manifest = StagingManifest(plan.plan_id, topic, attempt, parts, ENGINE_NAME, __version__)
        installation.store.runs.begin_attempt(plan.plan_id, attempt, installation.now_ms())
        staging.write_manifest(reference.uri, manifest)
        for state in (RunState.STAGED, RunState.VALIDATED):
            installation.store.runs.set_state(plan.plan_id, state, installation.now_ms(), attempt=attempt)
        installation.store.verdicts.record(
            Verdict(
                plan.plan_id,
                topic,
                attempt,
                True,
                False,
                (),
                installation.now_ms(),
                manifest_digest=documents.compute_digest(staging.read_manifest(reference.uri, attempt)),
                plan_sha256=reference.sha256,
            )
        )
        started = time.monotonic()
        publish_attempt(installation, plan.plan_id, attempt)
        return time.monotonic() - started


def _carry_out(installation: Installation, plan: Plan, partition: PartitionPlan, attempt: str) -> StagedPartition:
    from winnow.engine.rewrite import compact_partition

    return compact_partition(plan, partition, attempt=attempt, budget=installation.budget)


def engine_bytes(installation: Installation, topic: str) -> Figures:
    """Return the bytes that the engine reads and writes, as the system counts them, and the bytes the plan requires."""
    from bench.io_limits import compute_allowed_bytes
    from winnow.engine import staging
    from winnow.pipeline.compaction.plan import plan_topic

    reference = plan_topic(installation, topic, as_of_ms=installation.now_ms(), attempt="bytes")
    assert reference is not None
    plan = staging.read_plan(reference.uri)
    _carry_out(installation, plan, plan.partitions[0], "warm")  # load what is loaded on first use
    before, started = _io(), time.monotonic()
    staged = [_carry_out(installation, plan, part, "bytes") for part in plan.partitions]
    after, seconds = _io(), time.monotonic() - started
    outputs = [segment.size_bytes for part in staged for rewrite in part.rewrites for segment in rewrite.outputs]
    return {
        "seconds": seconds,
        "read_bytes": after["rchar"] - before["rchar"],
        "written_bytes": after["wchar"] - before["wchar"],
        "output_bytes": sum(outputs),
        **compute_allowed_bytes(plan),
    }


def _io() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


WAYS: dict[str, Callable[[Installation, str], Figures]] = {
    "walk": walk,
    "assess": assess,
    "commits": commits,
    "bytes": engine_bytes,
}


def main(way: str, home: str, topic: str = "") -> None:
    """Run one way and print its figures."""
    with open_home(Path(home)) as installation:
        figures = WAYS[way](installation, topic)
    sys.stdout.write(f"{PREFIX}{json.dumps(figures)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
