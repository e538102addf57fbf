"""Kafka's record batches, message format 2: their headers, check-sums and control records.

A batch begins with 61 bytes; the CRC-32C covers everything from the attributes on. Offset, length, leader epoch and
format stand before it and are checked by nothing but their context.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

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
