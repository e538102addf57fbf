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
from winnow.sources.formats.avro import MAGIC as AVRO_MAGIC
from winnow.sources.formats.avro import read_avro_schema
from winnow.sources.formats.compression import START_BYTES, open_seekable, read_start
from winnow.sources.formats.json_records import UNREADABLE
from winnow.sources.formats.parquet import MAGIC as PARQUET_MAGIC
from winnow.sources.formats.parquet import read_parquet_schema
from winnow.sources.objects import StoredObject

ORC_MAGIC: Final = b"ORC"
MAXIMUM_NAMES: Final = 20
MAXIMUM_PATHS: Final = 200
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
    return list(_decode_first(start))


def _decode_first(start: bytes) -> dict[str, Any]:
    """Return the first JSON object of a text; its members are source text if it stands in a line of its own."""
    lines = (line.strip(_LINE_FRAME).removesuffix(b",") for line in start.split(b"\n"))
    first = next((line for line in lines if line not in (b"", b"[")), b"")
    try:
        return msgspec.json.decode(first, type=dict[str, msgspec.Raw])
    except UNREADABLE:
        pass
    if not start.lstrip().startswith(b"["):
        return {}
    text = start.decode("utf-8", "replace")
    try:  # an array over several lines, or in one, which may go on behind ``start``
        found = _FIRST_OBJECT.raw_decode(text, text.find("{"))[0]
    except (ValueError, RecursionError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


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
    return [name for name, _ in _list_columns(obj)]


def list_paths(obj: StoredObject) -> list[str]:
    """Return the columns of ``obj`` as ``--map`` names them, and instead of a structure its members (``a.b``)."""
    found = []
    for name, members in _list_columns(obj):
        found += [f"{name}.{member}" for member in members] or [name]
    plain = [path for path in found if all(part.isidentifier() and part.isascii() for part in path.split("."))]
    return plain[:MAXIMUM_PATHS]


def _list_columns(obj: StoredObject) -> list[tuple[str, list[str]]]:
    """Return the columns of ``obj``, each with the members of the structure that it is."""
    try:
        start = read_start(obj, START_BYTES)
        if start.startswith(PARQUET_MAGIC):
            return _list_fields(read_parquet_schema(obj).columns)
        if start.startswith(ORC_MAGIC):
            with open_seekable(obj) as stream:
                return _list_fields(orc.ORCFile(stream).schema)
        if start.startswith(AVRO_MAGIC):
            return _list_avro_fields(read_avro_schema(obj))
    except (BadInputError, pa.ArrowException, OSError, ValueError):
        return []
    return [(name, _list_nested(value)) for name, value in _decode_first(start).items()]


def _list_fields(schema: pa.Schema) -> list[tuple[str, list[str]]]:
    return [
        (field.name, [member.name for member in field.type] if pa.types.is_struct(field.type) else [])
        for field in schema
    ]


def _list_avro_fields(schema: Any) -> list[tuple[str, list[str]]]:
    found = []
    for name in list_avro_names(schema):
        kind = next(field["type"] for field in schema["fields"] if field["name"] == name)
        branches = kind if isinstance(kind, list) else [kind]
        found.append((name, [member for branch in branches for member in list_avro_names(branch)]))
    return found


def _list_nested(value: Any) -> list[str]:
    if isinstance(value, dict):
        return list(value)
    raw = bytes(value) if isinstance(value, msgspec.Raw) else b""
    return list_members(raw) if raw.startswith(b"{") else []
