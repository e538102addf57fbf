"""What Lenses' sinks (Stream Reactor) write with ``store.envelope``, as JSON lines, Avro or Parquet.

An envelope has key, value, headers and metadata (topic, partition, offset, timestamp in milliseconds). In JSON a key or
value that was bytes is base64 with a member ``keyIsArray`` or ``valueIsArray`` beside it; without that mark it is text,
or base64 if the sink had a schema. Headers are an object, so repeated names are lost. In Avro and Parquet each header
that any record of the object has is a member, null where a record lacks it: one with a null value cannot be told.

Objects are ``prefix/topic/partition/offset_earliest_latest.json``, the two being timestamps; with PARTITIONBY
``prefix/…/topic(partition_offset).json``; before version 6 ``prefix/topic/partition/offset.json``. Numbers may be
padded. **The offset is that of the object's last record.**
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from winnow.sources.envelope import make_chunk, read_content, repeat_partition
from winnow.sources.formats.avro import MAGIC as AVRO_MAGIC
from winnow.sources.formats.avro import open_avro, read_avro_schema
from winnow.sources.formats.batches import number_batches
from winnow.sources.formats.column_values import (
    find_form,
    list_header_rows,
    make_header_rows,
    make_numbers,
    make_topics,
)
from winnow.sources.formats.compression import START_BYTES, read_start
from winnow.sources.formats.encoding import decode_base64
from winnow.sources.formats.json_records import UNREADABLE, Int64, JsonRecords, decode_lines, render_source
from winnow.sources.formats.lines import find_first_line, read_lines
from winnow.sources.formats.parquet import MAGIC as PARQUET_MAGIC
from winnow.sources.formats.parquet import read_parquet_batches, read_parquet_schema
from winnow.sources.formats.rows import ArrowRows, DecodedRows
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Layout, find_largest, list_files
from winnow.sources.layouts.aiven_records import find_avro_form
from winnow.sources.objects import MAYBE_BASE64, ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

_EXTENSION = r"\.(?:json|avro|parquet)(?:\.gz)?"
_OFFSET_FILE = re.compile(rf"(?P<offset>\d{{1,20}})(?:_-?\d+_-?\d+[^/]*)?{_EXTENSION}")
_NAMED_FILE = re.compile(
    rf"(?P<topic>[A-Za-z0-9._-]+)\((?P<partition>\d{{1,12}})_(?P<offset>\d{{1,20}})\)[^/]*{_EXTENSION}"
)
_TOPIC = re.compile(r"(?:(?:_topic|topic)=)?(?P<topic>[A-Za-z0-9._-]+)")
_PARTITION = re.compile(r"(?:(?:_partition|partition)=)?(?P<partition>\d{1,12})")

_MAXIMUM_PARTITION = 2**31 - 1
_MAXIMUM_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LensesName:
    """What a name tells."""

    topic: str
    partition: int
    last_offset: int


def parse_name(path: str) -> LensesName | None:
    """Return what the name of an object tells, by its path below the archive's root; None if it is no such name."""
    parts = [part for part in path.split("/") if part]
    named = _NAMED_FILE.fullmatch(parts[-1]) if parts else None
    if named:
        return _make_name(named["topic"], named["partition"], named["offset"])
    if len(parts) < 3:  # noqa: PLR2004
        return None
    topic, partition = _TOPIC.fullmatch(parts[-3]), _PARTITION.fullmatch(parts[-2])
    offset = _OFFSET_FILE.fullmatch(parts[-1])
    return (
        _make_name(topic["topic"], partition["partition"], offset["offset"]) if topic and partition and offset else None
    )


def _make_name(topic: str, partition: str, offset: str) -> LensesName | None:
    if int(partition) > _MAXIMUM_PARTITION or int(offset) > _MAXIMUM_OFFSET:
        return None
    return LensesName(topic, int(partition), int(offset))


METADATA = ("topic", "partition", "offset", "timestamp")


_NO_ENVELOPE = ("it has no envelope with metadata", "set store.envelope=true in the sink, or name another --layout")
_NO_VALUE = ("its envelope has no value", "leave store.envelope.fields.value at true in the sink")


class _Metadata(msgspec.Struct, gc=False):
    topic: str | None = None
    partition: Int64 | None = None
    offset: Int64 | None = None
    timestamp: Int64 | None = None


class _Envelope(msgspec.Struct, gc=False, rename={"key_is_array": "keyIsArray", "value_is_array": "valueIsArray"}):
    metadata: _Metadata
    key: Raw = Raw()
    value: Raw = Raw()
    headers: dict[str, Raw] | None = None
    key_is_array: bool = False
    value_is_array: bool = False


