"""Iceberg tables of Kafka records as other programs write them, and the sample of Iceberg's own sink."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from tests.support.sample_archives import SAMPLES
from winnow.values.model import Record

CATALOG = "lake"
SAMPLE_PLACE = "/tmp/doors/iceberg/warehouse/iceberg-metadata"
"""Where the sample's table was written."""

KAFKA_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
        pa.field("day", pa.string()),
    ]
)
"""What Spark's Kafka source gives, and a column of somebody's own."""


def make_catalog(
    folder: Path, monkeypatch: pytest.MonkeyPatch, warehouse: str | None = None, **properties: str
) -> Catalog:
    """Make a catalog that PyIceberg finds under the name :data:`CATALOG`, with the namespace ``shop``.

    ``properties``: what a writer needs besides; only it knows them.
    """
    folder.mkdir(parents=True)
    common = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": warehouse or f"file://{folder}/warehouse",
    }
    for name, value in common.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    catalog = load_catalog(CATALOG, **properties)
    catalog.create_namespace("shop")
    return catalog


def make_rows(records: Sequence[Record], topic: str | None = "orders") -> pa.Table:
    """Records as rows of a table of Spark's."""
    return pa.Table.from_pylist(
        [
            {
                "key": each.key,
                "value": each.value,
                "topic": topic,
                "partition": each.partition,
                "offset": each.offset,
                "timestamp": None if each.timestamp_ms is None else each.timestamp_ms * 1000,
                "timestampType": each.timestamp_type,
                "headers": None
                if each.headers is None
                else [{"key": key, "value": value} for key, value in each.headers],
                "day": "2026-03-01",
            }
            for each in records
        ],
        KAFKA_SCHEMA,
    )


def create_kafka_table(catalog: Catalog, name: str = "shop.orders", **properties: str) -> Table:
    """Create an empty table of Kafka records."""
    return catalog.create_table(name, KAFKA_SCHEMA, properties=properties)


def unpack_sink_table(folder: Path) -> Path:
    """Unpack the table that Iceberg's sink wrote; return its folder. Its metadata name the new place."""
    with tarfile.open(SAMPLES / "iceberg" / "iceberg-metadata.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    table = folder / "shop" / "orders"
    for path in (table / "metadata").glob("*.json"):
        if path.name[0] != ".":
            path.write_text(json.dumps(_move(json.loads(path.read_text()), folder)))
    for path in (table / "metadata").glob("*.avro"):
        if path.name[0] != ".":
            _change_avro(path, lambda rows: [_move(row, folder) for row in rows])
    return table


def add_delete_manifest(table: Table) -> None:
    """Make the newest snapshot of ``table`` name a manifest of delete files too."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = Path(snapshot.manifest_list.removeprefix("file://"))
    _change_avro(path, lambda rows: [*rows, {**rows[0], "manifest_path": "deletes.avro", "content": 1}])


def _change_avro(path: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, rows = reader.writer_schema, list(reader)
        header = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}
    assert schema is not None
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, change(rows), metadata=header)


def _move(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {name: _move(member, folder) for name, member in value.items()}
    if isinstance(value, list):
        return [_move(member, folder) for member in value]
    if isinstance(value, str):
        return value.replace(f"file://{SAMPLE_PLACE}", f"file://{folder}").replace(
            f"file:{SAMPLE_PLACE}", f"file:{folder}"
        )
    return value
