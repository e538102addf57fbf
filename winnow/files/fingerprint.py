"""Order-independent fingerprints of records, as DuckDB aggregate expressions: ``count:sum:xor`` of 64-bit hashes.

They compare two computations of one run by one DuckDB version; they are not kept for later comparison across
versions, and they are not a key identity: keys are always compared byte for byte.
"""

from __future__ import annotations

WINNERS_HASH = 'hash(key, "offset")'
CONTENT_HASH = (
    'hash("partition"::INTEGER, "offset"::BIGINT, epoch_us("timestamp"), "timestampType"::INTEGER, key, value, headers)'
)


def fingerprint(hash_expression: str) -> str:
    """The aggregate over ``hash_expression`` (UBIGINT) as one VARCHAR; an empty input gives ``0:0:0``."""
    return (
        f"count(*)::VARCHAR || ':' || coalesce(sum(({hash_expression})::HUGEINT), 0)::VARCHAR || ':' || "
        f"coalesce(bit_xor({hash_expression}), 0)::VARCHAR"
    )


WINNERS_FINGERPRINT = fingerprint(WINNERS_HASH)
"""Over (key, offset) of surviving records."""

CONTENT_FINGERPRINT = fingerprint(CONTENT_HASH)
"""Over every field of rewritten records."""
