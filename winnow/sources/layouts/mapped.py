"""The layout of files whose columns a person has named with ``--map``: Parquet, ORC, Avro, JSON lines, CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import csv, orc

from winnow.sources.envelope import make_chunk
from winnow.sources.field_map import WHOLE_ROW, FieldMap
from winnow.sources.formats.avro import MAGIC as AVRO_MAGIC
from winnow.sources.formats.avro import open_avro
from winnow.sources.formats.batch_sizes import slice_by_size
from winnow.sources.formats.compression import open_decompressed, open_seekable, read_start
from winnow.sources.formats.content_names import ORC_MAGIC
from winnow.sources.formats.json_records import UNREADABLE, JsonRecords
from winnow.sources.formats.lines import drop_blank, read_line_groups
from winnow.sources.formats.parquet import MAGIC as PARQUET_MAGIC
from winnow.sources.formats.parquet import read_parquet_batches, read_parquet_schema
from winnow.sources.formats.rows import (
    ArrowRows,
    DecodedRows,
    ForeignRows,
    JsonRows,
    make_integers,
    make_timestamps,
    make_topics,
    split_path,
)
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Layout, find_largest
from winnow.sources.layouts.aiven_columnar import group_values
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

NAME: Final = "mapped"
_START_BYTES: Final = 1 << 18
_MAXIMUM_ARRAY_BYTES: Final = 1 << 28

DESCRIPTION: Final = Description(
    title="Files of another program, by the names of their columns",
    recognised_by="`--map FIELD=COLUMN`, for Parquet, ORC, Avro, JSON lines and CSV with a line of names.",
    loses=(
        "whatever field has no column",
        "the bytes of the value, where it is the row or a structure: it becomes JSON text",
        "CSV: null and empty are the same",
    ),
    settings=(),
)


def make_mapped_layout(fields: FieldMap) -> Layout:
    """Make the layout of files whose columns are those of ``fields``; it is never recognised, a person has said it."""

    def arrange(stored: Sequence[StoredObject]) -> Arrangement:
        largest = find_largest(stored)
        start = read_start(largest, _START_BYTES)
        forms = _find_forms(largest, start, fields)
        objects = [
            ArchiveObject(
                NAME,
                each.uri,
                {"value": each},
                forms=forms,
                null_is_empty=_is_csv(start) and fields.columns["value"] != WHOLE_ROW,
            )
            for each in stored
        ]
        return Arrangement(tuple(objects))

    def read(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
        return read_mapped(archive, fields, options)

    return Layout(NAME, DESCRIPTION, lambda _: False, arrange, read)


def read_mapped(archive: ArchiveObject, fields: FieldMap, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the row, or the line of JSON.

    Raises:
        BadInputError: the object is damaged or cut off, has no column that is named, or a row is no record.
        ServiceError: an object store cannot be reached.
    """
    for place, rows in _read_rows(archive.parts["value"], options):
        columns = fields.columns
        found: dict[str, Any] = {}
        structured = set()
        for name in ("key", "value", "headers"):
            if columns.get(name, WHOLE_ROW) == WHOLE_ROW:
                continue
            make = rows.make_headers if name == "headers" else rows.make_bytes
            found[name], is_structured = make(place, columns[name])
            structured |= {name} if is_structured else set()
        if columns["value"] == WHOLE_ROW:
            # As of tables: a column that is the key stays in the value, unless it is there for that alone.
            others = [column for name, column in columns.items() if name != "key" or column == "key"]
            taken = {split_path(rows.names, column)[0] for column in others}
            found["value"] = rows.render(place, taken)
            structured.add("value")
        for name in ("partition", "offset"):
            found[name] = make_integers(place, rows.list_column(place, columns[name]))
        if "timestamp" in columns:
            times = rows.list_column(place, columns["timestamp"])
            unit = fields.forms.get("timestamp")
            found["timestamp"] = make_timestamps(place, times, unit, options.floors_timestamps)
        if "timestampType" in columns:
            found["timestamp_type"] = make_integers(place, rows.list_column(place, columns["timestampType"]))
        if "topic" in columns:
            found["topics"] = make_topics(place, rows.list_column(place, columns["topic"]))
        yield make_chunk(place, **found, structured=structured)


def _find_forms(obj: StoredObject, start: bytes, fields: FieldMap) -> dict[str, FieldForm]:
    """Say which fields may be base64: text of JSON and CSV, and of typed files what a person has called so."""
    names = [name for name in ("key", "value", "headers") if name in fields.columns]
    is_typed = not _is_text(start)
    forms = {}
    for name in names:
        if fields.columns[name] == WHOLE_ROW:
            forms[name] = FieldForm.JSON
        elif is_typed and fields.forms.get(name) != "base64":
            forms[name] = FieldForm.BYTES if _is_binary(obj, start, fields.columns[name]) else FieldForm.TEXT
        else:
            forms[name] = FieldForm.TEXT_OR_BASE64
    return forms


def _is_binary(obj: StoredObject, start: bytes, column: str) -> bool:
    if not start.startswith(PARQUET_MAGIC):
        return False
    schema = read_parquet_schema(obj).columns
    return column in schema.names and pa.types.is_binary(schema.field(column).type)


