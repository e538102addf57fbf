"""Turns what a person types as a key into bytes: as text, JSON, base64 or hexadecimal digits."""

from __future__ import annotations

import base64
import binascii
import json
import re
from enum import StrEnum
from typing import Final

from winnow.errors import UsageError
from winnow.log_reader.question import Parameters

_STRING_OR_SPACE: Final = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+')


class KeyEncoding(StrEnum):
    """How a key was typed."""

    TEXT = "text"
    JSON = "json"
    BASE64 = "base64"
    HEX = "hex"


def read_key(parameters: Parameters) -> tuple[bytes, ...]:
    """Return the bytes that may be meant by ``key`` and ``encoding`` of a question; raises as :func:`parse_key`."""
    try:
        encoding = KeyEncoding(parameters.text("encoding"))
    except ValueError:
        raise UsageError(f"A key is given as {', '.join(KeyEncoding)}.") from None
    return parse_key(parameters.text("key"), encoding)


def parse_key(text: str, encoding: KeyEncoding) -> tuple[bytes, ...]:
    """Return the bytes that may be meant, the likeliest first.

    ``text``: the UTF-8 of what was typed, spaces included. ``json``: first the UTF-8 of what was typed, then the same
    without white space outside of strings, as most serializers write it. Names keep their order, numbers and escapes
    stay as typed: the bytes of a key are compared, not its meaning. ``base64``: the standard alphabet, with padding.
    ``hex``: two digits a byte, spaces between bytes allowed.

    Raises:
        UsageError: it is not what ``encoding`` says. The key is not repeated.
    """
    if encoding is KeyEncoding.JSON:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            raise UsageError(
                "The key is not JSON.", next="A text needs quotation marks in JSON; or look it up as text."
            ) from None
        return tuple(dict.fromkeys((_encode(text), _encode(_remove_white_space(text)))))
    try:
        if encoding is KeyEncoding.BASE64:
            return (base64.b64decode(text.strip(), validate=True),)
        if encoding is KeyEncoding.HEX:
            return (bytes.fromhex(text),)
    except (binascii.Error, ValueError):
        raise UsageError(f"The key is not {'base64' if encoding is KeyEncoding.BASE64 else 'hexadecimal'}.") from None
    return (_encode(text),)


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "The key has half of a surrogate pair, which UTF-8 cannot encode.",
            next="Use base64.",
        ) from None


def _remove_white_space(text: str) -> str:
    return _STRING_OR_SPACE.sub(lambda found: found[1] or "", text)
