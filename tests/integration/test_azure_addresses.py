"""Addresses of Azure's storage: the container is a part of every path, and the account of none."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from tests.support.cli_runner import find_location, record, winnow, write_lines
from winnow.files import object_store, storage

LAKE = "abfss://lake@account.dfs.core.windows.net"


def test_arrow_finds_the_same_path_in_an_address() -> None:
    """Its own reading of the address; nothing is asked of the account."""
    uri = f"{LAKE}/warehouse/a/b.parquet"
    assert object_store.find_path_in_store(uri) == fs.FileSystem.from_uri(uri)[1]


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the account's place: its folders are containers."""
    (tmp_path / "account" / "lake").mkdir(parents=True)
    account = fs.SubTreeFileSystem(str(tmp_path / "account"), fs.LocalFileSystem())

    def make_client(scheme: str, authority: str, *_: object) -> fs.FileSystem:
        assert (scheme, authority) == ("abfss", "lake@account.dfs.core.windows.net")
        return _MakesFolders(account)

    monkeypatch.setattr(object_store, "_make_client", make_client)
    return tmp_path / "account" / "lake"


class _MakesFolders(fs.PyFileSystem):  # type: ignore[misc]
    """A file system that needs no folders, as an object store."""

    def __init__(self, inner: fs.FileSystem) -> None:
        super().__init__(_Handler(inner))


class _Handler(fs.FSSpecHandler):  # type: ignore[misc]
    def __init__(self, inner: fs.FileSystem) -> None:
        from fsspec.implementations.arrow import ArrowFSWrapper

        super().__init__(ArrowFSWrapper(inner))

    def open_output_stream(self, path: str, metadata: object) -> object:
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        return super().open_output_stream(path, metadata)


def test_a_topic_lives_in_a_container(container: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Winnow's files, PyIceberg's and DuckDB's reading lead to one place."""
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WINNOW_WAREHOUSE", f"{LAKE}/warehouse")
    monkeypatch.setenv("WINNOW_STAGING", f"{LAKE}/staging")
    lines = [record(f"k{offset % 3}", f"v{offset}", partition=0, offset=offset) for offset in range(10)]
    winnow("topics", "create", "orders", "--partitions", "1")
    winnow("ingest", "files", "orders", write_lines(tmp_path / "orders.jsonl", lines))
    assert len(winnow("read", "orders").stdout.splitlines()) == 10
    location = find_location("orders")
    folder = container / location.removeprefix(f"{LAKE}/")
    assert {path.name for path in folder.iterdir()} == {"data", "metadata", "_winnow"}
    files = [entry.uri for entry in storage.list_files(f"{location}/data")]
    from winnow.files.duckdb_connection import open_connection

    with open_connection(memory_limit_bytes=1 << 28, spill_folder=str(tmp_path), uris=files) as connection:
        assert connection.execute("SELECT count(*) FROM read_parquet(?)", [files]).fetchall() == [(10,)]