_decode = msgspec.json.Decoder(_Envelope).decode_lines


def find_lenses_forms(obj: StoredObject) -> dict[str, FieldForm] | None:
    """Return how ``obj`` holds key, value and headers; None if it has no envelope with metadata.

    Raises:
        BadInputError: the object cannot be read, or is damaged or cut off there.
        ServiceError: an object store cannot be reached.
    """
    start = read_start(obj, START_BYTES)
    if start.startswith(AVRO_MAGIC):
        types = _find_avro_types(read_avro_schema(obj))
        return {name: find_avro_form(types[name], name) for name in types if name != "metadata"} if types else None
    if start.startswith(PARQUET_MAGIC):
        return _find_parquet_forms(read_parquet_schema(obj).columns)
    try:
        found = _decode(find_first_line(start))
    except UNREADABLE:
        return None
    if len(found) != 1 or found[0].metadata.offset is None or found[0].metadata.partition is None:
        return None
    return dict(MAYBE_BASE64)


def _find_avro_types(schema: Any) -> dict[str, Any] | None:
    """Return the types of the envelope's members; None if it is none."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        return None
    types = {field["name"]: field["type"] for field in schema["fields"]}
    branches = types.get("metadata")
    for branch in branches if isinstance(branches, list) else [branches]:
        if isinstance(branch, Mapping) and {"partition", "offset"} <= {
            each["name"] for each in branch.get("fields", ())
        }:
            return types
    return None


def _find_parquet_forms(schema: pa.Schema) -> dict[str, FieldForm] | None:
    if "metadata" not in schema.names or not pa.types.is_struct(schema.field("metadata").type):
        return None
    if not {"partition", "offset"} <= {field.name for field in schema.field("metadata").type}:
        return None
    return {name: find_form(schema.field(name).type) for name in ("key", "value") if name in schema.names}


def read_lenses(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the line, the row or the record.

    Raises:
        BadInputError: the object is damaged or cut off, or has no envelope with values and metadata.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    start = read_start(obj, len(AVRO_MAGIC))
    if start == AVRO_MAGIC:
        yield from _read_avro(archive, obj, options)
    elif start == PARQUET_MAGIC:
        yield from _read_parquet(archive, obj, options)
    else:
        yield from _read_json(archive, obj, options)


def _read_json(archive: ArchiveObject, obj: StoredObject, options: ReadOptions) -> Iterator[RecordChunk]:
    decoder = JsonRecords(options)
    for place, lines in read_lines(obj, options.batch_bytes):
        yield _read_lines(archive, place, lines, decoder)


def _read_lines(archive: ArchiveObject, place: Place, lines: list[bytes], decoder: JsonRecords) -> RecordChunk:
    envelopes = decode_lines(place, lines, _decode)
    for index, envelope in enumerate(envelopes):
        if not bytes(envelope.value):
            raise place.make_error(index, *_NO_VALUE)
    decoder.structured = set()
    key = _make_bytes(place, decoder, "key", envelopes)
    value = _make_bytes(place, decoder, "value", envelopes)
    headers, is_structured = _make_headers(place, envelopes)
    structured = decoder.structured | ({"headers"} if is_structured else set())
    metadata = [envelope.metadata for envelope in envelopes]
    return make_chunk(
        place, key=key, value=value, headers=headers, structured=structured, **_convert(archive, metadata)
    )


def _make_bytes(place: Place, decoder: JsonRecords, name: str, envelopes: list[_Envelope]) -> Any:
    """Return the column of ``key`` or ``value``; marked ones are decoded, and show that nothing else is base64."""
    texts = decoder.render(place, name, [bytes(getattr(envelope, name)) for envelope in envelopes])
    marked = np.array([getattr(envelope, f"{name}_is_array") for envelope in envelopes], np.bool_)
    marked &= texts.is_valid().to_numpy(zero_copy_only=False)
    if not marked.any():
        return texts
    decoder.structured.add(name)
    read = decode_base64(texts)
    wrong = marked & ~read.canonical
    if wrong.any():
        raise place.make_error(
            int(np.argmax(wrong)), f"its {name} is marked as bytes, but is not base64", DAMAGED_ADVICE
        )
    return pc.if_else(pa.array(marked), read.decoded, texts)


def _make_headers(place: Place, envelopes: list[_Envelope]) -> tuple[Any, bool]:
    rows: list[list[tuple[str, bytes | None]]] = []
    is_structured = False
    for envelope in envelopes:
        row = []
        for name, raw in (envelope.headers or {}).items():
            try:
                text = render_source(bytes(raw), keeps_quotes=False)
            except (ValueError, RecursionError):
                raise place.make_error(len(rows), "a header cannot be read as JSON", DAMAGED_ADVICE) from None
            is_structured |= text is not None and bytes(raw)[:1] != b'"'
            row.append((name, text))
        rows.append(row)
    return make_header_rows(place, rows)[0], is_structured


def _convert(archive: ArchiveObject, metadata: list[_Metadata]) -> dict[str, Any]:
    """Return the columns that metadata tell."""
    partition = pa.array([each.partition for each in metadata], pa.int64())
    return {
        "topics": pa.array([each.topic for each in metadata], pa.string()),
        "partition": repeat_partition(archive, len(metadata)) if partition.null_count == len(partition) else partition,
        "offset": pa.array([each.offset for each in metadata], pa.int64()),
        "timestamp": pa.array([each.timestamp for each in metadata], pa.int64()),
    }


def _read_avro(archive: ArchiveObject, obj: StoredObject, options: ReadOptions) -> Iterator[RecordChunk]:
    with open_avro(obj) as file:
        types = _find_avro_types(file.schema)
        if types is None:
            raise make_file_error(obj.uri, *_NO_ENVELOPE)
        if "value" not in types:
            raise make_file_error(obj.uri, *_NO_VALUE)
        for place, records in file.read_groups(options.batch_bytes):
            yield _read_records(archive, place, records, types)


def _read_records(
    archive: ArchiveObject, place: Place, records: list[dict[str, Any]], types: Mapping[str, Any]
) -> RecordChunk:
    content = read_content(place, DecodedRows(records), {name: name for name in ("key", "value") if name in types})
    if "headers" in types:
        rows = list_header_rows(place, [record["headers"] for record in records])
        kept = [[(name, value) for name, value in row if value is not None] for row in rows]
        content["headers"], is_structured = make_header_rows(place, kept)
        content["structured"] |= {"headers"} if is_structured else set()
    members = [record["metadata"] or {} for record in records]
    numbers = {name: make_numbers(place, [member.get(name) for member in members]) for name in METADATA[1:]}
    if not numbers["partition"].null_count < len(records):
        numbers["partition"] = repeat_partition(archive, len(records))
    topics = [None if member.get("topic") is None else str(member["topic"]) for member in members]
    return make_chunk(place, **content, topics=pa.array(topics, pa.string()), **numbers)


def _read_parquet(archive: ArchiveObject, obj: StoredObject, options: ReadOptions) -> Iterator[RecordChunk]:
    schema = read_parquet_schema(obj).columns
    if _find_parquet_forms(schema) is None:
        raise make_file_error(obj.uri, *_NO_ENVELOPE)
    if "value" not in schema.names:
        raise make_file_error(obj.uri, *_NO_VALUE)
    batches = read_parquet_batches(obj, options.batch_bytes, ("key", "value", "headers", "metadata"))
    for place, batch in number_batches(obj.uri, "row", batches):
        yield _read_batch(archive, place, batch)


def _read_batch(archive: ArchiveObject, place: Place, batch: pa.RecordBatch) -> RecordChunk:
    metadata = batch.column("metadata")
    members = {field.name: pc.struct_field(metadata, field.name) for field in metadata.type if field.name in METADATA}
    partition = members["partition"]
    if partition.null_count == len(partition):
        partition = repeat_partition(archive, batch.num_rows)
    return make_chunk(
        place,
        **read_content(place, ArrowRows(batch)),
        partition=partition,
        offset=members["offset"],
        timestamp=members.get("timestamp"),
        topics=make_topics(place, members.get("topic")),
    )


NAME = "lenses"


def recognise_lenses(obj: StoredObject) -> bool:
    """Check whether the records of ``obj`` have the envelope of Lenses' sinks."""
    return find_lenses_forms(obj) is not None


def arrange_lenses(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each object; the offset in a name is that of the last record."""
    forms = find_lenses_forms(find_largest(stored)) or {}
    return Arrangement(list_files(NAME, stored, forms, _locate))


def _locate(path: str) -> tuple[str | None, int | None, None]:
    name = parse_name(path)
    return (name.topic, name.partition, None) if name else (None, None, None)


LENSES = Layout(
    NAME,
    Description(
        title="Lenses' sinks for S3, GCS and Azure",
        recognised_by="records have an envelope with `metadata` (topic, partition, offset, timestamp): JSON, Avro or "
        "Parquet.",
        loses=(
            "headers that are repeated: the envelope has a map",
            "the form of JSON values: they are rendered anew",
        ),
        settings=("store.envelope=true", "STOREAS `JSON` or `AVRO` or `PARQUET`", "key and value converters: bytes"),
    ),
    recognise_lenses,
    arrange_lenses,
    read_lenses,
)
