"""The Kafka topic that archives are made of: the record at each offset is the same whoever asks, and whenever."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

PARTITIONS: Final = 2
KEYS: Final = 4
DISORDER_MS: Final = 5
BASE_MS: Final = 1_760_000_000_000
"""Timestamp of the first record, and when histories begin: in the past of every clock."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record. ``value`` None: a tombstone."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int


def get_record(seed: int, partition: int, offset: int, ahead_ms: int = 0) -> SourceRecord:
    """Return the record of a partition at an offset. ``ahead_ms``: how far the clock of its producer is ahead."""
    random = Random(f"record {seed} {partition} {offset}")
    key = f"k{random.randrange(KEYS)}".encode()
    value = None if random.random() < 0.25 else f"v{partition}.{offset}".encode()
    # Out of order by up to a few records, so that strategies differ.
    timestamp_ms = BASE_MS + ahead_ms + offset + random.randrange(-DISORDER_MS, DISORDER_MS)
    return SourceRecord(partition, offset, key, value, timestamp_ms)


def list_keys() -> list[bytes]:
    """List all keys that there can be."""
    return [f"k{number}".encode() for number in range(KEYS)]


def write_archive(path: Path, records: Iterable[SourceRecord]) -> None:
    """Write records as JSON lines, as ``winnow ingest`` takes them."""
    path.write_text("".join(f"{_format_line(record)}\n" for record in records))


def _format_line(record: SourceRecord) -> str:
    value = None if record.value is None else base64.b64encode(record.value).decode()
    return json.dumps(
        {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "timestampType": 0,
            "key": base64.b64encode(record.key).decode(),
            "value": value,
            "headers": None,
        }
    )
