"""Hides fields of rows before anything of them is written, by the rules of ``winnow.latest.fields``.

A field that no rule names is left out, and so is one that appears later. A masked field is text: the HMAC-SHA-256 of
its value, in hexadecimal, over its path too, so that equal values of two fields cannot be told. It is text whatever the
field's type, so a field that changes its type has no second column that could show it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from winnow.schemas.row_types import (
    build_rows,
    find_kind,
    list_aliases,
    make_list,
    make_map,
    replace_elements,
    slice_elements,
)
from winnow.values.latest_fields import FieldRule, FieldRules


@dataclass(frozen=True, slots=True)
class _Rule:
    """``rest``: the way from here to the field; ``path``: the whole, which goes into digests."""

    rest: tuple[str, ...]
    rule: FieldRule
    path: str


@dataclass(frozen=True, slots=True)
class _Shown:
    """A field that is shown: its number among those of the row, and how."""

    number: int
    field: pa.Field
    how: _How


_How: TypeAlias = "str | list[_Shown] | None"
"""The path under which a value becomes a digest; the fields of a struct that are shown; None: the value as it is."""


def mask_row_type(row_type: pa.StructType, rules: FieldRules, columns: pa.StructType | None = None) -> pa.StructType:
    """Return the type of the rows that :func:`mask_rows` makes of rows of ``row_type``."""
    return row_type if not rules.hides else pa.struct([shown.field for shown in _choose(row_type, rules, columns)])


def list_shown_fields(row_type: pa.StructType, rules: FieldRules, columns: pa.StructType | None = None) -> list[int]:
    """List which fields of ``row_type`` the rows of :func:`mask_rows` have, by number and in their order."""
    if not rules.hides:
        return list(range(row_type.num_fields))
    return [shown.number for shown in _choose(row_type, rules, columns)]


def mask_rows(
    rows: pa.StructArray, rules: FieldRules, secret: bytes | None, columns: pa.StructType | None = None
) -> pa.StructArray:
    """Return ``rows``, none of them null, with the fields that ``rules`` show.

    Args:
        rows: in the type that they were written with, their columns named.
        rules: the allow-list.
        secret: the key of digests.
        columns: all fields of the topic that are known, merged without masks. A rule for one name of a field that was
            renamed holds for all its names; of several the strictest.

    Raises:
        ValueError: a field is to be a digest, and there is no secret.
    """
    if rules.needs_secret and not secret:
        raise ValueError("there is no secret for the digests of masked fields")
    if not rules.hides:
        return rows
    return _show_fields(rows, _choose(rows.type, rules, columns), secret or b"")


def _choose(row_type: pa.StructType, rules: FieldRules, columns: pa.StructType | None) -> list[_Shown]:
    entries = [_Rule(tuple(path.split(".")), rule, path) for path, rule in rules.entries]
    return _choose_fields(row_type, entries, shown=False, columns=columns)


def _choose_fields(
    struct: pa.StructType, rules: Sequence[_Rule], *, shown: bool, columns: pa.DataType | None
) -> list[_Shown]:
    known = list(columns) if columns is not None and pa.types.is_struct(columns) else []
    chosen = []
    for number, field in enumerate(struct):
        names = _list_names(field, known)
        of_field = [rule for rule in rules if rule.rest[0] in names]
        strictest = {rule.rule: rule.path for rule in reversed(of_field) if len(rule.rest) == 1}
        inner = [_Rule(rule.rest[1:], rule.rule, rule.path) for rule in of_field if len(rule.rest) > 1]
        if FieldRule.DROP in strictest:
            continue
        if FieldRule.HMAC in strictest:
            chosen.append(_Shown(number, field.with_type(pa.string()), strictest[FieldRule.HMAC]))
            continue
        visible = shown or FieldRule.SHOW in strictest
        element = _find_element(field.type)
        if inner and pa.types.is_struct(element):
            column = next((_find_element(column.type) for column in known if column.name in names), None)
            parts = _choose_fields(element, inner, shown=visible, columns=column)
            if parts:
                kind = _replace_element(field.type, pa.struct([part.field for part in parts]))
                chosen.append(_Shown(number, field.with_type(kind), parts))
        elif visible:
            chosen.append(_Shown(number, field, None))
    return chosen


def _list_names(field: pa.Field, known: Iterable[pa.Field]) -> set[str]:
    """List all names that ``field`` has or had, by itself and by the columns that had one of them."""
    names = {field.name, *list_aliases(field)}
    for column in known:
        others = {column.name, *list_aliases(column)}
        if field.name in others:
            names |= others
    return names


def _find_element(kind: pa.DataType) -> pa.DataType:
    """Return what is in lists and maps, however deep; of another type that type."""
    while pa.types.is_list(kind) or pa.types.is_map(kind):
        kind = kind.value_type if pa.types.is_list(kind) else kind.item_type
    return kind


def _replace_element(kind: pa.DataType, element: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return make_list(_replace_element(kind.value_type, element))
    if pa.types.is_map(kind):
        return make_map(_replace_element(kind.item_type, element))
    return element


def _show_fields(rows: pa.StructArray, chosen: Sequence[_Shown], secret: bytes) -> pa.StructArray:
    # Flattened: below a row that is null there may be values, too.
    columns = rows.flatten()
    shown = [_show(columns[part.number], part.field.type, part.how, secret) for part in chosen]
    return build_rows(shown, [part.field for part in chosen], rows)


def _show(array: pa.Array, kind: pa.DataType, how: _How, secret: bytes) -> pa.Array:
    if how is None:
        return array
    if isinstance(how, str):
        return _digest(array, how, secret)
    if pa.types.is_struct(kind):
        return _show_fields(array, how, secret)
    if pa.types.is_list(kind):
        return replace_elements(array, _show(array.values, kind.value_type, how, secret), kind)
    return replace_elements(array, _show(array.items, kind.item_type, how, secret), kind)


def _digest(array: pa.Array, path: str, secret: bytes) -> pa.Array:
    digests = [
        None if value is None else hmac.digest(secret, msgspec.json.encode([path, value]), "sha256").hex()
        for value in _canonicalize(array)
    ]
    return pa.array(digests, pa.string())


def _canonicalize(array: pa.Array) -> list[Any]:
    """Return what JSON can hold for each value: equal for equal values of any width, different for others."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [(field.name, _canonicalize(column)) for field, column in zip(kind, array.flatten(), strict=True)]
        columns.sort(key=itemgetter(0))
        return [
            [[name, column[row]] for name, column in columns if column[row] is not None] if is_present else None
            for row, is_present in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_list(kind):
        return slice_elements(array, _canonicalize(array.values))
    if pa.types.is_map(kind):
        pairs = list(zip(array.keys.to_pylist(), _canonicalize(array.items), strict=True))
        return [None if part is None else sorted(part, key=itemgetter(0)) for part in slice_elements(array, pairs)]
    name = find_kind(kind)
    return [None if value is None else [name, _format_leaf(value)] for value in _list_leaves(array)]


def _list_leaves(array: pa.Array) -> list[Any]:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return list(array.storage.to_pylist())
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        # As numbers: Python has no years below 1 and above 9999.
        return list(array.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).to_pylist())
    return list(array.to_pylist())


def _format_leaf(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
