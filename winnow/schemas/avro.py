"""Avro: row types of its schemas, and their datums read by fastavro.

fastavro reads what is encoded: numbers, text and bytes. What a logical type makes of them is the columns' matter, which
have their limits; so no value passes through a type of Python that has others.

It follows types in C, as deep as a datum goes, which ends the process where a hostile one nests without end. So
recursive types are read by the same library's Python, which stops at its depth.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, cast

import fastavro
import fastavro._read_py
import msgspec

from winnow.schemas.avro_batches import make_batch_reader
from winnow.schemas.avro_types import is_null, make_avro_column
from winnow.schemas.columns import make_row
from winnow.schemas.documents import (
    MAXIMUM_COLUMNS,
    MAXIMUM_DEPTH,
    SchemaDocument,
    UnusableSchemaError,
    require_readable_size,
    walk_references,
)
from winnow.schemas.reader import DatumError, DatumReader

_DATUM = "datum"
_WRAPPER = "winnow_datum"
"""It has no namespace: types without one would be looked for in it."""
_KEPT = frozenset(
    {"type", "name", "namespace", "fields", "symbols", "items", "values", "size", "precision", "scale", "aliases"}
)
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_MAXIMUM_JSON_DEPTH = 4 * MAXIMUM_DEPTH


def make_avro_reader(document: SchemaDocument) -> DatumReader:
    """Make the reader of a schema.

    Raises:
        UnusableSchemaError: it is no valid schema, or too large.
    """
    require_readable_size(document)
    definitions: dict[str, Any] = {}
    try:
        for reference in walk_references(document):
            fastavro.parse_schema(_read_json(reference.document.text), definitions)
        # Encoded, a record is the values of its fields; that every schema is the one of a record spares cases below.
        wrapped = {
            "type": "record",
            "name": _WRAPPER,
            "fields": [{"name": _DATUM, "type": _read_json(document.text)}],
        }
        schema = cast(dict[str, Any], fastavro.parse_schema(wrapped, definitions))
        if len(definitions) > MAXIMUM_COLUMNS:
            # The library goes through all of them for each datum.
            raise UnusableSchemaError(f"has more than {MAXIMUM_COLUMNS:,} types with names")
        column, is_recursive = make_avro_column(schema["fields"][0]["type"], definitions)
    except UnusableSchemaError:
        raise
    except Exception:  # fastavro raises what it comes across, and lets some pass
        raise UnusableSchemaError("is not a valid Avro schema") from None
    record = make_row(column)
    python_reader: Any = fastavro._read_py
    read = python_reader.schemaless_reader if is_recursive else fastavro.schemaless_reader
    readable = {
        "__fastavro_parsed": True,
        "__named_schemas": {name: _make_definition(definition) for name, definition in definitions.items()},
        **_make_definition(schema),
    }
    return DatumReader(
        record,
        _make_parser(readable, read, is_record=column is record),
        make_batch_reader(schema["fields"][0]["type"], column, record, definitions),
    )


def _read_json(text: str) -> Any:
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise UnusableSchemaError("is not JSON") from None
    return _strip(schema, 0)


def _strip(node: Any, depth: int) -> Any:
    """Leave what decides how datums are encoded, so that nothing else in a document reaches the library.

    A logical type becomes a property that the library does not know.
    """
    if depth > _MAXIMUM_JSON_DEPTH:
        raise UnusableSchemaError(f"is nested deeper than {MAXIMUM_DEPTH} levels")
    if isinstance(node, dict):
        stripped = {name: _strip(value, depth + 1) for name, value in node.items() if name in _KEPT}
        if isinstance(node.get("logicalType"), str):
            stripped["logical"] = node["logicalType"]
        return stripped
    return [_strip(value, depth + 1) for value in node] if isinstance(node, list) else node


def _make_readable(node: Any) -> Any:
    """Copy a parsed type into one that fastavro reads with nothing left to chance.

    The index of an enum's symbol or a union's branch may be negative in a datum, and would count from the last: so an
    enum is read as its index, and a union's branches are looked up by number. What is read of a union does not say
    which branch it was, so each of several is a record with one field, which is encoded like its value.
    """
    if isinstance(node, list):
        branches = {index: _make_readable(branch) for index, branch in enumerate(node)}
        if len(node) > 1 + sum(map(is_null, node)):
            branches = {
                index: branch if is_null(branch) else _make_branch(index, branch) for index, branch in branches.items()
            }
        return {"type": "union", **branches}
    if not isinstance(node, dict):
        return node
    if node["type"] in _NAMED:
        # Each is copied once, however deep they stand in one another.
        return node["name"]
    return {
        name: _make_readable(value) if name in {"type", "items", "values"} else value for name, value in node.items()
    }


def _make_definition(node: dict[str, Any]) -> dict[str, Any]:
    """Copy a type that has a name, or is all of a document, in the same way."""
    if node["type"] == "enum":
        return {"type": "int"}
    if "fields" not in node:
        return node
    fields = [{"name": field["name"], "type": _make_readable(field["type"])} for field in node["fields"]]
    return {"type": "record", "name": node["name"], "fields": fields}


def _make_branch(index: int, branch: Any) -> dict[str, Any]:
    return {"type": "record", "name": "winnow.Branch", "fields": [{"name": str(index), "type": branch}]}


def _make_parser(
    schema: Mapping[str, Any], read: Callable[..., Any], *, is_record: bool
) -> Callable[[bytes], dict[str, Any]]:
    def parse(datum: bytes) -> dict[str, Any]:
        stream = io.BytesIO(datum)
        try:
            value = read(stream, schema)[_DATUM]
        except RecursionError:
            raise DatumError("The datum is nested too deeply.") from None
        except Exception:  # fastavro raises what it comes across
            raise DatumError("The datum is damaged, or was not written with its schema.") from None
        if stream.tell() != len(datum):
            raise DatumError("The datum has more bytes than its schema says.")
        return (value or {}) if is_record else {"": value}

    return parse
