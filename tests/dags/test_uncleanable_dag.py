"""``compact_topics`` over a segment that cannot be read: the run is red, the next one takes the other partition."""

from __future__ import annotations

from pathlib import Path

from tests.dags.conftest import RunDag
from tests.support.world import build_versions, write_jsonl
from winnow.files import storage
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import create_topic
from winnow.store import RunState
from winnow.values.model import TopicPartition


def test_damaged_segment_fails_its_run_marks_its_partition_and_spares_the_next_run(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """The mark is made by the Spark task itself, so a scheduler needs nobody at a shell."""
    create_topic(installation, "orders", 2, {"min.cleanable.dirty.ratio": "0"})
    for partition in (0, 1):
        path = write_jsonl(tmp_path / f"{partition}.jsonl", build_versions(0, 30, partition=partition))
        ingest_files(installation, "orders", [path], as_of_ms=1_000)
    log = installation.log.open("orders")
    damaged = storage.parse_local_path(log.segments(log.head())[0][0].path)
    damaged.write_bytes(damaged.read_bytes()[:-20])

    states = run_dag("compact_topics")
    assert states["run", -1] == "failed"
    assert states["compact_batch.compact", 0] == "failed"
    assert states["compact_batch.report", 0] == "success"
    (run,) = installation.store.runs.list_runs("orders")
    assert run.status is RunState.SPARK_FAILED
    assert str(damaged) in run.message
    assert "winnow partitions release orders --partition 0" in run.message
    assert list(installation.store.projection.list_uncleanable(["orders"])) == [TopicPartition("orders", 0)]
    assert installation.store.leases.find("orders") is None

    assert run_dag("compact_topics")["run", -1] == "success"
    (receipt,) = installation.store.projection.list_receipts("orders")
    assert [part.partition for part in receipt.partitions] == [1]
    assert [
        row["offset"] for batch in read_batches(installation, "orders", partition=1) for row in batch.to_pylist()
    ] == [
        27,
        28,
        29,
    ]
    assert list(installation.store.projection.list_uncleanable(["orders"])) == [TopicPartition("orders", 0)]
