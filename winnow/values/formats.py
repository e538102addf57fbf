"""The formats that keys and values of records have."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How the bytes of a key or value are read, by the name in a topic's configuration."""

    BYTES = "bytes"
    """As they are."""

    STRING = "string"
    """UTF-8."""

    JSON = "json"
    """JSON without a schema."""

    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"
    """JSON with a schema."""
