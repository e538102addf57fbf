"""Random row types, and rows of them, made without the code that is tested."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

NAMES: Final = ("a", "A", "b", "a__long", "a__2", "b__string", "a.2", "a_2", "")
_LEAVES: Final[dict[pa.DataType, st.SearchStrategy[Any]]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(5, 2): st.decimals(-999, 999, places=2),
    pa.decimal128(20, 2): st.decimals(-(10**17), 10**17, places=2),
    pa.decimal128(5, 3): st.decimals(-99, 99, places=3),
    pa.date32(): st.dates(date(1, 1, 1)),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.string(): st.text(max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.uuid(): st.uuids().map(lambda value: value.bytes),
}
leaf_types: Final = st.sampled_from(list(_LEAVES))


def _extend_types(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        inner.map(pa.list_), inner.map(lambda item: pa.map_(pa.string(), item)), _make_structs(inner, max_fields=3)
    )


def _make_structs(types: st.SearchStrategy[pa.DataType], max_fields: int) -> st.SearchStrategy[pa.StructType]:
    aliases = st.one_of(st.none(), st.none(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
    fields = st.lists(
        st.tuples(st.sampled_from(NAMES), types, aliases), min_size=1, max_size=max_fields, unique_by=lambda f: f[0]
    )
    return fields.map(
        lambda drawn: pa.struct(
            [pa.field(name, kind, metadata=former and {"aliases": ",".join(former)}) for name, kind, former in drawn]
        )
    )


row_types: Final = _make_structs(st.recursive(leaf_types, _extend_types, max_leaves=4), max_fields=4)


def make_rows(row_type: pa.StructType, *, max_rows: int = 3) -> st.SearchStrategy[pa.StructArray]:
    """Draw rows of ``row_type``, none of them null; sometimes they are a slice."""
    rows = st.lists(_make_values(row_type, nullable=False), max_size=max_rows)
    arrays = rows.map(lambda values: build_array(values, row_type))
    return st.tuples(arrays, st.integers(0, 1)).map(lambda drawn: drawn[0].slice(min(drawn[1], len(drawn[0]))))


def _make_values(kind: pa.DataType, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        values: st.SearchStrategy[Any] = st.tuples(*(_make_values(field.type) for field in kind)).map(list)
    elif pa.types.is_list(kind):
        values = st.lists(_make_values(kind.value_type), max_size=2)
    elif pa.types.is_map(kind):
        values = st.dictionaries(st.text(max_size=2), _make_values(kind.item_type), max_size=2)
    else:
        values = _LEAVES[kind]
    return st.one_of(st.none(), values) if nullable else values


def build_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an array of Python values; a struct's is the list of its fields' values, in their order."""
    mask = pa.array([value is None for value in values], pa.bool_())
    if pa.types.is_struct(kind):
        columns = [
            build_array([None if value is None else value[number] for value in values], field.type)
            for number, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        parts = [[] if value is None else value for value in values]
        offsets = pa.array([sum(map(len, parts[:number])) for number in range(len(parts) + 1)], pa.int32())
        if pa.types.is_list(kind):
            elements = build_array([element for part in parts for element in part], kind.value_type)
            return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)
        keys = pa.array([key for part in parts for key in part], pa.string())
        items = build_array([item for part in parts if part for item in part.values()], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    return pa.array(values, kind)


def list_values(rows: pa.StructArray) -> list[Any]:
    """Return what is in each row, whatever its fields are called and in which order they stand; nulls are nothing."""
    return [_strip_names(row, rows.type) for row in rows.to_pylist(maps_as_pydicts="strict")]


def _strip_names(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        parts = [_strip_names(value[field.name], field.type) for field in kind]
        return "struct", sorted((part for part in parts if part is not None), key=repr)
    if pa.types.is_list(kind):
        return "list", [_strip_names(element, kind.value_type) for element in value]
    if pa.types.is_map(kind):
        return "map", [(key, _strip_names(item, kind.item_type)) for key, item in value.items()]
    # Equal numbers of two widths are equal here; what is not a number equals itself.
    name = type(value).__name__
    return name, repr(value.normalize() if isinstance(value, Decimal) else value)
