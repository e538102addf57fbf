"""Writes Kafka record batches of format 2, segments and indexes of aborted transactions, as brokers and clients do."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import pyarrow as pa

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "snappy-raw")
_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "snappy-raw": 2, "lz4": 3, "zstd": 4}
ABORT, COMMIT, LEADER_CHANGE = 0, 1, 2


@dataclass(frozen=True)
class Record:
    """``offset`` and ``timestamp``: absolute."""

    offset: int
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    timestamp: int = 1_700_000_000_000
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def encode_varint(number: int) -> bytes:
    """Zigzag, then seven bits a byte."""
    value = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _encode_bytes(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """Return one record, with its length."""
    body = b"\0" + encode_varint(record.timestamp - base_timestamp) + encode_varint(record.offset - base_offset)
    body += _encode_bytes(record.key) + _encode_bytes(record.value) + encode_varint(len(record.headers))
    for key, value in record.headers:
        body += _encode_bytes(key) + _encode_bytes(value)
    return encode_varint(len(body)) + body


def compress(codec: str, data: bytes, block_bytes: int = 1 << 15) -> bytes:
    """Compress as Java's client does; ``snappy-raw`` is without its framing."""
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data)
    if codec != "snappy":
        return bytes(pa.Codec(codec.removesuffix("-raw")).compress(data, asbytes=True))
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block_bytes):
        block = pa.Codec("snappy").compress(data[start : start + block_bytes], asbytes=True)
        framed += struct.pack(">i", len(block)) + block
    return framed


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: str = "none",
    producer_id: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    append_time: int | None = None,
    count: int | None = None,
    payload: bytes | None = None,
    base_timestamp: int | None = None,
    delete_horizon: int | None = None,
) -> bytes:
    """Return a batch. ``base_offset`` and ``last_offset``: those before compaction. ``payload``: uncompressed.

    ``delete_horizon``: of its tombstones, as a cleaning stamps it in place of the first timestamp.
    """
    base = (records[0].offset if records else 0) if base_offset is None else base_offset
    last = (records[-1].offset if records else base) if last_offset is None else last_offset
    first_time = records[0].timestamp if records else -1
    base_time = first_time if base_timestamp is None else base_timestamp
    if delete_horizon is not None:
        base_time = delete_horizon
    largest = max((record.timestamp for record in records), default=-1) if append_time is None else append_time
    attributes = _NUMBERS[codec] | (append_time is not None) << 3 | is_transactional << 4 | is_control << 5
    attributes |= (delete_horizon is not None) << 6
    if payload is None:
        payload = b"".join(encode_record(record, base, base_time) for record in records)
    return seal_batch(
        base,
        struct.pack(
            ">hiqqqhii",
            attributes,
            last - base,
            base_time,
            largest,
            producer_id,
            0 if producer_id >= 0 else -1,
            -1,
            len(records) if count is None else count,
        )
        + (compress(codec, payload) if payload else b""),
    )


def seal_batch(base_offset: int, checked: bytes, magic: int = 2) -> bytes:
    """Put the unchecked first 21 bytes before ``checked``: everything from the attributes on."""
    head = struct.pack(">qiibI", base_offset, 9 + len(checked), 0, magic, google_crc32c.value(checked))
    return head + checked


def encode_marker(offset: int, kind: int, producer_id: int) -> bytes:
    """Return a control batch with one control record."""
    record = Record(offset, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return encode_batch([record], producer_id=producer_id, is_transactional=producer_id >= 0, is_control=True)


def encode_index(entries: Sequence[tuple[int, int, int]]) -> bytes:
    """Return a ``.txnindex`` of (producer, first offset, offset of the marker)."""
    return b"".join(struct.pack(">hqqqq", 0, *entry, entry[2]) for entry in entries)


def write_segment(folder: Path, base_offset: int, *batches: bytes, index: bytes | None = None) -> Path:
    """Write a segment into a partition's folder and return its log file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{base_offset:020}.log"
    file.write_bytes(b"".join(batches))
    if index is not None:
        file.with_suffix(".txnindex").write_bytes(index)
    return file
