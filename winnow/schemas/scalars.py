"""Columns of single values: numbers with limits, dates, times, decimals, UUIDs, and JSON text for all the rest.

Dates and timestamps are of the years 1 to 9999, which every reader of the table knows. A time of day is text, since
Spark opens no table with a column of it.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from winnow.schemas.columns import Scalar, collect_each, collect_plainly, keep_array

_FIRST_DAY = (dt.date.min - dt.date(1970, 1, 1)).days
_LAST_DAY = (dt.date.max - dt.date(1970, 1, 1)).days
_DAY_SECONDS = 86_400
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - what is counted from it has no zone either

MAXIMUM_PRECISION = 38
"""Maximum digits of a decimal column; one with more is text."""

MAXIMUM_FIXED_BYTES = 1_024
"""Maximum size of a fixed-size column, whose nulls take as much room as its values."""

_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _make_bounded(kind: pa.DataType, first: int, last: int, convert: Callable[[pa.Array], pa.Array]) -> Scalar:
    """Make a column of what ``convert`` makes of int64 arrays of whole numbers from ``first`` to ``last``."""
    collect_integers = collect_plainly(pa.int64())

    def fit(array: pa.Array) -> pa.Array:
        bounds = pc.min_max(array)
        if array.null_count < len(array) and (bounds["min"].as_py() < first or bounds["max"].as_py() > last):
            is_inside = pc.and_(pc.greater_equal(array, first), pc.less_equal(array, last))
            array = pc.if_else(is_inside, array, None)
        return convert(array)

    return Scalar(kind, lambda values: fit(collect_integers(values)), fit)


def make_int32() -> Scalar:
    """Make a column of 32-bit numbers."""
    return _make_bounded(pa.int32(), -(2**31), 2**31 - 1, lambda array: array.cast(pa.int32()))


def make_date() -> Scalar:
    """Make a column of dates; values are days since 1970."""
    return _make_bounded(pa.date32(), _FIRST_DAY, _LAST_DAY, lambda array: array.cast(pa.int32()).cast(pa.date32()))


def make_enum(symbols: list[Any]) -> Scalar:
    """Make a column of the texts of an enum; values are indices."""
    texts = pa.array(list(map(str, symbols)), pa.string())
    return _make_bounded(pa.string(), 0, len(symbols) - 1, texts.take)


def make_timestamp(per_second: int, zone: str | None) -> Scalar:
    """Make a column of timestamps; values are counted since 1970, ``per_second`` of them a second, 10^6 at most."""
    kind = pa.timestamp("us", zone)
    factor = 1_000_000 // per_second
    return _make_bounded(
        kind,
        _FIRST_DAY * _DAY_SECONDS * per_second,
        (_LAST_DAY + 1) * _DAY_SECONDS * per_second - 1,
        lambda array: pc.multiply(array, factor).cast(kind),
    )


def make_time_text(per_second: int) -> Scalar:
    """Make a column of times of day as ISO text; values are counted since midnight, ``per_second`` of them a second."""
    factor = 1_000_000 // per_second
    return _make_bounded(
        pa.string(),
        0,
        _DAY_SECONDS * per_second - 1,
        lambda array: pc.multiply(array, factor).cast(pa.time64("us")).cast(pa.string()),
    )


def make_nanosecond_text(*, is_utc: bool) -> Scalar:
    """Make a column of timestamps in nanoseconds as ISO text, since a column of timestamps has microseconds."""
    return Scalar(pa.string(), collect_each(pa.string(), lambda value: write_timestamp(value, 10**9, is_utc=is_utc)))


def make_uuid() -> Scalar:
    """Make a column of UUIDs; values are their text of 36 characters, or their 16 bytes."""
    collect_bytes = collect_each(pa.binary(16), _read_uuid)
    return Scalar(pa.uuid(), lambda values: pa.ExtensionArray.from_storage(pa.uuid(), collect_bytes(values)))


def _read_uuid(value: str | bytes) -> bytes | None:
    if isinstance(value, bytes):
        return value
    return uuid.UUID(value).bytes if _UUID_TEXT.fullmatch(value) else None


def make_decimal(precision: int, scale: int) -> Scalar:
    """Make a column of decimals; values are bytes, the unscaled number big-endian.

    One with more than 38 digits is text.
    """
    if precision > MAXIMUM_PRECISION:
        return Scalar(pa.string(), collect_each(pa.string(), lambda value: write_decimal(value, precision, scale)))
    kind = pa.decimal128(precision, scale)
    limit = 10**precision

    def convert(value: bytes) -> bytes | None:
        number = int.from_bytes(value, "big", signed=True)
        return number.to_bytes(16, "little", signed=True) if -limit < number < limit else None

    collect_words = collect_each(pa.binary(16), convert)

    def collect(values: list[Any]) -> pa.Array:
        # Arrow's decimals are little-endian words of 16 bytes, so no digit passes through a number of Python.
        words = collect_words(values)
        return pa.Array.from_buffers(kind, len(words), words.buffers(), words.null_count)

    return Scalar(kind, collect)


def make_binary(size_bytes: int | None = None) -> Scalar:
    """Make a column of bytes, of a fixed size if that is between 1 and 1,024."""
    is_fixed = size_bytes is not None and 1 <= size_bytes <= MAXIMUM_FIXED_BYTES
    storage = pa.binary(size_bytes) if is_fixed else pa.binary()
    return Scalar(storage, collect_plainly(storage), None if is_fixed else keep_array)


def make_json_text(convert: Callable[[Any], Any]) -> Scalar:
    """Make a column of JSON text; ``convert`` makes of a value what JSON has: text, numbers, lists, dictionaries."""
    return Scalar(pa.string(), collect_each(pa.string(), lambda value: write_json(convert(value))))


def write_json(value: Any) -> str:
    """Write ``value`` as JSON without white space; a Decimal is a number with all of its digits."""
    return _ENCODER.encode(value).decode()


_ENCODER = msgspec.json.Encoder(decimal_format="number")


def write_decimal(value: bytes, precision: int, scale: int) -> str | None:
    """Write an unscaled number, big-endian bytes, with all of its digits; None if it has more than ``precision``."""
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**precision:
        return None
    digits = tuple(map(int, str(abs(number))))
    return format(Decimal((int(number < 0), digits, -scale)), "f")


def write_date(days: int) -> str:
    """Write a day counted from 1970 in ISO form; ArithmeticError beyond the years 1 to 9999."""
    return (_EPOCH + dt.timedelta(days=days)).date().isoformat()


def write_time(value: int, per_second: int) -> str:
    """Write a time of day in ISO form; ValueError if it is none."""
    if not 0 <= value < _DAY_SECONDS * per_second:
        raise ValueError("no time of day")
    seconds, part = divmod(value, per_second)
    return f"{_EPOCH + dt.timedelta(seconds=seconds):%H:%M:%S}.{part * (1_000_000 // per_second):06d}"


def write_timestamp(value: int, per_second: int, *, is_utc: bool) -> str:
    """Write a timestamp in ISO form, with digits for ``per_second``; ArithmeticError beyond the years 1 to 9999."""
    seconds, part = divmod(value, per_second)
    digits = len(str(per_second)) - 1
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    return f"{moment.isoformat()}.{part:0{digits}d}{'Z' if is_utc else ''}"


def write_bytes(value: bytes) -> str:
    """Write bytes in base64, as JSON has them in Protobuf."""
    return base64.b64encode(value).decode()


def write_float(value: float) -> float | str:
    """Return a number that JSON has; the others by their names, as JSON has them in Protobuf."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
