"""Turns timestamps as Avro or JSON have them (milliseconds, dates with times, ISO text) into milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

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
