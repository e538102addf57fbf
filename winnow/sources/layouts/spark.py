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
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from winnow.sources.envelope import make_chunk, repeat_partition
from winnow.sources.formats.column_values import make_byte_column, make_headers_of_column, make_topics
from winnow.sources.formats.compression import open_decompressed, read_start
from winnow.sources.formats.content_names import list_members
from winnow.sources.formats.json_records import UNREADABLE, JsonRecords, make_integers
from winnow.sources.formats.lines import drop_blank, read_line_groups
from winnow.sources.formats.parquet import MAGIC, read_parquet_batches, read_parquet_schema
from winnow.sources.formats.timestamps import to_milliseconds
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Finding, FindingKind, Layout, find_largest, sort_objects
from winnow.sources.layouts.aiven_columnar import is_bytes
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

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

_START_BYTES = 1 << 18

_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def find_spark_forms(obj: StoredObject) -> dict[str, FieldForm] | None:
    """Return how ``obj`` holds those of key, value and headers that it has; None if it is not what Spark writes.

    Raises:
        BadInputError: the object cannot be read, or is damaged or cut off there.
        ServiceError: an object store cannot be reached.
    """
    start = read_start(obj, _START_BYTES)
    if start.startswith(MAGIC):
        schema = read_parquet_schema(obj).columns
        if "value" not in schema.names or "offset" not in schema.names:
            return None
        kinds = {name: schema.field(name).type for name in ("key", "value") if name in schema.names}
        forms = {name: _find_form(kind) for name, kind in kinds.items()}
        return {**forms, "headers": FieldForm.BYTES} if "headers" in schema.names else forms
    line = next((line for line in start.split(b"\n") if line.strip()), b"")
    try:
        names = set(_decode_names(line))
    except UNREADABLE:
        return None
    # Columns that are null in this record are left out, those of a Kafka source never are all.
    if not {"offset", "timestamp"} <= names or not names & {"partition", "topic", "timestampType", "key", "value"}:
        return None
    return dict.fromkeys(("key", "value", "headers"), FieldForm.TEXT_OR_BASE64)


def has_spark_column(obj: StoredObject, name: str) -> bool:
    """Check whether ``obj`` has a column; in JSON, whether its first record has one. Raises as above."""
    start = read_start(obj, _START_BYTES)
    if start.startswith(MAGIC):
        return name in read_parquet_schema(obj).columns.names
    return name in list_members(start)


def _find_form(kind: Any) -> FieldForm:
    if is_bytes(kind):
        return FieldForm.BYTES
    return FieldForm.TEXT if pa.types.is_string(kind) or pa.types.is_null(kind) else FieldForm.JSON


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
    done = 0
    for batch in read_parquet_batches(obj, options.batch_bytes, COLUMNS):
        if batch.num_rows:
            place = Place(obj.uri, "row", np.arange(done + 1, done + 1 + batch.num_rows))
            done += batch.num_rows
            yield _convert_batch(archive, place, batch, options)


def _convert_batch(archive: ArchiveObject, place: Place, batch: pa.RecordBatch, options: ReadOptions) -> RecordChunk:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    structured = set()
    found: dict[str, Any] = {}
    for name, make in (("key", make_byte_column), ("value", make_byte_column), ("headers", make_headers_of_column)):
        if name in columns:
            found[name], is_structured = make(place, columns[name])
            structured |= {name} if is_structured else set()
    partition = columns.get("partition")
    return make_chunk(
        place,
        **found,
        partition=repeat_partition(archive, batch.num_rows) if partition is None else partition,
        offset=columns.get("offset"),
        timestamp=_read_timestamps(place, columns.get("timestamp"), options),
        timestamp_type=columns.get("timestampType"),
        topics=make_topics(place, columns.get("topic")),
        structured=structured,
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
    with open_decompressed(obj) as stream:
        for group in read_line_groups(obj.uri, stream, options.batch_bytes):
            lines, rows = drop_blank(group)
            if lines:
                yield _convert_lines(archive, Place(obj.uri, "line", rows), lines, decoder)


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
        key=decoder.make_bytes(place, records, "key"),
        value=decoder.make_bytes(place, records, "value"),
        headers=decoder.make_headers(place, records),
        partition=partition,
        offset=make_integers([record.offset for record in records]),
        timestamp=decoder.make_timestamps(place, records),
        timestamp_type=make_integers([record.timestampType for record in records]),
        topics=pa.array(topics, pa.string()) if any(topics) else None,
        structured=decoder.structured,
    )


NAME = "spark"


def recognise_spark(obj: StoredObject) -> bool:
    """Check whether ``obj`` is named as Spark names files, or lies in a folder of a topic, and has its columns."""
    path = parse_path(obj.uri)
    if not (is_spark_file(obj.name) or path.topic is not None) or find_spark_forms(obj) is None:
        return False
    # Flink, too, calls its files part-…; what has no partition is not Spark's Kafka source.
    return path.partition is not None or has_spark_column(obj, "partition")


def arrange_spark(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; folders may tell topic and partition."""
    forms = find_spark_forms(find_largest(stored)) or {}
    objects = []
    for each in stored:
        name = parse_path(each.uri)
        objects.append(ArchiveObject(NAME, each.uri, {"value": each}, name.topic, name.partition, forms=forms))
    findings = []
    if "key" not in forms:
        findings.append(Finding(FindingKind.NO_KEYS, "Keys were not written. Select the source's column key too."))
    if "headers" not in forms:
        text = 'Headers were not written. Read with .option("includeHeaders", "true") and select headers.'
        findings.append(Finding(FindingKind.HEADERS_LOST, text))
    return Arrangement(sort_objects(objects), findings=tuple(findings))


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
