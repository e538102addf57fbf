"""Computes each record's position in the order of the strategies timestamp and header.

Deliberately independent of the engine's SQL. A version is (present, value); the offset comes last.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.values.model import Plan
from winnow.values.strategies import Strategy

KEY_AND_OFFSET = ("key", "offset")
_LONG_BYTES = 8
_MISSING_TIMESTAMP_MS = -1

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFigures:
    """Keyed records without the version header, and those whose last occurrence of it is not exactly 8 bytes.

    Both are 0 except under strategy header.
    """

    headers_missing: int
    headers_malformed: int


def make_header_counter() -> Counter[str]:
    """Make the counter of :class:`HeaderFigures`, by name."""
    return Counter({each.name: 0 for each in fields(HeaderFigures)})


class Ordering:
    """The total order of a plan: the columns it needs, and the version of each record."""

    def __init__(self, plan: Plan) -> None:
        self._strategy = plan.strategy
        self._header = plan.strategy_header or ""

    @property
    def by_version(self) -> bool:
        """Whether a version decides before the offset."""
        return self._strategy is not Strategy.OFFSET

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read: key, offset, and the one with the version."""
        more = {Strategy.OFFSET: (), Strategy.TIMESTAMP: ("timestamp",), Strategy.HEADER: ("headers",)}
        return (*KEY_AND_OFFSET, *more[self._strategy])

    def rank(self, batch: pa.RecordBatch, count: Counter[str] | None = None) -> pa.RecordBatch:
        """Return ``key`` and ``offset`` of ``batch`` and, with versions, the columns ``present`` and ``version``.

        ``count`` receives the :class:`HeaderFigures` of these records.
        """
        found = batch.select(KEY_AND_OFFSET)
        if self._strategy is Strategy.OFFSET:
            return found
        if self._strategy is Strategy.TIMESTAMP:
            milliseconds = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
            version = milliseconds.fill_null(_MISSING_TIMESTAMP_MS)
            present = pa.array(np.ones(batch.num_rows, dtype=np.bool_))
        else:
            has, whole, longs = read_header_longs(batch.column("headers"), self._header)
            if count is not None:
                count.update(headers_missing=int((~has).sum()), headers_malformed=int((has & ~whole).sum()))
            present, version = pa.array(whole), pa.array(longs)
        return found.append_column("present", present).append_column("version", version)


def read_header_longs(headers: pa.Array, name: str) -> tuple[Mask, Mask, npt.NDArray[np.int64]]:
    """Return per record: has it header ``name``, is the last one an 8-byte long, and its value (else 0)."""
    lengths = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    flat = headers.flatten()
    rows = np.repeat(np.arange(len(headers)), lengths)
    places = np.flatnonzero(
        pc.equal(pc.struct_field(flat, "key"), name).fill_null(False).to_numpy(zero_copy_only=False)
    )
    last = np.append(rows[places][1:] != rows[places][:-1], True)[: len(places)]
    places = places[last]
    values = pc.struct_field(flat, "value").take(pa.array(places))
    eight = pc.equal(pc.binary_length(values), _LONG_BYTES).fill_null(False)
    has: Mask = np.zeros(len(headers), dtype=np.bool_)
    has[rows[places]] = True
    valid: Mask = np.zeros(len(headers), dtype=np.bool_)
    holding = rows[places][eight.to_numpy(zero_copy_only=False)]
    valid[holding] = True
    longs = np.zeros(len(headers), dtype=np.int64)
    # All have eight bytes, so they are contiguous.
    longs[holding] = np.frombuffer(values.filter(eight).cast(pa.binary(_LONG_BYTES)).buffers()[1] or b"", ">i8")[
        : len(holding)
    ]
    return has, valid, longs
