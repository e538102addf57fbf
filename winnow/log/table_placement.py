"""Distributes the rows of a typed table to files by its layout, and makes the table's partition fields of it.

The first partition field is the topic partition, as of any table of Winnow's; those of the layout follow. A column is
found by its field id as soon as it has one, so a renamed one stays what the table is partitioned by. Before there is
such a column, and where it is null, a row belongs to the place null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from winnow.errors import ConfigurationError
from winnow.files.placed_files import Bounds, FilePlace, PlaceValues
from winnow.files.segments import FIELD_ID_KEY
from winnow.files.sorted_rows import SortKey
from winnow.log.table import LOG_SORT_ORDER, LOG_SPEC
from winnow.log.typed_schema import make_primitive
from winnow.values.latest_layout import PartitionTerm, TableLayout
from winnow.values.latest_layout import Transform as LayoutTransform

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

MAXIMUM_FILES: Final = 10_000
"""Maximum files that one update writes of one topic partition."""
_LISTED_COLUMNS: Final = 20
_LEFT: Final = "The table of its latest state is as before."
_OF_VALUES: Final = (
    *(BooleanType, IntegerType, LongType, DateType, TimestampType, TimestamptzType, StringType, DecimalType),
)
"""Types whose values name a place themselves. Of floats equal values may be different bytes."""
_UNORDERED: Final = (UUIDType, FixedType, BinaryType, BooleanType)
"""Types of which there are no bounds: programs order them differently, or they say nothing."""
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a term's column is in rows of one schema. ``steps``: numbers of fields, from the outermost."""

    steps: tuple[int, ...]
    names: tuple[str, ...]
    field_id: int
    kind: IcebergType
    transform: Transform[Any, Any]

    def read(self, rows: pa.RecordBatch) -> pa.Array:
        """Read the column, null also where a struct around it is null."""
        column = rows.column(self.steps[0])
        return pc.struct_field(column, list(self.steps[1:])) if self.steps[1:] else column


