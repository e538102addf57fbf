"""Reads the Parquet and Avro of Aiven's sinks: an envelope with the fields that the sink was told to write.

Without envelope the whole record is the value. Headers are a map, so repeated names are lost; an object whose first
record has none has no headers at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from winnow.sources.envelope import make_chunk, read_content, tell_by_name
from winnow.sources.formats.avro import open_avro
from winnow.sources.formats.batches import number_batches
from winnow.sources.formats.column_values import (
    find_form,
    list_header_rows,
    make_header_rows,
    make_numbers,
    render_column,
)
from winnow.sources.formats.parquet import ParquetSchema, read_parquet_batches, read_parquet_schema
from winnow.sources.formats.rows import ArrowRows, DecodedRows
from winnow.sources.formats.timestamps import to_milliseconds
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk

FIELDS = ("key", "value", "offset", "timestamp", "headers")

_ENVELOPE_NAME = "connector_records"

_NO_VALUES = ("its records have no values, so nothing can be compacted from it", "add value to format.output.fields")


def has_avro_envelope(schema: Any) -> bool:
    """Check whether an Avro schema is that of the sink's envelope."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return False
    names = {field["name"] for field in schema.get("fields", ())}
    return schema.get("name", "").rsplit(".", 1)[-1] == _ENVELOPE_NAME and bool(names) and names <= set(FIELDS)


def has_parquet_envelope(schema: ParquetSchema) -> bool:
    """Check whether a Parquet schema is that of the sink's envelope; by the columns alone if that is all there is."""
    if schema.avro is not None:
        try:
            return has_avro_envelope(json.loads(schema.avro))
        except ValueError:
            pass
    return bool(schema.columns.names) and set(schema.columns.names) <= set(FIELDS)


def find_avro_forms(schema: Any) -> dict[str, FieldForm]:
    """Return how objects of an Avro schema hold key, value and headers."""
    if not has_avro_envelope(schema):
        return {"value": FieldForm.JSON}
    types = {field["name"]: field["type"] for field in schema["fields"]}
    return {name: find_avro_form(types[name], name) for name in ("key", "value", "headers") if name in types}


def find_avro_form(kind: Any, name: str) -> FieldForm:
    """Return how a field of an Avro type holds its values; of ``headers``, a map or a record, those of its members."""
    branches = kind if isinstance(kind, list) else [kind]
    kinds = {_name_kind(branch) for branch in branches} - {"null"}
    if name == "headers":
        structures = [branch for branch in branches if isinstance(branch, dict)]
        values = [each["values"] for each in structures if each["type"] == "map"]
        values += [member["type"] for each in structures for member in each.get("fields", ())]
        forms = {find_avro_form(value, "") for value in values} or {FieldForm.TEXT}
        return forms.pop() if len(forms) == 1 else FieldForm.JSON
    return FieldForm.BYTES if kinds <= {"bytes"} else FieldForm.TEXT if kinds <= {"string"} else FieldForm.JSON


def _name_kind(branch: Any) -> str:
    if isinstance(branch, dict):
        return "logical" if "logicalType" in branch else str(branch["type"])
    return str(branch)


def find_parquet_forms(schema: ParquetSchema) -> dict[str, FieldForm]:
    """Return how objects of a Parquet schema hold key, value and headers."""
    if not has_parquet_envelope(schema):
        return {"value": FieldForm.JSON}
    forms = {}
    for name in ("key", "value", "headers"):
        if name in schema.columns.names:
            kind = schema.columns.field(name).type
            forms[name] = find_form(kind.item_type if pa.types.is_map(kind) else kind)
    return forms


def read_aiven_parquet(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the row.

    Raises:
        BadInputError: the object is damaged or cut off, or a record is not as the sink writes it.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    schema = read_parquet_schema(obj)
    has_envelope = has_parquet_envelope(schema)
    if has_envelope and "value" not in schema.columns.names:
        raise make_file_error(obj.uri, *_NO_VALUES)
    for place, batch in number_batches(obj.uri, "row", read_parquet_batches(obj, options.batch_bytes)):
        rows = ArrowRows(batch)
        told = tell_by_name(archive, place)
        if not has_envelope:
            yield make_chunk(place, value=rows.render(place, ()), structured=["value"], **told)
            continue
        columns = dict(zip(rows.names, batch.columns, strict=True))
        told["offset"] = columns.get("offset", told["offset"])
        if "timestamp" in columns:
            told["timestamp"] = to_milliseconds(place, columns["timestamp"], options.floors_timestamps)
        yield make_chunk(place, **read_content(place, rows), **told)


def read_aiven_avro(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` counts them.

    Raises:
        BadInputError: the object is damaged or cut off, or a record is not as the sink writes it.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    is_empty = True
    with open_avro(obj) as file:
        has_envelope = has_avro_envelope(file.schema)
        names = {field["name"] for field in file.schema["fields"]} if has_envelope else set()
        if has_envelope and "value" not in names:
            raise make_file_error(obj.uri, *_NO_VALUES)
        for place, records in file.read_groups(options.batch_bytes):
            is_empty = False
            told = tell_by_name(archive, place)
            if has_envelope:
                yield make_chunk(place, **told | _read_envelopes(place, records, names))
            else:
                yield make_chunk(place, value=render_column(place, records), structured=["value"], **told)
    if is_empty:
        raise make_file_error(obj.uri, "it holds no records", DAMAGED_ADVICE)


def _read_envelopes(place: Place, records: list[dict[str, Any]], names: set[str]) -> dict[str, Any]:
    columns: dict[str, str] = {name: name for name in ("key", "value") if name in names}
    content = read_content(place, DecodedRows(records), columns)
    if "headers" in names:
        rows = list_header_rows(place, [record["headers"] for record in records])
        content["headers"], is_structured = make_header_rows(place, rows)
        content["structured"] |= {"headers"} if is_structured else set()
    for name in ("timestamp", "offset"):
        if name in names:
            content[name] = make_numbers(place, [record[name] for record in records])
    return content
