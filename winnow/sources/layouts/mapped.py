"""The layout of files whose columns a person has named with ``--map``: Parquet, ORC, Avro, JSON lines, CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from winnow.sources.envelope import make_chunk, read_content
from winnow.sources.field_map import WHOLE_ROW, FieldMap
from winnow.sources.formats.compression import START_BYTES, read_start
from winnow.sources.formats.parquet import MAGIC as PARQUET_MAGIC
from winnow.sources.formats.parquet import read_parquet_schema
from winnow.sources.formats.rows import (
    is_csv,
    is_text,
    make_integers,
    make_timestamps,
    make_topics,
    read_rows,
    split_path,
)
from winnow.sources.layout import Arrangement, Description, Layout, find_largest
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

NAME: Final = "mapped"

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


def make_mapped_layout(
    fields: FieldMap,
    name: str = NAME,
    description: Description = DESCRIPTION,
    recognise: Callable[[StoredObject], bool] | None = None,
) -> Layout:
    """Make the layout of files whose columns are those of ``fields``, of any format with columns.

    That of a program has a name, a description and what recognises it; without these a person has said the columns.
    """

    def arrange(stored: Sequence[StoredObject]) -> Arrangement:
        largest = find_largest(stored)
        start = read_start(largest, START_BYTES)
        forms = _find_forms(largest, start, fields)
        objects = [
            ArchiveObject(
                name,
                obj.uri,
                {"value": obj},
                forms=forms,
                null_is_empty=is_csv(start) and fields.columns["value"] != WHOLE_ROW,
            )
            for obj in stored
        ]
        return Arrangement(tuple(objects))

    def read(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
        return read_mapped(archive, fields, options)

    return Layout(name, description, recognise, arrange, read, fields=fields if recognise is None else None)


def read_mapped(archive: ArchiveObject, fields: FieldMap, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the row, or the line of JSON.

    Raises:
        BadInputError: the object is damaged or cut off, has no column that is named, or a row is no record.
        ServiceError: an object store cannot be reached.
    """
    columns = fields.columns
    for place, rows in read_rows(archive.parts["value"], options):
        found = read_content(place, rows, {name: column for name, column in columns.items() if column != WHOLE_ROW})
        if columns["value"] == WHOLE_ROW:
            # As of tables: a column that is the key stays in the value, unless it is there for that alone.
            others = [column for name, column in columns.items() if name != "key" or column == "key"]
            taken = {split_path(rows.names, column)[0] for column in others}
            found["value"] = rows.render(place, taken)
            found["structured"].add("value")
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
        yield make_chunk(place, **found)


def _find_forms(obj: StoredObject, start: bytes, fields: FieldMap) -> dict[str, FieldForm]:
    """Say which fields may be base64: text of JSON and CSV, and of typed files what a person has called so."""
    names = [name for name in ("key", "value", "headers") if name in fields.columns]
    is_typed = not is_text(start)
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
