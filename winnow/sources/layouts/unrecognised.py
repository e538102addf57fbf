"""Says what objects hold that no layout is recognised in, and the ways on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import orc

from winnow.errors import BadInputError
from winnow.sources.field_map import propose_field_map
from winnow.sources.formats.avro import MAGIC as AVRO_MAGIC
from winnow.sources.formats.avro import read_avro_schema
from winnow.sources.formats.compression import START_BYTES, open_seekable, read_start
from winnow.sources.formats.content_names import ORC_MAGIC, list_columns, list_members, list_paths, shorten_names
from winnow.sources.formats.json_records import UNREADABLE
from winnow.sources.formats.lines import find_first_line
from winnow.sources.formats.parquet import MAGIC as PARQUET_MAGIC
from winnow.sources.formats.parquet import read_parquet_schema
from winnow.sources.input_errors import make_file_error
from winnow.sources.layout import Layout
from winnow.sources.layouts.console import PRINT_AGAIN
from winnow.sources.objects import StoredObject

_KAFKA_UI_CSV: Final = b"Value,Offset,Key,Partition,Headers,Timestamp\n"
_TYPE_CHARACTERS: Final = 40
_SEGMENT: Final = re.compile(r"(?:\d{20}|\d+-[A-Za-z0-9_-]{22})\.log")
"""Also with the id that tiered storage gives it."""
_CONSOLE_CONSUMER: Final = re.compile(
    rb"(?:(?:CreateTime|LogAppendTime):-?\d+|NO_TIMESTAMP|Partition:\d+|Offset:\d+)\t"
)


def make_unrecognised_error(
    stored: Sequence[StoredObject], suggested: Layout | None, layouts: Sequence[str]
) -> BadInputError:
    """Make the error for ``stored`` objects of no layout that is recognised; ``suggested``: what they may be."""
    obj = max(stored, key=lambda each: each.size_bytes)
    known = None if suggested is not None else _explain(obj)
    if known is not None:
        return make_file_error(obj.uri, *known)
    wrong = f"what wrote it is not recognised. It is {describe_content(obj)}"
    layout = f"--layout NAME if you know that it is one of {', '.join(layouts)}"
    if suggested is not None:
        layout = f"--layout {suggested.name} if you know {suggested.suggestion}"
    proposed = propose_field_map(shorten_names(list_columns(obj))) or propose_field_map(list_paths(obj))
    mapping = (
        "--map offset=COLUMN --map partition=COLUMN --map key=COLUMN --map value=COLUMN to say what its columns are"
    )
    if proposed is not None:
        mapping = f"{shlex.join(proposed.list_options())} if these are its columns"
    advice = f"three ways on: {layout}; {mapping}; or Winnow's own JSON lines (docs/archives.md#winnow)"
    return make_file_error(obj.uri, wrong, advice)


def _explain(obj: StoredObject) -> tuple[str, str] | None:
    """Say what is wrong with something that is well known and cannot be read as it lies, and the way on; None: nothing.

    Raises:
        ServiceError: an object store cannot be reached.
    """
    if _SEGMENT.fullmatch(obj.name):
        return (
            "it is called like a segment of a Kafka log, and does not begin with a record batch of its offset",
            "copy it again; a segment outside of its folder goes in with --partition N",
        )
    try:
        start = read_start(obj, START_BYTES)
    except BadInputError:
        return None
    if start.startswith(_KAFKA_UI_CSV):
        return (
            "it is kafka-ui's CSV, which escapes neither commas nor line breaks: where a value ends is not certain",
            "export it as JSON (docs/archives.md#ui-export), or read the topic with winnow ingest kafka",
        )
    if _CONSOLE_CONSUMER.match(start):
        return (
            "it is what kafka-console-consumer printed, without the partition and the offset of each record",
            PRINT_AGAIN,
        )
    return None


def describe_content(obj: StoredObject) -> str:
    """Say which format ``obj`` has, and the names and types of its columns; values are never shown.

    Raises:
        ServiceError: an object store cannot be reached.
    """
    try:
        return _describe(obj, read_start(obj, START_BYTES))
    except BadInputError:
        return "damaged or cut off"


def _describe(obj: StoredObject, start: bytes) -> str:
    if not start:
        return "empty"
    if start.startswith(PARQUET_MAGIC):
        return f"Parquet with columns {_list_columns(read_parquet_schema(obj).columns)}"
    if start.startswith(ORC_MAGIC):
        with open_seekable(obj) as stream:
            try:
                return f"ORC with columns {_list_columns(orc.ORCFile(stream).schema)}"
            except (pa.ArrowException, OSError, ValueError):
                return "ORC, damaged or cut off"
    if start.startswith(AVRO_MAGIC):
        return f"Avro with {_list_fields(read_avro_schema(obj))}"
    members = list_members(start)
    if members:
        return f"JSON with members {_join(shorten_names(members), len(members))}"
    line = find_first_line(start)
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except UNREADABLE:
        try:
            line.decode()
        except UnicodeDecodeError:
            return "neither Parquet, ORC, Avro nor text"
        return f"text whose first line has {line.count(b',') + 1} fields with commas between"
    return "JSON without an object in its first line"


def _list_columns(schema: pa.Schema) -> str:
    shown = [
        f"{name} ({str(kind)[:_TYPE_CHARACTERS]})"
        for name, kind in zip(shorten_names(schema.names), schema.types, strict=False)
    ]
    return _join(shown, len(schema.names))


def _list_fields(schema: object) -> str:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return "records that are no structures"
    fields = schema.get("fields", ())
    names = shorten_names([str(field["name"]) for field in fields])
    shown = [f"{name} ({_name_type(field['type'])})" for name, field in zip(names, fields, strict=False)]
    return f"fields {_join(shown, len(fields))}"


def _name_type(kind: object) -> str:
    branches = kind if isinstance(kind, list) else [kind]
    names = [str(branch.get("type")) if isinstance(branch, dict) else str(branch) for branch in branches]
    return " or ".join(names)[:_TYPE_CHARACTERS]


def _join(shown: Sequence[str], count: int) -> str:
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
