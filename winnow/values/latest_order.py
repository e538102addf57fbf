"""In which order rows are in the files of a typed table: the terms of ``winnow.latest.sort_by``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAXIMUM_SORT_TERMS: Final = 4
"""Maximum terms of an order: rows that are equal in four columns are rarely told apart by a fifth."""
_TERM: Final = re.compile(
    r"\s*(?P<column>[^\s()]+(?:[ ]+[^\s()]+)*?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One column of an order. ``column``: its name, with dots into structs."""

    column: str
    is_descending: bool = False
    has_nulls_last: bool = False

    def __str__(self) -> str:
        way, nulls = "desc" if self.is_descending else "asc", "last" if self.has_nulls_last else "first"
        return f"{self.column} {way} nulls {nulls}"


def parse_order(text: str) -> tuple[SortTerm, ...]:
    """Parse terms such as ``created desc nulls last, address.city``; nulls are first, with ``desc`` last.

    Raises:
        ValueError: one is no term, or names a column again; there are too many.
    """
    terms = tuple(_parse_term(part) for part in text.split(",")) if text.strip() else ()
    columns = [term.column for term in terms]
    repeated = next((name for number, name in enumerate(columns) if name in columns[:number]), None)
    if repeated is not None:
        raise ValueError(f"{repeated} is named twice")
    if len(terms) > MAXIMUM_SORT_TERMS:
        raise ValueError(f"there are {len(terms)} terms; a table may be sorted by at most {MAXIMUM_SORT_TERMS}")
    return terms


def _parse_term(text: str) -> SortTerm:
    match = _TERM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text.strip()!r} is not COLUMN, or COLUMN asc or desc, with nulls first or nulls last")
    if not all(part.strip() for part in match["column"].split(".")):
        raise ValueError(f"{match['column']!r} names no column")
    is_descending = (match["way"] or "asc").lower() == "desc"
    nulls = (match["nulls"] or ("last" if is_descending else "first")).lower()
    return SortTerm(match["column"], is_descending, nulls == "last")
