"""Parses configuration values as Kafka does, with Kafka's error messages.

Values are parsed as in Java, not as in Python: ``+5`` and ``1e-1`` are numbers; ``1_000``, ``nan`` and ``٣`` are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import isinf, isnan
from typing import Protocol, cast

from winnow.errors import ConfigurationError

Value = bool | int | float | str | tuple[str, ...]

_JAVA_WHITE_SPACE = "".join(map(chr, range(0x21)))
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")
_FRACTION = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_NOT_FINITE = ("NaN", "Infinity")
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7  # outside this range, Java's Double.toString writes an exponent
_LIST_SEPARATOR = re.compile(r"\s*,\s*", re.ASCII)


class ValueType(StrEnum):
    """Kafka's ConfigDef.Type, limited to the types that topics need."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"


_BITS = {ValueType.INT: 32, ValueType.LONG: 64}


class Validator(Protocol):
    """One rule for a parsed value; for a list, for each element."""

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid, in Kafka's words; None when it is."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """A number from ``minimum`` to ``maximum``, both inclusive (ConfigDef.Range)."""

    minimum: int
    maximum: int | None = None

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid, in Kafka's words; None when it is."""
        number = cast(float, value)  # the table gives ranges to numbers only
        if isnan(number):
            return (
                f"Value must be a number between {self.minimum} and {self.maximum}; NaN compares as false with "
                "everything, so the log would never be cleaned, and nothing would say why"
            )
        if number < self.minimum:
            return f"Value must be at least {self.minimum}"
        if self.maximum is not None and number > self.maximum:
            return f"Value must be no more than {self.maximum}"
        return None


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few strings, exact case (ConfigDef.ValidString, ValidList)."""

    values: tuple[str, ...]

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid, in Kafka's words; None when it is."""
        return None if value in self.values else f"String must be one of: {', '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class WordOrSeconds:
    """One of a few strings, exact case, or a whole number of seconds from 1 to ``maximum``. Winnow's own rule."""

    words: tuple[str, ...]
    maximum: int

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid; None when it is."""
        seconds = parse_seconds(str(value))
        if value in self.words or (seconds is not None and 1 <= seconds <= self.maximum):
            return None
        return f"Value must be one of: {', '.join(self.words)}, or a number of seconds from 1 to {self.maximum}"


def parse_seconds(text: str) -> int | None:
    """Parse a whole number of seconds; None: it is not one."""
    return _parse_integer(text, _BITS[ValueType.LONG])


@dataclass(frozen=True, slots=True)
class Unlimited:
    """-1 for no limit, or at least 1: the rule for a broker's retention time."""

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid; None when it is."""
        number = cast(int, value)
        return None if number == -1 or number >= 1 else "Value must be -1 or at least 1"


@dataclass(frozen=True, slots=True)
class BytesPerSecond:
    """Bytes per second, at least 1 (Winnow's own rule). Kafka takes any number, and never moves a byte at 0."""

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid; None when it is."""
        return None if cast(float, value) >= 1 else "Value must be at least 1"


@dataclass(frozen=True, slots=True)
class SuiteName:
    """The name of a content suite: letters, digits, ``_`` and ``-``; empty for none. Winnow's own rule."""

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid; None when it is."""
        if re.fullmatch(r"[A-Za-z0-9_-]*", str(value)):
            return None
        return "Value must be the name of an expectation suite: letters, digits, '_' and '-' only"


@dataclass(frozen=True, slots=True)
class ShortText:
    """Printable text of at most ``maximum_characters``. Winnow's own rule."""

    maximum_characters: int

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid; None when it is."""
        text = str(value)
        if len(text) <= self.maximum_characters and text.isprintable():
            return None
        return f"Value must be at most {self.maximum_characters} printable characters"


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: letters, digits, ``_``, ``.``, ``:`` and ``-``, at most ``maximum_characters``. Winnow's own rule."""

    maximum_characters: int

    def reason(self, value: Value) -> str | None:
        """Return why ``value`` is not valid; None when it is."""
        if re.fullmatch(r"[A-Za-z0-9_.:-]+", str(value)) and len(str(value)) <= self.maximum_characters:
            return None
        return f"A tag must be 1 to {self.maximum_characters} letters, digits, '_', '.', ':' and '-'"


def make_invalid_value_error(name: str, value: object, reason: str) -> ConfigurationError:
    """Make the error for one bad value, in the form of Kafka's ConfigException."""
    return ConfigurationError(f"Invalid value {_format_like_java(value)} for configuration {name}: {reason}")


def trim_like_java(text: str) -> str:
    """Trim ``text`` like Java's String.trim()."""
    return text.strip(_JAVA_WHITE_SPACE)


def parse_value(name: str, text: str | None, kind: ValueType, validator: Validator | None) -> Value:
    """Parse ``text`` into its value.

    Raises:
        ConfigurationError: ``text`` is not a value of ``kind``, or ``validator`` refuses it; in Kafka's words.
    """
    if text is None:
        raise make_invalid_value_error(name, None, "Value must be non-null")
    value = _read(name, text, kind)
    for part in value if isinstance(value, tuple) else (value,):
        reason = validator.reason(part) if validator else None
        if reason:
            raise make_invalid_value_error(name, part, reason)
    return value


def _read(name: str, text: str, kind: ValueType) -> Value:
    trimmed = trim_like_java(text)
    match kind:
        case ValueType.STRING:
            return trimmed
        case ValueType.LIST:
            return tuple(_LIST_SEPARATOR.split(trimmed)) if trimmed else ()
        case ValueType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise make_invalid_value_error(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ValueType.INT | ValueType.LONG | ValueType.DOUBLE:
            number = _double(trimmed) if kind is ValueType.DOUBLE else _parse_integer(trimmed, _BITS[kind])
            if number is None:
                raise make_invalid_value_error(name, text, f"Not a number of type {kind}")
            return number


def _parse_integer(text: str, bits: int) -> int | None:
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _double(text: str) -> float | None:
    if text.lstrip("+-") in _NOT_FINITE and text[1:2] not in ("+", "-"):
        return float(text)
    found = _FRACTION.fullmatch(text)
    return float(found[1]) if found else None


def _format_like_java(value: object) -> str:
    # Kafka prints the parsed value, so 2 as a ratio reads 2.0 and 1e10 reads 1.0E10.
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float):
        return str(value)
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    return _format_scientific(Decimal(repr(value)))


def _format_scientific(number: Decimal) -> str:
    digits: Sequence[int] = number.normalize().as_tuple().digits
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if number < 0 else ''}{digits[0]}.{fraction}E{number.adjusted()}"
