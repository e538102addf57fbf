"""Row types: one that holds the rows of many, and the rows of each put into it without losing a value.

Every field of a writer's row type has one place among the columns, and the two types alone tell which. Columns never
narrow, move to another kind or go, so that a place once given stays. A field takes, in this order:

1. the column of its name, or the one that once had its name, if that is of its kind;
2. a column of one of its aliases, which is renamed, if the row type does not have that name too;
3. a new column of its name;
4. if its name is taken by a column of another kind, ``NAME__KIND``, as in ``amount__string``; by one of the other datum
   of the record, ``NAME__key`` or ``NAME__value``; by one that differs in case only, ``NAME__2``. Then further numbers.

Dots and control characters in a name become ``_``, and an empty name becomes ``field``.

Within a kind columns widen as Iceberg's do: int32 to int64, float32 to float64, a decimal's precision. Structs become
one, field by field; lists and maps too, if their elements can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from winnow.values.typed_columns import ALIASES, SIDE, Side

_WIDTHS: Final = {
    pa.int32(): ("long", 32),
    pa.int64(): ("long", 64),
    pa.float32(): ("double", 32),
    pa.float64(): ("double", 64),
}
_KINDS: Final = {
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.uuid(): "uuid",
}


def merge_row_types(present: pa.StructType, arriving: pa.StructType) -> pa.StructType:
    """Return ``present`` with places for all fields of ``arriving``: what it had stays in place, new fields follow.

    A field that arrives under another name keeps its place; the former name is then in the metadata's ``aliases``.

    Raises:
        ValueError: a type that no column has.
    """
    return pa.struct(_place_fields(list(present), list(arriving)).columns)


def project_rows(rows: pa.StructArray, target: pa.StructType) -> pa.StructArray:
    """Put ``rows`` into the row type ``target``, which their type was merged into. Fields without values are null.

    Raises:
        ValueError: ``target`` has no place for a field.
    """
    placement = _place_fields(list(target), list(rows.type))
    if not pa.struct(placement.columns).equals(target):
        raise ValueError("the target has no place for a field of the rows")
    sources = {column: source for source, column in enumerate(placement.places)}
    columns = [
        _project_array(rows.field(sources[number]), column.type)
        if number in sources
        else pa.nulls(len(rows), column.type)
        for number, column in enumerate(target)
    ]
    return build_rows(columns, list(target), rows)


def list_aliases(column: pa.Field) -> list[str]:
    """List the former names of ``column``."""
    text = (column.metadata or {}).get(ALIASES, b"").decode()
    return text.split(",") if text else []


def find_side(column: pa.Field) -> Side:
    """Return which datum of the record ``column`` comes from."""
    return Side((column.metadata or {}).get(SIDE, Side.VALUE.encode()).decode())


@dataclass(slots=True)
class _Placement:
    """``columns``: so far; ``places``: for each arriving field its column's number, -1 while it has none."""

    columns: list[pa.Field]
    places: list[int]
    by_name: dict[str, int] = field(default_factory=dict)
    by_alias: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for number, column in enumerate(self.columns):
            self.by_name[column.name] = number
            self.by_alias.update(dict.fromkeys(list_aliases(column), number))
            self.names.update(name.casefold() for name in (column.name, *list_aliases(column)))

    def find(self, name: str) -> int | None:
        """Return the column that has or had ``name``."""
        return self.by_name.get(name, self.by_alias.get(name))

    def is_free(self, name: str) -> bool:
        """Check whether no column has or had ``name``, in any case."""
        return name.casefold() not in self.names

    def claim(self, name: str) -> bool:
        """Reserve ``name`` for a column that is yet to be added, if it is free."""
        free = self.is_free(name)
        self.names.add(name.casefold())
        return free

    def fits(self, number: int, arriving: pa.Field) -> bool:
        """Check whether the column of that number can be the place of ``arriving``."""
        column = self.columns[number]
        return (
            number not in self.taken
            and find_side(column) is find_side(arriving)
            and _is_same_kind(column.type, arriving.type)
        )

    def take(self, source: int, number: int, arriving: pa.Field) -> None:
        """Make the column of that number the place of ``arriving``, widened for it."""
        column = self.columns[number]
        self.columns[number] = column.with_type(_merge_types(column.type, arriving.type))
        self.places[source] = number
        self.taken.add(number)

    def add(self, source: int, name: str, arriving: pa.Field) -> None:
        """Add a column as the place of ``arriving``."""
        side = find_side(arriving)
        metadata = None if side is Side.VALUE else {SIDE: side.encode()}
        self.columns.append(pa.field(name, _normalize(arriving.type), metadata=metadata))
        number = len(self.columns) - 1
        self.by_name[name] = number
        self.names.add(name.casefold())
        self.places[source] = number
        self.taken.add(number)

    def rename(self, number: int, name: str) -> None:
        """Give the column of that number another name; the former one stays its alias."""
        former = self.columns[number].name
        del self.by_name[former]
        self.by_name[name] = number
        self.columns[number] = self.columns[number].with_name(name)
        self.names.add(name.casefold())
        self.note_alias(number, former)

    def note_alias(self, number: int, alias: str) -> None:
        """Note that the column of that number once had the name ``alias``."""
        column = self.columns[number]
        joined = ",".join([*list_aliases(column), alias]).encode()
        self.columns[number] = column.with_metadata({**(column.metadata or {}), ALIASES: joined})
        self.by_alias[alias] = number
        self.names.add(alias.casefold())


