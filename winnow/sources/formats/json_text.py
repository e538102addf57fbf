r"""Renders structures as JSON text: keys and values that a sink took apart have no other bytes any more.

The rule, version :data:`RENDERING_VERSION`; it never changes under an existing topic:

- Compact UTF-8: no white space between tokens, members in the order of the source, repeated ones too.
- Numbers are copied as written. Those that come decoded: integers in digits; floats as the shortest decimal that reads
  back as the same double (``1.0``, ``1e16``); decimals with all digits of their scale (``12.30``, ``0E-8``), as Java's
  ``BigDecimal`` and Python write them.
- Strings escape ``"``, ``\`` and control characters below U+0020 (``\b \t \n \f \r``, else as ``\u001f``), no more.
- At the top a string is its characters, bytes are themselves, and null is null. Bytes within a structure are base64.
- Dates, times and timestamps are ISO 8601 text with no fraction or one of six digits, ``Z`` for UTC; durations are ISO
  8601; UUIDs their text. NaN and the infinities are the strings ``"NaN"``, ``"Infinity"``, ``"-Infinity"``.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

import msgspec

RENDERING_VERSION = 1

# Complete JSON that the rule leaves as it is: nothing but tokens without white space, and strings without escapes.
_COMPACT = re.compile(rb'(?:[^"\s]++|"[^"\\]*+")*+')
_ESCAPED_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

_QUOTE = 0x22
_ESCAPE_MARK = b"\\"


def render_json(raw: bytes) -> bytes | None:
    """Render one value from its JSON source text, which a parser has accepted; None for ``null``.

    Raises:
        ValueError: it is not JSON. Not everything that is not is found.
    """
    try:
        return _render_json(raw)
    except msgspec.DecodeError:
        raise ValueError("not JSON") from None


def _render_json(raw: bytes) -> bytes | None:
    raw = raw.strip(b" \t\r\n")
    if raw == b"null":
        return None
    if raw[:1] == b'"':
        if _ESCAPE_MARK not in raw:
            return raw[1:-1]
        return _decode_string(raw).encode()
    if _COMPACT.fullmatch(raw):
        return raw
    text = msgspec.json.format(raw, indent=-1)
    return _ESCAPED_STRING.sub(_normalize_string, text) if _ESCAPE_MARK in text else text


def _normalize_string(found: re.Match[bytes]) -> bytes:
    string = found.group()
    return _encode(_decode_string(string)) if _ESCAPE_MARK in string else string


def _decode_string(string: bytes) -> str:
    decoded: str = msgspec.json.decode(string, type=str)
    return decoded


_encode = msgspec.json.Encoder(decimal_format="number").encode


_SPECIAL = re.compile("nan|inf|NaN|Inf")
"""In Python's text of every float and decimal that is no number, and in some that are strings."""


def render_value(value: object) -> bytes | None:
    """Render one value as Avro or Arrow decoded it (dicts, lists, numbers, bytes, dates …); None for None.

    Raises:
        ValueError: a string holds half of a surrogate pair.
        TypeError: there is no rule for a type in it.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        text = _encode(value)
    except TypeError:
        return _strip_quotes(_encode(_replace_special(value)))
    if (b"null" in text or b"NaN" in text or b"Inf" in text) and _SPECIAL.search(repr(value)):
        # The encoder writes a float that is no number as null, and a decimal that is none without quotes.
        text = _encode(_replace_special(value))
    return _strip_quotes(text)


def _strip_quotes(text: bytes) -> bytes:
    """Return a date's or a time's text without its quotation marks: at the top a string is its characters."""
    return text[1:-1] if text[0] == _QUOTE else text


def _replace_special(value: Any) -> Any:
    if isinstance(value, dict):
        return {_replace_special(name): _replace_special(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_special(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _name_special(value)
    if hasattr(value, "is_finite") and not value.is_finite():
        return _name_special(float(value)) if not value.is_snan() else "NaN"
    if isinstance(value, datetime) and type(value) is not datetime:
        # Pandas' own, which Arrow gives for nanoseconds.
        return value.isoformat().removesuffix("+00:00") + ("Z" if value.utcoffset() is not None else "")
    return value


def _name_special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
