"""The total order of the records of one key, as SQL: which of them is the greatest (KIP-280)."""

from __future__ import annotations

from winnow.errors import UsageError
from winnow.files.duck import literal
from winnow.model import Strategy

_LONG_BYTES = 8
_OFFSETS = 1 << 63
_BELOW_EVERY_LONG = -(1 << 63) - 1

ORDERING_COLUMNS: dict[Strategy, tuple[str, ...]] = {
    Strategy.OFFSET: (),
    Strategy.TIMESTAMP: ('"timestamp"',),
    Strategy.HEADER: ("headers",),
}
"""What :func:`greatest_offset` reads beside key and offset."""


def greatest_offset(strategy: Strategy, header: str | None) -> str:
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
        version = f"coalesce({version_value(header)}, {_BELOW_EVERY_LONG})"
    else:
        raise UsageError("compaction.strategy.header must be specified.")
    return f'(max({version} * {_OFFSETS} + "offset") & {_OFFSETS - 1})::BIGINT'


def version_header(header: str) -> str:
    """The last occurrence of the header, a struct; NULL when there is none."""
    return f"list_filter(headers, lambda h: h.key = {literal(header)})[-1]"


def version_value(header: str) -> str:
    """The version: exactly 8 bytes, big-endian and signed; NULL for anything else."""
    value = f"{version_header(header)}.value"
    # Of 64 bits in big-endian order DuckDB makes the signed number that they are.
    return f"CASE WHEN octet_length({value}) = {_LONG_BYTES} THEN {value}::BIT::BIGINT::HUGEINT END"