def _place_fields(present: Sequence[pa.Field], writer_fields: Sequence[pa.Field]) -> _Placement:
    arriving = [_rename_field(column) for column in writer_fields]
    placement = _Placement([_keep_notes(column) for column in present], [-1] * len(arriving))
    arriving_names = {column.name for column in arriving}

    def list_waiting() -> Iterator[tuple[int, pa.Field]]:
        return ((source, column) for source, column in enumerate(arriving) if placement.places[source] < 0)

    # One step after another for all fields: whatever the order of the fields, a name counts more than an alias.
    for named in (placement.by_name, placement.by_alias):
        for source, column in list_waiting():
            number = named.get(column.name)
            if number is not None and placement.fits(number, column):
                placement.take(source, number, column)
    for source, column in list_waiting():
        number = _find_renamed(placement, column, arriving_names)
        if number is not None:
            placement.rename(number, column.name)
            placement.take(source, number, column)
    claims = {source for source, column in list_waiting() if placement.claim(column.name)}
    for source, column in list_waiting():
        if source in claims:
            placement.add(source, column.name, column)
        else:
            _place_beside(placement, source, column)
    _note_aliases(placement, arriving, arriving_names)
    return placement


def _find_renamed(placement: _Placement, arriving: pa.Field, arriving_names: set[str]) -> int | None:
    if placement.find(arriving.name) is not None:
        return None
    for alias in list_aliases(arriving):
        number = placement.by_name.get(alias)
        if number is None or alias in arriving_names or not placement.fits(number, arriving):
            continue
        if placement.is_free(arriving.name) or alias.casefold() == arriving.name.casefold():
            return number
    return None


def _place_beside(placement: _Placement, source: int, arriving: pa.Field) -> None:
    for name in _list_second_names(placement, arriving):
        if placement.is_free(name):
            placement.add(source, name, arriving)
            return
        number = placement.find(name)
        if number is not None and placement.fits(number, arriving):
            placement.take(source, number, arriving)
            return


def _list_second_names(placement: _Placement, arriving: pa.Field) -> Iterator[str]:
    """List the names for a field whose name is taken: the reason is in them, and none of them is ever used up."""
    name, number = arriving.name, placement.find(arriving.name)
    if number is not None:
        column = placement.columns[number]
        if find_side(column) is not find_side(arriving):
            name = f"{name}__{find_side(arriving)}"
            yield name
        elif not _is_same_kind(column.type, arriving.type):
            name = f"{name}__{find_kind(arriving.type)}"
            yield name
    count = 2
    while True:
        yield f"{name}__{count}"
        count += 1


def _note_aliases(placement: _Placement, arriving: Sequence[pa.Field], arriving_names: set[str]) -> None:
    """Note former names that no column has, for rows that were written before a rename and arrive after it."""
    for source, column in enumerate(arriving):
        for alias in list_aliases(column):
            if placement.is_free(alias) and alias not in arriving_names:
                placement.note_alias(placement.places[source], alias)


def _rename_field(arriving: pa.Field) -> pa.Field:
    name = _make_usable(arriving.name)
    notes = _keep_notes(arriving).metadata or {}
    aliases = [_make_usable(alias) for alias in list_aliases(arriving)]
    return pa.field(name, arriving.type, metadata={**notes, ALIASES: ",".join(aliases).encode()})


