"""What Spark writes of the records of its Kafka source, as Parquet and as JSON lines: ``part-…``, in ``column=value``.

Columns are those of the source; headers, timestampType and topic may be missing, and columns that are folders are not
in the files. JSON has binary columns as base64, leaves null columns out, and has timestamps as ISO 8601 text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from msgspec import UNSET

from winnow.sources.envelope import make_chunk, read_content, repeat_partition
from winnow.sources.formats.batches import number_batches
from winnow.sources.formats.column_values import find_form, make_topics
from winnow.sources.formats.compression import START_BYTES, read_start
from winnow.sources.formats.content_names import list_members
from winnow.sources.formats.json_records import UNREADABLE, JsonRecords, make_integers
from winnow.sources.formats.lines import find_first_line, read_lines
from winnow.sources.formats.parquet import MAGIC, read_parquet_batches, read_parquet_schema
from winnow.sources.formats.rows import ArrowRows
from winnow.sources.formats.timestamps import to_milliseconds
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Finding, FindingKind, Layout, find_largest, list_files
from winnow.sources.objects import MAYBE_BASE64, ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

_FOLDER = re.compile(r"(?P<column>[^=/]+)=(?P<value>[^/]*)")
_FILE = re.compile(r"part-[0-9r-]+[0-9a-f-]*.*\.(?:json|parquet)(?:\.\w+)?|part-.*\.(?:json|parquet)")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_NUMBER = re.compile(r"\d{1,10}")
_MAXIMUM_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SparkName:
    """What a path tells: the values of the columns that are folders."""

    topic: str | None
    partition: int | None


def is_spark_file(name: str) -> bool:
    """Check whether Spark calls its files so."""
    return bool(_FILE.fullmatch(name))


def parse_path(path: str) -> SparkName:
    """Return what the folders of ``path`` tell; ``%3A`` and the like stand for characters that folders cannot have."""
    columns = {}
    for part in path.split("/")[:-1]:
        found = _FOLDER.fullmatch(part)
        if found:
            columns[unquote(found["column"])] = unquote(found["value"])
    topic = columns.get("topic")
    number = columns.get("partition", "")
    partition = int(number) if _NUMBER.fullmatch(number) else None
    return SparkName(
        None if topic in (None, "", _NULL) else topic,
        partition if partition is not None and partition <= _MAXIMUM_PARTITION else None,
    )


COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers", "topic")


_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def find_spark_forms(obj: StoredObject) -> dict[str, FieldForm] | None:
    """Return how ``obj`` holds those of key, value and headers that it has; None if it is not what Spark writes.

    Raises:
        BadInputError: the object cannot be read, or is damaged or cut off there.
        ServiceError: an object store cannot be reached.
    """
    start = read_start(obj, START_BYTES)
    if start.startswith(MAGIC):
        schema = read_parquet_schema(obj).columns
        if "value" not in schema.names or "offset" not in schema.names:
            return None
        kinds = {name: schema.field(name).type for name in ("key", "value") if name in schema.names}
        forms = {name: find_form(kind) for name, kind in kinds.items()}
        return {**forms, "headers": FieldForm.BYTES} if "headers" in schema.names else forms
    try:
        names = set(_decode_names(find_first_line(start)))
    except UNREADABLE:
        return None
    # Columns that are null in this record are left out, those of a Kafka source never are all.
    if not {"offset", "timestamp"} <= names or not names & {"partition", "topic", "timestampType", "key", "value"}:
        return None
    return dict(MAYBE_BASE64)


def has_spark_column(obj: StoredObject, name: str) -> bool:
    """Check whether ``obj`` has a column; in JSON, whether its first record has one. Raises as above."""
    start = read_start(obj, START_BYTES)
    if start.startswith(MAGIC):
        return name in read_parquet_schema(obj).columns.names
    return name in list_members(start)


def read_spark(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the line or the row.

    Raises:
        BadInputError: the object is damaged or cut off, or has not the columns of Spark's Kafka source.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    if read_start(obj, len(MAGIC)) == MAGIC:
        yield from _read_parquet(archive, obj, options)
    else:
        yield from _read_json(archive, obj, options)


def _read_parquet(archive: ArchiveObject, obj: StoredObject, options: ReadOptions) -> Iterator[RecordChunk]:
    names = read_parquet_schema(obj).columns.names
    if "value" not in names:
        wrong = f"it has no column value, only {', '.join(map(ascii, names[:20]))}"
        raise make_file_error(obj.uri, wrong, "write the columns of Spark's Kafka source; null values are tombstones")
    for place, batch in number_batches(obj.uri, "row", read_parquet_batches(obj, options.batch_bytes, COLUMNS)):
        yield _convert_batch(archive, place, batch, options)


def _convert_batch(archive: ArchiveObject, place: Place, batch: pa.RecordBatch, options: ReadOptions) -> RecordChunk:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    partition = columns.get("partition")
    return make_chunk(
        place,
        **read_content(place, ArrowRows(batch)),
        partition=repeat_partition(archive, batch.num_rows) if partition is None else partition,
        offset=columns.get("offset"),
        timestamp=_read_timestamps(place, columns.get("timestamp"), options),
        timestamp_type=columns.get("timestampType"),
        topics=make_topics(place, columns.get("topic")),
    )


def _read_timestamps(place: Place, column: Any, options: ReadOptions) -> Any:
    if column is None or pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        return None if column is None else to_milliseconds(place, column, options.floors_timestamps)
    if pa.types.is_null(column.type):
        return column
    wrong = f"column timestamp is of type {str(column.type)[:80]}"
    raise make_file_error(place.uri, wrong, "it must be a timestamp, or an integer of milliseconds")


def _read_json(archive: ArchiveObject, obj: StoredObject, options: ReadOptions) -> Iterator[RecordChunk]:
    decoder = JsonRecords(options)
    for place, lines in read_lines(obj, options.batch_bytes):
        yield _convert_lines(archive, place, lines, decoder)


def _convert_lines(archive: ArchiveObject, place: Place, lines: list[bytes], decoder: JsonRecords) -> RecordChunk:
    records = decoder.decode(place, lines)
    for index, record in enumerate(records):
        # Offset and timestamp are never null in the source: a record with neither is something else.
        if record.offset is UNSET and record.timestamp is UNSET and record.partition is UNSET:
            wrong = "it has none of the columns partition, offset and timestamp"
            raise place.make_error(index, wrong, f"write the columns of Spark's Kafka source. Or: {DAMAGED_ADVICE}")
    partition = make_integers([record.partition for record in records])
    if partition.null_count == len(partition) and archive.partition is not None:
        partition = repeat_partition(archive, len(records))
    topics = [None if record.topic is UNSET else record.topic for record in records]
    return make_chunk(
        place,
        **decoder.make_columns(place, records),
        partition=partition,
        offset=make_integers([record.offset for record in records]),
        timestamp_type=make_integers([record.timestampType for record in records]),
        topics=pa.array(topics, pa.string()) if any(topics) else None,
    )


NAME = "spark"


def recognise_spark(obj: StoredObject) -> bool:
    """Check whether ``obj`` is named as Spark names files, or lies in a folder of a topic, and has its columns."""
    path = parse_path(obj.uri)
    if not (is_spark_file(obj.name) or path.topic is not None) or find_spark_forms(obj) is None:
        return False
    # Flink, too, calls its files part-…; what has no partition is not Spark's Kafka source.
    return path.partition is not None or has_spark_column(obj, "partition")


def _locate(path: str) -> tuple[str | None, int | None, None]:
    name = parse_path(path)
    return name.topic, name.partition, None


def arrange_spark(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; folders may tell topic and partition."""
    forms = find_spark_forms(find_largest(stored)) or {}
    findings = []
    if "key" not in forms:
        findings.append(Finding(FindingKind.NO_KEYS, "Keys were not written. Select the source's column key too."))
    if "headers" not in forms:
        text = 'Headers were not written. Read with .option("includeHeaders", "true") and select headers.'
        findings.append(Finding(FindingKind.HEADERS_LOST, text))
    return Arrangement(list_files(NAME, stored, forms, _locate), findings=tuple(findings))


SPARK = Layout(
    NAME,
    Description(
        title="Spark's Kafka source, written as Parquet or JSON",
        recognised_by="files `part-…` of Parquet or JSON with the columns of Spark's Kafka source; folders "
        "`topic=…` and `partition=…` count.",
        loses=(
            "headers, unless the source has `includeHeaders`",
            "bytes that are not UTF-8, if key or value were cast to text",
        ),
        settings=(
            '.option("includeHeaders", "true")',
            '.option("kafka.isolation.level", "read_committed")',
            ".select(key, value, partition, offset, timestamp, timestampType, headers, topic) without casts",
        ),
    ),
    recognise_spark,
    arrange_spark,
    read_spark,
)
