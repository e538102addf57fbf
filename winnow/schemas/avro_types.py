"""The columns of Avro's types.

Read are schemas that fastavro has parsed, with references by full name, and logical types under ``logical``. Encoded, a
union of null and another type is that type; other unions whose branches are not all of one kind are JSON text, and so
are recursive types from where they begin again, and records without fields.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from winnow.schemas.columns import TEXT, Column, Field, Keyed, Record, Repeated, Scalar, collect_each, make_plain
from winnow.schemas.documents import MAXIMUM_COLUMNS, MAXIMUM_DEPTH, UnusableSchemaError
from winnow.schemas.scalars import (
    make_binary,
    make_date,
    make_decimal,
    make_enum,
    make_int32,
    make_json_text,
    make_nanosecond_text,
    make_time_text,
    make_timestamp,
    make_uuid,
    write_bytes,
    write_date,
    write_decimal,
    write_float,
    write_time,
    write_timestamp,
)

_MAXIMUM_WEIGHT = 20_000
"""Maximum types of a schema with each name written out."""

_RECORDS = frozenset({"record", "error"})
_MAXIMUM_DECIMAL_DIGITS = 1_000
_INT32 = range(-(2**31), 2**31)

_UUID_BYTES = 16
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}


def make_avro_column(schema: Any, definitions: Mapping[str, Any]) -> tuple[Column, bool]:
    """Make the column of ``schema``, and tell whether a type in it is recursive.

    Raises:
        UnusableSchemaError: it is too large or too deep, or its values could grow without bytes.
    """
    types = _Types(definitions)
    types.weigh(schema, 0)
    return types.make_column(schema, 0), types.is_recursive


class _Types:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self._weights: dict[str, tuple[int, int]] = {}
        self._columns = 0
        self.is_recursive = False

    def _resolve(self, schema: Any) -> Any:
        return resolve_type(schema, self._definitions)

    def weigh(self, schema: Any, depth: int) -> tuple[int, int]:
        """Return how many types ``schema`` has with every name written out, and the fewest bytes of a datum.

        What has more types than the limit, or lists of values without bytes, could grow from few bytes without end.
        """
        if depth > MAXIMUM_DEPTH:
            raise UnusableSchemaError(f"is nested deeper than {MAXIMUM_DEPTH} levels")
        schema = self._resolve(schema)
        if isinstance(schema, list):
            weights = [self.weigh(branch, depth + 1)[0] for branch in schema]
            return self._require_light(1 + sum(weights)), 1
        name, kind = schema.get("name"), schema["type"]
        if name in self._weights:
            return self._weights[name]
        if kind in _RECORDS:
            if name in self._open:
                self.is_recursive = True
                return 1, 0
            _require_valid(all(isinstance(field["name"], str) for field in schema["fields"]))
            self._open.append(name)
            weights_of_fields = [self.weigh(field["type"], depth + 1) for field in schema["fields"]]
            self._open.pop()
            weight = self._require_light(1 + sum(weight for weight, _ in weights_of_fields))
            self._weights[name] = weight, sum(size_bytes for _, size_bytes in weights_of_fields)
            return self._weights[name]
        if kind in {"array", "map"}:
            weight, size_bytes = self.weigh(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and size_bytes == 0:
                raise UnusableSchemaError("has a list of values that take no bytes")
            return weight + 1, 1
        if kind == "fixed":
            _require_valid(type(schema["size"]) is int and schema["size"] >= 0)
            return 1, schema["size"]
        if kind == "enum":
            _require_valid(isinstance(schema["symbols"], list))
        return 1, 0 if kind == "null" else 1

    def _require_light(self, weight: int) -> int:
        if weight > _MAXIMUM_WEIGHT:
            raise UnusableSchemaError(f"has more than {_MAXIMUM_WEIGHT:,} types, each name written out")
        return weight

    def make_column(self, schema: Any, depth: int) -> Column:
        """Make the column of ``schema``; raises as :func:`make_avro_column`."""
        self._columns += 1
        if self._columns > MAXIMUM_COLUMNS:
            raise UnusableSchemaError(f"has more than {MAXIMUM_COLUMNS:,} columns")
        schema = self._resolve(schema)
        if isinstance(schema, list):
            return self._make_union(schema, depth)
        kind = schema["type"]
        if kind in _RECORDS:
            return self._make_record(schema, depth)
        if kind == "array":
            return Repeated(self.make_column(schema["items"], depth + 1))
        if kind == "map":
            return Keyed(self.make_column(schema["values"], depth + 1))
        return _make_logical(schema) or _make_primitive(schema)

    def _make_record(self, schema: dict[str, Any], depth: int) -> Column:
        if not schema["fields"] or schema["name"] in self._open:
            return self._make_text(schema)
        names = [field["name"] for field in schema["fields"]]
        if len(set(names)) < len(names):
            raise UnusableSchemaError("has a record with two fields of one name")
        self._open.append(schema["name"])
        fields = tuple(
            Field(field["name"], self.make_column(field["type"], depth + 1), _list_aliases(field))
            for field in schema["fields"]
        )
        self._open.pop()
        return Record(fields)

    def _make_union(self, branches: list[Any], depth: int) -> Column:
        others = [branch for branch in branches if not is_null(branch)]
        if len(others) == 1:
            self._columns -= 1
            return self.make_column(others[0], depth)
        if not others:
            return TEXT
        resolved = list(map(self._resolve, others))
        kinds = {"" if isinstance(branch, list) or "logical" in branch else branch["type"] for branch in resolved}
        if kinds <= {"int", "long"}:
            return Scalar(pa.int64(), collect_each(pa.int64(), lambda value: self._read_branch(branches, value)))
        if kinds <= {"int", "float", "double"}:
            return Scalar(
                pa.float64(), collect_each(pa.float64(), lambda value: float(self._read_branch(branches, value)))
            )
        if kinds <= {"string", "enum"}:
            return Scalar(pa.string(), collect_each(pa.string(), lambda value: self._read_branch(branches, value)))
        return self._make_text(branches)

    def _read_branch(self, branches: list[Any], value: dict[str, Any]) -> Any:
        """Return the number or text of a branch; a union of several is read as its index and that."""
        ((index, inner),) = value.items()
        branch = self._resolve(branches[int(index)])
        if branch["type"] == "enum":
            return _find_symbol(branch, inner)
        return _require_int32(inner) if branch["type"] == "int" else inner

    def _make_text(self, schema: Any) -> Scalar:
        return make_json_text(lambda value: self._convert(schema, value))

    def _convert(self, schema: Any, value: Any) -> Any:
        """Make of a value what JSON has."""
        if value is None:
            return None
        schema = self._resolve(schema)
        if isinstance(schema, list):
            others = [branch for branch in schema if not is_null(branch)]
            if len(others) == 1:
                return self._convert(others[0], value)
            ((index, inner),) = value.items()
            return self._convert(schema[int(index)], inner)
        kind = schema["type"]
        if kind in _RECORDS:
            return {field["name"]: self._convert(field["type"], value[field["name"]]) for field in schema["fields"]}
        if kind == "array":
            return [self._convert(schema["items"], item) for item in value]
        if kind == "map":
            return {key: self._convert(schema["values"], item) for key, item in value.items()}
        return _find_symbol(schema, value) if kind == "enum" else _convert_scalar(schema, value)


def resolve_type(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a parsed type by itself: a union as a list, any other as a dictionary."""
    while isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        schema = schema["type"]
    if isinstance(schema, dict) and schema["type"] in definitions:
        schema = schema["type"]
    if isinstance(schema, str):
        return definitions.get(schema, {"type": schema})
    return schema


