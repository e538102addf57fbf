"""How the files of a typed table are laid out beside topic partitions: ``winnow.latest.partition_by``."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from winnow.values.latest_order import SortTerm

MAXIMUM_TERMS: Final = 4
"""Maximum terms of a layout: each multiplies the number of files."""
_MAXIMUM_WIDTH: Final = 2**31 - 1
_TERM: Final = re.compile(
    r"\s*(?:(?P<name>[A-Za-z]+)\s*\(\s*(?:(?P<width>[0-9]{1,10})\s*,)?(?P<inner>[^(),]+)\)|(?P<bare>[^(),]+))"
    r"\s*(?:,|$)"
)


class Transform(StrEnum):
    """Iceberg's transforms, by the names that metadata have."""

    IDENTITY = "identity"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    BUCKET = "bucket"
    TRUNCATE = "truncate"

    @property
    def has_width(self) -> bool:
        """Whether a number belongs to it: of buckets, or of characters or units."""
        return self in (Transform.BUCKET, Transform.TRUNCATE)


_OF_TIME: Final = frozenset({Transform.YEAR, Transform.MONTH, Transform.DAY, Transform.HOUR})


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One transform of one column.

    ``column``: its name, with dots into structs. ``width`` 0: the transform has none.
    """

    transform: Transform
    column: str
    width: int = 0

    def __str__(self) -> str:
        if self.transform is Transform.IDENTITY:
            return self.column
        return f"{self.transform}({f'{self.width}, ' if self.width else ''}{self.column})"

    @property
    def transform_name(self) -> str:
        """The transform as metadata have it."""
        return f"{self.transform}[{self.width}]" if self.width else self.transform.value


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How rows are distributed to files; without ``terms`` by topic partition alone.

    ``order``: in which order they are in each; without it in that of offsets.
    """

    terms: tuple[PartitionTerm, ...] = ()
    order: tuple[SortTerm, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it names no column."""
        return not self.terms and not self.order

    @property
    def order_text(self) -> str:
        """The order as its topic key may say it."""
        return ", ".join(map(str, self.order))

    def __str__(self) -> str:
        return ", ".join(map(str, self.terms))

    def list_columns(self) -> list[str]:
        """List the columns by which it partitions, each once."""
        return list(dict.fromkeys(term.column for term in self.terms))


def parse_layout(text: str) -> TableLayout:
    """Parse terms such as ``days(created), bucket(16, id), truncate(4, address.city), country``.

    Raises:
        ValueError: one is no term, or needs a number or may have none; two are redundant; there are too many.
    """
    terms: list[PartitionTerm] = []
    place = 0
    while text.strip() and place <= len(text):
        match = _TERM.match(text, place)
        if match is None:
            raise ValueError(f"{text[place:].strip()!r} does not begin with a column or TRANSFORM(COLUMN)")
        terms.append(_make_term(match))
        place = match.end() + (text[match.end() - 1] != ",")
    for number, term in enumerate(terms):
        _require_distinct(term, terms[:number])
    if len(terms) > MAXIMUM_TERMS:
        raise ValueError(f"there are {len(terms)} terms; a table may be partitioned by at most {MAXIMUM_TERMS}")
    return TableLayout(tuple(terms))


def _make_term(match: re.Match[str]) -> PartitionTerm:
    column = (match["bare"] or match["inner"]).strip()
    if not all(part.strip() for part in column.split(".")):
        raise ValueError(f"{column!r} names no column")
    if match["bare"]:
        return PartitionTerm(Transform.IDENTITY, column)
    name = match["name"].lower()
    known = {transform.value: transform for transform in Transform}
    transform = known.get(name) or known.get(name.removesuffix("s"))
    if transform is None:
        raise ValueError(f"{match['name']} is no transform; there are years, months, days, hours, bucket, truncate")
    width = int(match["width"] or 0)
    if transform.has_width and not 0 < width <= _MAXIMUM_WIDTH:
        raise ValueError(f"{transform} needs a number above 0 before the column: {transform}(16, {column})")
    if match["width"] and not transform.has_width:
        raise ValueError(f"{transform} has no number")
    return PartitionTerm(transform, column, width)


def _require_distinct(term: PartitionTerm, others: Collection[PartitionTerm]) -> None:
    for other in others:
        if other.column == term.column and (
            other.transform is term.transform or {other.transform, term.transform} <= _OF_TIME
        ):
            raise ValueError(f"{other} and {term} are redundant")
