"""The format ``json``: documents without a schema, whose row types are told from what is in them.

An object is a row, a number without fraction an int64 (a float64 where others at its place have one), an array a list.
Strings stay strings. What no column can hold is its JSON text: an integer beyond 64 bits, and an array whose elements
are of several types. ``null``, ``{}`` and ``[]`` tell nothing: a field that never has more is left out. Of a name that
an object has twice, the last counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from winnow.schemas.decoder import DecodedBatch, DecodedGroup

MAXIMUM_DEPTH: Final = 64
MAXIMUM_COLUMNS: Final = 2_000
"""Maximum fields, nested ones too, of all row types together."""
MAXIMUM_ROW_TYPES: Final = 50
MAXIMUM_NAME_BYTES: Final = 255

Shape: TypeAlias = "str | dict[str, Any] | list[Any] | None"
"""A struct is the dictionary of its fields' shapes, a list the list of its elements' shape, another the name of its
type; None: nothing is told."""

_BOOLEAN, _LONG, _LONG_ONLY, _DOUBLE, _TEXT = "boolean", "long", "long only", "double", "text"
_ARROW_TYPES: Final = {
    _BOOLEAN: pa.bool_(),
    _LONG: pa.int64(),
    _LONG_ONLY: pa.int64(),
    _DOUBLE: pa.float64(),
    _TEXT: pa.string(),
}
_LEAVES: Final = {type(None): None, bool: _BOOLEAN, str: _TEXT, float: _DOUBLE}
_EXACT_IN_DOUBLE: Final = 1 << 53
_LONG_END: Final = 1 << 63
_DATUM: Final = ""


class _DatumError(Exception):
    """Why a datum is no row: a sentence that quotes nothing of it."""


class _ConflictError(Exception):
    """Two shapes cannot be one."""


class JsonDecoder:
    """Decodes JSON documents. Documents whose types are in conflict with each other are rows of different types.

    ``known``: columns that there are already. Where one of them is a float64, numbers without fraction go into it.
    """

    def __init__(self, known: pa.StructType | None = None) -> None:
        self._known = known
        self._shapes: list[dict[str, Any]] = []
        self._has_decoded = False

    def decode(self, datums: pa.Array) -> DecodedBatch:
        """Decode ``datums``, bytes without nulls, in types that hold those of earlier calls, too."""
        parsed: list[tuple[int, Any, dict[str, Any]]] = []
        errors: dict[int, str] = {}
        for position, datum in enumerate(datums):
            try:
                document = _parse(datum.as_buffer())
                parsed.append((position, document, _find_row_shape(document)))
            except _DatumError as problem:
                errors[position] = str(problem)
        for _, _, shape in parsed:
            self._note(shape)
        shapes = self._list_shapes()
        rows: dict[int, tuple[list[int], list[Any]]] = {}
        for position, document, shape in parsed:
            try:
                number = _find_group(shapes, shape)
            except _DatumError as problem:
                errors[position] = str(problem)
                continue
            positions, group = rows.setdefault(number, ([], []))
            positions.append(position)
            group.append(document if isinstance(document, dict) else {_DATUM: document})
        return DecodedBatch(
            [
                DecodedGroup(
                    pa.array(positions, pa.int64()),
                    _build_array(group, shapes[number], _make_type(shapes[number], self._known)),
                )
                for number, (positions, group) in sorted(rows.items())
            ],
            errors,
        )

    def _list_shapes(self) -> list[dict[str, Any]]:
        # Documents that tell nothing are rows of the first type; without one they still need a column.
        return self._shapes or ([{_DATUM: _TEXT}] if self._has_decoded else [])

    def _note(self, shape: dict[str, Any]) -> None:
        self._has_decoded = True
        if not shape:
            return
        for number, present in enumerate(self._shapes):
            if _covers(present, shape):
                return
            try:
                merged = _merge(present, shape)
            except _ConflictError:
                continue
            if self._count_columns(but=number) + _count_columns(merged) <= MAXIMUM_COLUMNS:
                self._shapes[number] = merged
            return
        fits = self._count_columns() + _count_columns(shape) <= MAXIMUM_COLUMNS
        if fits and len(self._shapes) < MAXIMUM_ROW_TYPES:
            self._shapes.append(shape)

    def _count_columns(self, but: int = -1) -> int:
        return sum(_count_columns(shape) for number, shape in enumerate(self._shapes) if number != but)


def _find_group(shapes: Sequence[dict[str, Any]], shape: dict[str, Any]) -> int:
    for number, present in enumerate(shapes):
        if _covers(present, shape):
            return number
    raise _DatumError(
        f"It has fields or types beyond the {MAXIMUM_COLUMNS:,} columns or the {MAXIMUM_ROW_TYPES} row types that a "
        "topic may have."
    )


def _parse(datum: pa.Buffer) -> Any:
    try:
        return msgspec.json.decode(datum)
    except RecursionError:
        raise _DatumError(f"It is nested deeper than {MAXIMUM_DEPTH} levels.") from None
    except (msgspec.MsgspecError, ValueError):
        # Said without the parser's words, in which names may stand.
        raise _DatumError("It is not JSON, or has a number that no column can hold.") from None


def _find_row_shape(document: Any) -> dict[str, Any]:
    shape = _find_shape(document, 0)
    if isinstance(shape, dict):
        return shape
    return {} if shape is None else {_DATUM: shape}


def _find_shape(value: Any, depth: int) -> Shape:
    kind = type(value)
    if kind in _LEAVES:
        return _LEAVES[kind]
    if kind is int:
        return _find_integer(value)
    if depth == MAXIMUM_DEPTH:
        raise _DatumError(f"It is nested deeper than {MAXIMUM_DEPTH} levels.")
    if isinstance(value, dict):
        return _find_struct(value, depth) or None
    # Every element is looked at, also behind a conflict: each may be nested too deep.
    shapes = [_find_shape(element, depth + 1) for element in value]
    try:
        element = reduce(_merge, shapes, None)
    except _ConflictError:
        return _TEXT
    return None if element is None else [element]


def _find_integer(value: int) -> str:
    if -_EXACT_IN_DOUBLE <= value <= _EXACT_IN_DOUBLE:
        return _LONG
    return _LONG_ONLY if -_LONG_END <= value < _LONG_END else _TEXT


def _find_struct(value: dict[str, Any], depth: int) -> dict[str, Any]:
    fields = {}
    for name, item in value.items():
        shape = _find_shape(item, depth + 1)
        if shape is not None:
            if len(name) > MAXIMUM_NAME_BYTES or len(name.encode()) > MAXIMUM_NAME_BYTES:
                raise _DatumError(f"It has a name of more than {MAXIMUM_NAME_BYTES} bytes.")
            fields[name] = shape
    if len(fields) > MAXIMUM_COLUMNS:
        raise _DatumError(f"It has more than {MAXIMUM_COLUMNS:,} fields.")
    return fields


def _merge(one: Any, other: Any) -> Any:
    """Return the shape that covers both.

    Raises:
        _ConflictError: there is none.
    """
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        merged = dict(one)
        for name, shape in other.items():
            merged[name] = _merge(one.get(name), shape)
        return merged
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0])]
    if isinstance(one, str) and isinstance(other, str):
        for wider, narrower in ((_DOUBLE, _LONG), (_LONG_ONLY, _LONG)):
            if {one, other} == {wider, narrower}:
                return wider
    raise _ConflictError


def _covers(one: Any, other: Any) -> bool:
    """Check whether values of the shape ``other`` can stand in a column of the shape ``one``."""
    if other is None or one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return all(name in one and _covers(one[name], shape) for name, shape in other.items())
    if isinstance(one, list) and isinstance(other, list):
        return _covers(one[0], other[0])
    return other == _LONG and one in (_DOUBLE, _LONG_ONLY)


def _count_columns(shape: Any) -> int:
    if isinstance(shape, dict):
        return sum(map(_count_columns, shape.values())) + len(shape)
    return _count_columns(shape[0]) if isinstance(shape, list) else 0


def _make_type(shape: Any, known: pa.DataType | None) -> pa.DataType:
    if isinstance(shape, dict):
        return pa.struct([(name, _make_type(inner, _find_known(known, name))) for name, inner in shape.items()])
    if isinstance(shape, list):
        element = known.value_type if known is not None and pa.types.is_list(known) else None
        return pa.list_(pa.field("element", _make_type(shape[0], element)))
    return pa.float64() if shape == _LONG and known == pa.float64() else _ARROW_TYPES[shape]


def _find_known(known: pa.DataType | None, name: str) -> pa.DataType | None:
    if known is None or not pa.types.is_struct(known):
        return None
    number = known.get_field_index(name)
    return known.field(number).type if number >= 0 else None


def _build_array(values: Sequence[Any], shape: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(shape, dict):
        # What tells nothing may stand anywhere: an empty array in the place of an object is null.
        objects = [value if isinstance(value, dict) else None for value in values]
        columns = [
            _build_array(
                [None if row is None else row.get(field.name) for row in objects], shape[field.name], field.type
            )
            for field in kind
        ]
        mask = pa.array([row is None for row in objects], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    if isinstance(shape, list):
        arrays = [value if isinstance(value, list) else None for value in values]
        offsets = pa.array(_count_elements(arrays), pa.int32())
        elements = [element for array in arrays if array for element in array]
        mask = pa.array([array is None for array in arrays], pa.bool_())
        return pa.ListArray.from_arrays(
            offsets, _build_array(elements, shape[0], kind.value_type), type=kind, mask=mask
        )
    if shape == _TEXT:
        return pa.array([_format_text(value) for value in values], pa.string())
    return pa.array([None if isinstance(value, dict | list) else value for value in values], kind)


def _count_elements(arrays: Sequence[list[Any] | None]) -> Iterator[int]:
    count = 0
    yield count
    for array in arrays:
        count += len(array or ())
        yield count


def _format_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