def _make_usable(name: str) -> str:
    """Return ``name`` as a column can have it: SQL and Iceberg take a dot for a way into a struct."""
    return re.sub(r"[.\x00-\x1f\x7f]", "_", name) or "field"


def _keep_notes(column: pa.Field) -> pa.Field:
    notes = {key: text for key, text in (column.metadata or {}).items() if key in (ALIASES, SIDE)}
    return pa.field(column.name, column.type, metadata=notes or None)


def find_kind(kind: pa.DataType) -> str:
    """Name what a column of a type stays for ever; its second column is named after it.

    Raises:
        ValueError: no column has such a type.
    """
    if kind in _WIDTHS:
        return _WIDTHS[kind][0]
    if kind in _KINDS:
        return _KINDS[kind]
    if pa.types.is_decimal128(kind):
        return f"decimal_{kind.scale}"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed_{kind.byte_width}"
    for name, is_kind in (("struct", pa.types.is_struct), ("list", pa.types.is_list), ("map", pa.types.is_map)):
        if is_kind(kind):
            return name
    raise ValueError(f"no column has the type {kind}")


def _is_same_kind(present: pa.DataType, arriving: pa.DataType) -> bool:
    if find_kind(present) != find_kind(arriving):
        return False
    if pa.types.is_list(present):
        return _is_same_kind(present.value_type, arriving.value_type)
    if pa.types.is_map(present):
        return _is_same_kind(present.item_type, arriving.item_type)
    return True


def _merge_types(present: pa.DataType, arriving: pa.DataType) -> pa.DataType:
    """Return the type that holds both, which are of one kind."""
    if pa.types.is_struct(present):
        return merge_row_types(present, arriving)
    if pa.types.is_list(present):
        return make_list(_merge_types(present.value_type, arriving.value_type))
    if pa.types.is_map(present):
        return make_map(_merge_types(present.item_type, arriving.item_type))
    if pa.types.is_decimal128(present):
        return pa.decimal128(max(present.precision, arriving.precision), present.scale)
    if present in _WIDTHS:
        return max(present, arriving, key=lambda kind: _WIDTHS[kind])
    return present


def _normalize(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` as columns have it: names apart within its structs, the same names of elements everywhere."""
    if pa.types.is_struct(kind):
        return merge_row_types(pa.struct([]), kind)
    if pa.types.is_list(kind):
        return make_list(_normalize(kind.value_type))
    if pa.types.is_map(kind):
        return make_map(_normalize(kind.item_type))
    find_kind(kind)
    return kind


def make_list(element: pa.DataType) -> pa.ListType:
    """Return the type of a column of lists."""
    return pa.list_(pa.field("element", element))


def make_map(item: pa.DataType) -> pa.MapType:
    """Return the type of a column of maps."""
    return pa.map_(pa.string(), pa.field("value", item))


def replace_elements(array: pa.Array, elements: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the list or map ``array`` with other elements, as many as it had, as an array of the type ``kind``."""
    # Copied, so that a slice's begin at zero as well: Arrow takes no other together with a mask.
    offsets = pa.array(array.offsets.to_numpy().copy(), pa.int32())
    mask = array.is_null() if array.null_count else None
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)
    return pa.MapArray.from_arrays(offsets, array.keys, elements, type=kind, mask=mask)


def slice_elements(array: pa.Array, elements: list[Any]) -> list[Any]:
    """Return the ``elements`` of each list or map in ``array``, which has as many in all; None where it is null."""
    ends = array.offsets.to_pylist()
    present = array.is_valid().to_pylist()
    return [elements[ends[row] : ends[row + 1]] if present[row] else None for row in range(len(array))]


def build_rows(columns: Sequence[pa.Array], fields: Sequence[pa.Field], rows: pa.StructArray) -> pa.StructArray:
    """Build rows of ``columns``, as many as ``rows`` and null where those are."""
    if not fields:  # of no columns Arrow cannot tell how many rows there are
        return pa.array([None if is_null else {} for is_null in rows.is_null().to_pylist()], pa.struct([]))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=rows.is_null() if rows.null_count else None)


def _project_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.equals(target):
        return array
    if pa.types.is_struct(target):
        return project_rows(array, target)
    if pa.types.is_list(target):
        return replace_elements(array, _project_array(array.values, target.value_type), target)
    if pa.types.is_map(target):
        return replace_elements(array, _project_array(array.items, target.item_type), target)
    return array.cast(target)
