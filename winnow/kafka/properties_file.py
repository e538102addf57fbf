"""Parses files of properties as Java does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PropertyLine:
    """A property and the number of the line, from 1, where it begins."""

    number: int
    name: str
    value: str


def parse_lines(text: str) -> Iterator[PropertyLine]:
    """Yield the properties of a file in their order; of those that share a name, Java takes the last.

    As Java has it: comments, continued lines, escapes, and ``=``, ``:`` or a space after the name.
    """
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        logical = line.lstrip()
        if not logical or logical[0] in "#!":
            continue
        while len(logical) - len(logical.rstrip("\\")) & 1:
            logical = logical[:-1] + next(lines, (0, ""))[1].lstrip()
        name, value = _split_property(logical)
        yield PropertyLine(number, unescape(name), unescape(value).strip())


def _split_property(line: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
    assert match is not None
    return match[1], match[2]


def unescape(text: str) -> str:
    """Replace Java's escapes by what they stand for."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", replace, text)
