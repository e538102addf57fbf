"""Reads timestamps that archives hold as ISO 8601 text, as dates with times, or finer than Kafka's milliseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.sources.input_errors import FinerTimestampError, Place

_PER_MS = {"us": 1_000, "ns": 1_000_000}
_ZONED = re.compile(r".*(?:Z|[+-]\d\d:?\d\d)", re.DOTALL)


def read_timestamp_texts(place: Place, texts: Sequence[str | None], floors: bool) -> Any:
    """Return milliseconds since the epoch for ISO 8601 text; text without a zone is UTC.

    Raises:
        BadInputError: a text is no timestamp, or is finer than a millisecond and must not be rounded (``floors``).
    """
    column = pa.array(texts, pa.string())
    for unit in ("us", "ns"):
        for zone in ("UTC", None):
            try:
                moments = column.cast(pa.timestamp(unit, zone))
            except pa.ArrowInvalid:
                continue
            return to_milliseconds(place, moments, floors)
    return _read_mixed(place, texts, floors)


def _read_mixed(place: Place, texts: Sequence[str | None], floors: bool) -> Any:
    """Read texts of which some have a zone or digits that others lack, or one is no timestamp."""
    found: list[int | None] = []
    for index, text in enumerate(texts):
        if text is None:
            found.append(None)
            continue
        one = Place(place.uri, place.unit, place.rows[index : index + 1])
        moment = _parse_one(text)
        if moment is None:
            raise place.make_error(
                index, "timestamp is not ISO 8601 text", "a sink writes it like 2026-03-01T00:47:41.052Z"
            )
        found.append(to_milliseconds(one, moment, floors)[0].as_py())
    return pa.array(found, pa.int64())


def _parse_one(text: str) -> Any:
    zone = "UTC" if _ZONED.fullmatch(text) else None
    for unit in ("us", "ns"):
        try:
            return pa.array([text]).cast(pa.timestamp(unit, zone))
        except pa.ArrowInvalid:
            continue
    return None


def to_milliseconds(place: Place, moments: Any, floors: bool) -> Any:
    """Return a column of timestamps, or of whole milliseconds, as milliseconds since the epoch.

    Raises:
        BadInputError: one is finer than a millisecond and must not be rounded (``floors``).
    """
    if not pa.types.is_timestamp(moments.type):
        return moments
    unit = moments.type.unit
    values = moments.cast(pa.int64())
    if unit in ("s", "ms"):
        return pc.multiply(values, 1000) if unit == "s" else values
    divisor = _PER_MS[unit]
    whole = pc.divide(values, divisor)
    # Arrow's division rounds towards zero: before 1970 that is up.
    rounded = pc.subtract(whole, pc.less(values, pc.multiply(whole, divisor)).cast(pa.int64()))
    if not floors:
        finer = pc.not_equal(pc.multiply(rounded, divisor), values).fill_null(False)
        if pc.any(finer).as_py():
            index = pc.index(finer, True).as_py()
            raise make_finer_timestamp_error(place, index)
    return rounded


def make_finer_timestamp_error(place: Place, index: int) -> FinerTimestampError:
    """Make the error about the record at ``index``, whose timestamp would have to be rounded."""
    advice = "Kafka's are; take them rounded down with --timestamps floor"
    refused = place.make_error(index, "timestamp is not a whole number of milliseconds", advice)
    return FinerTimestampError(*refused.explanation)


def format_milliseconds(value: int) -> str:
    """Return milliseconds since the epoch as ISO 8601 text in UTC."""
    return str(pa.scalar(value, pa.timestamp("ms", "UTC")).cast(pa.string()).as_py())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class FinerThanMillisecondError(Exception):
    """A timestamp has fractions of a millisecond, and rounding it down was not asked for."""


def convert_to_ms(moment: Any, *, floors: bool) -> int | None:
    """Return milliseconds since the epoch; without a zone a time is UTC.

    Raises:
        FinerThanMillisecondError: fractions of a millisecond would be lost, and ``floors`` is not set.
        ValueError, TypeError: this is no timestamp.
    """
    if moment is None:
        return None
    if isinstance(moment, bool):
        raise TypeError("no timestamp")
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if not isinstance(moment, datetime):
        raise TypeError("no timestamp")
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    if since % _MILLISECOND and not floors:
        raise FinerThanMillisecondError
    return since // _MILLISECOND
