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
KEYLESS_SHARE: Final = 0.15
VERSION_HEADER: Final = "v"
BASE_MS: Final = 1_760_000_000_000
"""Timestamp of the first record, and when histories begin: in the past of every clock."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record. ``value`` None: a tombstone. ``version``: of its header :data:`VERSION_HEADER`; None: it has none."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    version: bytes | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The topic that a seed makes. ``ahead_ms``: how far the clock of its producers is ahead.

    ``has_keyless``: some of its records have no key. ``has_versions``: most of them have a version in a header.
    """

    seed: int
    ahead_ms: int = 0
    has_keyless: bool = False
    has_versions: bool = False

    def get_record(self, partition: int, offset: int) -> SourceRecord:
        """Return the record of a partition at an offset."""
        random = Random(f"record {self.seed} {partition} {offset}")
        key: bytes | None = f"k{random.randrange(KEYS)}".encode()
        value = None if random.random() < 0.25 else f"v{partition}.{offset}".encode()
        # Out of order by up to a few records, so that strategies differ.
        timestamp_ms = BASE_MS + self.ahead_ms + offset + random.randrange(-DISORDER_MS, DISORDER_MS)
        version = _choose_version(random, offset) if self.has_versions else None
        if self.has_keyless and random.random() < KEYLESS_SHARE:
            key, value = None, f"v{partition}.{offset}".encode()
        return SourceRecord(partition, offset, key, value, timestamp_ms, version)


def _choose_version(random: Random, offset: int) -> bytes | None:
    """Choose a version that mostly grows; some are missing, some are no number of eight bytes."""
    number = offset + random.randrange(-DISORDER_MS, DISORDER_MS)
    return random.choices([number.to_bytes(8, "big", signed=True), None, b"seven"], [8, 1, 1])[0]


def list_keys() -> list[bytes]:
    """List all keys that there can be."""
    return [f"k{number}".encode() for number in range(KEYS)]


def write_archive(path: Path, records: Iterable[SourceRecord]) -> None:
    """Write records as JSON lines, as ``winnow ingest`` takes them."""
    path.write_text("".join(f"{_format_line(record)}\n" for record in records))


def _format_line(record: SourceRecord) -> str:
    headers = None
    if record.version is not None:
        headers = [{"key": VERSION_HEADER, "value": _encode(record.version)}]
    return json.dumps(
        {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "timestampType": 0,
            "key": _encode(record.key),
            "value": _encode(record.value),
            "headers": headers,
        }
    )


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
