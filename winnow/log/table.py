"""Maps a topic to an Iceberg table: schema, partition spec, properties, and data-file entries for segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestamptzType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from winnow.config.kafka_settings import KafkaRecord
from winnow.files.placed_files import FilePlace
from winnow.files.segments import FIELD_IDS, HEADER_KEY_ID, HEADER_VALUE_ID, HEADERS_ELEMENT_ID
from winnow.log.recorded_configuration import PARTITIONS_PROPERTY, make_initial_property, make_kafka_property
from winnow.values.latest_layout import TableLayout
from winnow.values.model import Segment
from winnow.values.typed_columns import SystemColumn

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyiceberg.table.metadata import TableMetadata

TOPIC_PROPERTY = "winnow.topic"
"""Says that a table or a view is Winnow's, and of which topic: a catalog's name for it may ignore case."""
FENCE_PROPERTY = "winnow.fence"
"""An integer that only grows (:mod:`winnow.log.fence`). A rollback of the table does not reset properties."""
LEAST_METADATA_NUMBER_PROPERTY = "winnow.least.metadata.number"
"""The next metadata file gets no lower number, in catalogs that name them by :mod:`winnow.log.sql_catalog`."""
METRICS_PREFIX = "write.metadata.metrics.column."
"""Begins the properties that say of single columns what other programs may write about their values."""
_PARTITION, _OFFSET, _TIMESTAMP = FIELD_IDS["partition"], FIELD_IDS["offset"], FIELD_IDS["timestamp"]
_KEY, _VALUE, _TIMESTAMP_TYPE = FIELD_IDS["key"], FIELD_IDS["value"], FIELD_IDS["timestampType"]

_HEADERS = ListType(
    element_id=HEADERS_ELEMENT_ID,
    element_type=StructType(
        NestedField(HEADER_KEY_ID, "key", StringType(), required=False),
        NestedField(HEADER_VALUE_ID, "value", BinaryType(), required=False),
    ),
    element_required=False,
)

LOG_SCHEMA = Schema(
    NestedField(_PARTITION, "partition", IntegerType(), required=False),
    NestedField(_OFFSET, "offset", LongType(), required=False),
    NestedField(_TIMESTAMP, "timestamp", TimestamptzType(), required=False),
    NestedField(_TIMESTAMP_TYPE, "timestampType", IntegerType(), required=False),
    NestedField(_KEY, "key", BinaryType(), required=False),
    NestedField(_VALUE, "value", BinaryType(), required=False),
    NestedField(FIELD_IDS["headers"], "headers", _HEADERS, required=False),
)
"""The columns of Spark's Kafka source, all optional (see :mod:`winnow.files.segments`)."""

BOUNDED_IDS = frozenset({_PARTITION, _OFFSET, _TIMESTAMP})
"""The columns of which every table's metadata have bounds."""
_MAXIMUM_BOUND_CHARACTERS = 16

LOG_SPEC = PartitionSpec(PartitionField(_PARTITION, 1000, IdentityTransform(), "partition"))

LOG_SORT_ORDER = SortOrder(
    *(
        SortField(source_id=each, transform=IdentityTransform(), direction=SortDirection.ASC)
        for each in (_PARTITION, _OFFSET)
    ),
    order_id=1,
)
"""The order of the records in every file. It is declared for readers; Winnow's own commits do not rely on it."""


def matches_layout(spec: PartitionSpec, layout: TableLayout) -> bool:
    """Check whether a table with ``spec`` is partitioned by the topic partition, and then as ``layout`` says."""
    first = [(known.source_id, known.field_id, str(known.transform)) for known in spec.fields[:1]]
    rest = [str(known.transform) for known in spec.fields[1:]]
    own = [(known.source_id, known.field_id, str(known.transform)) for known in LOG_SPEC.fields]
    return first == own and rest == [term.transform_name for term in layout.terms]


def declare_sort_order(transaction: Transaction) -> None:
    """Declare the order of the records, as part of ``transaction``; a table that declares any order keeps it."""
    if transaction.table_metadata.default_sort_order_id != UNSORTED_SORT_ORDER_ID:
        return
    with transaction.update_sort_order() as order:
        for each in LOG_SORT_ORDER.fields:
            name = LOG_SCHEMA.find_column_name(each.source_id)
            assert name is not None
            order.asc(name, each.transform, each.null_order)


def make_log_properties(
    partitions: int,
    overrides: Mapping[str, str],
    schema: Schema = LOG_SCHEMA,
    *,
    kafka: KafkaRecord | None = None,
) -> dict[str, str]:
    """Make a log's table properties at creation: its configuration, and those of :func:`make_table_properties`.

    ``kafka``: what is known of the topic's configuration at Kafka; None: it does not come from there.
    """
    configuration = {
        PARTITIONS_PROPERTY: str(partitions),
        **overrides,
        **({} if kafka is None else make_kafka_property(kafka)),
    }
    return {**make_initial_property(configuration), **make_table_properties(schema), **configuration}


