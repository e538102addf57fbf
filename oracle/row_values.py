"""The values of rows that are the same in every format, in plain Python, and when two rows are equal."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass
from typing import Any

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - what is counted from it has no zone either


class DatumRefused(Exception):  # noqa: N818 - as the rows say it
    """A datum of which no row can be made."""


@dataclass(frozen=True)
class JsonText:
    """A value that its column has as JSON text."""

    value: Any


def read_moment(number: int, per_second: int) -> dt.datetime:
    """Return the moment that is ``number`` of ``per_second`` after 1970, without a zone; of the years 1 to 9999."""
    try:
        return _EPOCH + dt.timedelta(microseconds=number * (10**6 // per_second))
    except OverflowError:
        raise DatumRefused from None


def read_time_of_day(number: int, per_second: int) -> str:
    """Return a time of day in ISO form, with microseconds."""
    if not 0 <= number < 86_400 * per_second:
        raise DatumRefused
    return read_moment(number, per_second).time().isoformat("microseconds")


def is_same_row(expected: Any, row: Any) -> bool:
    """Tell whether ``row``, values of an Arrow column as Python has them, is what was expected."""
    match expected:
        case JsonText():
            return is_same_json(expected.value, json.loads(row))
        case dict() if isinstance(row, list):
            return is_same_row(list(expected), [key for key, _ in row]) and is_same_row(
                list(expected.values()), [value for _, value in row]
            )
        case dict():
            return expected.keys() == row.keys() and all(is_same_row(expected[name], row[name]) for name in expected)
        case list():
            return len(expected) == len(row) and all(map(is_same_row, expected, row))
        case float():
            return (math.isnan(expected) and math.isnan(row)) or expected == row
    return type(expected) is type(row) and bool(expected == row)


def is_same_json(expected: Any, value: Any) -> bool:
    """Tell whether ``value``, of JSON text, is what was expected."""
    match expected:
        case ("moment", str(text)):
            zone = "Z" if value.endswith("Z") else ""
            return dt.datetime.fromisoformat(value) == dt.datetime.fromisoformat(text) and bool(zone) == ("+" in text)
        case dict():
            return expected.keys() == value.keys() and all(
                is_same_json(expected[name], value[name]) for name in expected
            )
        case list():
            return len(expected) == len(value) and all(map(is_same_json, expected, value))
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return not isinstance(value, bool) and bool(expected == value)
    return type(expected) is type(value) and bool(expected == value)