@dataclass(slots=True)
class TablePlacement:
    """Which rows of one table go into one file.

    ``field_ids``: of each term's column, those of the order last, where the table is laid out so already. ``places``:
    of the table's files, and of those that are written.
    """

    topic: str
    layout: TableLayout
    field_ids: list[int | None]
    places: dict[str, FilePlace] = field(default_factory=dict)
    _schema: pa.Schema = None
    _sources: list[_Source | None] = field(default_factory=list)
    _numbers: dict[PlaceValues, int] = field(default_factory=dict)

    @property
    def is_sorted(self) -> bool:
        """Whether rows come in another order than that of offsets."""
        return bool(self.layout.order)

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[PlaceValues, pa.RecordBatch]]:
        """Split ``rows`` by their place, each part in the order of before.

        Raises:
            ConfigurationError: a column has a type that its transform cannot take.
        """
        if not self.layout.terms:
            yield (), rows
            return
        distinct, inverse = self._number_places(rows)
        order = np.argsort(inverse, kind="stable")
        ends = np.cumsum(np.bincount(inverse, minlength=len(distinct)))
        begin = 0
        for values, end in zip(distinct, ends.tolist(), strict=True):
            # Copied, so that rows that wait do not keep the whole batch.
            yield values, rows if len(distinct) == 1 else rows.take(pa.array(order[begin:end]))
            begin = end

    def list_sort_keys(self, rows: pa.RecordBatch) -> list[SortKey]:
        """List the columns by which ``rows`` are sorted, beginning with their place, so that its files follow."""
        numbers = np.zeros(rows.num_rows, np.int64)
        if self.layout.terms:
            distinct, inverse = self._number_places(rows)
            numbers = np.array([self._numbers.setdefault(values, len(self._numbers)) for values in distinct])[inverse]
        keys = [SortKey(pa.array(numbers))]
        sources = self._find_sources(rows.schema)[len(self.layout.terms) :]
        for term, source in zip(self.layout.order, sources, strict=True):
            column = pa.nulls(rows.num_rows, pa.int64()) if source is None else source.read(rows)
            keys.append(SortKey(column, term.is_descending, term.has_nulls_last))
        return keys

    def _number_places(self, rows: pa.RecordBatch) -> tuple[list[PlaceValues], npt.NDArray[np.int64]]:
        """Return the places of ``rows``, and which of them each row has."""
        parts = [_transform(source, rows) for source in self._find_sources(rows.schema)[: len(self.layout.terms)]]
        numbers = np.stack([codes for _, codes in parts], axis=1)
        distinct, inverse = np.unique(numbers, axis=0, return_inverse=True)
        places = [
            tuple(known[code] for (known, _), code in zip(parts, codes, strict=True)) for codes in distinct.tolist()
        ]
        return places, inverse.reshape(-1)

    def measure(self, rows: pa.RecordBatch) -> Bounds:
        """Measure the bounds of the layout's columns, by field id."""
        bounds = {}
        for source in self._find_sources(rows.schema):
            if source is not None and not isinstance(source.kind, _UNORDERED):
                ends = pc.min_max(source.read(rows))
                low, high = (_list_values(pa.array([end], end.type))[0] for end in (ends["min"], ends["max"]))
                if low is not None:
                    bounds[source.field_id] = (low, high)
        return bounds

    def list_columns(self, schema: pa.Schema) -> list[str]:
        """List the layout's columns of which files have statistics, as Parquet names them."""
        sources = [source for source in self._find_sources(schema) if source is not None]
        names = [".".join(source.names) for source in sources if not isinstance(source.kind, _UNORDERED)]
        return list(dict.fromkeys(names))

    def require_few_files(self, partition: int, files: int) -> None:
        """Check that an update does not write too many files of one topic partition.

        Raises:
            ConfigurationError: it does.
        """
        if files > MAXIMUM_FILES:
            raise ConfigurationError(
                f"The table of the latest state of topic {self.topic}, partitioned by {self.layout}, would have more "
                f"than {MAXIMUM_FILES:,} files of its partition {partition}.",
                left=_LEFT,
                next=f"Take coarser terms: winnow topics alter {self.topic} --config winnow.latest.partition_by=TERMS",
            )

    def require_columns(self, schema: pa.Schema) -> None:
        """Check that there is a column for each term in the ``schema`` that the table is to have.

        Raises:
            ConfigurationError: one is missing, or of a type that its transform cannot take.
        """
        for number, source in enumerate(self._find_sources(schema)):
            if source is None:
                raise self._make_error(number, f"names {self._terms[number].column}, which is no column", schema)

    def _find_sources(self, schema: pa.Schema) -> list[_Source | None]:
        if self._schema is None or not schema.equals(self._schema, check_metadata=True):
            self._sources = [self._find_source(number, schema) for number in range(len(self._terms))]
            self._schema = schema
        return self._sources

    @property
    def _terms(self) -> list[PartitionTerm]:
        order = (PartitionTerm(LayoutTransform.IDENTITY, term.column) for term in self.layout.order)
        return [*self.layout.terms, *order]

    def _find_source(self, number: int, schema: pa.Schema) -> _Source | None:
        term, field_id = self._terms[number], self.field_ids[number]
        for names, steps, column in _walk(schema):
            if _read_id(column) == field_id or (field_id is None and ".".join(names) == term.column):
                self.field_ids[number] = _read_id(column)
                transform = parse_transform(term.transform_name)
                kind = self._require_type(number, transform, column, schema)
                return _Source(steps, names, _read_id(column), kind, transform)
        return None

    def _require_type(
        self, number: int, transform: Transform[Any, Any], column: pa.Field, schema: pa.Schema
    ) -> IcebergType:
        try:
            kind: IcebergType | None = make_primitive(column.type)
        except ValueError:  # a struct, a list or a map
            kind = None
        is_of_values = isinstance(transform, BucketTransform) or isinstance(kind, _OF_VALUES)
        if kind is None or not is_of_values or not transform.can_transform(kind):
            term = self._terms[number]
            wrong = f"has {term}, and {term.column} is of the type {_name_type(column.type)}"
            raise self._make_error(number, wrong, schema)
        return kind

    def _make_error(self, number: int, wrong: str, schema: pa.Schema) -> ConfigurationError:
        names = [".".join(names) for names, _, column in _walk(schema) if not pa.types.is_struct(column.type)]
        names = [name for name in names if not name.startswith("__")]
        listed = ", ".join(names[:_LISTED_COLUMNS]) + (", …" if len(names) > _LISTED_COLUMNS else "")
        key = "partition_by" if number < len(self.layout.terms) else "sort_by"
        return ConfigurationError(
            f"winnow.latest.{key} of topic {self.topic} {wrong}; the table's columns are {listed or 'none'}.",
            left=_LEFT,
            next=f"Name others: winnow topics alter {self.topic} --config winnow.latest.{key}=TERMS",
        )


