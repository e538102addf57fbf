"""Maps the columns of a typed table to an Iceberg schema, and lets that schema follow them.

A column is its field id: one that is renamed, widened or moved keeps it, also inside structs, lists and maps. The
table's own columns have the ids of the log's columns, so that a table of bytes becomes a typed one, and one again, by
a change of its schema, and :mod:`winnow.log.manifests` reads the entries of both. What is noted of a column (its former
names, and that it comes from the key) is its documentation in the schema.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar, cast

import pyarrow as pa
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from winnow.errors import ForeignTableError
from winnow.files.segments import FIELD_IDS, make_field_id
from winnow.log.table import LOG_SCHEMA, METRICS_PREFIX, make_table_properties
from winnow.values.typed_columns import ALIASES, SIDE, Side, SystemColumn

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortOrder

    from winnow.log.staged_transaction import StagedTransaction

Nested = TypeVar("Nested", StructType, ListType, MapType)

_PRIMITIVES: Final[dict[pa.DataType, PrimitiveType]] = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.uuid(): UUIDType(),
}
_ARROW_TYPES: Final = {primitive: kind for kind, primitive in _PRIMITIVES.items()}
_LOG_COLUMNS: Final = {
    SystemColumn.RAW: "value",
    SystemColumn.RAW_KEY: "key",
    SystemColumn.PARTITION: "partition",
    SystemColumn.OFFSET: "offset",
    SystemColumn.TIMESTAMP: "timestamp",
    SystemColumn.HEADERS: "headers",
}
"""The log's column whose id and type each has; the rest is new."""
_FORMER_NAMES: Final = re.compile(r"formerly (.*)", re.DOTALL)
_FROM_KEY: Final = "from the key"


def is_typed(schema: Schema) -> bool:
    """Check whether ``schema`` is a typed table's."""
    return schema.find_column_name(FIELD_IDS["partition"]) == SystemColumn.PARTITION


def select_decoded_columns(schema: Schema) -> Schema:
    """Return the columns that rows have which were decoded: the topic's, and the place and time of the record."""
    raw = {SystemColumn.RAW, SystemColumn.RAW_KEY, SystemColumn.ERROR, SystemColumn.HEADERS}
    return Schema(*(field for field in schema.fields if field.name not in raw))


def list_required_columns(schema: Schema) -> Schema:
    """Return the columns without which a table of this ``schema`` is none of Winnow's: id, name and type of each."""
    if not is_typed(schema):
        return LOG_SCHEMA
    columns = (SystemColumn.PARTITION, SystemColumn.OFFSET, SystemColumn.TIMESTAMP)
    return Schema(*(_make_system_field(column, schema, count(1)) for column in columns))


def read_columns(schema: Schema) -> pa.StructType:
    """Return the columns that come from keys and values, with what is noted of them; none of a table of bytes.

    Raises:
        ForeignTableError: another program added a column of a type that Winnow does not make.
    """
    return pa.struct([_make_arrow_field(field, with_ids=False) for field in _list_topic_fields(schema)])


def evolve_schema(
    present: Schema, last_column_id: int, columns: pa.StructType, omit: Collection[SystemColumn] = ()
) -> Schema:
    """Return the schema of a typed table with ``columns``, which a table with the schema ``present`` becomes.

    Columns that the table has and ``columns`` has not stay behind them, then come the table's own.

    Args:
        present: the table's schema, typed or not.
        last_column_id: the highest id that the table has ever given.
        columns: as ``winnow.schemas.row_types`` merges them; metadata: former names, and the datum they come from.
        omit: columns of the table's own that it is not to have.

    Raises:
        ValueError: a column would become of a type that Iceberg cannot make of it.
    """
    ids = count(max(last_column_id, LOG_SCHEMA.highest_field_id) + 1)
    fields = _evolve_fields(_list_topic_fields(present), columns, ids)
    system = (column for column in SystemColumn if column not in omit)
    return Schema(*fields, *(_make_system_field(column, present, ids) for column in system))


def build_arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema in which files of a table with this schema are written, with its ids at every level."""
    return pa.schema([_make_arrow_field(field, with_ids=True) for field in schema.fields])


@dataclass(frozen=True, slots=True)
class TypedSchema:
    """The schema of a table, and the highest id of a column that the table ever gave out."""

    schema: Schema = LOG_SCHEMA
    last_column_id: int = LOG_SCHEMA.highest_field_id

    @property
    def columns(self) -> pa.StructType:
        """The columns that come from keys and values (:func:`read_columns`)."""
        return read_columns(self.schema)

    @property
    def error_column_id(self) -> int:
        """The id of the column that says why a row was not decoded."""
        return self.schema.find_field(SystemColumn.ERROR.value).field_id

    def evolve(self, columns: pa.StructType, omit: Collection[SystemColumn] = ()) -> TypedSchema:
        """Return what it becomes with ``columns``; raises ValueError as :func:`evolve_schema`."""
        evolved = evolve_schema(self.schema, self.last_column_id, columns, omit)
        return TypedSchema(evolved, max(self.last_column_id, evolved.highest_field_id))

    def build_arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema in which files are written."""
        return build_arrow_schema(self.schema)


