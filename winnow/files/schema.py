"""The Parquet schema of a segment: the columns and types of Spark's Kafka source, with Iceberg's field ids.

All columns are optional in the table: a file written from several inputs has optional columns, and PyIceberg refuses
an optional column where the table requires one.
"""

from __future__ import annotations

import pyarrow as pa

FIELD_IDS: dict[str, int] = {
    "partition": 1,
    "offset": 2,
    "timestamp": 3,
    "timestampType": 4,
    "key": 5,
    "value": 6,
    "headers": 7,
}
HEADERS_ELEMENT_ID, HEADER_KEY_ID, HEADER_VALUE_ID = 8, 9, 10


def _make_field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=True, metadata={b"PARQUET:field_id": str(field_id).encode()})


HEADERS_TYPE = pa.list_(
    _make_field(
        "element",
        pa.struct([_make_field("key", pa.string(), HEADER_KEY_ID), _make_field("value", pa.binary(), HEADER_VALUE_ID)]),
        HEADERS_ELEMENT_ID,
    )
)

ARROW_SCHEMA = pa.schema(
    [
        _make_field("partition", pa.int32(), FIELD_IDS["partition"]),
        _make_field("offset", pa.int64(), FIELD_IDS["offset"]),
        _make_field("timestamp", pa.timestamp("us", tz="UTC"), FIELD_IDS["timestamp"]),
        _make_field("timestampType", pa.int32(), FIELD_IDS["timestampType"]),
        _make_field("key", pa.binary(), FIELD_IDS["key"]),
        _make_field("value", pa.binary(), FIELD_IDS["value"]),
        _make_field("headers", HEADERS_TYPE, FIELD_IDS["headers"]),
    ]
)
"""Column order and types of every segment. Timestamps are microseconds in UTC and always whole milliseconds."""
