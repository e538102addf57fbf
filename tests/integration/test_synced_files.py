"""Who writes a table's files on a local file system, and what becomes of a run whose disk refuses to sync."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.support.world import TOPIC, World, build_versions, define_world, record, write_jsonl
from winnow.engine import compaction_job as spark
from winnow.engine import staging
from winnow.files import storage
from winnow.log.file_io import SyncedFileIO
from winnow.log.topics import SYNCED_FILE_IO, TopicLogs
from winnow.pipeline.ingest.ingest import ingest_files

RECORDS = build_versions(0, 12)


world = define_world(
    1, [*RECORDS, record(12, None, b"keyless")], min_cleanable_dirty_ratio="0", winnow_keyless="quarantine"
)


def io_of(tmp_path: Path, warehouse: str, **catalog: str) -> str | None:
    logs = TopicLogs({"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **catalog}, warehouse)
    return logs.catalog.properties.get("py-io-impl")


def test_tables_of_a_local_warehouse_are_written_through_the_synced_file_io(world: World) -> None:
    """The log's, the quarantine's, and what maintenance writes; nothing of it is kept in the table's properties."""
    table = world.head().table
    quarantine = world.installation.log.catalog.load_table(("winnow_quarantine", TOPIC))
    table.maintenance.expire_snapshots()
    for each in (table, quarantine):
        assert type(each.io) is SyncedFileIO
        assert "py-io-impl" not in each.properties
    assert type(load_file_io(world.installation.log.catalog.properties, table.location())) is SyncedFileIO


@pytest.mark.parametrize("warehouse", ["file:///lake", "/lake"])
def test_a_catalog_on_a_local_warehouse_syncs_without_being_told(tmp_path: Path, warehouse: str) -> None:
    """Written as a URI or as a path."""
    assert io_of(tmp_path, warehouse) == SYNCED_FILE_IO


def test_a_file_io_of_the_users_stays(tmp_path: Path) -> None:
    """Whoever names one answers for its syncing."""
    theirs = "pyiceberg.io.pyarrow.PyArrowFileIO"
    assert io_of(tmp_path, "file:///lake", **{"py-io-impl": theirs}) == theirs


def test_object_stores_are_written_as_ever(tmp_path: Path) -> None:
    """An object is durable once it is complete: no other FileIO, and nothing to sync."""
    assert io_of(tmp_path, "s3://bucket/lake") is None
    storage.sync(["s3://bucket/lake/data/file.parquet"])
    output = SyncedFileIO({"s3.region": "us-east-1"}).new_output("s3://bucket/file")
    assert type(output) is type(PyArrowFileIO({"s3.region": "us-east-1"}).new_output("s3://bucket/file"))


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """Unless that is asked for; folders are made on the way."""
    output = SyncedFileIO().new_output(f"file://{tmp_path}/a/b/file")
    with output.create() as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError):
        output.create()
    with output.create(overwrite=True) as stream:
        stream.write(b"second")
    assert (tmp_path / "a/b/file").read_bytes() == b"second"
    assert output.to_input_file().open().read() == b"second"


def test_commits_to_a_sqlite_catalog_outlive_their_journal(world: World) -> None:
    """Its removal is synced too, without which a power cut would take the commit back."""
    with world.installation.log.catalog.engine.connect() as connection:  # type: ignore[attr-defined]
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
    store = world.installation.settings.store_url.removeprefix("sqlite:///")
    with sqlite3.connect(store) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# --------------------------------------------------------------------------------------------- a disk that refuses


def refuse(monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    """From now on the disk does not take files whose path holds ``below``."""
    genuine = os.fsync

    def fsync(descriptor: int) -> None:
        if below in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        genuine(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_task_whose_segments_the_disk_refuses_leaves_no_staging_manifest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition failed, and nothing says of its files that they are there."""
    plan = world.plan(world.clock())
    assert plan is not None
    document = staging.read_plan(plan.uri)
    refuse(monkeypatch, f"/data/{plan.plan_id}/")
    results = list(
        spark._run_task([spark.build_units(plan.uri, document)], "a1", world.installation.budget, lambda _: None)
    )
    outcome = spark.write_plan_manifest(plan.uri, document, "a1", results)
    assert outcome.manifest_uri is None
    assert outcome.failure is not None
    assert outcome.failure.error.startswith(f"{TOPIC}-0: the disk answered with an input/output error")
    assert staging.read_manifest(plan.uri, "a1") is None


@pytest.mark.parametrize("below", ["/data/ingest-", "/_winnow/state", "/metadata"])
def test_an_ingest_that_the_disk_refuses_lands_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    """Segment, state or Iceberg's own metadata: the commit does not come; the same call lands once the disk is well."""
    more = build_versions(13, 3)
    path = world.path()
    write_jsonl(path, more)
    with monkeypatch.context() as broken:
        refuse(broken, below)
        with pytest.raises(OSError, match="Input/output error"):
            ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock())
        assert world.read() == RECORDS
    assert ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock()).records_appended == 3
    assert world.read() == [*RECORDS, *more]
