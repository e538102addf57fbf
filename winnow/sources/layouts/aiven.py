"""The archives of Aiven's sinks for S3, GCS and Azure: what an object holds, found by its bytes, and its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow.compute as pc

from winnow.sources.input_errors import make_file_error
from winnow.sources.layouts.aiven_columnar import (
    find_avro_forms,
    find_parquet_forms,
    has_avro_envelope,
    has_parquet_envelope,
    read_aiven_avro,
    read_aiven_parquet,
)
from winnow.sources.layouts.aiven_csv import read_aiven_csv, read_csv_sample
from winnow.sources.layouts.aiven_csv_fields import CsvFields, find_csv_fields
from winnow.sources.layouts.aiven_json import FIELDS, find_envelope, is_json, read_aiven_json
from winnow.sources.layouts.aiven_names import AivenName
from winnow.sources.layouts.avro_file import MAGIC as AVRO_MAGIC
from winnow.sources.layouts.avro_file import open_avro
from winnow.sources.layouts.compression import read_start
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject
from winnow.sources.layouts.parquet_batches import MAGIC as PARQUET_MAGIC
from winnow.sources.layouts.parquet_batches import read_parquet_schema

_START_BYTES = 1 << 18


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
    start = read_start(obj, _START_BYTES)
    if start.startswith(PARQUET_MAGIC):
        schema = read_parquet_schema(obj)
        has_envelope = has_parquet_envelope(schema)
        fields = tuple(name for name in FIELDS if has_envelope and name in schema.columns.names)
        return AivenContent(AivenFormat.PARQUET, has_envelope, fields or ("value",), find_parquet_forms(schema))
    if start.startswith(AVRO_MAGIC):
        with open_avro(obj) as file:
            has_envelope = has_avro_envelope(file.schema)
            names = [each["name"] for each in file.schema["fields"]] if has_envelope else ["value"]
            return AivenContent(AivenFormat.AVRO, has_envelope, tuple(names), find_avro_forms(file.schema))
    first = next((line for line in start.split(b"\n") if line.strip()), b"")
    # A line may be longer than what was read of it.
    if is_json(first) or (len(first) == _START_BYTES and first.startswith((b"{", b'"'))):
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
