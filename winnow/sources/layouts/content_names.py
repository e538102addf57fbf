"""What the fields of foreign records are called, and which of these names tell where a record was in its topic."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import orc

from winnow.errors import BadInputError
from winnow.sources.layouts.avro_file import MAGIC as AVRO_MAGIC
from winnow.sources.layouts.avro_file import open_avro
from winnow.sources.layouts.compression import open_seekable, read_start
from winnow.sources.layouts.json_records import UNREADABLE
from winnow.sources.layouts.objects import StoredObject
from winnow.sources.layouts.parquet_batches import MAGIC as PARQUET_MAGIC
from winnow.sources.layouts.parquet_batches import read_parquet_schema

ORC_MAGIC: Final = b"ORC"
MAXIMUM_NAMES: Final = 20
_START_BYTES: Final = 1 << 18
_FIRST_OBJECT: Final = json.JSONDecoder()
_LINE_FRAME: Final = b" \t\r"

_POSITION: Final = re.compile(
    r"(?:kafka|record|message|source|src|start|first|last)?_?(?:metadata)?[_.]?(?:offset|partition)s?(?:id)?"
    r"|_?kafka.*|_metadata|metadata|sequence_?(?:number|no|id)?|seq_?no?",
    re.IGNORECASE,
)


def tells_position(name: str) -> bool:
    """Check whether a field of this name seems to tell offset, partition or order: who ignored it would guess them."""
    return _POSITION.fullmatch(name) is not None


def list_members(start: bytes) -> list[str]:
    """Return the members of the first JSON object of a text that begins with ``start``; none if that is none."""
    lines = (line.strip(_LINE_FRAME).removesuffix(b",") for line in start.split(b"\n"))
    first = next((line for line in lines if line not in (b"", b"[")), b"")
    try:
        return list(msgspec.json.decode(first, type=dict[str, msgspec.Raw]))
    except UNREADABLE:
        pass
    if not start.lstrip().startswith(b"["):
        return []
    text = start.decode("utf-8", "replace")
    try:  # an array over several lines, or in one, which may go on behind ``start``
        return list(_FIRST_OBJECT.raw_decode(text, text.find("{"))[0])
    except (ValueError, RecursionError, IndexError):
        return []


def list_avro_names(schema: Any) -> list[str]:
    """Return the names of the fields of an Avro record's schema; none of another one."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return []
    return [str(field["name"]) for field in schema.get("fields", ())]


def shorten_names(names: Sequence[str]) -> list[str]:
    """Return some of ``names`` as they may be shown: only plain ones, since members may be named by users' data."""
    return [name if name.isidentifier() and name.isascii() else "(another name)" for name in names[:MAXIMUM_NAMES]]


def list_columns(obj: StoredObject) -> list[str]:
    """Return the names of the columns, fields or members of ``obj``; none if it has none that can be read."""
    try:
        start = read_start(obj, _START_BYTES)
        if start.startswith(PARQUET_MAGIC):
            return list(read_parquet_schema(obj).columns.names)
        if start.startswith(ORC_MAGIC):
            with open_seekable(obj) as stream:
                return list(orc.ORCFile(stream).schema.names)
        if start.startswith(AVRO_MAGIC):
            with open_avro(obj) as file:
                return list_avro_names(file.schema)
    except (BadInputError, pa.ArrowException, OSError, ValueError):
        return []
    return list_members(start)
