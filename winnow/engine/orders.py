"""The total order of the records of one key, as SQL: which of them is the greatest (KIP-280)."""

from __future__ import annotations

from winnow.errors import UsageError
from winnow.files.duck import quote_literal
from winnow.model import Strategy

_LONG_BYTES = 8
_OFFSET_FACTOR = 1 << 63
_MISSING_VERSION = -(1 << 63) - 1

ORDERING_COLUMNS: dict[Strategy, tuple[str, ...]] = {
    Strategy.OFFSET: (),
    Strategy.TIMESTAMP: ('"timestamp"',),
    Strategy.HEADER: ("headers",),
}
"""What :func:`greatest_offset` reads beside key and offset."""


def build_greatest_offset_sql(strategy: Strategy, header: str | None) -> str:
    """The SQL aggregate that gives, per key, the offset of the greatest record in the total order of ``strategy``.

    offset: (offset). timestamp: (timestamp or -1, offset). header: (present, value, offset). The last two are packed
    into one 128-bit number, the version above the 63 bits of the offset, which compares as fast as a plain maximum.

    Raises:
        UsageError: strategy header without the header's name.
    """
    if strategy is Strategy.OFFSET:
        return 'max("offset")'
    if strategy is Strategy.TIMESTAMP:
        version = 'coalesce(epoch_ms("timestamp"), -1)::HUGEINT'
    elif header:
        version = f"coalesce({build_version_value_sql(header)}, {_MISSING_VERSION})"
    else:
        raise UsageError("compaction.strategy.header must be specified.")
    return f'(max({version} * {_OFFSET_FACTOR} + "offset") & {_OFFSET_FACTOR - 1})::BIGINT'


def build_version_header_sql(header: str) -> str:
    """The last occurrence of the header, a struct; NULL when there is none."""
    return f"list_filter(headers, lambda h: h.key = {quote_literal(header)})[-1]"


def build_version_value_sql(header: str) -> str:
    """The version: exactly 8 bytes, big-endian and signed; NULL for anything else."""
    value = f"{build_version_header_sql(header)}.value"
    # Of 64 bits in big-endian order DuckDB makes the signed number that they are.
    return f"CASE WHEN octet_length({value}) = {_LONG_BYTES} THEN {value}::BIT::BIGINT::HUGEINT END"
