"""Masks secrets in settings that are shown.

Hides too much rather than too little.
"""

from __future__ import annotations

import re

MASK = "***"

_SECRET_NAMES = re.compile(
    r"secret|passw|passphrase|token|credential|authorization|access|pwd|(?:^|-)sas(?:-|$)|key-?id|account-?key|connection-?string|webhook"
)
# SQLAlchemy accepts a password with an unescaped slash, so everything up to the last @ is hidden.
_URL_PASSWORD = re.compile(r"(://[^:/@\s]*:)\S*@")
_ASSIGNMENT = re.compile(
    r"([\w.-]*(?:secret|passw|pwd|passphrase|token|credential|access[._-]?key|account[._-]?key|signature)[\w.-]*=)"
    r"[^\s&;,]+",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Check whether a setting called ``name`` is a secret as a whole."""
    return _SECRET_NAMES.search(re.sub(r"[._]", "-", name.lower())) is not None


def mask(name: str, value: str) -> str:
    """Mask ``value`` for display: no passwords in URLs or options, and nothing at all under a secret name."""
    if not value:
        return value
    if is_secret_name(name):
        return MASK
    return _ASSIGNMENT.sub(rf"\g<1>{MASK}", _URL_PASSWORD.sub(rf"\g<1>{MASK}@", value))