def stage_schema(
    transaction: StagedTransaction, schema: Schema, spec: PartitionSpec, order: SortOrder | None = None
) -> None:
    """Make ``schema``, ``spec`` and ``order`` the table's as part of ``transaction``, before files are added.

    ``order`` None: what the table declares stays.

    Both at once: neither the former spec need have its columns in the new schema, nor the new one in the former. Name
    mapping and metrics follow, so that no program writes bounds of what comes from keys and values. The commit fails if
    another process changed one of them meanwhile.
    """
    metadata = transaction.table_metadata
    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    if schema.fields != metadata.schema().fields:
        updates += _list_schema_updates(metadata, schema)
        requirements += (AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),)
    if spec.spec_id != metadata.default_spec_id:
        if all(known.spec_id != spec.spec_id for known in metadata.partition_specs):
            updates += (AddPartitionSpecUpdate(spec=spec),)
        updates += (SetDefaultSpecUpdate.model_validate({"spec-id": spec.spec_id}),)
        requirements += (AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),)
    if order is not None and order.order_id != metadata.default_sort_order_id:
        if all(known.order_id != order.order_id for known in metadata.sort_orders):
            updates += (AddSortOrderUpdate.model_validate({"sort-order": order}),)
        updates += (SetDefaultSortOrderUpdate.model_validate({"sort-order-id": order.order_id}),)
        known_id = {"default-sort-order-id": metadata.default_sort_order_id}
        requirements += (AssertDefaultSortOrderId.model_validate(known_id),)
    if updates:
        transaction._apply(updates, requirements)


def _list_schema_updates(metadata: TableMetadata, schema: Schema) -> tuple[TableUpdate, ...]:
    properties = make_table_properties(schema)
    outdated = [name for name in metadata.properties if name.startswith(METRICS_PREFIX) and name not in properties]
    known = next((known for known in metadata.schemas if known.fields == schema.fields), None)
    if known is None:
        number = max(known.schema_id for known in metadata.schemas) + 1
        updates: tuple[TableUpdate, ...] = (
            AddSchemaUpdate(schema=Schema(*schema.fields, schema_id=number)),
            SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
        )
    else:
        updates = (SetCurrentSchemaUpdate.model_validate({"schema-id": known.schema_id}),)
    if outdated:
        updates += (RemovePropertiesUpdate(removals=outdated),)
    changed = {name: text for name, text in properties.items() if metadata.properties.get(name) != text}
    if changed:
        updates += (SetPropertiesUpdate(updates=changed),)
    return updates


def _list_topic_fields(schema: Schema) -> list[NestedField]:
    own = {*FIELD_IDS.values()}
    return [field for field in schema.fields if field.field_id not in own and field.name != SystemColumn.ERROR]


def _make_system_field(column: SystemColumn, present: Schema, ids: Iterator[int]) -> NestedField:
    if column in _LOG_COLUMNS:
        field = LOG_SCHEMA.find_field(_LOG_COLUMNS[column])
        return NestedField(field.field_id, column.value, field.field_type, required=False)
    known = next((field for field in present.fields if field.name == column), None)
    number = next(ids) if known is None else known.field_id
    return NestedField(number, column.value, StringType(), required=False)


def _evolve_fields(
    present: Iterable[NestedField], columns: Iterable[pa.Field], ids: Iterator[int]
) -> list[NestedField]:
    waiting = {field.name: field for field in present}
    fields = []
    renamed: list[tuple[int, pa.Field]] = []
    for number, column in enumerate(columns):
        known = waiting.pop(column.name, None)
        if known is None:
            renamed.append((number, column))
        fields.append(None if known is None else _evolve_field(known, column, ids))
    # A name counts more than a former name, so these come second.
    for number, column in renamed:
        former = [name for name in _read_aliases(column) if name in waiting]
        fields[number] = _evolve_field(waiting.pop(former[-1]) if former else None, column, ids)
    return [*cast("list[NestedField]", fields), *waiting.values()]


