"""Checksums of the metadata files that Winnow writes for a table: manifests, manifest lists, metadata.json.

Iceberg has no field for them, so they are in the files' names, where Iceberg has a random UUID. One half of ours is a
digest of the content, the other is random, and UUID version 8 with a mark identifies it. So a changed byte is
found before anything is decoded, and the error names the file. Files that another tool wrote, or an older Winnow, have
no checksum and are decoded as they are.
"""

from __future__ import annotations

import errno
import hashlib
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Final

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import Compressor, FromByteStream, ToOutputFile

from winnow.errors import DamagedMetadataError, WinnowError

if TYPE_CHECKING:
    from pyiceberg.io import InputStream, OutputStream
    from pyiceberg.table.metadata import TableMetadata

_MARK: Final = "8c5c"
"""Version 8 (RFC 9562: application-defined bits) and three digits that mark Winnow's files."""
_VARIANT: Final = "a"
_IN_NAME: Final = re.compile(rf"([0-9a-f]{{8}})-([0-9a-f]{{4}})-{_MARK}-{_VARIANT}([0-9a-f]{{3}})-[0-9a-f]{{12}}[^/]*$")
_MAXIMUM_KEPT_FILES: Final = 4
_MAXIMUM_KEPT_BYTES: Final = 4 << 20
"""Metadata files of some 3,000 snapshots; parsed they take ten times that."""
_NO_PATH: Final = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP})
_FOLDER: Final = "is a directory"
"""The end of Arrow's message about a folder that is opened as a file; it sets no number."""
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=[^/]*$)")


def make_checksum_name(path: str, data: bytes) -> str:
    """Replace the last UUID in the file name of ``path`` by one that holds a checksum of ``data``."""
    digest, salt = _compute_digest(data), secrets.token_hex(6)
    made = f"{digest[:8]}-{digest[8:12]}-{_MARK}-{_VARIANT}{digest[12:]}-{salt}"
    return _UUID.sub(made, path, count=1)


def require_checksum(path: str, data: bytes) -> None:
    """Check ``data`` against the checksum in the name of its file; accept it if the name has none.

    Raises:
        DamagedMetadataError: they differ.
    """
    found = _IN_NAME.search(path)
    if found is not None and "".join(found.groups()) != _compute_digest(data):
        raise make_damage_error(path)


def has_checksum(path: str) -> bool:
    """Check whether the file's name holds a checksum, which every read compares."""
    return _IN_NAME.search(path) is not None


def make_damage_error(path: str) -> DamagedMetadataError:
    """Make the error for a metadata file that does not hold what was written into it."""
    return DamagedMetadataError(
        f"The metadata file {path} is damaged or cut off.",
        left="Nothing was changed.",
        next="Restore that file from a backup or the object store's versions, then run it again.",
    )


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:15]


def read_checked(io: FileIO, path: str) -> bytes:
    """Read a whole metadata file and check it.

    Raises:
        DamagedMetadataError: its content does not match the checksum in its name.
        FileNotFoundError: it is not there.
    """
    with make_missing_path_error(path), io.new_input(path).open() as stream:
        data = stream.read()
    require_checksum(path, data)
    return data


def read_table_metadata(io: FileIO, location: str) -> TableMetadata:
    """Read a table's metadata file and check it.

    Raises:
        DamagedMetadataError: it is damaged.
        FileNotFoundError: it is missing.
    """
    try:
        data = read_checked(io, location)
        return _PARSED.find(data) or _PARSED.keep(data, _parse_metadata(location, data))
    except (OSError, WinnowError):
        raise
    except Exception as problem:  # PyIceberg's exception depends on where decoding fails
        raise make_damage_error(location) from problem


def write_table_metadata(io: FileIO, location: str, metadata: TableMetadata) -> str:
    """Write a table's metadata file; return its location: the given one with a checksum of the content in its name."""
    output = ChecksumNames(io).new_output(location)
    ToOutputFile.table_metadata(metadata, output)
    _PARSED.keep(output.data, metadata)
    return output.location


def _parse_metadata(location: str, data: bytes) -> TableMetadata:
    return FromByteStream.table_metadata(BytesIO(data), compression=Compressor.get_compressor(location))


