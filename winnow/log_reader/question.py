"""Questions and answers: what a request names, and what the process gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from winnow.errors import UsageError
from winnow.log_reader.documents import Document


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. ``seen``: what an audit entry says about it, without any byte of a record."""

    document: Document
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a question, each checked when it is read. The page checks them too, for its own messages."""

    values: dict[str, Any]

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise UsageError(f"The question needs {name}, a text.")
        return value

    def optional_text(self, name: str) -> str:
        """Return a text; empty if it is missing."""
        return "" if self.values.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """Return a whole number of at least 0."""
        found = self.optional_number(name)
        if found is None:
            raise UsageError(f"The question needs {name}, a whole number of at least 0.")
        return found

    def optional_number(self, name: str) -> int | None:
        """Return a whole number of at least 0, or None."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise UsageError(f"{name} must be a whole number of at least 0.")
        return value

    def numbers_by_number(self, name: str) -> dict[int, int]:
        """Return whole numbers of at least 0 by such numbers, which are texts in JSON; nothing if they are missing."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(key, str) and key.isdecimal() for key in value):
            raise UsageError(f"{name} must have a whole number of at least 0 for each partition.")
        return {int(key): Parameters(value).number(key) for key in value}

    def flag(self, name: str) -> bool:
        """Return whether a flag is set."""
        return self.values.get(name) is True
