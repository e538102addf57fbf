"""The wall clock and as-of times; all values are milliseconds since the epoch in UTC."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from winnow.errors import UsageError

Clock = Callable[[], int]
"""Gives the present in ms since the epoch."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

MAXIMUM_CLOCK_SKEW_MS = 60_000
"""An as-of further ahead of the present than this is simulated, and reported as such."""

MAXIMUM_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_UNITS = ((86_400_000, "day", "days"), (3_600_000, "h", "h"), (60_000, "min", "min"))
_WHOLE_NUMBER_PATTERN = re.compile(r"[+-]?[0-9]{1,30}")
_RIGHT_FORM = "Write 2026-01-31T18:00:00Z, 2026-01-31T19:00:00+01:00, or ms since the epoch (1769882400000)."


def read_wall_clock_ms() -> int:
    """Return the present in ms since the epoch."""
    return time.time_ns() // 1_000_000


def parse_as_of(text: str) -> int:
    """Parse a point in time (ms since the epoch) from ISO 8601 with an offset (or Z), or from a whole number of ms.

    Fractions of a millisecond are cut off. Range: 0 to :data:`MAXIMUM_TIME_MS`.

    Raises:
        UsageError: ``text`` is neither, has no offset, or lies outside the years 1970 to 9999 (UTC).
    """
    trimmed = text.strip()
    ms = int(trimmed) if _WHOLE_NUMBER_PATTERN.fullmatch(trimmed) else _parse_iso(trimmed)
    if not 0 <= ms <= MAXIMUM_TIME_MS:
        raise UsageError(
            f"The time {trimmed} lies outside the years 1970 to 9999.",
            next=_RIGHT_FORM,
        )
    return ms


def format_ms(ms: int) -> str:
    """Format ``ms`` as ISO 8601 in UTC with milliseconds; plain ms where no calendar date exists."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms since the epoch"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_duration(ms: int) -> str:
    """Format a duration for people, in its two largest units: ``3 days 4 h``, ``25 min``."""
    parts = []
    for size_ms, one, many in _UNITS:
        number, ms = divmod(max(ms, 0), size_ms)
        if number:
            parts.append(f"{number:,} {one if number == 1 else many}")
    return " ".join(parts[:2]) or "less than a minute"


def _parse_iso(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as problem:
        raise UsageError(
            f"{text!r} is not a point in time.",
            next=_RIGHT_FORM,
        ) from problem
    if moment.utcoffset() is None:
        raise UsageError(
            f"The time {text} has no offset from UTC, so it could mean any time zone.",
            next=_RIGHT_FORM,
        )
    return (moment - _EPOCH) // _MILLISECOND