def _identify(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class _ParsedMetadata:
    """The newest few metadata as parsed, by content: a commit loads its head several times, and parsing takes longest.

    What is read is compared whole by its digest. Models of metadata are never changed in place.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._kept: dict[bytes, TableMetadata] = {}

    def find(self, data: bytes) -> TableMetadata | None:
        """Find the metadata that ``data`` holds; None: not among the newest."""
        return self._kept.get(_identify(data))

    def keep(self, data: bytes, metadata: TableMetadata) -> TableMetadata:
        """Keep ``metadata``, whose content is ``data``, and return it."""
        if len(data) <= _MAXIMUM_KEPT_BYTES:
            with self._one_at_a_time:
                self._kept[_identify(data)] = metadata
                while len(self._kept) > _MAXIMUM_KEPT_FILES:
                    del self._kept[next(iter(self._kept))]
        return metadata


_PARSED: Final = _ParsedMetadata()


@contextmanager
def make_missing_path_error(path: str) -> Iterator[None]:
    """Turn errors about an impossible path into the error that the file which names it is damaged.

    Raises:
        DamagedMetadataError: it is not a path.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (ValueError, NotADirectoryError, IsADirectoryError) as problem:
        raise make_damage_error(path) from problem
    except OSError as problem:
        if problem.errno not in _NO_PATH and not str(problem).endswith(_FOLDER):
            raise
        raise make_damage_error(path) from problem


class ChecksumNames(FileIO):
    """Reads files through ``inner`` and checks them; writes files under names that hold a checksum of their content.

    Content is held in memory until the file is closed, because its name is not known before.
    """

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner.properties)
        self._inner = inner
        self.written: list[str] = []
        """Locations of the written files, in order."""

    def new_input(self, location: str) -> InputFile:
        """Return a file that is read whole and checked when it is opened."""
        return _CheckedFile(location, self._inner)

    def new_output(self, location: str) -> ChecksumNamedFile:
        """Return a file whose ``location`` is the given one with another UUID, once it is closed."""
        return ChecksumNamedFile(location, self._inner, self.written)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self._inner.delete(location)


class ChecksumNamedFile(OutputFile):
    """A file that gets its name when it is closed; see :class:`ChecksumNames`."""

    def __init__(self, location: str, io: FileIO, written: list[str]) -> None:
        super().__init__(location)
        self._io = io
        self._write = written
        self.data = b""
        """What was written."""

    def __len__(self) -> int:
        return len(self.data)

    def exists(self) -> bool:
        """Check whether it was written."""
        return bool(self.data)

    def to_input_file(self) -> InputFile:
        """Return the file for reading."""
        return self._io.new_input(self.location)

    def create(self, overwrite: bool = False) -> OutputStream:
        """Open it for writing. Its name is unique, so ``overwrite`` has no effect."""
        return _BufferedOutput(self)

    def write(self, data: bytes) -> None:
        """Write the whole content under the name that goes with it."""
        self._location = make_checksum_name(self._location, data)
        self.data = data
        with self._io.new_output(self._location).create() as stream:
            stream.write(data)
        self._write.append(self._location)


class _CheckedFile(InputFile):
    """A file that is read whole and checked when it is opened."""

    def __init__(self, location: str, io: FileIO) -> None:
        super().__init__(location)
        self._io = io

    def __len__(self) -> int:
        return len(self._io.new_input(self.location))

    def exists(self) -> bool:
        """Check whether the file exists."""
        return self._io.new_input(self.location).exists()

    def open(self, seekable: bool = True) -> InputStream:
        """Open its content, checked."""
        return BytesIO(read_checked(self._io, self.location))


class _BufferedOutput:
    """The content being written, in memory."""

    def __init__(self, file: ChecksumNamedFile) -> None:
        self._file = file
        self._held = bytearray()
        self._is_closed = False

    def write(self, b: bytes) -> int:
        self._held += b
        return len(b)

    def tell(self) -> int:
        return len(self._held)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._file.write(bytes(self._held))

    def __enter__(self) -> _BufferedOutput:
        return self

    def __exit__(self, exctype: object, *more: object) -> None:
        if exctype is None:
            self.close()