def _evolve_field(present: NestedField | None, column: pa.Field, ids: Iterator[int]) -> NestedField:
    number = next(ids) if present is None else present.field_id
    kind = _evolve_type(None if present is None else present.field_type, column.type, ids)
    return NestedField(number, column.name, kind, required=False, doc=_write_notes(column))


def _evolve_type(present: IcebergType | None, kind: pa.DataType, ids: Iterator[int]) -> IcebergType:
    if pa.types.is_struct(kind):
        struct = _require(present, StructType)
        return StructType(*_evolve_fields(() if struct is None else struct.fields, kind, ids))
    if pa.types.is_list(kind):
        array = _require(present, ListType)
        return ListType(
            element_id=next(ids) if array is None else array.element_id,
            element_type=_evolve_type(None if array is None else array.element_type, kind.value_type, ids),
            element_required=False,
        )
    if pa.types.is_map(kind):
        mapping = _require(present, MapType)
        return MapType(
            key_id=next(ids) if mapping is None else mapping.key_id,
            key_type=StringType(),
            value_id=next(ids) if mapping is None else mapping.value_id,
            value_type=_evolve_type(None if mapping is None else mapping.value_type, kind.item_type, ids),
            value_required=False,
        )
    primitive = make_primitive(kind)
    return primitive if present is None else _promote(present, primitive)


def _require(present: IcebergType | None, kind: type[Nested]) -> Nested | None:
    if present is not None and not isinstance(present, kind):
        raise ValueError(f"Iceberg cannot make {kind.__name__} of {present}")
    return present


def _promote(present: IcebergType, primitive: PrimitiveType) -> IcebergType:
    if present == primitive:
        return present
    if not isinstance(present, StringType | BinaryType):  # these Iceberg takes for one another
        with suppress(ResolveError):
            return promote(present, primitive)
    raise ValueError(f"Iceberg cannot make {primitive} of {present}")


def make_primitive(kind: pa.DataType) -> PrimitiveType:
    """Return the type of a column of ``kind``.

    Raises:
        ValueError: no column has it, or it is a struct, a list or a map.
    """
    if pa.types.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    if kind not in _PRIMITIVES:
        raise ValueError(f"no column has the type {kind}")
    return _PRIMITIVES[kind]


def _make_arrow_field(field: NestedField, *, with_ids: bool) -> pa.Field:
    metadata = make_field_id(field.field_id) if with_ids else _read_notes(field)
    return pa.field(field.name, _make_arrow_type(field.field_type, with_ids=with_ids), metadata=metadata)


def _make_arrow_type(kind: IcebergType, *, with_ids: bool) -> pa.DataType:
    match kind:
        case StructType(fields=fields):
            return pa.struct([_make_arrow_field(field, with_ids=with_ids) for field in fields])
        case ListType():
            element = _make_arrow_type(kind.element_type, with_ids=with_ids)
            return pa.list_(pa.field("element", element, metadata=make_field_id(kind.element_id) if with_ids else None))
        case MapType():
            item = _make_arrow_type(kind.value_type, with_ids=with_ids)
            key_metadata, item_metadata = (
                (make_field_id(kind.key_id), make_field_id(kind.value_id)) if with_ids else (None, None)
            )
            key = pa.field("key", pa.string(), nullable=False, metadata=key_metadata)
            return pa.map_(key, pa.field("value", item, metadata=item_metadata))
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case FixedType():
            return pa.binary(len(kind))
        case PrimitiveType() if kind in _ARROW_TYPES:
            return _ARROW_TYPES[kind]
    raise ForeignTableError(
        f"A table of the latest state has a column of the type {kind}, which Winnow does not make.",
        left="The table was left as it is.",
        next="Drop that column by the program that added it, or the table: winnow latest-table drop TOPIC",
    )


def _read_aliases(column: pa.Field) -> list[str]:
    text = (column.metadata or {}).get(ALIASES, b"").decode()
    return text.split(",") if text else []


def _write_notes(column: pa.Field) -> str | None:
    notes = [_FROM_KEY] if (column.metadata or {}).get(SIDE) == Side.KEY.encode() else []
    aliases = _read_aliases(column)
    notes += [f"formerly {','.join(aliases)}"] if aliases else []
    return "; ".join(notes) or None


def _read_notes(field: NestedField) -> dict[bytes, bytes] | None:
    text = field.doc or ""
    notes = {SIDE: Side.KEY.encode()} if text.startswith(_FROM_KEY) else {}
    former = _FORMER_NAMES.fullmatch(text.removeprefix(_FROM_KEY).removeprefix("; "))
    if former is not None:
        notes[ALIASES] = former[1].encode()
    return notes or None
