"""Numbers with a unit, as people write them where a key counts milliseconds or bytes: ``2d``, ``1GiB``, ``never``.

Only what people type is converted, before it is parsed: what is stored, exported and compared is Kafka's number.
"""

from __future__ import annotations

import re
from typing import Final

from winnow.clock import DAY_MS, HOUR_MS
from winnow.config.definitions import BY_NAME, MAXIMUM_LONG

_NUMBER: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]{1,3})")
_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
_BYTES: Final = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}
_FACTORS: Final = {"ms": _MILLISECONDS, "bytes": _BYTES}
NEVER: Final = "never"
"""The word for a time that does not come, and for no limit."""


def convert_unit(name: str, text: str) -> str:
    """Convert what somebody wrote for the key ``name`` into Kafka's number; what has no unit stays as it is.

    ``never`` is the largest number where that is the default of a key, and -1 where -1 means no limit.
    """
    definition = BY_NAME.get(name)
    factors = _FACTORS.get(definition.unit or "") if definition is not None else None
    if definition is None or factors is None:
        return text
    stripped = text.strip()
    if stripped.lower() == NEVER and definition.default in {str(MAXIMUM_LONG), "-1"}:
        return str(definition.default)
    number = _NUMBER.fullmatch(stripped)
    if number is None or number[2] not in factors:
        return text
    whole, _, fraction = number[1].partition(".")
    scale = 10 ** len(fraction)
    count, rest = divmod(int(whole + fraction) * factors[number[2]], scale)
    # Half a millisecond or byte is a slip, and would be told as no number.
    return text if rest else str(count)


def convert_units(config: dict[str, str]) -> dict[str, str]:
    """Convert each value of ``config`` by :func:`convert_unit`."""
    return {name: convert_unit(name, text) for name, text in config.items()}