def make_partition_spec(metadata: TableMetadata, placement: TablePlacement | None) -> PartitionSpec:
    """Make the spec of a table with ``placement``: one that it had, or a new one. None: by topic partition alone.

    No column of the topic's can have the name of one of its fields.
    """
    terms = () if placement is None else placement.layout.terms
    number = metadata.last_partition_id or LOG_SPEC.last_assigned_field_id
    given = {
        (known.source_id, str(known.transform)): known.field_id
        for spec in metadata.partition_specs
        for known in spec.fields
    }
    fields = list(LOG_SPEC.fields)
    for place, term in enumerate(terms):
        source_id = None if placement is None else placement.field_ids[place]
        assert source_id is not None
        field_id = given.get((source_id, term.transform_name))
        if field_id is None:
            number += 1
            field_id = number
        name = _name_partition_field(term, {known.name for known in fields})
        fields.append(PartitionField(source_id, field_id, parse_transform(term.transform_name), name))
    same = next((spec for spec in metadata.partition_specs if list(spec.fields) == fields), None)
    if same is not None:
        return same
    return PartitionSpec(*fields, spec_id=max(spec.spec_id for spec in metadata.partition_specs) + 1)


def make_sort_order(metadata: TableMetadata, placement: TablePlacement | None) -> SortOrder:
    """Make the order that a table with ``placement`` declares: one that it had, or a new one. Offsets decide last."""
    fields = list(LOG_SORT_ORDER.fields)
    if placement is not None and placement.is_sorted:
        field_ids = placement.field_ids[len(placement.layout.terms) :]
        fields = [
            SortField(
                source_id=field_id,
                transform=IdentityTransform(),
                direction=SortDirection.DESC if term.is_descending else SortDirection.ASC,
                null_order=NullOrder.NULLS_LAST if term.has_nulls_last else NullOrder.NULLS_FIRST,
            )
            for term, field_id in zip(placement.layout.order, field_ids, strict=True)
        ] + fields[1:]
    same = next((order for order in metadata.sort_orders if list(order.fields) == fields), None)
    return same or SortOrder(*fields, order_id=max(order.order_id for order in metadata.sort_orders) + 1)


def _name_partition_field(term: PartitionTerm, taken: set[str]) -> str:
    # Names that begin so are the table's own (winnow.schemas.column_names), and no column of those has such an end.
    width = f"_{term.width}" if term.width else ""
    name = f"__{_UNUSUAL.sub('_', term.column).strip('_')}_{term.transform}{width}"
    while name in taken:
        name += "_"
    return name


def _transform(source: _Source | None, rows: pa.RecordBatch) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Return the distinct values of a partition field in ``rows``, null the last of them, and which each row has."""
    if source is None:
        return [None], np.zeros(rows.num_rows, np.int64)
    column = source.read(rows)
    encoded = (column.storage if isinstance(column, pa.ExtensionArray) else column).dictionary_encode()
    transform = source.transform.transform(source.kind)
    results = [transform(value) for value in _list_values(encoded.dictionary)]
    known = {result: number for number, result in enumerate(dict.fromkeys(results))}
    numbers = np.array([*(known[result] for result in results), len(known)], np.int64)
    codes = encoded.indices.fill_null(len(results)).to_numpy(zero_copy_only=False)
    return [*known, None], numbers[codes]


def _list_values(column: pa.Array) -> list[Any]:
    """List the values as Iceberg's transforms take them: times as numbers, since Python has fewer years."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return list(column.to_pylist())


def _walk(
    fields: Sequence[pa.Field], names: tuple[str, ...] = (), steps: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...], pa.Field]]:
    for number, column in enumerate(fields):
        place = (*names, column.name), (*steps, number), column
        yield place
        if pa.types.is_struct(column.type):
            yield from _walk(list(column.type), place[0], place[1])


def _read_id(column: pa.Field) -> int:
    return int((column.metadata or {})[FIELD_ID_KEY])


def _name_type(kind: pa.DataType) -> str:
    return "struct" if pa.types.is_struct(kind) else "list" if pa.types.is_list(kind) else str(kind)
