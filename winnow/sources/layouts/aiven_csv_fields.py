"""Finds out which fields the lines of an Aiven sink's CSV have, and in what order: nothing in the object says so.

Columns of digits are offsets and timestamps, columns of pairs are headers. Of two columns of base64 one is the key: the
one whose values a default partitioner (Java's or librdkafka's) sends to the object's partition. If that tells nothing
(one partition, or another partitioner), it is the first one, unless only that one is ever empty (deletes have a key and
no value), or the second one repeats more, is much shorter and still has many different values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from zlib import crc32

import numpy as np
import pyarrow as pa

from winnow.files.partitioner import hash_keys_murmur2
from winnow.sources.layouts.encoding import decode_base64

_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
PATTERNS = {
    "key": _BASE64,
    "offset": r"\d{1,19}",
    "timestamp": r"(?:-?\d{1,19})?",
    "headers": rf"(?:{_BASE64}:{_BASE64};)*",
}
_SIDES = ("key", "offset", "timestamp", "headers")
CELLS = {name: re.compile(pattern.encode()) for name, pattern in PATTERNS.items()}
_BASE64_CELL = re.compile(_BASE64.encode())

_TIMESTAMP_DIGITS = 9
"""Timestamps have at least so many digits but for the first days of 1970; offsets usually fewer."""

_FEWEST_KEYS = 16
"""With so many different keys, all in one partition of at least two is no accident."""
_MOST_PARTITIONS = 1024


@dataclass(frozen=True, slots=True)
class CsvFields:
    """The fields of an archive in order.

    ``has_plain_values``: values are not base64, and may hold commas. ``is_key_certain``: key and value cannot be the
    other way round.
    """

    names: tuple[str, ...]
    has_plain_values: bool = False
    is_key_certain: bool = True

    def compile_line(self) -> re.Pattern[bytes]:
        """Return the pattern of a line, with the fields as groups."""
        cells = [f"(?P<{name}>{'.*' if name == 'value' else PATTERNS[name]})" for name in self.names]
        return re.compile(",".join(cells).encode(), re.DOTALL)


def find_csv_fields(
    samples: Sequence[bytes], first_offset: int | None = None, partition: int | None = None
) -> CsvFields | None:
    """Return the fields that lines from the begin of one object have; None if no arrangement of fields fits all.

    ``first_offset``: the one in the object's name; the first record has it, or a later one. ``partition``: likewise.
    """
    if not samples:
        return None
    cells = [line.split(b",") for line in samples]
    fewest = min(map(len, cells))
    sides = _Sides(cells, first_offset)
    best: tuple[float, CsvFields] | None = None
    for count in range(min(len(_SIDES), fewest - 1) + 1):
        for names in permutations(_SIDES, count):
            for left in range(count + 1):
                score = sides.rate(names[:left], names[left:])
                if score is not None and (best is None or score > best[0]):
                    is_plain = sides.has_plain_values(left, count - left)
                    best = (score, CsvFields((*names[:left], "value", *names[left:]), is_plain))
    found = _order_key_and_value(best[1], cells, partition) if best else None
    if found and len(found.names) > 1 and not {"offset", "timestamp"} & set(found.names):
        at = found.names.index("value")
        if not found.has_plain_values and not any(line[at] for line in cells):
            return None  # A sink that failed at its first record leaves a key and a comma.
    return found


def _order_key_and_value(fields: CsvFields, cells: list[list[bytes]], partition: int | None) -> CsvFields:
    """Return ``fields`` with key and value where they are more likely."""
    if "key" not in fields.names or fields.has_plain_values:
        return fields
    key, value = fields.names.index("key"), fields.names.index("value")
    first, second = min(key, value), max(key, value)
    columns = {at: [line[at] for line in cells] for at in (first, second)}
    matching = [at for at, column in columns.items() if _is_in_partition(set(column), partition)]
    is_certain = len(matching) == 1
    found = matching[0] if is_certain else second if _look_swapped(columns[first], columns[second]) else first
    names = list(fields.names)
    names[found], names[second if found == first else first] = "key", "value"
    return replace(fields, names=tuple(names), is_key_certain=is_certain)


def _look_swapped(first: list[bytes], second: list[bytes]) -> bool:
    """Check whether the second of two columns looks more like keys than the first one."""
    if len(first) < _FEWEST_KEYS:
        return False
    if b"" in first and b"" not in second:
        return True
    different = len(set(second))
    return _FEWEST_KEYS <= different < len(set(first)) and 2 * sum(map(len, second)) < sum(map(len, first))


def _is_in_partition(cells: set[bytes], partition: int | None) -> bool:
    """Check whether a default partitioner sends all of these to ``partition``, for some number of partitions."""
    filled = sorted(cells - {b""})
    if partition is None or len(filled) < _FEWEST_KEYS:
        return False
    decoded = decode_base64(pa.array(filled, pa.binary())).decoded
    java = hash_keys_murmur2(decoded).astype(np.int64) & 0x7FFFFFFF
    librdkafka = np.array([crc32(key) for key in decoded.to_pylist()], np.int64)
    counts = range(max(2, partition + 1), _MOST_PARTITIONS + 1)
    return any(bool((hashes % count == partition).all()) for hashes in (java, librdkafka) for count in counts)


class _Sides:
    """Rates what stands on the left and on the right of the value."""

    def __init__(self, cells: list[list[bytes]], first_offset: int | None) -> None:
        self._cells = cells
        self._first_offset = first_offset
        self._rated: dict[tuple[str, int], float | None] = {}
        self._plain: dict[tuple[int, int], bool] = {}

    def rate(self, left: Sequence[str], right: Sequence[str]) -> float | None:
        """Return how well an arrangement explains the lines; None if it does not fit one of them."""
        score = 0.0
        for name, at in [*zip(left, range(len(left)), strict=True), *zip(right, range(-len(right), 0), strict=True)]:
            if (name, at) not in self._rated:
                self._rated[name, at] = self._rate_column(name, at)
            found = self._rated[name, at]
            if found is None:
                return None
            score += found
        is_plain = self.has_plain_values(len(left), len(right))
        if is_plain and not {"offset", "timestamp"} & {*left, *right}:
            return None  # Nothing would show where a value with line ends in it ends.
        if is_plain:
            score -= 1
        return score + (0.1 if "key" in left else 0)

    def has_plain_values(self, left: int, right: int) -> bool:
        """Check whether what is between is other than base64 in one of the lines."""
        if (left, right) not in self._plain:
            middles = (b",".join(cells[left : len(cells) - right]) for cells in self._cells)
            self._plain[left, right] = not all(map(_BASE64_CELL.fullmatch, middles))
        return self._plain[left, right]

    def _rate_column(self, name: str, at: int) -> float | None:
        column = [cells[at] for cells in self._cells]
        if not all(map(CELLS[name].fullmatch, column)):
            return None
        filled = [cell for cell in column if cell]
        if name == "offset":
            return self._rate_offsets([int(cell) for cell in filled])
        if not filled:
            return {"key": 0.5, "headers": 0.4}.get(name, 0.1)
        if name == "timestamp":
            return 3.0 if max(map(len, filled)) >= _TIMESTAMP_DIGITS else 0.2
        if name == "headers":
            return 5.0
        return 0.2 if all(cell.isdigit() for cell in filled) else 2.0

    def _rate_offsets(self, offsets: list[int]) -> float | None:
        if any(after <= before for before, after in pairwise(offsets)):
            return None
        if self._first_offset is None:
            return 2.5
        if offsets[0] < self._first_offset:
            return None
        return 5.0 if offsets[0] == self._first_offset else 1.5
