"""Order-independent fingerprints of records, as DuckDB aggregate expressions: ``count:sum:xor`` of 64-bit hashes.

They compare two computations of one run by one DuckDB version. They are not kept for comparison across versions and are
no key identity: keys are always compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

EMPTY_FINGERPRINT = "0:0:0"
"""The fingerprint of zero records."""

WINNERS_HASH = 'hash(key, "offset")'
CONTENT_HASH = (
    'hash("partition"::INTEGER, "offset"::BIGINT, epoch_us("timestamp"), "timestampType"::INTEGER, key, value, headers)'
)


def make_fingerprint_sql(hash_expression: str) -> str:
    """Return the aggregate over ``hash_expression`` (UBIGINT) as one VARCHAR; an empty input gives ``0:0:0``."""
    return (
        f"count(*)::VARCHAR || ':' || coalesce(sum(({hash_expression})::HUGEINT), 0)::VARCHAR || ':' || "
        f"coalesce(bit_xor({hash_expression}), 0)::VARCHAR"
    )


WINNERS_FINGERPRINT = make_fingerprint_sql(WINNERS_HASH)
"""Over (key, offset) of surviving records."""

CONTENT_FINGERPRINT = make_fingerprint_sql(CONTENT_HASH)
"""Over every field of rewritten records."""


def combine_fingerprints(fingerprints: Iterable[str]) -> str:
    """Return the fingerprint of the union of disjoint sets of records."""
    count = total = xor = 0
    for each in fingerprints:
        more_count, more_total, more_xor = (int(part) for part in each.split(":"))
        count, total, xor = count + more_count, total + more_total, xor ^ more_xor
    return f"{count}:{total}:{xor}"


def subtract_fingerprint(fingerprint: str, part: str) -> str:
    """Return the fingerprint of a set of records without ``part``, a subset of it."""
    count, total, xor = (int(figure) for figure in fingerprint.split(":"))
    part_count, part_total, part_xor = (int(figure) for figure in part.split(":"))
    return f"{count - part_count}:{total - part_total}:{xor ^ part_xor}"


class RunningFingerprint:
    """The fingerprint of records whose 64-bit hashes arrive in batches."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0
        self._xor = 0

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Add hashes."""
        if not len(hashes):
            return
        self._count += len(hashes)
        # In two halves, so that no partial sum of a batch can overflow 64 bits.
        high: Any = (hashes >> np.uint64(32)).sum()
        low: Any = (hashes & np.uint64(0xFFFFFFFF)).sum()
        self._sum += (int(high) << 32) + int(low)
        self._xor ^= int(np.bitwise_xor.reduce(hashes))

    def __str__(self) -> str:
        return f"{self._count}:{self._sum}:{self._xor}"
