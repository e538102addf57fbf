"""Decompresses the payload of record batches, piece by piece: a small batch can hold gigabytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from winnow.sources.layouts.record_batches import MalformedBatchError

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
