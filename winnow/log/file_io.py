"""Lets PyIceberg sync files to the local disk before a commit refers to them.

PyIceberg's own FileIO leaves manifests, manifest lists and metadata files in the kernel's memory, while the catalog's
database, which names them, is synced. The catalog property ``py-io-impl`` selects another FileIO
(:data:`winnow.log.topics.SYNCED_FILE_IO`).
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from winnow.files.disk_sync import sync_folder
from winnow.files.local_tree import create_file, delete_file
from winnow.files.object_store import (
    AZURE_SCHEMES,
    HADOOP_SCHEMES,
    S3_SCHEMES,
    find_path_in_store,
    is_vending,
    open_remote_filesystem,
)

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


METADATA: Final = "metadata"


class SyncedFileIO(PyArrowFileIO):
    """PyIceberg's Arrow FileIO; closing a local file returns when the file and its folder are synced.

    Objects in a store are durable once complete, so they are written as usual; so are files of HDFS, through
    :mod:`winnow.files.hadoop_store`.
    """

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Return scheme, authority and path; for Azure the path begins with the container, as Arrow's client has it."""
        scheme, authority, path = PyArrowFileIO.parse_location(location, properties)
        return scheme, authority, find_path_in_store(location) if scheme in AZURE_SCHEMES else path

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        """Return the client that the rest of Winnow uses for HDFS (no libhdfs), Azure, and vended credentials."""
        if scheme in HADOOP_SCHEMES | AZURE_SCHEMES or (scheme in S3_SCHEMES and is_vending(os.environ)):
            return open_remote_filesystem(f"{scheme}://{netloc or ''}/")
        return super()._initialize_fs(scheme, netloc)

    def new_output(self, location: str) -> PyArrowFile:
        """Return the output file for ``location``: a URI or a plain local path."""
        output = super().new_output(location)
        scheme, _, path = self.parse_location(location, self.properties)
        return _LocalFile(location, path, output._filesystem) if scheme == "file" else output

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; on a local disk through no link in the place of the table's folder for metadata.

        Raises:
            FileNotFoundError: it is missing.
        """
        place = location if isinstance(location, str) else location.location
        scheme, _, path = self.parse_location(place, self.properties)
        if scheme != "file":
            super().delete(location)
        elif not delete_file(*_split(path)):
            raise FileNotFoundError(f"There is no file {place} that may be deleted")


class _LocalFile(PyArrowFile):
    """A local file, as PyIceberg's OutputFile."""

    def create(self, overwrite: bool = False) -> _SyncedStream:
        """Open it for writing; create its folder.

        Raises:
            FileExistsError: the file exists, and ``overwrite`` is not set.
            LinkedFolderError: the table's folder for metadata is a link.
        """
        return _SyncedStream(Path(self._path), create_file(*_split(self._path), replace=overwrite))


def _split(path: str) -> tuple[Path, Sequence[str]]:
    """Return the root of a local file, and its path below it; the root of a table's metadata is the table's folder."""
    found = Path(path)
    depth = 2 if found.parent.name == METADATA else 1
    return found.parents[depth - 1], found.parts[-depth:]


class _SyncedStream(io.BufferedWriter):
    """A new file; closing it syncs its content and its folder to disk."""

    def __init__(self, path: Path, descriptor: int) -> None:
        super().__init__(io.FileIO(descriptor, "wb"))
        self._path = path

    def close(self) -> None:
        """Flush, sync and close the file and sync its folder."""
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()
        sync_folder(self._path.parent)
