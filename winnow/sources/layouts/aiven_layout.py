"""The layout of Aiven's sinks for S3, GCS and Azure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from winnow.errors import BadInputError
from winnow.sources.layouts.aiven import AivenContent, AivenFormat, inspect_content, read_aiven
from winnow.sources.layouts.aiven_json import FIELDS
from winnow.sources.layouts.aiven_names import AivenName, is_named_by_key, parse_name
from winnow.sources.layouts.compression import read_start
from winnow.sources.layouts.layout import (
    Arrangement,
    Description,
    Finding,
    FindingKind,
    Layout,
    find_largest,
    sort_objects,
)
from winnow.sources.layouts.objects import (
    ArchiveObject,
    Offsets,
    ReadOptions,
    RecordChunk,
    StoredObject,
)

NAME = "aiven"
_START_BYTES = 1 << 18
_SAMPLES = 3
"""Objects whose first record is read to see whether names are keys."""


@lru_cache(maxsize=64)
def inspect_object(obj: StoredObject) -> AivenContent:
    """Find out once what ``obj`` holds; raises as :func:`winnow.sources.layouts.aiven.inspect_content`."""
    return inspect_content(obj, parse_name(obj.uri))


def recognise_aiven(obj: StoredObject) -> bool:
    """Check whether ``obj`` has this sink's envelope, or values alone under a name that tells partition and offset."""
    if not read_start(obj, 1):
        return False
    content = inspect_object(obj)
    if content.format is AivenFormat.JSON and content.has_envelope and "offset" in content.fields:
        return True
    return parse_name(obj.uri) is not None


def arrange_aiven(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each object; names tell topic, partition and first offset, unless they are keys."""
    reference = find_largest(stored)
    content = inspect_object(reference)
    has_keys_as_names = _has_keys_as_names(stored, content)
    objects = []
    for each in stored:
        name = None if has_keys_as_names else parse_name(each.uri)
        topic, partition, first = (name.topic, name.partition, name.first_offset) if name else (None, None, None)
        objects.append(
            ArchiveObject(
                NAME,
                each.uri,
                {"value": each},
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
    findings = tuple(_list_findings(content, has_keys_as_names))
    return Arrangement(sort_objects(objects), findings=findings, notices=tuple(notices))


def list_unknown_fields(obj: StoredObject) -> tuple[str, ...]:
    """Return the members of the first record of ``obj``, JSON, that are not a Kafka record's; names only if plain."""
    lines = (line.strip(b" \t\r").removesuffix(b",") for line in read_start(obj, _START_BYTES).split(b"\n"))
    first = next((line for line in lines if line not in (b"", b"[")), b"")
    try:
        names = msgspec.json.decode(first, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    others = [name for name in names if name not in FIELDS]
    return tuple(name if name.isidentifier() and name.isascii() else "(another name)" for name in others[:20])


def _find_offsets(content: AivenContent, name: AivenName | None) -> Offsets:
    if "offset" in content.fields:
        return Offsets.EXACT
    return Offsets.NONE if name is None else Offsets.DERIVED


def _has_keys_as_names(stored: Sequence[StoredObject], content: AivenContent) -> bool:
    """Check whether objects are named after the key of their only record (``file.name.template={{key}}``)."""
    if not content.has_envelope or "key" not in content.fields:
        return False
    checked = 0
    for each in sorted(stored, key=lambda each: each.size_bytes)[:_SAMPLES]:
        keys = _read_keys(each)
        if not keys:
            continue
        if len(keys) > 1 or not is_named_by_key(each.uri, keys[0]):
            return False
        checked += 1
    return checked > 0


def _read_keys(obj: StoredObject) -> list[bytes | None]:
    """Return the keys of the first two records of ``obj``; none where it cannot be read."""
    archive = ArchiveObject(NAME, obj.uri, {"value": obj})
    try:
        chunk = next(read_aiven(archive, ReadOptions(batch_bytes=1 << 16)), None)
    except BadInputError:
        return []
    return [] if chunk is None else chunk.records.column("key").slice(0, 2).to_pylist()


def _list_findings(content: AivenContent, has_keys_as_names: bool) -> Iterator[Finding]:
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
        recognised_by="names like `topic-partition-offset`, with dates and folders around; or JSON records with "
        "`offset` and `timestamp` as ISO text. csv, json, jsonl, Parquet and Avro, any compression and any extension.",
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
)
