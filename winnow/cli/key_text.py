"""Keys as they are typed at a shell: as text, in hexadecimal or in base64."""

from __future__ import annotations

import base64
import binascii
from enum import StrEnum

from winnow.errors import UsageError


class KeyForm(StrEnum):
    """How the bytes of a key are written; the prefix of each is its name and a colon."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


def parse_key(typed: str, default: KeyForm) -> bytes:
    """Return the bytes of a key that was typed as ``text:…``, ``hex:…`` or ``base64:…``, or in the form ``default``.

    Raises:
        UsageError: it is not of that form. The key is not repeated.
    """
    prefix, colon, rest = typed.partition(":")
    form, written = (KeyForm(prefix), rest) if colon and prefix in set(KeyForm) else (default, typed)
    if form is KeyForm.TEXT:
        try:
            return written.encode()
        except UnicodeEncodeError:  # bytes at the shell that are no UTF-8
            raise UsageError("The value of --key is not UTF-8. Write its bytes as hex:0A0B or base64:Cgs=") from None
    try:
        return bytes.fromhex(written) if form is KeyForm.HEX else base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        hint = "Write it as winnow read shows it, " if form is KeyForm.BASE64 else "Write two digits per byte, "
        raise UsageError(
            f"The value of --key is not {'hexadecimal' if form is KeyForm.HEX else 'base64'}. {hint}or as text: "
            "--key text:KEY"
        ) from None
