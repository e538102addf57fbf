"""Opens a stored object whatever its compression, found by its first bytes: sinks name objects as they like.

Known are gzip, Zstandard, LZ4 frames, bzip2 (all by Arrow) and the two framings of Snappy (Arrow decompresses their
blocks): the one of Java's ``SnappyOutputStream``, which Kafka's sinks write, and the standard one. Neither of the two
has an end mark; only a cut inside a block shows, and readers notice a record that ends too early. Snappy's checksums,
which only the standard framing has, are not checked.

Memory stays bounded: what is read is decompressed as it is asked for, and a block that declares more than
:data:`MAXIMUM_BLOCK_BYTES` is refused.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import pyarrow as pa

from winnow.errors import WinnowError
from winnow.sources.input_errors import COPY_AGAIN_ADVICE, make_file_error, make_read_error, open_to_read
from winnow.sources.objects import StoredObject

BUFFER_BYTES = 1 << 20
"""What is read at a time: a request to an object store each."""

MAXIMUM_BLOCK_BYTES = 1 << 28
"""Java's framing writes blocks of 32 KiB by default, the standard one of 64 KiB at most."""

MEMORY_BYTES = 1 << 25
"""Up to this size a compressed object that must be read at random is unpacked in memory, above it on disk."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_SNAPPY_FRAME = b"\xff\x06\x00\x00sNaPpY"

_MAGICS = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18"),
    # Base64 may begin with the first four, too; what follows is the begin of a block, or the end of all of them.
    "bz2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
    "snappy-java": re.compile(re.escape(_XERIAL)),
    "snappy": re.compile(re.escape(_SNAPPY_FRAME)),
}

START_BYTES = 1 << 18
"""What is read of an object to find out what it is."""

HEAD_BYTES = 10
"""The length of the longest of them."""

_SUFFIXES = (".gz", ".zst", ".snappy", ".lz4", ".bz2")


def find_compression(head: bytes) -> str | None:
    """Return the name of the compression that data beginning with ``head`` has, None for none that is known."""
    return next((name for name, magic in _MAGICS.items() if magic.match(head)), None)


@contextmanager
def open_decompressed(obj: StoredObject) -> Iterator[BinaryIO]:
    """Open ``obj`` to be read from begin to end, without its compression.

    Reading raises, too.

    Raises:
        BadInputError: the object is missing or cannot be read, or its compression is damaged or cut off.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(obj.uri) as stream:
        yield _decompress(obj, stream)


@contextmanager
def open_seekable(obj: StoredObject) -> Iterator[BinaryIO]:
    """Open ``obj`` to be read at random; a compressed one is unpacked before (in memory, or on disk if it is large).

    Raises:
        BadInputError: the object is missing or cannot be read, or its compression is damaged or cut off.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(obj.uri) as stream:
        if find_compression(_read_head(obj, stream)) is None:
            yield cast(BinaryIO, stream)
            return
        with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as unpacked:
            shutil.copyfileobj(_decompress(obj, stream), unpacked, BUFFER_BYTES)
            unpacked.seek(0)
            yield cast(BinaryIO, unpacked)


def read_start(obj: StoredObject, size_bytes: int) -> bytes:
    """Return the first bytes of ``obj`` without its compression, fewer than asked for if it has no more.

    Raises:
        BadInputError: the object is missing or cannot be read, or its compression is damaged or cut off there.
        ServiceError: its object store cannot be reached.
    """
    with open_decompressed(obj) as stream:
        return stream.read(size_bytes)


def _read_head(obj: StoredObject, stream: Any) -> bytes:
    with_errors = _Translated(obj.uri, stream.read)
    head = with_errors(HEAD_BYTES)
    stream.seek(0)
    return head


def _decompress(obj: StoredObject, stream: Any) -> BinaryIO:
    head = _read_head(obj, stream)
    compression = find_compression(head)
    stream = pa.BufferedInputStream(stream, BUFFER_BYTES)
    if compression is None:
        if not head and obj.name.endswith(_SUFFIXES):
            raise make_file_error(
                obj.uri, "the object is empty, though its name says that it is compressed", COPY_AGAIN_ADVICE
            )
        read = stream.read
    elif compression == "snappy-java":
        read = _Blocks(_read_java_snappy(obj.uri, stream)).read
    elif compression == "snappy":
        read = _Blocks(_read_snappy_frames(obj.uri, stream)).read
    else:
        read = pa.CompressedInputStream(stream, compression).read
    return cast(BinaryIO, io.BufferedReader(_Raw(_Translated(obj.uri, read)), BUFFER_BYTES))


class _Translated:
    """Reads with errors that name the object."""

    def __init__(self, uri: str, read: Callable[[int], bytes]) -> None:
        self._uri = uri
        self._read = read

    def __call__(self, size: int) -> bytes:
        try:
            return bytes(self._read(size))
        except (WinnowError, MemoryError):
            raise
        except (OSError, pa.ArrowException):
            wrong = "it cannot be read to its end: damaged or cut off"
            raise make_read_error(self._uri, wrong, COPY_AGAIN_ADVICE) from None


class _Raw(io.RawIOBase):
    """What Python's buffered reader reads from."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Blocks:
    """Reads from a sequence of blocks."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the end only."""
        while not self._block:
            block = next(self._blocks, None)
            if block is None:
                return b""
            self._block = memoryview(block)
        taken, self._block = self._block[:size], self._block[size:]
        return bytes(taken)


def _read_java_snappy(uri: str, stream: Any) -> Iterator[bytes]:
    """Yield the blocks of ``SnappyOutputStream``; streams written one after another are read as one."""
    _read_exactly(uri, stream, _XERIAL_HEADER_BYTES)
    while first := _read_some(stream, 4):
        if len(first) < 4:  # noqa: PLR2004
            raise _make_damage_error(uri)
        if first == _XERIAL[:4]:
            _read_exactly(uri, stream, _XERIAL_HEADER_BYTES - 4)
            continue
        yield _unpack_block(uri, _read_exactly(uri, stream, int.from_bytes(first, "big")))


def _read_snappy_frames(uri: str, stream: Any) -> Iterator[bytes]:
    """Yield the blocks of Snappy's standard framing."""
    compressed, plain, first_skippable, check_bytes = 0x00, 0x01, 0x80, 4
    while header := _read_some(stream, 4):
        if len(header) < 4:  # noqa: PLR2004
            raise _make_damage_error(uri)
        kind, data = header[0], _read_exactly(uri, stream, int.from_bytes(header[1:], "little"))
        if kind in (compressed, plain):
            if len(data) < check_bytes:
                raise _make_damage_error(uri)
            yield _unpack_block(uri, data[check_bytes:]) if kind == compressed else data[check_bytes:]
        elif kind < first_skippable:
            raise _make_damage_error(uri)


def _unpack_block(uri: str, data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004
            break
    if not data or size > MAXIMUM_BLOCK_BYTES:
        raise _make_damage_error(uri)
    return bytes(pa.Codec("snappy").decompress(data, size, asbytes=True)) if size else b""


def _read_some(stream: Any, size: int) -> bytes:
    return bytes(stream.read(size))


def _read_exactly(uri: str, stream: Any, size: int) -> bytes:
    if size > MAXIMUM_BLOCK_BYTES:
        raise _make_damage_error(uri)
    data = _read_some(stream, size)
    if len(data) < size:
        raise _make_damage_error(uri)
    return data


def _make_damage_error(uri: str) -> WinnowError:
    return make_file_error(uri, "its Snappy data is damaged or cut off", COPY_AGAIN_ADVICE)
