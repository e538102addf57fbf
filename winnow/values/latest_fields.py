"""Which fields of keys and values a typed table shows, and how: the rules of ``winnow.latest.fields``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_SUFFIX: Final = re.compile(r"(?<=.)__[a-z0-9]+$")


class FieldRule(StrEnum):
    """What becomes of a field that is named."""

    SHOW = "show"
    HMAC = "hmac"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class FieldRules:
    """An allow-list of fields; ``entries``: their paths and rules, as written. Empty: every field is shown."""

    entries: tuple[tuple[str, FieldRule], ...] = ()

    @property
    def hides(self) -> bool:
        """Whether there are fields that must not be seen: those that are not named, if nothing else."""
        return bool(self.entries)

    def shows(self, path: str) -> bool:
        """Check whether there is a column for the field at ``path``, as it is or as a digest.

        Of a column's name what follows two underscores does not count: it tells columns of one field apart.
        """
        steps = path.split(".")
        steps[0] = _SUFFIX.sub("", steps[0])
        shown = not self.entries
        for entry, rule in self.entries:
            outer = entry.split(".")
            if outer == steps[: len(outer)]:
                if rule is FieldRule.DROP or (rule is FieldRule.HMAC and len(outer) < len(steps)):
                    return False
                shown = True
        return shown

    @property
    def needs_secret(self) -> bool:
        """Whether a field is shown as a keyed digest."""
        return any(rule is FieldRule.HMAC for _, rule in self.entries)


def parse_fields(entries: Iterable[str]) -> FieldRules:
    """Parse entries ``name``, ``outer.inner``, ``name:hmac`` and ``name:drop``.

    A path leads through lists and maps to the fields of their elements; the keys of a map are shown with them. A field
    that is named is shown with all that is in it, except for what an entry of its own says otherwise.

    Raises:
        ValueError: an entry is no path or has another rule; two contradict each other; no field would be shown.
    """
    rules: dict[str, FieldRule] = {}
    for entry in entries:
        path, separator, text = entry.strip().partition(":")
        path, text = path.strip(), text.strip()
        if not path or not all(path.split(".")):
            raise ValueError(f"{entry!r} names no field")
        if separator and text not in (FieldRule.HMAC, FieldRule.DROP):
            raise ValueError(f"{entry!r} has a rule that is neither hmac nor drop")
        if path in rules:
            raise ValueError(f"{path} is named twice")
        rules[path] = FieldRule(text) if separator else FieldRule.SHOW
    for path in rules:
        for outer, rule in rules.items():
            if rule is not FieldRule.SHOW and path.startswith(f"{outer}."):
                raise ValueError(f"{path} is in {outer}, of which nothing is left by {outer}:{rule}")
    if rules and all(rule is FieldRule.DROP for rule in rules.values()):
        raise ValueError("only fields to drop are named, and no field to show; fields that are not named are hidden")
    return FieldRules(tuple(rules.items()))
