"""The layout of Aiven's sinks for S3, GCS and Azure: what an object holds, found by its bytes, and its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.sources.formats.avro import MAGIC as AVRO_MAGIC
from winnow.sources.formats.avro import read_avro_schema
from winnow.sources.formats.compression import START_BYTES, read_start
from winnow.sources.formats.content_names import list_columns, list_members, shorten_names, tells_position
from winnow.sources.formats.lines import find_first_line
from winnow.sources.formats.parquet import MAGIC as PARQUET_MAGIC
from winnow.sources.formats.parquet import read_parquet_schema
from winnow.sources.input_errors import make_file_error
from winnow.sources.layout import Arrangement, Description, Finding, FindingKind, Layout, find_largest, sort_objects
from winnow.sources.layouts.aiven_csv import CsvFields, find_csv_fields, read_aiven_csv, read_csv_sample
from winnow.sources.layouts.aiven_names import AivenName, has_usual_name, is_named_by_key, parse_name
from winnow.sources.layouts.aiven_records import (
    FIELDS,
    find_avro_forms,
    find_envelope,
    find_parquet_forms,
    has_avro_envelope,
    has_parquet_envelope,
    is_json,
    read_aiven_avro,
    read_aiven_json,
    read_aiven_parquet,
)
from winnow.sources.objects import ArchiveObject, FieldForm, Offsets, ReadOptions, RecordChunk, StoredObject


class AivenFormat(StrEnum):
    """What ``format.output.type`` was."""

    CSV = "csv"
    JSON = "json"
    """Also ``jsonl``."""
    PARQUET = "parquet"
    AVRO = "avro"


@dataclass(frozen=True, slots=True)
class AivenContent:
    """What an object holds. ``fields``: of its envelope; ``csv``: those of CSV, None if it cannot be taken apart."""

    format: AivenFormat
    has_envelope: bool
    fields: tuple[str, ...]
    forms: Mapping[str, FieldForm] = field(default_factory=dict)
    csv: CsvFields | None = None


def inspect_content(obj: StoredObject, name: AivenName | None = None) -> AivenContent:
    """Find out from its first bytes (of Parquet: its footer) what ``obj`` holds; ``name``: what its name tells.

    Raises:
        BadInputError: the object cannot be read, or is damaged or cut off there.
        ServiceError: an object store cannot be reached.
    """
    start = read_start(obj, START_BYTES)
    if start.startswith(PARQUET_MAGIC):
        schema = read_parquet_schema(obj)
        has_envelope = has_parquet_envelope(schema)
        fields = tuple(name for name in FIELDS if has_envelope and name in schema.columns.names)
        return AivenContent(AivenFormat.PARQUET, has_envelope, fields or ("value",), find_parquet_forms(schema))
    if start.startswith(AVRO_MAGIC):
        avro = read_avro_schema(obj)
        has_envelope = has_avro_envelope(avro)
        names = [field["name"] for field in avro["fields"]] if has_envelope else ["value"]
        return AivenContent(AivenFormat.AVRO, has_envelope, tuple(names), find_avro_forms(avro))
    first = find_first_line(start)
    # A line may be longer than what was read of it.
    if is_json(first) or (len(first) == START_BYTES and first.startswith((b"{", b'"'))):
        return _inspect_json(start)
    found = find_csv_fields(read_csv_sample(obj), name.first_offset if name else None, name.partition if name else None)
    forms = {"key": FieldForm.BASE64, "value": FieldForm.TEXT_OR_BASE64, "headers": FieldForm.BASE64}
    fields = found.names if found else ()
    kept = {each: form for each, form in forms.items() if each in fields}
    return AivenContent(AivenFormat.CSV, True, fields, kept, found)


def _inspect_json(start: bytes) -> AivenContent:
    lines = (line.strip(b" \t\r").removesuffix(b",") for line in start.split(b"\n"))
    first = next((line for line in lines if line not in (b"", b"[")), b"")
    fields = find_envelope(first) or ()
    texts: list[str] = [name for name in ("key", "value", "headers") if name in (fields or ("value",))]
    forms: dict[str, FieldForm] = dict.fromkeys(texts, FieldForm.TEXT_OR_BASE64)
    return AivenContent(AivenFormat.JSON, bool(fields), fields or ("value",), forms)


def read_aiven(
    archive: ArchiveObject, options: ReadOptions, content: AivenContent | None = None
) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``, in the order of the object.

    ``content``: what the archive's objects hold, where a larger one told more than this one alone can.

    Raises:
        BadInputError: the object is damaged or cut off, or a record is not as the sink writes it.
        ServiceError: an object store cannot be reached.
    """
    name = None
    if archive.topic is not None and archive.partition is not None and archive.first_offset is not None:
        name = AivenName(archive.topic, archive.partition, archive.first_offset)
    found = content or inspect_content(archive.parts["value"], name)
    for chunk in _read_format(archive, options, found):
        _check_name(archive, chunk)
        yield chunk


