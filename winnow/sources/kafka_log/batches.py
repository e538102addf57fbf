"""Kafka's record batches, message format 2: headers, check-sums, control records, and the codecs of their payload.

A batch begins with 61 bytes; the CRC-32C covers everything from the attributes on. Offset, length, leader epoch and
format stand before it and are checked by nothing but their context. A payload is decompressed piece by piece: a small
batch can hold gigabytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADER_BYTES = 61
LENGTH_END = 12
"""Base offset and length: what ``length`` does not count."""
MAGIC_AT = 16
CRC_START = 21
MINIMUM_LENGTH = HEADER_BYTES - LENGTH_END
MESSAGE_FORMAT = 2
MAXIMUM_CODEC = 4
LONG_MAX = 2**63 - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODEC_BITS = 0b111
_APPEND_TIME = 1 << 3
_TRANSACTIONAL = 1 << 4
_CONTROL = 1 << 5
_CONTROL_KEY = struct.Struct(">hh")

Bytes = npt.NDArray[np.uint8]


class BatchHeader(NamedTuple):
    """The header of a batch. A batch that was compacted keeps its first and last offset, whatever is left inside.

    ``base_timestamp``: what timestamps of records are relative to, not always the first one's.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    maximum_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch in the log."""
        return LENGTH_END + self.length

    @property
    def last_offset(self) -> int:
        """The last offset that the batch had when it was written."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """Number of the compression codec."""
        return self.attributes & _CODEC_BITS

    @property
    def has_append_time(self) -> bool:
        """Whether the broker's time of the append is the timestamp of every record."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records, which no consumer sees."""
        return bool(self.attributes & _CONTROL)


class ControlType(IntEnum):
    """The control records that end a transaction. All others mean nothing to a reader."""

    ABORT = 0
    COMMIT = 1


class MalformedBatchError(Exception):
    """A batch contradicts itself. The text completes "the batch …"."""


def parse_header(data: Any, position: int) -> BatchHeader:
    """Return the header at ``position`` of ``data``, unchecked; 61 bytes must be there."""
    # What _make does, without a call for each of millions of batches.
    return tuple.__new__(BatchHeader, _HEADER.unpack_from(data, position))


def find_header_fault(header: BatchHeader) -> str | None:
    """Say what contradicts itself in a header of format 2, None if nothing does. Completes "the batch …"."""
    if header.length < MINIMUM_LENGTH:
        return f"has an impossible length of {header.length} bytes"
    delta = header.last_offset_delta
    if header.base_offset < 0 or delta < 0 or header.base_offset > LONG_MAX - delta:
        return "has impossible offsets"
    if not 0 <= header.record_count <= delta + 1:
        return "has an impossible number of records"
    if header.attributes & _CODEC_BITS > MAXIMUM_CODEC:
        return f"has the unknown compression codec {header.codec}"
    return None


def is_intact(header: BatchHeader, batch: Bytes) -> bool:
    """Check the CRC-32C of ``batch``, all bytes of the batch."""
    return int(google_crc32c.value(batch[CRC_START:])) == header.crc


def parse_control_type(payload: bytes) -> int | None:
    """Return the type of the first control record in ``payload``, uncompressed records; None if there are none.

    Raises:
        MalformedBatchError: this is no control record.
    """
    if not payload:
        return None
    try:
        # Length, attributes, timestamp delta, offset delta, then the key: version and type.
        _, position = _read_varint(payload, 0)
        _, position = _read_varint(payload, position + 1)
        _, position = _read_varint(payload, position)
        size, position = _read_varint(payload, position)
        if size < _CONTROL_KEY.size:
            raise MalformedBatchError("has a control record without a type")
        version, kind = _CONTROL_KEY.unpack_from(payload, position)
    except (IndexError, struct.error):
        raise MalformedBatchError("has a control record that is cut off") from None
    if version < 0:
        raise MalformedBatchError("has a control record of an impossible version")
    return int(kind)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return (value >> 1) ^ -(value & 1), position
        shift += 7


PIECE_BYTES = 1 << 20

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

_ARROW_NAMES = {LZ4: "lz4", ZSTD: "zstd"}
_GZIP_WINDOW = 31
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES = 16
_SNAPPY_MAXIMUM_RATIO = 22
"""Three bytes of Snappy's format stand for at most 64: a larger claim is damage, and would be allocated first."""


def decompress_payload(codec: int, payload: bytes, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield the records of a batch in pieces of about ``piece_bytes``; pieces end anywhere, also inside of a record.

    Raises:
        MalformedBatchError: the payload is not what ``codec`` makes, or is cut off.
    """
    try:
        if codec == NONE:
            yield from _split(payload, piece_bytes)
        elif codec == GZIP:
            yield from _decompress_gzip(payload, piece_bytes)
        elif codec == SNAPPY:
            yield from _decompress_snappy(payload, piece_bytes)
        else:
            yield from _decompress_frames(_ARROW_NAMES[codec], payload, piece_bytes)
    except (zlib.error, pa.ArrowException, OSError, EOFError, struct.error):
        raise MalformedBatchError("has a payload that cannot be decompressed") from None


def _split(data: bytes, piece_bytes: int) -> Iterator[bytes]:
    for start in range(0, len(data), piece_bytes):
        yield data[start : start + piece_bytes]


def _decompress_gzip(payload: bytes, piece_bytes: int) -> Iterator[bytes]:
    while payload:
        stream = zlib.decompressobj(_GZIP_WINDOW)
        while not stream.eof:
            piece = stream.decompress(payload, piece_bytes)
            payload = stream.unconsumed_tail
            if not piece and not payload and not stream.eof:
                raise EOFError
            yield piece
        payload = stream.unused_data


def _decompress_frames(name: str, payload: bytes, piece_bytes: int) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.BufferReader(payload), name) as stream:
        while piece := stream.read(piece_bytes):
            yield piece


def _decompress_snappy(payload: bytes, piece_bytes: int) -> Iterator[bytes]:
    """Java's framing (a header, then blocks after their length), or one raw block as other clients write."""
    if not payload.startswith(_SNAPPY_MAGIC):
        if payload:
            yield from _split(_decompress_block(payload), piece_bytes)
        return
    position, blocks, size = 0, [], 0
    while position < len(payload):
        if payload.startswith(_SNAPPY_MAGIC, position):
            # Streams written one after the other, each with its header.
            if position + _SNAPPY_HEADER_BYTES > len(payload):
                raise EOFError
            position += _SNAPPY_HEADER_BYTES
            continue
        (length,) = struct.unpack_from(">i", payload, position)
        position += 4
        if not 0 <= length <= len(payload) - position:
            raise EOFError
        blocks.append(_decompress_block(payload[position : position + length]))
        position += length
        size += len(blocks[-1])
        if size >= piece_bytes:
            yield b"".join(blocks)
            blocks, size = [], 0
    yield b"".join(blocks)


_SNAPPY: Any = pa.Codec("snappy")


def _decompress_block(block: bytes) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            break
    else:
        raise EOFError
    if size > _SNAPPY_MAXIMUM_RATIO * len(block):
        raise EOFError
    return bytes(_SNAPPY.decompress(block, size, asbytes=True)) if size else b""
