"""Columns of a row type: how values of Python become Arrow arrays, and which row a value that does not fit is in.

Values are collected column by column. A value that its column cannot hold costs its whole row, no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A column of single values.

    ``collect`` makes an array of ``type`` of a list of values; it gives null for None, and for what the column cannot
    hold. ``fit`` makes the same of an Arrow array of them, None: only by way of a list.
    """

    type: pa.DataType
    collect: Callable[[list[Any]], pa.Array]
    fit: Callable[[pa.Array], pa.Array] | None = None

    def collect_array(self, values: pa.Array) -> pa.Array:
        """Make of an Arrow array what ``collect`` makes of its values."""
        return self.collect(values.to_pylist()) if self.fit is None else self.fit(values)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A column of lists."""

    item: Column


@dataclass(frozen=True, slots=True)
class Keyed:
    """A column of maps whose keys are text."""

    value: Column


@dataclass(frozen=True, slots=True)
class Field:
    """A named column of a record. ``aliases``: its former names."""

    name: str
    column: Column
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A column of structs, or a whole row; its values are dictionaries."""

    fields: tuple[Field, ...]


Column = Scalar | Repeated | Keyed | Record


def make_row(column: Column) -> Record:
    """Make a row of ``column``: the record that it is, else one with the single field ``""``."""
    return column if isinstance(column, Record) else Record((Field("", column),))


def make_arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of ``column``; that of a record is a struct, its fields nullable, with their aliases."""
    match column:
        case Scalar():
            return column.type
        case Repeated():
            return pa.list_(make_arrow_type(column.item))
        case Keyed():
            return pa.map_(pa.string(), make_arrow_type(column.value))
        case Record():
            return pa.struct(list(map(_make_arrow_field, column.fields)))


def _make_arrow_field(field: Field) -> pa.Field:
    metadata = {"aliases": ",".join(field.aliases)} if field.aliases else None
    return pa.field(field.name, make_arrow_type(field.column), metadata=metadata)


def build_rows(record: Record, values: Sequence[dict[str, Any]]) -> tuple[pa.StructArray, dict[int, str]]:
    """Build the rows of ``values``, and name the field of each row in which a value did not fit.

    Such a row is in the array, too, with nulls for what did not fit.
    """
    builder = _Builder()
    rows = builder.build(record, list(values), np.arange(len(values)), "")
    return rows, builder.problems


class _Builder:
    """``problems``: row → path of the first field that a value did not fit."""

    def __init__(self) -> None:
        self.problems: dict[int, str] = {}

    def build(self, column: Column, values: list[Any], rows: Positions, path: str) -> pa.Array:
        """Build the array of ``values``; ``rows`` says which row each one is of."""
        match column:
            case Scalar():
                array = column.collect(values)
                if array.null_count > values.count(None):
                    self._note(values, array, rows, path)
                return array
            case Record():
                return self._build_structs(column, values, rows, path)
            case Repeated():
                offsets, lengths = _measure(values)
                items = [item for value in values if value for item in value]
                array = self.build(column.item, items, np.repeat(rows, lengths), path)
                return pa.ListArray.from_arrays(offsets, array, type=make_arrow_type(column))
            case Keyed():
                offsets, lengths = _measure(values)
                owners = np.repeat(rows, lengths)
                keys = self.build(TEXT, [key for value in values if value for key in value], owners, path)
                items = [item for value in values if value for item in value.values()]
                array = self.build(column.value, items, owners, path)
                # Arrow refuses a map with a null as key; its row is left out anyway.
                return pa.MapArray.from_arrays(offsets, keys.fill_null(""), array, type=make_arrow_type(column))

    def _build_structs(self, record: Record, values: list[Any], rows: Positions, path: str) -> pa.StructArray:
        children = [
            self.build(
                field.column,
                [None if value is None else value.get(field.name) for value in values],
                rows,
                f"{path}.{field.name}" if path else field.name,
            )
            for field in record.fields
        ]
        mask = pa.array([value is None for value in values], pa.bool_()) if None in values else None
        return pa.StructArray.from_arrays(children, fields=list(make_arrow_type(record)), mask=mask)

    def _note(self, values: list[Any], array: pa.Array, rows: Positions, path: str) -> None:
        for index in array.is_null().to_numpy(zero_copy_only=False).nonzero()[0]:
            if values[index] is not None:
                self.problems.setdefault(int(rows[index]), path)


def _measure(values: list[Any]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the offsets of lists or maps, null where a value is None, and their lengths."""
    lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    return pa.array(ends, pa.int32(), mask=np.append(missing, np.False_)), lengths


def collect_plainly(storage: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    """Return a function that collects values as Arrow does; what Arrow refuses becomes null."""

    def collect(values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, storage)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return pa.array([value if _fits(value, storage) else None for value in values], storage)

    return collect


def _fits(value: Any, storage: pa.DataType) -> bool:
    try:
        pa.scalar(value, storage)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return False
    return True


def collect_each(storage: pa.DataType, convert: Callable[[Any], Any]) -> Callable[[list[Any]], pa.Array]:
    """Return a function that converts values one by one; those for which ``convert`` gives None or fails become null.

    ``convert`` may raise ValueError (also a UnicodeError), ArithmeticError, TypeError or RecursionError.
    """
    collect_converted = collect_plainly(storage)

    def convert_one(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, ArithmeticError, TypeError, RecursionError):
            return None

    def collect(values: list[Any]) -> pa.Array:
        return collect_converted([None if value is None else convert_one(value) for value in values])

    return collect


def make_plain(storage: pa.DataType) -> Scalar:
    """Make the column of a type that Arrow makes of Python's values by itself."""
    return Scalar(storage, collect_plainly(storage), keep_array)


def keep_array(values: pa.Array) -> pa.Array:
    """Return values that are of their column's type already."""
    return values


TEXT = make_plain(pa.string())
