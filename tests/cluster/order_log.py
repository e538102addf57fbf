"""The log that topics on clusters are filled with."""

from __future__ import annotations

from typing import Final

from tests.support.world import record
from winnow.values.model import Record

PARTITIONS: Final = 2
_KEYS: Final = 300
RECORDS: Final = 2_000
"""In each partition."""
_FIRST_MS: Final = 1_700_000_000_000


def make_order_log(*, with_headers: bool = True) -> list[Record]:
    """Make two thousand records in each of two partitions: every key many times, some deleted, some with headers."""
    return [
        record(
            offset,
            f"key-{offset * 7 % _KEYS}".encode(),
            None if offset % 11 == 0 else f"value-{partition}-{offset}".encode(),
            _FIRST_MS + offset,
            headers=(("source", b"till"), ("note", None)) if with_headers and offset % 5 == 0 else None,
            partition=partition,
        )
        for partition in range(PARTITIONS)
        for offset in range(RECORDS)
    ]
