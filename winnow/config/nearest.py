"""The known name that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def find_nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like ``name``, upper and lower case alike. ``known`` must not be empty."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    return by_lower[get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)[0]]