def _read_format(archive: ArchiveObject, options: ReadOptions, content: AivenContent) -> Iterator[RecordChunk]:
    if content.format is AivenFormat.PARQUET:
        return read_aiven_parquet(archive, options)
    if content.format is AivenFormat.AVRO:
        return read_aiven_avro(archive, options)
    if content.format is AivenFormat.JSON:
        return read_aiven_json(archive, options)
    return read_aiven_csv(archive, options, content.csv)


def _check_name(archive: ArchiveObject, chunk: RecordChunk) -> None:
    """Raise for an offset below the one in the name: then the name does not tell what it seems to."""
    lowest = pc.min(chunk.records.column("offset")).as_py()
    if archive.first_offset is not None and lowest is not None and lowest < archive.first_offset:
        wrong = f"it holds offset {lowest}, though its name seems to say that it begins at {archive.first_offset}"
        raise make_file_error(archive.uri, wrong, "name the objects as Aiven's sink does: topic-partition-offset")


NAME = "aiven"
_FIRST_RECORDS = ReadOptions(batch_bytes=1 << 16, floors_timestamps=True)
_SAMPLES = 3
"""Objects whose first record is read to see whether names are keys."""


@lru_cache(maxsize=64)
def inspect_object(obj: StoredObject) -> AivenContent:
    """Find out once what ``obj`` holds; raises as :func:`winnow.sources.layouts.aiven.inspect_content`."""
    return inspect_content(obj, parse_name(obj.uri))


def recognise_aiven(obj: StoredObject) -> bool:
    """Check whether ``obj`` has this sink's envelope with offsets, which agree with the one in its name if it has one.

    Many programs end names in two numbers, and many records have a value and an offset: neither alone is this sink's.
    """
    if not read_start(obj, 1):
        return False
    content = inspect_object(obj)
    if content.format is AivenFormat.CSV and content.csv is None:
        return has_usual_name(obj.uri)  # it cannot be taken apart: why, is said when it is read
    if "offset" not in content.fields or _contradicts(obj, content):
        return False
    name, is_json = parse_name(obj.uri), content.format is AivenFormat.JSON and content.has_envelope
    if name is None:
        # Only JSON has a form of its own. Its partition is not known then, which is said when it is read.
        return is_json
    chunk = next(read_aiven(ArchiveObject(NAME, obj.uri, {"value": obj}), _FIRST_RECORDS, content), None)
    if chunk is None:
        return False
    first, key = pc.min(chunk.records.column("offset")).as_py(), chunk.records.column("key")[0].as_py()
    # In dated names the offset is that of the flush, which another object may have begun; one of several agrees.
    return first == name.first_offset or (is_json and is_named_by_key(obj.uri, key))


def suggest_aiven(obj: StoredObject) -> bool:
    """Check whether ``obj`` may be values without offsets under this sink's usual name, which nothing else tells."""
    if not read_start(obj, 1) or not has_usual_name(obj.uri):
        return False
    content = inspect_object(obj)
    return "offset" not in content.fields and not _contradicts(obj, content)


def _contradicts(obj: StoredObject, content: AivenContent) -> bool:
    """Check whether records have fields that tell what this layout would take from names, or leave out."""
    ignored = set(list_columns(obj)) - set(content.fields if content.has_envelope else ())
    return any(tells_position(name) for name in ignored)