def _is_text(start: bytes) -> bool:
    return not start.startswith((PARQUET_MAGIC, ORC_MAGIC, AVRO_MAGIC))


def _is_csv(start: bytes) -> bool:
    return _is_text(start) and not start.lstrip(b" \t\r\n\xef\xbb\xbf").startswith((b"{", b"["))


def _read_rows(obj: StoredObject, options: ReadOptions) -> Iterator[tuple[Place, ForeignRows]]:
    start = read_start(obj, _START_BYTES)
    if not start.strip():
        raise make_file_error(obj.uri, "it is empty", DAMAGED_ADVICE)
    if start.startswith(AVRO_MAGIC):
        yield from _read_avro(obj, options)
    elif _is_text(start) and not _is_csv(start):
        yield from _read_json(obj, options, is_array=start.lstrip().startswith(b"["))
    else:
        if start.startswith(PARQUET_MAGIC):
            batches = read_parquet_batches(obj, options.batch_bytes)
        else:
            batches = _read_orc(obj) if start.startswith(ORC_MAGIC) else _read_csv(obj)
        done = 0
        for batch in batches:
            for begin, end in slice_by_size(_measure(batch), options.batch_bytes):
                part = batch.slice(begin, end - begin)
                yield Place(obj.uri, "row", np.arange(done + 1, done + 1 + part.num_rows)), ArrowRows(part)
                done += part.num_rows


def _measure(batch: pa.RecordBatch) -> Any:
    return np.full(batch.num_rows, batch.nbytes // max(1, batch.num_rows), np.int64)


def _read_orc(obj: StoredObject) -> Iterator[pa.RecordBatch]:
    with open_seekable(obj) as stream:
        try:
            file = orc.ORCFile(stream)
            for number in range(file.nstripes):
                stripe = file.read_stripe(number)
                yield from (stripe.to_batches() if isinstance(stripe, pa.Table) else [stripe])
        except (pa.ArrowException, OSError, ValueError):
            raise make_file_error(obj.uri, "this is not ORC, or damaged or cut off", DAMAGED_ADVICE) from None


def _read_csv(obj: StoredObject) -> Iterator[pa.RecordBatch]:
    with open_decompressed(obj) as stream:
        names = _read_csv_names(obj)
        options = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, null_values=[]
        )
        parsing = csv.ParseOptions(newlines_in_values=True)
        try:
            yield from csv.open_csv(stream, parse_options=parsing, convert_options=options)
        except (pa.ArrowException, OSError, ValueError):
            raise make_file_error(obj.uri, "this is not CSV, or cut off", DAMAGED_ADVICE) from None


def _read_csv_names(obj: StoredObject) -> list[str]:
    first = read_start(obj, _START_BYTES).split(b"\n", 1)[0]
    try:
        return [str(name) for name in csv.read_csv(pa.BufferReader(first + b"\n")).schema.names]
    except (pa.ArrowException, ValueError):
        raise make_file_error(obj.uri, "its first line has no names of columns", DAMAGED_ADVICE) from None


def _read_avro(obj: StoredObject, options: ReadOptions) -> Iterator[tuple[Place, ForeignRows]]:
    done = 0
    with open_avro(obj) as file:
        for records in group_values(file.read_records(), options.batch_bytes):
            place = Place(obj.uri, "record", np.arange(done + 1, done + 1 + len(records)))
            if not all(isinstance(record, dict) for record in records):
                raise place.make_error(0, "from here on records are no structures", "only such have columns to map")
            done += len(records)
            yield place, DecodedRows(records)


def _read_json(obj: StoredObject, options: ReadOptions, *, is_array: bool) -> Iterator[tuple[Place, ForeignRows]]:
    json = JsonRecords(options)
    if is_array:
        yield from _read_json_array(obj, options, json)
        return
    with open_decompressed(obj) as stream:
        for group in read_line_groups(obj.uri, stream, options.batch_bytes):
            lines, rows = drop_blank(group)
            if lines:
                place = Place(obj.uri, "line", rows)
                yield place, JsonRows(place, lines, json)


def _read_json_array(obj: StoredObject, options: ReadOptions, json: JsonRecords) -> Iterator[tuple[Place, ForeignRows]]:
    """Read one array of objects, which is in memory as a whole: what people export by hand is small."""
    with open_decompressed(obj) as stream:
        text = _read_bounded(obj, stream)
    try:
        raws = msgspec.json.decode(text, type=list[msgspec.Raw])
    except UNREADABLE:
        raise make_file_error(obj.uri, "its JSON array is damaged or cut off", DAMAGED_ADVICE) from None
    lines = [bytes(raw) for raw in raws]
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    for begin, end in slice_by_size(sizes, options.batch_bytes):
        place = Place(obj.uri, "record", np.arange(begin + 1, end + 1))
        yield place, JsonRows(place, lines[begin:end], json)


def _read_bounded(obj: StoredObject, stream: BinaryIO) -> bytes:
    parts, size = [], 0
    while part := stream.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > _MAXIMUM_ARRAY_BYTES:
            advice = "write one object a line, with jq -c '.[]' for instance"
            raise make_file_error(obj.uri, "its JSON array is larger than 256 MiB", advice)
    return b"".join(parts)
