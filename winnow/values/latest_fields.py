"""Which fields of keys and values a typed table shows, and how: the rules of ``winnow.latest.fields``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


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
