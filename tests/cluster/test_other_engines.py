"""Maintenance of another engine on a topic's table: Spark's own procedures of Iceberg."""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process_spark
from tests.support.cli_runner import winnow
from tests.support.iceberg_spark import ask_spark
from tests.support.world import build_versions, compute_survivors, write_jsonl
from winnow.files import storage
from winnow.log import document_copies
from winnow.log.head import Head
from winnow.pipeline.compaction import driver
from winnow.pipeline.connect.connect import write_connection
from winnow.pipeline.installation import open_installation
from winnow.pipeline.latest.reader_names import ReaderName

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif("REAL_CLUSTERS" not in os.environ, reason="starts Spark: make cluster-test"),
]

TWO_DAYS_S = 2 * 86_400
"""The procedure refuses to remove files that are younger than one day."""
RECORDS = build_versions(0, 40)


@pytest.fixture(autouse=True)
def installation(winnow_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation of its own, whose compactions start no JVM."""
    monkeypatch.setattr(driver, "submit_plans", in_process_spark.submit)
    document_copies.forget_read_from_copies("old")


def fill(topic: str, folder: Path) -> None:
    """Two ingests with a compaction after each, so that there is a document of each kind but a chain."""
    winnow("topics", "create", topic, "--partitions", "1", "--config", "min.cleanable.dirty.ratio=0",
           "--config", "segment.ms=1000")  # fmt: skip
    for start in (0, 20):
        records = RECORDS[start : start + 20]
        winnow("ingest", "files", topic, write_jsonl(folder / f"{topic}-{start}.jsonl", records))
        winnow("compact", topic)


def load_head(topic: str) -> Head:
    with open_installation() as installation:
        return installation.log.open(topic).head()


def list_files(*folders: str) -> set[str]:
    return {str(path) for each in folders for path in storage.parse_local_path(each).rglob("*") if path.is_file()}


def let_age(folder: Path) -> None:
    """Make every file below ``folder`` two days older."""
    before = time.time() - TWO_DAYS_S
    for path in folder.rglob("*"):
        os.utime(path, (before, before))


def call_spark(topic: str, folder: Path, *calls: str) -> list[list[list[Any]]]:
    with open_installation() as installation:
        program = write_connection(installation, topic, ReaderName.SPARK)
    return ask_spark(folder, program, calls)


def remove_orphans(topic: str) -> str:
    """The procedure's call, for everything that is older than a day."""
    before = datetime.fromtimestamp(time.time() - 1.5 * 86_400, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"CALL winnow.system.remove_orphan_files(table => 'winnow.winnow.{topic}', older_than => TIMESTAMP '{before}')"
    )


def read_offsets(topic: str) -> list[int]:
    return [json.loads(line)["offset"] for line in winnow("read", topic).stdout.splitlines()]


EXPECTED = [each.offset for each in compute_survivors(RECORDS)]


def test_orphan_removal_of_spark_takes_nothing_of_a_topic(winnow_home: Path, tmp_path: Path) -> None:
    """Not one file is gone; it is read, assessed, ingested into, compacted and swept as before."""
    fill("orders", tmp_path)
    head = load_head("orders")
    stray = storage.parse_local_path(storage.join(head.location, "data", "stray.parquet"))
    stray.write_bytes(b"an orphan, so that the procedure is seen to remove one")
    let_age(winnow_home)
    before = list_files(head.location, head.copies)
    (removed,) = call_spark("orders", tmp_path, remove_orphans("orders"))
    assert [storage.get_name(path) for (path,) in removed] == [stray.name]
    assert list_files(head.location, head.copies) == before - {str(stray)}
    answer = winnow("read", "orders")
    assert [json.loads(line)["offset"] for line in answer.stdout.splitlines()] == EXPECTED
    assert "copy" not in answer.stderr
    winnow("assess", "orders")
    winnow("ingest", "files", "orders", write_jsonl(tmp_path / "more.jsonl", build_versions(40, 5)))
    winnow("compact", "orders")
    winnow("sweep", "orders")
    assert winnow("scrub", "orders", "--json").document[0]["findings"] == []


def test_other_procedures_of_spark_are_noticed_or_harmless(winnow_home: Path, tmp_path: Path) -> None:
    """Expired snapshots change nothing that is read; rewritten files are refused until the table is rolled back."""
    fill("orders", tmp_path)
    snapshot_id = load_head("orders").snapshot_id
    call_spark(
        "orders", tmp_path, "CALL winnow.system.expire_snapshots(table => 'winnow.winnow.orders', retain_last => 1, "
        f"older_than => TIMESTAMP '{datetime.now(UTC):%Y-%m-%d %H:%M:%S}')"
    )  # fmt: skip
    assert read_offsets("orders") == EXPECTED
    winnow("sweep", "orders")
    winnow("scrub", "orders")
    before = shutil.copytree(winnow_home, tmp_path / "before")
    assert before.exists()
    call_spark("orders", tmp_path, "CALL winnow.system.rewrite_manifests('winnow.winnow.orders')",
               "CALL winnow.system.rewrite_data_files(table => 'winnow.winnow.orders', "
               "options => map('rewrite-all', 'true'))")  # fmt: skip
    assert load_table("orders").metadata.current_snapshot_id != snapshot_id
    winnow("assess", "orders", code=2)
    load_table("orders").manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
    assert read_offsets("orders") == EXPECTED
    winnow("compact", "orders")


def load_table(topic: str) -> Any:
    with open_installation() as installation:
        return installation.log.catalog.load_table(("winnow", topic))
