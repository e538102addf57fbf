"""What a change of configuration changed, as the audit log keeps it: by topic and key, the value before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

KeyChanges: TypeAlias = Mapping[str, tuple[str | None, str | None]]
"""By key, the value before and the value after; None: not set, so inherited."""

MAXIMUM_CHARACTERS: Final = 4_000_000
"""Maximum characters of a text: thousands of topics with usual values."""


def format_changes(changes: Mapping[str, KeyChanges]) -> str | None:
    """Format the changes of some topics as JSON: of each topic its keys, each with ``[before, after]``.

    None: there are none, or the text would be longer than :data:`MAXIMUM_CHARACTERS`.
    """
    if not changes:
        return None
    listed = {topic: {key: list(pair) for key, pair in keys.items()} for topic, keys in changes.items()}
    text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
    return text if len(text) <= MAXIMUM_CHARACTERS else None


def parse_changes(text: str | None) -> dict[str, KeyChanges]:
    """Parse a text of :func:`format_changes`; nothing if it is None, or has another form."""
    try:
        topics = json.loads(text or "{}")
        parsed: dict[str, KeyChanges] = {
            str(topic): {str(key): (before, after) for key, (before, after) in keys.items()}
            for topic, keys in topics.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
    values = [value for keys in parsed.values() for pair in keys.values() for value in pair]
    return parsed if all(value is None or isinstance(value, str) for value in values) else {}