def _require_valid(is_valid: bool) -> None:
    """Refuse what the library let pass."""
    if not is_valid:
        raise UnusableSchemaError("is not a valid Avro schema")


def is_null(schema: Any) -> bool:
    """Tell whether a parsed type is null, in either spelling."""
    return schema == "null" or (isinstance(schema, dict) and schema["type"] == "null")


def _list_aliases(field: Mapping[str, Any]) -> tuple[str, ...]:
    aliases = field.get("aliases")
    return tuple(alias for alias in aliases if isinstance(alias, str) and "," not in alias) if aliases else ()


def _find_symbol(schema: Mapping[str, Any], index: int) -> str:
    if not 0 <= index < len(schema["symbols"]):
        raise ValueError("no symbol")
    return str(schema["symbols"][index])


def _require_int32(value: int) -> int:
    if value not in _INT32:
        raise ValueError("no int")
    return value


def _make_primitive(schema: Mapping[str, Any]) -> Scalar:
    match schema["type"]:
        case "null" | "string":
            return TEXT
        case "boolean":
            return make_plain(pa.bool_())
        case "int":
            return make_int32()
        case "long":
            return make_plain(pa.int64())
        case "float":
            return make_plain(pa.float32())
        case "double":
            return make_plain(pa.float64())
        case "bytes":
            return make_binary()
        case "fixed":
            return make_binary(schema["size"])
        case "enum":
            return make_enum(schema["symbols"])
        case _:
            raise UnusableSchemaError("has a type that Avro does not know")


