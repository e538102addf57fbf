"""Topic names: validity, collisions, and the closest known name to a misspelt one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from winnow.errors import ConfigurationError


def find_nearest(name: str, known: Iterable[str]) -> str:
    """Find the known name most similar to ``name``, ignoring case. ``known`` must not be empty."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    return by_lower[get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)[0]]


MAXIMUM_NAME_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Check that ``name`` is a valid topic name.

    Raises:
        ConfigurationError: it is not; in the words of Kafka's Topic.validate.
    """
    reason = _find_fault(name)
    if reason:
        raise ConfigurationError(f"Topic name is invalid: {reason}")


def is_topic_name(name: str) -> bool:
    """Check whether ``name`` is a valid topic name."""
    return _find_fault(name) is None


def has_collision(a: str, b: str) -> bool:
    """Check whether ``a`` and ``b`` collide when '.' and '_' are the same, as in metrics (Kafka's hasCollision)."""
    return a.replace(".", "_") == b.replace(".", "_")


def _find_fault(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAXIMUM_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAXIMUM_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
