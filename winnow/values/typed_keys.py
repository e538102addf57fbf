"""Keys as they are typed at a shell: as text, in hexadecimal or in base64.

Without a prefix a key is text, but `winnow why` takes what can be base64 for that. Where nothing has the key in the one
form and something may in the other, the prefix is asked for.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from enum import StrEnum

from winnow.errors import UsageError


class KeyForm(StrEnum):
    """How the bytes of a key are written; the prefix of each is its name and a colon."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class TypedKey:
    """The bytes of a key. ``other``: what they are in the other form, if it was typed without a prefix and can be both.

    ``form``: the one in which it was read.
    """

    key: bytes
    form: KeyForm
    other: bytes | None = None


def parse_key(typed: str, prefers: KeyForm = KeyForm.TEXT) -> TypedKey:
    """Return the bytes of a key that was typed as ``text:…``, ``hex:…`` or ``base64:…``, or without a prefix.

    Args:
        typed: what a person wrote.
        prefers: how a key without a prefix is read that may be text and base64.

    Raises:
        UsageError: it is not of the form of its prefix. The key is not repeated.
    """
    prefix, colon, rest = typed.partition(":")
    if colon and prefix in set(KeyForm):
        form = KeyForm(prefix)
        return TypedKey(_decode(rest, form), form)
    decoded = _find_base64(typed)
    if decoded is None:
        return TypedKey(_decode(typed, KeyForm.TEXT), KeyForm.TEXT)
    if prefers is KeyForm.TEXT:
        return TypedKey(typed.encode(), KeyForm.TEXT, decoded)
    return TypedKey(decoded, KeyForm.BASE64, typed.encode())


def _find_base64(typed: str) -> bytes | None:
    try:
        return base64.b64decode(typed, validate=True)
    except (binascii.Error, ValueError):
        return None


def _decode(written: str, form: KeyForm) -> bytes:
    if form is KeyForm.TEXT:
        try:
            return written.encode()
        except UnicodeEncodeError:  # bytes at the shell that are no UTF-8
            raise UsageError(
                "The value of --key is not UTF-8.",
                next="Write its bytes as hex:0A0B or base64:Cgs=",
            ) from None
    try:
        return bytes.fromhex(written) if form is KeyForm.HEX else base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        hint = "Write it as winnow read shows it" if form is KeyForm.BASE64 else "Write two digits per byte"
        raise UsageError(
            f"The value of --key is not {'hexadecimal' if form is KeyForm.HEX else 'base64'}.",
            next=f"{hint}, or as text: --key text:KEY",
        ) from None
