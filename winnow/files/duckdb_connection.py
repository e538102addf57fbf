"""Opens DuckDB connections with a memory limit, a spill folder and object-store access."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from winnow.files import object_store, private_files, storage

if TYPE_CHECKING:
    import duckdb


MINIMUM_MEMORY_BYTES = 64 << 20
"""Below this DuckDB runs out of memory instead of spilling (seen with 32 MiB and values of 10 kB)."""


@contextmanager
def open_connection(
    *, memory_limit_bytes: int, threads: int = 1, spill_folder: str | None, uris: Iterable[str] = ()
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection of :func:`connect` that spills into a private folder below ``spill_folder``.

    Raises:
        ServiceError, ConfigurationError: as :func:`winnow.files.private_files.make_private_folder`.
    """
    with private_files.make_private_folder(spill_folder) as private:
        connection = connect(
            memory_limit_bytes=memory_limit_bytes, threads=threads, spill_folder=str(private), uris=uris
        )
        try:
            yield connection
        finally:
            connection.close()


def connect(
    *, memory_limit_bytes: int, threads: int = 1, spill_folder: str, uris: Iterable[str] = ()
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB that spills below ``spill_folder`` instead of exceeding ``memory_limit_bytes``.

    The caller closes it, and keeps ``spill_folder`` private: DuckDB creates its own folder below with the rights that
    the umask leaves. A limit below :data:`MINIMUM_MEMORY_BYTES` is raised to it. The object stores of ``uris``, the
    files to be read, are registered.
    """
    import duckdb

    uris = list(uris)
    Path(spill_folder).mkdir(parents=True, exist_ok=True)
    # DuckDB creates this folder when it first spills and removes it when it closes.
    spill = str(Path(spill_folder) / f"winnow-spill-{uuid.uuid4().hex}")
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{max(memory_limit_bytes, MINIMUM_MEMORY_BYTES)}B",
            "threads": threads,
            "temp_directory": spill,
            "preserve_insertion_order": True,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    # Standard output carries the job's events.
    connection.execute("SET enable_progress_bar = false")
    _register_stores(connection, uris)
    if all(storage.is_local(uri) for uri in uris):
        # Prefetching would hold whole row groups in memory; the operating system reads local files ahead.
        connection.execute("SET disable_parquet_prefetching = true")
    return connection


def _register_stores(connection: duckdb.DuckDBPyConnection, uris: Iterable[str]) -> None:
    # One client per scheme: Arrow's client serves all buckets of a store.
    for scheme, uri in {urlparse(uri).scheme: uri for uri in uris if not storage.is_local(uri)}.items():
        filesystem, _ = storage.open_filesystem(uri)
        connection.register_filesystem(_make_filesystem_class(scheme)(filesystem))


@cache
def _make_filesystem_class(scheme: str) -> type[Any]:
    """Return an fsspec class around Arrow's client, under the protocol name by which DuckDB looks it up."""
    from winnow.files.checked_filesystem import CheckedFileSystem

    # fsspec would take the container of an Azure address for a user's name.
    more = {"_strip_protocol": staticmethod(_strip_azure_protocol)} if scheme in object_store.AZURE_SCHEMES else {}
    return type(f"Arrow{scheme.title()}", (CheckedFileSystem,), {"protocol": scheme, **more})


def _strip_azure_protocol(path: str) -> str:
    return object_store.find_path_in_store(path) if "://" in path else path


def format_file_name(uri: str) -> str:
    """Return the name by which DuckDB opens ``uri``: a plain path for local files."""
    return str(storage.parse_local_path(uri)) if storage.is_local(uri) else uri


def quote_literal(text: str) -> str:
    """Return ``text`` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_file_list(uris: Iterable[str]) -> str:
    """Return an SQL list literal of files for ``read_parquet``, with glob characters escaped."""
    return "[" + ", ".join(quote_literal(_escape_glob(format_file_name(uri))) for uri in uris) + "]"


def _escape_glob(path: str) -> str:
    # read_parquet reads *, ? and [ as patterns; a bracket expression of one character matches itself.
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def fetch_one_row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...] | None:
    """Return the first row of ``query``, None without one; the result is read to its end, as DuckDB demands."""
    rows = connection.execute(query).fetchall()
    return tuple(rows[0]) if rows else None


def read_memory_limit_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the memory limit of ``connection``, to the 3 digits that DuckDB shows."""
    row = fetch_one_row(connection, "SELECT current_setting('memory_limit')")
    assert row is not None
    number, unit = str(row[0]).split()
    return int(float(number) * _UNITS[unit])


_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
