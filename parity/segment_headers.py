"""Reads the headers of the record batches in a broker's log files: sizes, times and what is a marker; no records."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, largest timestamp,
# producer id, producer epoch, base sequence, number of records.
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AND_OFFSET_BYTES: Final = 12
_CONTROL, _HORIZON = 0x20, 0x40


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a record batch. ``delete_horizon_ms``: of its tombstones, once a cleaning has covered them."""

    base_offset: int
    last_offset: int
    records: int
    max_timestamp_ms: int
    is_control: bool
    delete_horizon_ms: int | None


@dataclass(frozen=True, slots=True)
class BrokerSegment:
    """A segment of the broker's log: its file and the headers in it."""

    base_offset: int
    end_offset: int
    """Where the next segment begins; for the last one behind its last batch."""
    size_bytes: int
    modified_ms: int
    batches: tuple[Batch, ...]

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp, or when the file was changed if no record has one (Kafka's largestTimestamp)."""
        largest_ms = max((batch.max_timestamp_ms for batch in self.batches), default=-1)
        return largest_ms if largest_ms >= 0 else self.modified_ms


def read_segments(folder: Path) -> list[BrokerSegment]:
    """Read the headers of every segment of a topic partition, in offset order; the last one is the active segment."""
    paths = sorted(folder.glob("*.log"))
    bases = [int(path.stem) for path in paths]
    found = []
    for number, path in enumerate(paths):
        status = path.stat()
        batches = tuple(_read_batches(path.read_bytes()))
        end = bases[number + 1] if number + 1 < len(bases) else (batches[-1].last_offset + 1 if batches else bases[-1])
        found.append(BrokerSegment(bases[number], end, status.st_size, int(status.st_mtime * 1000), batches))
    return found


def _read_batches(data: bytes) -> Iterator[Batch]:
    position = 0
    while position + _HEADER.size <= len(data):
        base, length, _, _, _, attributes, delta, first_ms, max_ms, *_, count = _HEADER.unpack_from(data, position)
        yield Batch(
            base,
            base + delta,
            count,
            max_ms,
            bool(attributes & _CONTROL),
            first_ms if attributes & _HORIZON else None,
        )
        position += _LENGTH_AND_OFFSET_BYTES + length
