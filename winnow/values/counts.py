"""Numbers with their nouns, for people."""

from __future__ import annotations

from typing import Final

_SINGULARS: Final = {"are": "is", "were": "was", "have": "has"}


def format_count(number: int, noun: str, verb: str = "") -> str:
    """Format a number with its noun, and the verb that follows: ``1 topic``, ``2,000 topics``, ``1 file waits``.

    Args:
        number: how many.
        noun: in the singular; its plural ends in s.
        verb: in the plural, such as ``wait`` or ``are``.
    """
    text = f"{number:,} {noun}{'' if number == 1 else 's'}"
    if not verb:
        return text
    return f"{text} {_SINGULARS.get(verb, f'{verb}s') if number == 1 else verb}"