def make_table_properties(schema: Schema = LOG_SCHEMA) -> dict[str, str]:
    """Make table properties: no bounds of user bytes, name mapping, snapshot isolation, no retries."""
    metrics = {_PARTITION: "full", _OFFSET: "full", _TIMESTAMP: "full", _KEY: "counts", _VALUE: "counts"}
    metrics[FIELD_IDS["headers"]] = "counts"
    names = {field.field_id: field.name for field in schema.fields}
    return {
        "schema.name-mapping.default": schema.name_mapping.model_dump_json(),
        "write.metadata.metrics.default": "counts",
        **{f"{METRICS_PREFIX}{names[number]}": mode for number, mode in metrics.items() if number in names},
        "write.delete.isolation-level": "snapshot",
        "write.update.isolation-level": "snapshot",
        "write.parquet.compression-codec": "zstd",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
        # PyIceberg's own retry accepts the same offsets from two writers and swaps over a concurrent append with an
        # old summary; Winnow's commit loop re-reads the state instead.
        "commit.retry.num-retries": "0",
    }


def find_sort_order_id(metadata: TableMetadata) -> int | None:
    """Return the id of the order in which Winnow writes, if it is the one that the table declares."""
    declared = next(each for each in metadata.sort_orders if each.order_id == metadata.default_sort_order_id)
    return declared.order_id if declared.fields == LOG_SORT_ORDER.fields else None


def make_data_file(metadata: TableMetadata, segment: Segment, place: FilePlace | None = None) -> DataFile:
    """Make the manifest entry of a segment from figures counted while it was written; its footer is not read again.

    Bounds are given for partition, offset and timestamp only, and those of ``place``: key and value appear as counts.
    Of a typed table, where their ids are those of what could not be decoded, they do not appear. ``place``: where the
    file is in a table that is partitioned by more than the topic partition.
    """
    place = place or FilePlace(())
    counted = [_PARTITION, _OFFSET, _TIMESTAMP, _TIMESTAMP_TYPE, _KEY, _VALUE]
    nulls = {_PARTITION: 0, _OFFSET: 0, _KEY: segment.keyless, _VALUE: segment.tombstones}
    if metadata.schema().find_column_name(_PARTITION) == SystemColumn.PARTITION:
        counted = [_PARTITION, _OFFSET, _TIMESTAMP]
        nulls = {_PARTITION: 0, _OFFSET: 0}
    counts = dict.fromkeys(counted, segment.records)
    lower = {
        _PARTITION: to_bytes(IntegerType(), segment.partition),
        _OFFSET: to_bytes(LongType(), segment.first_offset),
    }
    upper = {
        _PARTITION: to_bytes(IntegerType(), segment.partition),
        _OFFSET: to_bytes(LongType(), segment.last_offset),
    }
    if segment.min_timestamp_ms is not None and segment.max_timestamp_ms is not None:
        lower[_TIMESTAMP] = to_bytes(TimestamptzType(), segment.min_timestamp_ms * 1000)
        upper[_TIMESTAMP] = to_bytes(TimestamptzType(), segment.max_timestamp_ms * 1000)
    for number, (low, high) in place.bounds.items():
        lower[number], greatest = _make_bounds(metadata.schema().find_type(number), low, high)
        if greatest is not None:
            upper[number] = greatest
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=segment.path,
        file_format=FileFormat.PARQUET,
        partition=Record(segment.partition, *place.values),
        record_count=segment.records,
        file_size_in_bytes=segment.size_bytes,
        column_sizes={},
        value_counts=counts,
        null_value_counts=nulls,
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds=upper,
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=metadata.default_sort_order_id if place.is_sorted else find_sort_order_id(metadata),
    )
    file.spec_id = metadata.default_spec_id
    return file


def _make_bounds(kind: IcebergType, low: Any, high: Any) -> tuple[bytes, bytes | None]:
    """Encode bounds, those of text cut as other programs do it; None: no text of that length is above all values."""
    assert isinstance(kind, PrimitiveType)
    if not isinstance(kind, StringType):
        return to_bytes(kind, low), to_bytes(kind, high)
    cut = truncate_upper_bound_text_string(high, _MAXIMUM_BOUND_CHARACTERS)
    try:
        return low[:_MAXIMUM_BOUND_CHARACTERS].encode(), None if cut is None else cut.encode()
    except UnicodeEncodeError:  # the next character is none
        return low[:_MAXIMUM_BOUND_CHARACTERS].encode(), None
