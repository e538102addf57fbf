"""Reads the CSV of Aiven's sinks, in which nothing is quoted or escaped and no header names the columns.

Keys are base64, headers are ``name:value;`` each with both in base64, and values are base64 unless the sink was told to
write them as they are. Null and empty are the same here: an empty key is read as null, an empty value as empty.

Which fields there are, and in what order, nothing in the object says. Columns of digits are offsets and timestamps,
columns of pairs are headers. Of two columns of base64 one is the key: the one whose values a default partitioner
(Java's or librdkafka's) sends to the object's partition. If that tells nothing (one partition, or another partitioner),
it is the first one, unless only that one is ever empty (deletes have a key and no value), or the second one repeats
more, is much shorter and still has many different values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from winnow.files.partitioner import hash_keys_murmur2
from winnow.sources.envelope import derive_offsets, make_chunk, repeat_partition
from winnow.sources.formats.column_values import HeaderPairs, make_header_column
from winnow.sources.formats.compression import open_decompressed, read_start
from winnow.sources.formats.encoding import decode_base64
from winnow.sources.formats.lines import read_line_groups
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.objects import ArchiveObject, ReadOptions, RecordChunk, StoredObject

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


SAMPLE_BYTES = 1 << 18
_SAMPLE_LINES = 500

_PLAIN_ADVICE = "set format.output.fields.value.encoding=base64 in the sink, or name another --layout"


def read_csv_sample(obj: StoredObject) -> list[bytes]:
    """Return the first lines of ``obj``; without the last one of the sample, which may be cut off, if it has others.

    Raises:
        BadInputError: the object cannot be read, or its compression is damaged.
        ServiceError: an object store cannot be reached.
    """
    lines = read_start(obj, SAMPLE_BYTES).split(b"\n")
    return (lines[:-1] or lines)[:_SAMPLE_LINES]


def read_aiven_csv(
    archive: ArchiveObject, options: ReadOptions, fields: CsvFields | None = None
) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the line.

    ``fields``: those of the archive, found by :func:`find_csv_fields`; None: found from this object alone.

    Raises:
        BadInputError: the object is damaged or cut off, or its values hold what cannot be told from the format.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    if not obj.size_bytes:
        raise make_file_error(obj.uri, "the object is empty", DAMAGED_ADVICE)
    fields = fields or find_csv_fields(read_csv_sample(obj), archive.first_offset, archive.partition)
    if fields is None:
        wrong = "its lines are no CSV of Aiven's sink, or values hold line ends, which nothing tells from those of CSV"
        raise make_file_error(obj.uri, wrong, _PLAIN_ADVICE)
    with open_decompressed(obj) as stream:
        records = 0
        for group in read_line_groups(obj.uri, stream, options.batch_bytes):
            place = Place(obj.uri, "line", group.number())
            yield _make_csv_chunk(archive, place, _split_lines(place, group.lines, fields), records, group.is_last)
            records += len(group.lines)


def _split_lines(place: Place, lines: list[bytes], fields: CsvFields) -> dict[str, Any]:
    """Return the cells of ``lines`` by field."""
    if not fields.has_plain_values:
        try:
            return _split_fast(lines, fields.names)
        except pa.ArrowInvalid:
            pass  # The slow way finds the line.
    match = fields.compile_line().fullmatch
    rows = []
    for index, line in enumerate(lines):
        found = match(line)
        if found is None:
            wrong = f"this line has not the fields {', '.join(fields.names)}"
            advice = "a value with a line end in it, or a cut-off object? " + _PLAIN_ADVICE
            raise place.make_error(index, wrong, advice)
        rows.append(found.groups())
    columns = zip(*rows, strict=True)
    return {name: pa.array(column, pa.binary()) for name, column in zip(fields.names, columns, strict=True)}


def _split_fast(lines: list[bytes], names: tuple[str, ...]) -> dict[str, Any]:
    data = pa.py_buffer(b"\n".join(lines) + b"\n")
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=list(names), use_threads=False, block_size=data.size + 1),
        parse_options=csv.ParseOptions(quote_char=False, double_quote=False, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False, quoted_strings_can_be_null=False
        ),
    )
    if table.num_rows != len(lines):
        raise pa.ArrowInvalid("another number of lines")
    return {name: pa.concat_arrays(table.column(name).chunks) for name in names}


def _make_csv_chunk(
    archive: ArchiveObject, place: Place, cells: dict[str, Any], records: int, is_last: bool
) -> RecordChunk:
    count = len(place.rows)
    names = list(cells)
    if is_last and names[-1] == "value":
        _check_last_value(place, cells["value"])
    offset = _read_integers(place, "offset", cells.get("offset"))
    return make_chunk(
        place,
        key=_read_keys(place, cells.get("key")),
        value=cells["value"],
        partition=repeat_partition(archive, count),
        offset=derive_offsets(archive, records, count) if offset is None else offset,
        timestamp=_read_integers(place, "timestamp", cells.get("timestamp")),
        headers=_read_headers(place, cells.get("headers")),
    )


def _check_last_value(place: Place, column: Any) -> None:
    """Raise for a last value that alone is no base64: it was cut off."""
    canonical = decode_base64(column).canonical
    if len(canonical) > 1 and canonical[:-1].all() and not canonical[-1]:
        wrong = "the last value is cut off: it alone is no base64"
        raise place.make_error(len(canonical) - 1, wrong, DAMAGED_ADVICE)


def _read_keys(place: Place, column: Any) -> Any:
    if column is None:
        return None
    read = decode_base64(column)
    if not read.canonical.all():
        raise place.make_error(int(np.argmin(read.canonical)), "its key is not base64", DAMAGED_ADVICE)
    return pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, pa.binary()), read.decoded)


def _read_integers(place: Place, name: str, column: Any) -> Any:
    if column is None:
        return None
    texts = pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, pa.binary()), column)
    try:
        return texts.cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        for index, text in enumerate(texts.to_pylist()):
            if text is not None and not (CELLS[name].fullmatch(text) and int(text) < 2**63):
                raise place.make_error(index, f"{name} is not a whole number", DAMAGED_ADVICE) from None
        raise


def _read_headers(place: Place, column: Any) -> Any:
    if column is None:
        return None
    cells = column.to_pylist()
    names: list[bytes] = []
    values: list[bytes] = []
    counts = []
    for index, cell in enumerate(cells):
        if cell and not CELLS["headers"].fullmatch(cell):
            raise place.make_error(index, "its headers are not name:value; in base64", DAMAGED_ADVICE)
        pairs = cell.split(b";")[:-1]
        counts.append(len(pairs))
        for pair in pairs:
            name, _, value = pair.partition(b":")
            names.append(name)
            values.append(value)
    read_names = decode_base64(pa.array(names, pa.binary())).decoded.to_pylist()
    read_values = decode_base64(pa.array(values, pa.binary())).decoded.to_pylist()
    flat = iter(zip(read_names, read_values, strict=True))
    lists: list[HeaderPairs | None] = []
    for index, count in enumerate(counts):
        try:
            lists.append([(name.decode(), value) for name, value in (next(flat) for _ in range(count))])
        except UnicodeDecodeError:
            raise place.make_error(index, "a header's name is not UTF-8", DAMAGED_ADVICE) from None
    return make_header_column(lists)