def _read_decimal(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return precision and scale, None where they are none; the logical type is ignored then, as Avro says."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return None
    return (precision, scale) if 1 <= precision <= _MAXIMUM_DECIMAL_DIGITS else None


def _make_logical(schema: Mapping[str, Any]) -> Scalar | None:
    """Make the column of a logical type; None for one that Avro does not know, which is its underlying type."""
    match schema["type"], schema.get("logical"):
        case "int", "date":
            return make_date()
        case ("int", "time-millis") | ("long", "time-micros") as kind:
            return make_time_text(_PER_SECOND[kind[1][5:]])
        case "long", ("timestamp-nanos" | "local-timestamp-nanos" as name):
            return make_nanosecond_text(is_utc=name == "timestamp-nanos")
        case "long", ("timestamp-millis" | "timestamp-micros" as name):
            return make_timestamp(_PER_SECOND[name[10:]], "UTC")
        case "long", ("local-timestamp-millis" | "local-timestamp-micros" as name):
            return make_timestamp(_PER_SECOND[name[16:]], None)
        case "string", "uuid":
            return make_uuid()
        case "fixed", "uuid" if schema["size"] == _UUID_BYTES:
            return make_uuid()
        case (("bytes" | "fixed"), "decimal") if digits := _read_decimal(schema):
            return make_decimal(*digits)
    return None


def _convert_scalar(schema: Mapping[str, Any], value: Any) -> Any:
    """Make of a single value what JSON has: a number, or the text that its column would have."""
    match schema["type"], schema.get("logical"):
        case "int", "date":
            return write_date(value)
        case ("int", "time-millis") | ("long", "time-micros") as kind:
            return write_time(value, _PER_SECOND[kind[1][5:]])
        case "long", str(name) if name.removeprefix("local-").startswith("timestamp-"):
            per_second = _PER_SECOND.get(name.removeprefix("local-")[10:])
            return write_timestamp(value, per_second, is_utc=name.startswith("t")) if per_second else value
        case (("bytes" | "fixed"), "decimal") if digits := _read_decimal(schema):
            return _require(write_decimal(value, *digits))
        case "fixed", "uuid" if schema["size"] == _UUID_BYTES:
            return str(uuid.UUID(bytes=value))
        case (("bytes" | "fixed"), _):
            return write_bytes(value)
        case (("float" | "double"), _):
            return write_float(value)
        case "int", _:
            return _require_int32(value)
    return value


def _require(text: str | None) -> str:
    if text is None:
        raise ValueError("too many digits")
    return text
