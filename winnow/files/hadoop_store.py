"""Gives Arrow access to HDFS through ``hdfs-native``, which needs neither a JVM nor Hadoop's native libraries.

It finds the name nodes of ``hdfs://nameservice`` in the Hadoop configuration that HADOOP_CONF_DIR (else HADOOP_HOME)
names, logs in with Kerberos' ticket cache where that asks for it, and is HADOOP_USER_NAME, else the process's user,
elsewhere.

As in an object store a file appears whole: it is written under a hidden name, synced on the data nodes, and renamed
when it is closed. Paths may begin with the authority (``host:8020/folder``), as the addresses that DuckDB hands on do.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from winnow.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import Buffer

ERROR_PREFIX = "HDFS error"
"""Begins every error of the cluster, or of the network to it."""

CLIENT_PROPERTIES = {"dfs.client.failover.max.attempts": "4"}
"""Seconds of attempts, also for one name node. The client's default, 15 attempts in 3 minutes, looks like a command
that hangs."""

BUFFER_BYTES = 4 << 20
"""Bytes that are handed to the data nodes at a time; Parquet's writer writes pages of a few kilobytes."""


def open_hadoop_filesystem(scheme: str, authority: str) -> fs.FileSystem:
    """Return Arrow's file system for ``scheme://authority``; an empty authority is ``fs.defaultFS``.

    Raises:
        ConfigurationError: ``hdfs-native`` is not installed.
        OSError: no name node is configured under this name.
    """
    try:
        library = _load_library()
    except ImportError as problem:
        raise ConfigurationError(
            f"{scheme}://{authority} cannot be opened: the package hdfs-native is not installed here.",
            left="Nothing was done there.",
            next="Install it wherever Winnow runs, Spark's executors too: pip install 'winnow-log[hdfs]'",
        ) from problem
    with _translate_errors():
        client = library.Client(f"{scheme}://{authority}" if authority else None, CLIENT_PROPERTIES)
    return fs.PyFileSystem(HadoopHandler(client, f"{scheme}://{authority}"))


def _load_library() -> Any:
    # By name: the extra that brings it is not everybody's.
    return import_module("hdfs_native")


class HadoopHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """One HDFS behind Arrow's interface."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopHandler) and other._address == self._address

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """Return the name that Arrow shows."""
        return "hdfs-native"

    def normalize_path(self, path: str) -> str:
        """Return ``path`` as it is."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """Return what is at each of ``paths``."""
        return [self._look_up(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """List a folder.

        Raises:
            FileNotFoundError: it is missing, and the selector does not allow that.
        """
        top = _strip_authority(selector.base_dir)
        try:
            with _translate_errors():
                found = list(self._client.list_status(top, selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        # Names in the answer begin as the question did.
        before = selector.base_dir.rstrip("/")
        return [_describe(f"{before}{status.path[len(top.rstrip('/')) :]}", status) for status in found]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Make a folder."""
        with _translate_errors():
            self._client.mkdirs(_strip_authority(path), 0o755, recursive)

    def delete_dir(self, path: str) -> None:
        """Delete a folder and all below it."""
        self._delete(path, recursive=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Delete all below a folder."""
        for info in self.get_file_info_selector(fs.FileSelector(path, allow_not_found=missing_dir_ok)):
            self._delete(info.path, recursive=True)

    def delete_root_dir_contents(self) -> None:
        """Refuse: nobody wants that."""
        raise NotImplementedError("deleting everything in HDFS")

    def delete_file(self, path: str) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: there is none.
        """
        self._delete(path, recursive=False)

    def _delete(self, path: str, *, recursive: bool) -> None:
        with _translate_errors():
            done = self._client.delete(_strip_authority(path), recursive)
        if not done:
            raise FileNotFoundError(path)

    def move(self, src: str, dest: str) -> None:
        """Rename a file; one that has the new name is replaced."""
        with _translate_errors():
            self._client.rename(_strip_authority(src), _strip_authority(dest), True)

    def copy_file(self, src: str, dest: str) -> None:
        """Refuse: nothing is copied."""
        raise NotImplementedError("copying in HDFS")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading from its start on."""
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position.

        Raises:
            FileNotFoundError: there is none.
        """
        with _translate_errors():
            return pa.PythonFile(_Reader(self._client.read(_strip_authority(path))), mode="r")

    def open_output_stream(self, path: str, metadata: object = None) -> pa.NativeFile:
        """Open a new file, which appears when it is closed; its folder is made."""
        target = _strip_authority(path)
        folder, _, name = target.rpartition("/")
        draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
        with _translate_errors():
            writer = self._client.create(draft, _load_library().WriteOptions(overwrite=True, create_parent=True))
        buffered = io.BufferedWriter(_Writer(self._client, writer, draft, target), BUFFER_BYTES)
        return pa.PythonFile(buffered, mode="w")

    def open_append_stream(self, path: str, metadata: object = None) -> pa.NativeFile:
        """Refuse: files are written once."""
        raise NotImplementedError("appending in HDFS")

    def _look_up(self, path: str) -> fs.FileInfo:
        try:
            with _translate_errors():
                status = self._client.get_file_info(_strip_authority(path))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)
        return _describe(path, status)


class _Reader(io.RawIOBase):
    """A file of HDFS for Arrow, which reads at positions and holds a lock meanwhile."""

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self._reader = reader
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = (0, self._position, len(self._reader))[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(len(self._reader) - self._position, 0)
        wanted = left if size < 0 else min(size, left)
        if not wanted:
            return b""
        with _translate_errors():
            data: bytes = self._reader.read_range(self._position, wanted)
        self._position += len(data)
        return data


class _Writer(io.RawIOBase):
    """A new file of HDFS under its hidden name; closing it syncs and renames it."""

    def __init__(self, client: Any, writer: Any, draft: str, target: str) -> None:
        super().__init__()
        self._client, self._writer, self._draft, self._target = client, writer, draft, target
        self._is_broken = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        self._is_broken = True
        with _translate_errors():
            written: int = self._writer.write(bytes(data))
        self._is_broken = False
        return written

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        with _translate_errors():
            if not self._is_broken:
                self._writer.hsync()
                self._writer.close()
                self._client.rename(self._draft, self._target, True)


def _strip_authority(path: str) -> str:
    """Return the path within HDFS: an absolute one stays, another begins with ``host:port``."""
    return path if path.startswith("/") else f"/{path.partition('/')[2]}"


def _describe(path: str, status: Any) -> fs.FileInfo:
    if status.isdir:
        return fs.FileInfo(path, fs.FileType.Directory)
    modified = datetime.fromtimestamp(status.modification_time / 1000, UTC)
    return fs.FileInfo(path, fs.FileType.File, size=status.length, mtime=modified)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the client's errors into OSErrors that say whose they are; a missing file stays one."""
    try:
        yield
    except (FileNotFoundError, FileExistsError) as problem:
        raise type(problem)(_shorten(problem)) from None
    except Exception as problem:
        raise OSError(f"{ERROR_PREFIX}: {_shorten(problem)}") from problem


def _shorten(problem: Exception) -> str:
    """Return the first line: the name node sends its stack trace along."""
    return next(iter(str(problem).splitlines()), type(problem).__name__)[:300]
