"""Files in a real HDFS: Arrow's, DuckDB's and PyIceberg's way to them, and what is said when it is away."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tests.support.cli_runner import find_location, record, winnow, write_lines
from tests.support.hadoop_cluster import HadoopCluster, run_hadoop
from winnow.clock import read_wall_clock_ms
from winnow.errors import ConfigurationError, ServiceError
from winnow.files import hadoop_store, storage
from winnow.files.duckdb_connection import open_connection
from winnow.files.parquet_writer import RollingParquetWriter
from winnow.files.storage_health import probe_folder
from winnow.log.file_io import SyncedFileIO

pytest.importorskip("hdfs_native", reason="the extra hdfs is not installed")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def hdfs() -> Iterator[HadoopCluster]:
    """A name node and a data node."""
    with tempfile.TemporaryDirectory(prefix="winnow-hdfs-") as folder, run_hadoop(Path(folder), with_yarn=False) as run:
        yield run


def test_a_file_is_written_listed_read_replaced_and_deleted(hdfs: HadoopCluster) -> None:
    """With a name that a URI would quote; the clock of the name node is near this machine's."""
    uri = f"{hdfs.address}/files/a folder/c=1/x.json"
    storage.write_bytes(uri, b"first")
    storage.write_bytes(uri, b"second")
    assert storage.read_bytes(uri) == b"second"
    listed = [(entry.uri, entry.size_bytes) for entry in storage.list_files(f"{hdfs.address}/files")]
    assert listed == [(uri, len(b"second"))]
    storage.delete(uri)
    storage.delete(uri)
    assert not storage.exists(uri)
    assert storage.list_files(f"{hdfs.address}/nowhere") == []
    with pytest.raises(FileNotFoundError) as missing:
        storage.read_bytes(uri)
    assert len(str(missing.value).splitlines()) == 1
    seen = probe_folder(f"{hdfs.address}/files", read_wall_clock_ms)
    assert seen.ahead_ms is not None
    assert abs(seen.ahead_ms) < 60_000


def test_a_file_that_is_being_written_is_not_there_yet(hdfs: HadoopCluster) -> None:
    """A reader sees all of it or nothing, as in an object store."""
    filesystem, path = storage.open_filesystem(f"{hdfs.address}/drafts/x.bin")
    stream = filesystem.open_output_stream(path)
    stream.write(b"a" * (hadoop_store.BUFFER_BYTES + 1))
    assert filesystem.get_file_info(path).type == fs.FileType.NotFound
    stream.close()
    assert filesystem.get_file_info(path).size == hadoop_store.BUFFER_BYTES + 1
    names = [info.base_name for info in filesystem.get_file_info(fs.FileSelector(path.rpartition("/")[0]))]
    assert names == ["x.bin"]


def test_duckdb_and_arrow_read_a_segment_from_hdfs(hdfs: HadoopCluster) -> None:
    """Whole and by ranges; the pages are checked on the way."""
    schema = pa.schema([("offset", pa.int64())])
    uri = f"{hdfs.address}/segments/p0.parquet"
    with RollingParquetWriter(schema, file_bytes=1 << 20, name=lambda _: uri) as writer:
        writer.write(pa.record_batch({"offset": pa.array(range(100_000))}))
    with (
        tempfile.TemporaryDirectory() as spill,
        open_connection(memory_limit_bytes=1 << 28, spill_folder=spill, uris=[uri]) as connection,
    ):
        counted = connection.execute(f"SELECT count(*), sum(\"offset\") FROM read_parquet('{uri}')").fetchall()
    assert counted == [(100_000, sum(range(100_000)))]
    filesystem, path = storage.open_filesystem(uri)
    assert pq.read_table(path, filesystem=filesystem).num_rows == 100_000


def test_pyiceberg_uses_the_same_client(hdfs: HadoopCluster) -> None:
    """And so needs no libhdfs; a second file of one name is refused."""
    output = SyncedFileIO().new_output(f"{hdfs.address}/metadata/v1.json")
    with output.create() as stream:
        stream.write(b"{}")
    assert storage.read_bytes(f"{hdfs.address}/metadata/v1.json") == b"{}"
    with pytest.raises(FileExistsError):
        output.create()


def test_a_topic_lives_on_hdfs(hdfs: HadoopCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Created, ingested into and read by the commands; every file of it is there."""
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WINNOW_WAREHOUSE", f"{hdfs.address}/lake/warehouse")
    monkeypatch.setenv("WINNOW_STAGING", f"{hdfs.address}/lake/staging")
    lines = [record(f"k{offset % 3}", f"v{offset}", partition=0, offset=offset) for offset in range(10)]
    winnow("topics", "create", "orders", "--partitions", "1")
    winnow("ingest", "files", "orders", write_lines(tmp_path / "orders.jsonl", lines))
    assert len(winnow("read", "orders").stdout.splitlines()) == 10
    location = find_location("orders")
    assert location.startswith(f"{hdfs.address}/lake/warehouse/winnow/orders-")
    found = {entry.uri.removeprefix(f"{location}/").split("/")[0] for entry in storage.list_files(location)}
    assert {"data", "metadata", "_winnow"} <= found


def test_an_hdfs_that_is_away_is_a_service_error_in_one_sentence_and_not_after_minutes() -> None:
    """The client alone would try for three minutes."""
    begun_s = time.monotonic()
    with pytest.raises(ServiceError, match=r"hdfs://127\.0\.0\.1:1/lake.*HDFS error"):
        storage.exists("hdfs://127.0.0.1:1/lake/x")
    assert time.monotonic() - begun_s < 60


def test_without_the_package_the_line_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on executors, which have a Python of their own."""

    def lack() -> None:
        raise ImportError

    monkeypatch.setattr(hadoop_store, "_load_library", lack)
    with pytest.raises(ConfigurationError, match=r"pip install 'winnow-log\[hdfs\]'"):
        storage.exists("hdfs://namenode.example:8020/x")
