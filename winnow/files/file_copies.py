"""Copies files between folders and object stores as a stream, with a digest of what was copied.

A copy appears whole or not at all (on a local disk it has another name until it is complete, in an object store it is
there once its upload is complete), unless it goes to a place of which nothing names a file yet. It is not synced;
whoever names copies syncs them first (:func:`winnow.files.storage.sync`).
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winnow.files import storage

if TYPE_CHECKING:
    from pyarrow import NativeFile

BLOCK_BYTES: Final = 1 << 20
"""Bytes of a file that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """Size and sha256 of a file's content."""

    size_bytes: int
    sha256: str


class ContentDiffersError(Exception):
    """A file does not hold what was expected; nothing was copied. ``found``: what it holds."""

    def __init__(self, found: FileDigest) -> None:
        super().__init__(f"{found.size_bytes} bytes with sha256 {found.sha256}")
        self.found = found


def compute_data_digest(data: bytes) -> FileDigest:
    """Compute the digest of a file's whole content."""
    return FileDigest(len(data), hashlib.sha256(data).hexdigest())


def compute_file_digest(uri: str) -> FileDigest:
    """Read a file and compute its digest.

    Raises:
        FileNotFoundError: there is no such file.
        ServiceError: the object store does not serve it.
    """
    digest, size_bytes = hashlib.sha256(), 0
    with _open_input(uri) as stream:
        for block in _read_blocks(stream):
            digest.update(block)
            size_bytes += len(block)
    return FileDigest(size_bytes, digest.hexdigest())


def copy_file(source: str, target: str, expected: FileDigest | None = None, *, below: str | None = None) -> FileDigest:
    """Copy a file, over one that may be there; return the digest of what was copied.

    Args:
        source: the file.
        target: where to; its folder is made.
        expected: what the file has to hold; None: anything.
        below: the root under which no folder of ``target`` may be a link. The file then has its name from its first
            byte on: only for a place of which nothing names a file yet.

    Raises:
        ContentDiffersError: the file holds something else. A local target is as before, unless ``below`` is given; an
            object is the other content.
        LinkedFolderError: a folder below that root is a link.
        FileNotFoundError: there is no file at ``source``.
        ServiceError: an object store does not serve one of them.
    """
    digest, size_bytes = hashlib.sha256(), 0
    with _open_input(source) as stream, _open_output(target, below) as output:
        for block in _read_blocks(stream):
            digest.update(block)
            size_bytes += len(block)
            output.write(block)
        found = FileDigest(size_bytes, digest.hexdigest())
        if expected is not None and found != expected:
            raise ContentDiffersError(found)
    return found


@contextmanager
def _open_input(uri: str) -> Iterator[NativeFile]:
    filesystem, path = storage.open_filesystem(uri)
    with storage.translate_store_errors(uri), filesystem.open_input_stream(path, compression=None) as stream:
        yield stream


def _read_blocks(stream: NativeFile) -> Iterator[bytes]:
    while block := stream.read(BLOCK_BYTES):
        yield block


@contextmanager
def _open_output(uri: str, below: str | None) -> Iterator[NativeFile]:
    filesystem, path = storage.open_filesystem(uri)
    if not storage.is_local(uri):
        with storage.translate_store_errors(uri), filesystem.open_output_stream(path, compression=None) as stream:
            yield stream
        return
    if below is not None:
        with storage.create_file(uri, below=below) as stream:
            yield stream
        return
    place = storage.parse_local_path(uri)
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    try:
        with filesystem.open_output_stream(str(temporary), compression=None) as stream:
            yield stream
        temporary.replace(place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