def arrange_aiven(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each object; names tell topic, partition and first offset, unless they are keys."""
    reference = find_largest(stored)
    content = inspect_object(reference)
    has_keys_as_names = _has_keys_as_names(stored, content)
    objects = []
    for obj in stored:
        name = None if has_keys_as_names else parse_name(obj.uri)
        topic, partition, first = (name.topic, name.partition, name.first_offset) if name else (None, None, None)
        objects.append(
            ArchiveObject(
                NAME,
                obj.uri,
                {"value": obj},
                topic,
                partition,
                first,
                forms=content.forms,
                reference=reference,
                null_is_empty=content.format is AivenFormat.CSV and "value" in content.fields,
                offsets=_find_offsets(content, name),
            )
        )
    notices = []
    unknown = list_unknown_fields(reference) if content.format is AivenFormat.JSON and content.has_envelope else ()
    if unknown:
        notices.append(f"Fields that are not a Kafka record's were left out: {', '.join(unknown)}.")
    if content.csv is not None:
        notices.append(f"The fields of the CSV were found to be {','.join(content.csv.names)}.")
        if not content.csv.is_key_certain:
            notices.append(
                "Nothing in the CSV tells key and value apart for certain; check a few records with winnow read."
            )
    findings = tuple(_list_findings(content, has_keys_as_names, _find_offsets(content, parse_name(reference.uri))))
    return Arrangement(sort_objects(objects), findings=findings, notices=tuple(notices))


def list_unknown_fields(obj: StoredObject) -> tuple[str, ...]:
    """Return the members of the first record of ``obj``, JSON, that are not a Kafka record's; names only if plain."""
    others = [name for name in list_members(read_start(obj, START_BYTES)) if name not in FIELDS]
    return tuple(shorten_names(others))


def _find_offsets(content: AivenContent, name: AivenName | None) -> Offsets:
    if "offset" in content.fields:
        return Offsets.EXACT
    return Offsets.NONE if name is None else Offsets.DERIVED


def _has_keys_as_names(stored: Sequence[StoredObject], content: AivenContent) -> bool:
    """Check whether objects are named after the key of their only record (``file.name.template={{key}}``)."""
    if not content.has_envelope or "key" not in content.fields:
        return False
    checked = 0
    for obj in sorted(stored, key=lambda each: each.size_bytes)[:_SAMPLES]:
        keys = _read_keys(obj)
        if not keys:
            continue
        if len(keys) > 1 or not is_named_by_key(obj.uri, keys[0]):
            return False
        checked += 1
    return checked > 0


def _read_keys(obj: StoredObject) -> list[bytes | None]:
    """Return the keys of the first two records of ``obj``; none where it cannot be read."""
    archive = ArchiveObject(NAME, obj.uri, {"value": obj})
    try:
        chunk = next(read_aiven(archive, _FIRST_RECORDS), None)
    except BadInputError:
        return []
    return [] if chunk is None else chunk.records.column("key").slice(0, 2).to_pylist()


def _list_findings(content: AivenContent, has_keys_as_names: bool, offsets: Offsets) -> Iterator[Finding]:
    if offsets is Offsets.DERIVED:
        yield Finding(
            FindingKind.OFFSETS_DERIVED,
            "Offsets are derived: a name tells that of the first record, each further one gets the next. They are "
            "wrong where a transaction marker, a skipped record or another program's name stands in between. Add "
            "offset to format.output.fields.",
        )
    if has_keys_as_names:
        yield Finding(
            FindingKind.LAST_PER_KEY_ONLY,
            "Objects are named after keys (file.name.template={{key}}): each holds the last record of its key per "
            "flush, the history is gone, and partitions are not known. Use a template with topic, partition and "
            "start_offset.",
        )
    is_unknown = content.format is AivenFormat.CSV and content.csv is None
    if is_unknown:
        return
    if "key" not in content.fields:
        yield Finding(
            FindingKind.NO_KEYS, "Keys were not written. Set format.output.fields=key,value,offset,timestamp,headers."
        )
    if "timestamp" not in content.fields:
        yield Finding(FindingKind.NO_TIMESTAMPS, "Timestamps were not written. Add timestamp to format.output.fields.")
    if "headers" not in content.fields:
        yield Finding(FindingKind.HEADERS_LOST, "Headers were not written. Add headers to format.output.fields.")
    elif content.format in (AivenFormat.PARQUET, AivenFormat.AVRO):
        yield Finding(
            FindingKind.HEADERS_LOST,
            "Headers are a map here: of repeated names the last is left, and a file whose first record had none has "
            "no headers at all. Write jsonl with format.output.fields.value.encoding=base64 and "
            "header.converter=org.apache.kafka.connect.converters.ByteArrayConverter.",
        )
    if content.format is AivenFormat.CSV:
        yield Finding(
            FindingKind.NULL_EQUALS_EMPTY,
            "In CSV a null value is written as an empty one: tombstones cannot be told from empty values. "
            "--empty-values says what they are; format.output.type=jsonl keeps them apart.",
        )


def read_aiven_object(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; its reference tells how to read it."""
    content = inspect_object(archive.reference) if archive.reference is not None else None
    yield from read_aiven(archive, options, content)


AIVEN = Layout(
    NAME,
    Description(
        title="Aiven's sinks for S3, GCS and Azure",
        recognised_by="records with this sink's fields, `offset` among them, in csv, json, jsonl, Parquet or Avro, any "
        "compression and any extension; and names like `topic-partition-offset`, with dates and folders around, whose "
        "offset is that of the first record. Without `offset` in the records it is not: each record after the first "
        "would get the next number, right or not. `--layout aiven` says that it is.",
        loses=(
            "the partition of a record, where the name's template has none",
            "csv: null and empty are the same; headers' null values end the connector",
            "Parquet and Avro: repeated headers, and all headers of a file whose first record has none",
            "StringConverter: bytes that are not UTF-8",
            "the default header converter: a header that looks like a number becomes one",
            "the sink writes records of aborted transactions, unless told otherwise",
        ),
        settings=(
            "format.output.type=jsonl",
            "format.output.fields=key,value,offset,timestamp,headers",
            "format.output.fields.value.encoding=base64",
            "key.converter, value.converter, header.converter=org.apache.kafka.connect.converters.ByteArrayConverter",
            "consumer.override.isolation.level=read_committed",
            "file.name.template={{topic}}-{{partition}}-{{start_offset}}",
        ),
    ),
    recognise_aiven,
    arrange_aiven,
    read_aiven_object,
    suggest=suggest_aiven,
    suggestion="that it is that: its name alone tells an offset then, that of the first record, and each further "
    "record gets the next one",
)
