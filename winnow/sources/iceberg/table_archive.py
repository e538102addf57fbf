"""A table of another program as an archive: each data file is an object, read by the columns that were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.sources.archive import Archive
from winnow.sources.envelope import make_chunk, read_content
from winnow.sources.formats.batches import number_batches
from winnow.sources.formats.column_values import make_topics
from winnow.sources.formats.rows import ArrowRows
from winnow.sources.formats.timestamps import to_milliseconds
from winnow.sources.iceberg.column_map import ColumnMap
from winnow.sources.iceberg.source_table import SourceTable, TableFile
from winnow.sources.input_errors import Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Layout
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

NAME = "iceberg"

DESCRIPTION = Description(
    title="An Iceberg table of another program",
    recognised_by="`winnow ingest iceberg TOPIC CATALOG.NAMESPACE.TABLE`, or the path of the table's folder or of a "
    "metadata file. Columns are found by name: those of Spark's Kafka source, or `_kafka_metadata_topic`, "
    "`_kafka_metadata_partition`, `_kafka_metadata_offset`, `_kafka_metadata_timestamp` of Iceberg's own sink (also as "
    "members of `_kafka_metadata`); `--map FIELD=COLUMN` names others.",
    loses=(
        "keys and tombstones, with Iceberg's own sink: it drops them; `--map key=COLUMN` takes the key from a column",
        "headers, unless there is a column for them",
        "the bytes of the value, where its fields are columns: it becomes JSON text",
    ),
    settings=(
        "transforms=metadata",
        "transforms.metadata.type=org.apache.iceberg.connect.transforms.KafkaMetadataTransform",
    ),
    settings_note="Iceberg's own sink writes offsets and partitions only with its KafkaMetadataTransform; keys, "
    "tombstones and headers never. Spark can write all of them: its Kafka source as it is, appended to a table.",
)


def make_table_archive(table: SourceTable, files: Sequence[TableFile], columns: ColumnMap) -> Archive:
    """Make an archive of data files; those with lower offsets come first."""
    by_uri = {file.uri: file for file in files}

    def read(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
        return read_records(table, by_uri[archive.uri], columns, options)

    ordered = sorted(files, key=lambda file: (table.find_extent(file, columns.fields["offset"])[0] or 0, file.uri))
    stored = tuple(StoredObject(file.uri, file.size_bytes) for file in ordered)
    forms = {"value": FieldForm.JSON if columns.row else FieldForm.BYTES}
    objects = tuple(ArchiveObject(NAME, obj.uri, {"value": obj}, forms=forms) for obj in stored)
    layout = Layout(NAME, DESCRIPTION, None, lambda _: Arrangement(objects), read)
    return Archive(layout, objects, stored)


def read_records(
    table: SourceTable, file: TableFile, columns: ColumnMap, options: ReadOptions
) -> Iterator[RecordChunk]:
    """Yield the records of a data file; ``row`` is the row.

    Raises:
        BadInputError: the file cannot be read, or a row is no record: it has no offset or no partition.
        ServiceError: the table's storage cannot be reached.
    """
    for place, batch in number_batches(file.uri, "row", table.read(file, columns.columns, options.batch_bytes)):
        yield _convert_batch(place, batch, columns, options)


def count_table_partitions(table: SourceTable, files: Sequence[TableFile], columns: ColumnMap) -> int:
    """Return the number of partitions that the records of ``files`` have at least; read where bounds do not tell."""
    path = columns.fields["partition"]
    highest = -1
    for file in files:
        _, bound = table.find_extent(file, path)
        if bound is not None:
            highest = max(highest, bound)
            continue
        for batch in table.read(file, path[:1], ReadOptions().batch_bytes):
            found = pc.max(_get_column(batch, path)).as_py()
            highest = max(highest, -1 if found is None else int(found))
    return highest + 1


def _convert_batch(place: Place, batch: pa.RecordBatch, columns: ColumnMap, options: ReadOptions) -> RecordChunk:
    fields = {name: _get_column(batch, path) for name, path in columns.fields.items()}
    for name in ("partition", "offset"):
        if fields[name].null_count:
            index = pc.index(fields[name].is_null(), True).as_py()
            raise place.make_error(index, f"it has no {name}", f"name another column with --map {name}=COLUMN")
    rows = ArrowRows(batch)
    content = read_content(place, rows, {name: ".".join(path) for name, path in columns.fields.items()})
    if columns.row:
        content["value"] = rows.render(place, set(rows.names) - set(columns.row))
        content["structured"].add("value")
    return make_chunk(
        place,
        **content,
        partition=fields["partition"],
        offset=fields["offset"],
        timestamp=_read_timestamps(place, fields.get("timestamp"), options),
        timestamp_type=fields.get("timestampType"),
        topics=make_topics(place, fields.get("topic")),
    )


def _get_column(batch: pa.RecordBatch, path: Sequence[str]) -> Any:
    column = batch.column(path[0])
    return pc.struct_field(column, path[1]) if len(path) > 1 else column


def _read_timestamps(place: Place, column: Any, options: ReadOptions) -> Any:
    if column is None:
        return None
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        return to_milliseconds(place, column, options.floors_timestamps)
    wrong = f"its column for timestamps is of type {str(column.type)[:80]}"
    advice = "it must be a timestamp, or an integer of milliseconds; name another with --map timestamp=COLUMN"
    raise make_file_error(place.uri, wrong, advice)
