"""Masks what the settings name in keys, values and header values, before any of it leaves the process."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MASK: Final = "***"
_JSON_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_COLON: Final = re.compile(r"\s*:\s*")
_DECODER: Final = json.JSONDecoder()
_MAXIMUM_DEPTH_ERROR: Final = (ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Masks:
    """What is masked: the matches of ``patterns``, and the values of JSON fields called one of ``fields``."""

    patterns: tuple[re.Pattern[str], ...]
    fields: frozenset[str]

    @classmethod
    def parse(cls, patterns: Sequence[str], fields: Sequence[str]) -> Masks:
        """Compile the masks of the settings."""
        return cls(tuple(map(re.compile, patterns)), frozenset(name.casefold() for name in fields))

    def apply(self, content: bytes) -> bytes:
        """Return ``content`` with everything masked; bytes that are no UTF-8 stay as they are around a match."""
        if not self.patterns and not self.fields:
            return content
        text = content.decode("utf-8", "surrogateescape")
        masked = self._mask_fields(text)
        for pattern in self.patterns:
            masked = pattern.sub(MASK, masked)
        return content if masked == text else masked.encode("utf-8", "surrogateescape")

    def _mask_fields(self, text: str) -> str:
        """Mask by position, so that the rest stays as it was written; the text need not be JSON as a whole.

        A serializer may write bytes of its own before the JSON, and a value may be cut: where the value of a masked
        field cannot be parsed, everything from there on is masked.
        """
        if not self.fields:
            return text
        kept: list[str] = []
        done = position = 0
        while found := _JSON_STRING.search(text, position):
            # Not at its end: a byte before the JSON may be a quotation mark, and then names lie between two "strings".
            position = found.start() + 1
            colon = _COLON.match(text, found.end())
            if colon is None or not self._is_masked(found[0]):
                continue
            kept += (text[done : colon.end()], f'"{MASK}"')
            try:
                _, done = _DECODER.raw_decode(text, colon.end())
            except _MAXIMUM_DEPTH_ERROR:
                return "".join(kept)
            position = done
        return "".join((*kept, text[done:]))

    def _is_masked(self, quoted: str) -> bool:
        try:
            return str(json.loads(quoted, strict=False)).casefold() in self.fields
        except ValueError:
            return False
