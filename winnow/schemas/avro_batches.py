"""Avro's datums read all at once: each field of a whole batch by a few operations on arrays.

A cursor stands in every datum, and all of them go on together, field by field. What is not certain here is left to the
reader of single datums, which tells what is wrong: a number or a length that is out of the ordinary, text that is no
UTF-8, an index of no branch, bytes that are missing or left, a value that its column cannot hold. So are whole schemas
in which a union has several types, or which are recursive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.schemas.avro_types import is_null, resolve_type
from winnow.schemas.byte_slices import cut_slices, view_bytes
from winnow.schemas.columns import TEXT, Column, Keyed, Positions, Record, Repeated, Scalar, make_arrow_type
from winnow.schemas.reader import BatchReader, Mask

_MAXIMUM_STEPS: Final = 200
"""Maximum elements of a column of lists or maps, with those in them, that are read one after another in a batch: longer
ones are for the reader of single datums, since each step costs about as much for one datum as for all."""
_MAXIMUM_FIXED_BYTES: Final = 1 << 30
_MORE: Final = 0x80
"""The bit of a byte of a number that says that another one follows."""
_NUMBER_BYTES: Final = 10
_PADDING_BYTES: Final = 16
"""Bytes behind the last datum, so that what is cut off is noticed after it was read."""


def make_batch_reader(schema: Any, column: Column, row: Record, definitions: Mapping[str, Any]) -> BatchReader | None:
    """Make the reader of batches with a parsed ``schema``, whose column is ``column`` and whose row is ``row``.

    None: it has types that are read one datum after another.
    """
    read = _make_read(schema, column, definitions)
    if read is None:
        return None
    row_type = make_arrow_type(row)

    def read_batch(datums: pa.Array) -> tuple[pa.StructArray, Mask]:
        walk = _Walk(datums)
        values = read(walk, np.arange(len(datums)))
        walk.doubt_where(walk.cursors != walk.ends)
        rows = values if column is row else pa.StructArray.from_arrays([values], fields=list(row_type))
        # Also what is no record at all, where it may be null, has a row.
        walk.doubt_where(rows.is_null().to_numpy(zero_copy_only=False))
        return rows, ~walk.is_doubtful

    return read_batch


class _Walk:
    """A cursor in each datum. ``is_doubtful``: of which ones nothing counts any more."""

    def __init__(self, datums: pa.Array) -> None:
        data, offsets = view_bytes(datums.cast(pa.binary()))
        self._data = np.concatenate((data, np.zeros(_PADDING_BYTES, np.uint8)))
        self.cursors, self.ends = offsets[:-1].copy(), offsets[1:]
        self.is_doubtful = np.zeros(len(datums), np.bool_)
        self.steps_left = 0
        self.is_in_list = False

    def doubt_where(self, mask: Mask, rows: Positions | None = None) -> None:
        """Note that datums are not certain; ``mask`` is of ``rows``, else of all."""
        if mask.any():
            self.is_doubtful[mask if rows is None else rows[mask]] = True

    def read_numbers(self, rows: Positions) -> Positions:
        starts = self.cursors[rows]
        byte = self._data[starts]
        numbers = (byte & ~np.uint8(_MORE)).astype(np.uint64)
        lengths = np.ones(len(rows), np.int64)
        longer = np.flatnonzero(byte >= _MORE)
        for index in range(1, _NUMBER_BYTES):
            if not longer.size:
                break
            byte = self._data[starts[longer] + index]
            numbers[longer] |= (byte & ~np.uint8(_MORE)).astype(np.uint64) << np.uint64(7 * index)
            lengths[longer] += 1
            if index == _NUMBER_BYTES - 1:
                # Of the last byte one bit is left.
                self.doubt_where(byte > 1, rows[longer])
            longer = longer[byte >= _MORE]
        self._advance(rows, starts, lengths)
        # Zigzag: the lowest bit is the sign.
        signs: Positions = -(numbers & np.uint64(1)).astype(np.int64)
        return (numbers >> np.uint64(1)).astype(np.int64) ^ signs

    def _advance(self, rows: Positions, starts: Positions, lengths: Positions) -> Positions:
        """Go on by ``lengths``, where there are as many bytes; return those lengths, zero for the others."""
        fits = (lengths >= 0) & (lengths <= self.ends[rows] - starts)
        self.doubt_where(~fits, rows)
        lengths = np.where(fits, lengths, 0)
        self.cursors[rows] = starts + lengths
        return lengths

    def read_words(self, rows: Positions, kind: str) -> npt.NDArray[Any]:
        """Read numbers of a type that numpy has by the name ``kind``."""
        size_bytes = np.dtype(kind).itemsize
        starts = self.cursors[rows]
        self._advance(rows, starts, np.full(len(rows), size_bytes))
        words: npt.NDArray[Any] = self._data[starts[:, None] + np.arange(size_bytes)].view(kind)[:, 0]
        return words

    def read_bytes(self, rows: Positions, size_bytes: int | None = None) -> pa.Array:
        """Read byte strings, of ``size_bytes`` each, else with their lengths before them."""
        lengths = self.read_numbers(rows) if size_bytes is None else np.full(len(rows), size_bytes)
        starts = self.cursors[rows]
        return cut_slices(self._data, starts, starts + self._advance(rows, starts, lengths))

    def read_text(self, rows: Positions) -> pa.Array:
        values = self.read_bytes(rows)
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = list(map(_decode, values.to_pylist()))
            self.doubt_where(np.array([text is None for text in texts]), rows)
            return pa.array(texts, pa.string()).fill_null("")


def _decode(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


_Read = Callable[[_Walk, Positions], pa.Array]
"""Reads the values of one column, of some of the datums; leaves their cursors behind them."""


def _make_read(schema: Any, column: Column, definitions: Mapping[str, Any]) -> _Read | None:
    schema = resolve_type(schema, definitions)
    if isinstance(schema, list):
        present = [index for index, branch in enumerate(schema) if not is_null(branch)]
        if len(present) != 1:
            return None
        read = _make_read(schema[present[0]], column, definitions)
        return None if read is None else _make_optional(read, present[0], len(schema))
    match schema["type"], column:
        case (("record" | "error"), Record()):
            reads = [
                _make_read(field["type"], inner.column, definitions)
                for field, inner in zip(schema["fields"], column.fields, strict=True)
            ]
            return _make_struct([read for read in reads if read is not None], column) if all(reads) else None
        case "array", Repeated():
            read = _make_read(schema["items"], column.item, definitions)
            return None if read is None else _make_list(read, column)
        case "map", Keyed():
            read = _make_read(schema["values"], column.value, definitions)
            return None if read is None else _make_map(read, column)
        case "null", Scalar():
            return lambda _, rows: pa.nulls(len(rows), TEXT.type)
        case str(kind), Scalar():
            return _make_scalar(kind, schema, column)
    return None


def _make_scalar(kind: str, schema: Mapping[str, Any], column: Scalar) -> _Read | None:
    read = _SCALARS.get(kind)
    if kind == "fixed" and schema["size"] <= _MAXIMUM_FIXED_BYTES:
        read = partial(_Walk.read_bytes, size_bytes=schema["size"])
    if read is None:
        return None

    def read_fitting(walk: _Walk, rows: Positions) -> pa.Array:
        array = column.collect_array(read(walk, rows))
        if array.null_count:
            walk.doubt_where(array.is_null().to_numpy(zero_copy_only=False), rows)
        return array

    return read_fitting


def _read_booleans(walk: _Walk, rows: Positions) -> pa.Array:
    numbers = walk.read_words(rows, "u1")
    walk.doubt_where(numbers > 1, rows)
    return pa.array(numbers == 1)


_SCALARS: Final[Mapping[str, _Read]] = {
    "boolean": _read_booleans,
    "int": lambda walk, rows: pa.array(walk.read_numbers(rows)),
    "long": lambda walk, rows: pa.array(walk.read_numbers(rows)),
    "enum": lambda walk, rows: pa.array(walk.read_numbers(rows)),
    "float": lambda walk, rows: pa.array(walk.read_words(rows, "<f4")),
    "double": lambda walk, rows: pa.array(walk.read_words(rows, "<f8")),
    "string": _Walk.read_text,
    "bytes": _Walk.read_bytes,
}
"""Of what has the column of a single value but fixed-size bytes."""


def _make_optional(read: _Read, index: int, branches: int) -> _Read:
    def read_optional(walk: _Walk, rows: Positions) -> pa.Array:
        indices = walk.read_numbers(rows)
        walk.doubt_where((indices < 0) | (indices >= branches), rows)
        is_present = indices == index
        values = read(walk, rows[is_present])
        if is_present.all():
            return values
        return values.take(pa.array(np.cumsum(is_present) - 1, mask=~is_present))

    return read_optional


def _make_struct(reads: Sequence[_Read], column: Record) -> _Read:
    fields = list(make_arrow_type(column))

    def read_struct(walk: _Walk, rows: Positions) -> pa.Array:
        return pa.StructArray.from_arrays([read(walk, rows) for read in reads], fields=fields)

    return read_struct


def _make_list(read: _Read, column: Repeated) -> _Read:
    kind = make_arrow_type(column)

    def read_list(walk: _Walk, rows: Positions) -> pa.Array:
        offsets, _, (values,) = _read_elements(walk, rows, [(read, kind.value_type)])
        return pa.ListArray.from_arrays(offsets, values, type=kind)

    return read_list


def _make_map(read: _Read, column: Keyed) -> _Read:
    kind = make_arrow_type(column)

    def read_map(walk: _Walk, rows: Positions) -> pa.Array:
        parts = [(_Walk.read_text, TEXT.type), (read, kind.item_type)]
        offsets, owners, (keys, values) = _read_elements(walk, rows, parts)
        # Of a key that comes twice only one counts.
        pairs = np.sort(owners * max(1, len(keys)) + keys.dictionary_encode().indices.to_numpy())
        doubled = pairs[1:][pairs[1:] == pairs[:-1]] // max(1, len(keys))
        walk.is_doubtful[rows[doubled]] = True
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind)

    return read_map


def _read_elements(
    walk: _Walk, rows: Positions, parts: Sequence[tuple[_Read, pa.DataType]]
) -> tuple[pa.Array, Positions, list[pa.Array]]:
    """Read the elements of lists, each of which has ``parts``.

    Return the offsets of the lists, and of all elements one after another the indices of their lists, and their parts.
    """
    is_outermost = not walk.is_in_list
    if is_outermost:
        walk.is_in_list, walk.steps_left = True, _MAXIMUM_STEPS
    remaining = np.zeros(len(rows), np.int64)
    unread = np.arange(len(rows))
    owners: list[Positions] = [np.empty(0, np.int64)]
    arrays: list[list[pa.Array]] = [[pa.nulls(0, kind)] for _, kind in parts]
    while True:
        # A block of elements begins with their number; a negative one is followed by the size of the block.
        begins = unread[remaining[unread] == 0]
        counts = walk.read_numbers(rows[begins])
        walk.read_numbers(rows[begins[counts < 0]])
        remaining[begins] = np.abs(counts)
        # The lowest number has no absolute one.
        walk.doubt_where(remaining[begins] < 0, rows[begins])
        unread = unread[(remaining[unread] > 0) & ~walk.is_doubtful[rows[unread]]]
        if unread.size and not walk.steps_left:
            walk.is_doubtful[rows[unread]] = True
            unread = unread[:0]
        if not unread.size:
            break
        walk.steps_left -= 1
        owners.append(unread)
        for (read, _), read_so_far in zip(parts, arrays, strict=True):
            read_so_far.append(read(walk, rows[unread]))
        remaining[unread] -= 1
    walk.is_in_list = not is_outermost
    indices = np.concatenate(owners)
    order = np.argsort(indices, kind="stable")
    ends = np.cumsum(np.bincount(indices, minlength=len(rows)))
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    return offsets, indices[order], [pa.concat_arrays(array).take(pa.array(order)) for array in arrays]
