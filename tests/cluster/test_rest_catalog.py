"""Topics in Iceberg's own REST catalog, its Java implementation over HTTP, with the commits that Winnow makes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from tests.support.cli_runner import make_topic, winnow, winnow_process
from tests.support.iceberg_rest_server import IcebergRestServer, serve_iceberg_rest
from tests.support.world import compute_survivors, record, write_jsonl

pytestmark = pytest.mark.timeout(900)

RECORDS = [
    record(
        offset, f"key-{offset % 5}".encode(), None if offset % 7 == 0 else f"value-{offset}".encode(), 1_700_000_000_000
    )
    for offset in range(60)
]


@pytest.fixture(scope="module")
def server() -> Iterator[IcebergRestServer]:
    """The catalog, empty."""
    with tempfile.TemporaryDirectory(prefix="winnow-rest-") as folder, serve_iceberg_rest(Path(folder)) as running:
        yield running


@pytest.fixture(autouse=True)
def installation(server: IcebergRestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Winnow's settings for it: a home per test, one warehouse."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WINNOW_CATALOG__TYPE", "rest")
    monkeypatch.setenv("WINNOW_CATALOG__URI", server.uri)
    monkeypatch.setenv("WINNOW_WAREHOUSE", f"file://{server.folder}/warehouse")
    # Each home is an installation of its own, and the server has one warehouse for all tests.
    monkeypatch.setenv("WINNOW_WAREHOUSE_SHARED", "true")


def test_a_topic_is_created_ingested_altered_paused_and_deleted(server: IcebergRestServer, tmp_path: Path) -> None:
    """Each is one commit that the server checks; another client sees the table, and at last that it is gone."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    winnow("topics", "alter", "orders", "--config", "segment.ms=1000")
    winnow("partitions", "pause", "orders", "--partition", "1")
    assert len(winnow("read", "orders").stdout.splitlines()) == 12
    table = load_catalog("other", type="rest", uri=server.uri).load_table(("winnow", "orders"))
    assert table.scan().to_arrow().num_rows == 12
    assert winnow("doctor", "--json").document
    winnow("topics", "delete", "orders", "--now", "--yes")
    assert not load_catalog("other", type="rest", uri=server.uri).table_exists(("winnow", "orders"))
    left = [path.name for path in (server.folder / "warehouse" / "winnow").rglob("*") if path.is_file()]
    # Hadoop's client keeps a checksum beside each file that the server writes to a local disk.
    assert [name for name in left if not name.endswith(".crc")] == []


def test_a_former_partition_spec_whose_column_is_gone_leaves_the_table_of_the_latest_state(
    server: IcebergRestServer, tmp_path: Path
) -> None:
    """The catalog takes the update, and gives a table whose files can be listed."""
    rows = [record(offset, b"key-%d" % offset, b'{"city": "Ulm", "n": %d}' % offset) for offset in range(3)]
    winnow("topics", "create", "customers", "--partitions", "1")
    winnow("ingest", "files", "customers", write_jsonl(tmp_path / "customers.jsonl", rows))
    layouts = [{"value.format": "json", "latest.table": "true", "latest.partition_by": "city"}]
    layouts += [{"latest.partition_by": "n", "latest.fields": "n"}]
    for layout in layouts:
        options = [option for name, value in layout.items() for option in ("--config", f"winnow.{name}={value}")]
        winnow("topics", "alter", "customers", *options)
        winnow("latest-table", "update", "customers")
    table = load_catalog("other", type="rest", uri=server.uri).load_table(("winnow_latest", "customers"))
    assert [len(spec.fields) for spec in table.metadata.partition_specs] == [1, 2]
    assert table.inspect.files().num_rows == len(rows)


def test_writers_at_the_same_time_all_land(server: IcebergRestServer, tmp_path: Path) -> None:
    """The server refuses a commit on an old snapshot, and the slower one tries again on the new one."""
    winnow("topics", "create", "crowded", "--partitions", "4")

    def ingest(partition: int) -> int:
        path = write_jsonl(
            tmp_path / f"{partition}.jsonl",
            [record(offset, b"k", b"v", 1_700_000_000_000, partition=partition) for offset in range(20)],
        )
        return winnow_process("ingest", "files", "crowded", path).exit_code

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ingest, range(4))) == [0, 0, 0, 0]
    assert len(winnow("read", "crowded").stdout.splitlines()) == 80


@pytest.mark.skipif("REAL_CLUSTERS" not in os.environ, reason="starts Spark: make cluster-test")
def test_compaction_sweep_and_rebuild_leave_what_the_oracle_keeps(
    server: IcebergRestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark rewrites, one commit through REST publishes; the metadata store is rebuilt from the catalog alone."""
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local[2]")
    settings = ("--config", "segment.ms=1000", "--config", "winnow.retired.grace.ms=0")
    winnow("topics", "create", "kept", "--partitions", "1", *settings)
    winnow("ingest", "files", "kept", write_jsonl(tmp_path / "kept.jsonl", RECORDS))
    done = winnow_process("compact", "kept", "--json")
    assert done.exit_code == 0, done.stderr
    assert [entry["status"] for entry in json.loads(done.stdout)] == ["published"]
    expected = [each.offset for each in compute_survivors(RECORDS)]
    assert [json.loads(line)["offset"] for line in winnow("read", "kept").stdout.splitlines()] == expected
    winnow("sweep", "kept")
    before = winnow("checkpoints", "kept", "--json").document
    winnow("store", "rebuild", "kept")
    assert winnow("checkpoints", "kept", "--json").document == before
    scanned = load_catalog("other", type="rest", uri=server.uri).load_table(("winnow", "kept")).scan().to_arrow()
    assert sorted(scanned["offset"].to_pylist()) == expected
