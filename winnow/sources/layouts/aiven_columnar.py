"""Reads the Parquet and Avro of Aiven's sinks: an envelope with the fields that the sink was told to write.

Without envelope the whole record is the value. Headers are a map, so repeated names are lost; an object whose first
record has none has no headers at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.files.record_batch import MAXIMUM_BATCH_ROWS, ROW_BYTES
from winnow.sources.envelope import derive_offsets, make_chunk, repeat_partition
from winnow.sources.formats.avro import open_avro
from winnow.sources.formats.column_values import (
    list_header_rows,
    list_values,
    make_byte_column,
    make_header_rows,
    make_headers_of_column,
    make_numbers,
    render_column,
)
from winnow.sources.formats.parquet import ParquetSchema, read_parquet_batches, read_parquet_schema
from winnow.sources.formats.timestamps import to_milliseconds
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk

FIELDS = ("key", "value", "offset", "timestamp", "headers")

_ENVELOPE_NAME = "connector_records"

_NODE_BYTES = 16

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
            kind = kind.item_type if pa.types.is_map(kind) else kind
            is_text = pa.types.is_string(kind) or pa.types.is_null(kind)
            forms[name] = FieldForm.TEXT if is_text else FieldForm.BYTES if is_bytes(kind) else FieldForm.JSON
    return forms


def is_bytes(kind: Any) -> bool:
    """Check whether an Arrow type is binary."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


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
    done = 0
    for batch in read_parquet_batches(obj, options.batch_bytes):
        if not batch.num_rows:
            continue
        place = Place(obj.uri, "row", np.arange(done + 1, done + 1 + batch.num_rows))
        partition = repeat_partition(archive, batch.num_rows)
        derived = derive_offsets(archive, done, batch.num_rows)
        done += batch.num_rows
        if has_envelope:
            yield _read_envelope_batch(place, batch, partition, derived, options)
        else:
            value = render_column(
                place, list_values(place, pa.StructArray.from_arrays(batch.columns, batch.schema.names))
            )
            yield make_chunk(place, value=value, partition=partition, offset=derived, structured=["value"])


def _read_envelope_batch(
    place: Place, batch: pa.RecordBatch, partition: Any, derived: Any, options: ReadOptions
) -> RecordChunk:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    structured = set()
    found: dict[str, Any] = {}
    for name, make in (("key", make_byte_column), ("value", make_byte_column), ("headers", make_headers_of_column)):
        if name in columns:
            found[name], is_structured = make(place, columns[name])
            structured |= {name} if is_structured else set()
    timestamp = columns.get("timestamp")
    return make_chunk(
        place,
        **found,
        partition=partition,
        offset=columns.get("offset", derived),
        timestamp=None if timestamp is None else to_milliseconds(place, timestamp, options.floors_timestamps),
        structured=structured,
    )


def read_aiven_avro(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` counts them.

    Raises:
        BadInputError: the object is damaged or cut off, or a record is not as the sink writes it.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    with open_avro(obj) as file:
        has_envelope = has_avro_envelope(file.schema)
        names = {field["name"] for field in file.schema["fields"]} if has_envelope else set()
        if has_envelope and "value" not in names:
            raise make_file_error(obj.uri, *_NO_VALUES)
        done = 0
        for records in group_values(file.read_records(), options.batch_bytes):
            place = Place(obj.uri, "record", np.arange(done + 1, done + 1 + len(records)))
            partition = repeat_partition(archive, len(records))
            derived = derive_offsets(archive, done, len(records))
            done += len(records)
            if has_envelope:
                yield _read_envelopes(place, records, names, partition, derived)
            else:
                value = render_column(place, records)
                yield make_chunk(place, value=value, partition=partition, offset=derived, structured=["value"])
        if not done:
            raise make_file_error(obj.uri, "it holds no records", DAMAGED_ADVICE)


def _read_envelopes(
    place: Place, records: list[dict[str, Any]], names: set[str], partition: Any, derived: Any
) -> RecordChunk:
    structured = set()
    found: dict[str, Any] = {}
    for name in {"key", "value"} & names:
        values = [record[name] for record in records]
        found[name] = render_column(place, values)
        if any(value is not None and not isinstance(value, str | bytes) for value in values):
            structured.add(name)
    if "headers" in names:
        rows = list_header_rows(place, [record["headers"] for record in records])
        found["headers"], is_structured = make_header_rows(place, rows)
        structured |= {"headers"} if is_structured else set()
    if "timestamp" in names:
        found["timestamp"] = make_numbers(place, [record["timestamp"] for record in records])
    offset = make_numbers(place, [record["offset"] for record in records]) if "offset" in names else derived
    return make_chunk(place, **found, partition=partition, offset=offset, structured=structured)


def group_values(values: Iterator[Any], batch_bytes: int) -> Iterator[list[Any]]:
    """Yield decoded values in groups whose records fit into a batch, roughly; a larger one is alone."""
    group: list[Any] = []
    size = 0
    for value in values:
        own = ROW_BYTES + measure_value(value)
        if group and (size + own > batch_bytes or len(group) >= MAXIMUM_BATCH_ROWS):
            yield group
            group, size = [], 0
        group.append(value)
        size += own
    if group:
        yield group


def measure_value(value: Any) -> int:
    """Return roughly the bytes that a decoded value has as JSON text."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(name)) + 4 + measure_value(member) for name, member in value.items())
    if isinstance(value, list):
        return sum(1 + measure_value(member) for member in value)
    return _NODE_BYTES
