"""Reads the JSON, Parquet and Avro of Aiven's sinks: an envelope with the fields that the sink was told to write.

Those are key, value, offset, timestamp and headers, all of them in each record; without envelope the whole record is
the value. JSON is one object a line, or an array with one object a line. In Parquet and Avro headers are a map, so
repeated names are lost; an object whose first record has none has no headers at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from winnow.files.record_batch import Integers
from winnow.sources.envelope import derive_offsets, make_chunk, read_content, repeat_partition, tell_by_name
from winnow.sources.formats.avro import open_avro
from winnow.sources.formats.batches import number_batches
from winnow.sources.formats.column_values import (
    find_form,
    list_header_rows,
    make_header_rows,
    make_numbers,
    render_column,
)
from winnow.sources.formats.compression import open_decompressed
from winnow.sources.formats.json_records import UNREADABLE, JsonRecords, make_integers, make_line_error
from winnow.sources.formats.lines import LineGroup, drop_blank, read_line_groups
from winnow.sources.formats.parquet import ParquetSchema, read_parquet_batches, read_parquet_schema
from winnow.sources.formats.rows import ArrowRows, DecodedRows
from winnow.sources.formats.timestamps import to_milliseconds
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk

FIELDS = ("key", "value", "offset", "timestamp", "headers")

_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_decode_values = msgspec.json.Decoder(msgspec.Raw).decode_lines


def find_envelope(line: bytes) -> tuple[str, ...] | None:
    """Return the fields of the envelope that a record's JSON text is; None if it is a value without one."""
    try:
        names = set(_decode_names(line))
    except UNREADABLE:
        return None
    if not names or not (names <= set(FIELDS) or {"value", "offset"} <= names):
        return None
    return tuple(name for name in FIELDS if name in names)


def is_json(line: bytes) -> bool:
    """Check whether ``line`` is JSON, as a line of the sink's."""
    line = line.strip(b" \t\r").removesuffix(b",")
    if line in (b"[", b"[]"):
        return True
    try:
        return len(_decode_values(line)) == 1
    except UNREADABLE:
        return False


def read_aiven_json(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the line.

    Raises:
        BadInputError: the object is damaged or cut off, or a line is not as the sink writes it.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    frame = _Frame(obj.uri)
    reader = _Reader(archive, options)
    with open_decompressed(obj) as stream:
        for group in read_line_groups(obj.uri, stream, options.batch_bytes):
            lines, rows = frame.unwrap(*drop_blank(group))
            if lines:
                yield reader.read(Place(obj.uri, "line", rows), lines)
            if group.is_last:
                frame.check_end(group)
    if not reader.records:
        raise make_file_error(obj.uri, "it holds no records", DAMAGED_ADVICE)


class _Frame:
    """Takes away what makes an array of the lines, if they are one, and checks the end.

    A separator (a comma, a line end) is written before another record only. A sink that fails at that record still
    ends the object, with what it has: the separator at the end shows it.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._is_begun = False
        self._is_array = False
        self._is_closed = False
        self._has_comma = False

    def unwrap(self, lines: list[bytes], rows: Integers) -> tuple[list[bytes], Integers]:
        """Return the lines that are records."""
        if lines and not self._is_begun:
            self._is_begun = True
            self._is_array = lines[0].strip() in (b"[", b"[]")
            self._is_closed = lines[0].strip() == b"[]"
            if self._is_array:
                lines, rows = lines[1:], rows[1:]
        if not lines or not self._is_array:
            return lines, rows
        end = -1 if self._is_closed else next((at for at, line in enumerate(lines) if line.strip() == b"]"), None)
        if end is not None:
            if end < len(lines) - 1:
                wrong = "something follows the end of the array"
                raise Place(self._uri, "line", rows).make_error(end + 1, wrong, DAMAGED_ADVICE)
            self._is_closed = True
            lines, rows = lines[:-1], rows[:-1]
        lines = [line.strip(b" \t\r") for line in lines]
        self._has_comma = lines[-1].endswith(b",") if lines else self._has_comma
        return [line.removesuffix(b",") for line in lines], rows

    def check_end(self, group: LineGroup) -> None:
        """Raise for an object that does not end as a complete one does."""
        if self._is_array and not self._is_closed:
            raise make_file_error(self._uri, "its JSON array does not end: it is cut off", DAMAGED_ADVICE)
        if self._has_comma or not (self._is_array or group.lines[-1].strip()):
            wrong = "it is cut off: it ends with a separator, which the sink writes before another record only"
            raise make_file_error(self._uri, wrong, DAMAGED_ADVICE)


class _Reader:
    def __init__(self, archive: ArchiveObject, options: ReadOptions) -> None:
        self._archive = archive
        self._json = JsonRecords(options)
        self._fields: tuple[str, ...] | None = None
        self.records = 0

    def read(self, place: Place, lines: list[bytes]) -> RecordChunk:
        """Return the records of ``lines``."""
        if not self.records:
            self._fields = find_envelope(lines[0])
            if self._fields is not None and "value" not in self._fields:
                raise make_file_error(place.uri, _NO_VALUES[0], "add value to the sink's format.output.fields")
        derived = derive_offsets(self._archive, self.records, len(lines))
        self.records += len(lines)
        told = {"partition": repeat_partition(self._archive, len(lines)), "offset": derived}
        if self._fields is not None:
            return self._read_envelopes(place, lines, told)
        value = self._read_values(place, lines)
        return make_chunk(place, value=value, structured=self._json.structured, **told)

    def _read_values(self, place: Place, lines: list[bytes]) -> Any:
        self._json.structured = set()
        try:
            raws = _decode_values(b"\n".join(lines))
        except UNREADABLE:
            raise make_line_error(place, lines, _decode_values) from None
        return self._json.render(place, "value", [bytes(raw) for raw in raws])

    def _read_envelopes(self, place: Place, lines: list[bytes], told: dict[str, Any]) -> RecordChunk:
        fields = self._fields or ()
        records = self._json.decode(place, lines)
        for name in ("key", "value", "offset"):
            # A missing value must not become a tombstone.
            absent = self._json.find_absent(records, name) if name in fields else None
            if absent is not None:
                raise place.make_error(absent, f"it has no {name}, which the first record has", DAMAGED_ADVICE)
        if "offset" in fields:
            told["offset"] = make_integers([record.offset for record in records])
        return make_chunk(place, **self._json.make_columns(place, records), **told)


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
        values = [structure["values"] for structure in structures if structure["type"] == "map"]
        values += [member["type"] for structure in structures for member in structure.get("fields", ())]
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
