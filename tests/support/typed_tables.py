"""A side table that goes from bytes to typed columns, wider ones, renamed ones, and back to bytes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from tests.support.row_types import build_array
from tests.support.world import TOPIC, World, record
from winnow.files import storage
from winnow.log.latest_tables import LatestHead, LatestTable
from winnow.log.table import LOG_SCHEMA
from winnow.log.topic_configuration import set_config
from winnow.log.typed_schema import build_arrow_schema, evolve_schema, read_columns
from winnow.pipeline.latest.table import update_latest_table
from winnow.schemas.row_types import merge_row_types, project_rows
from winnow.values.model import Segment

WRITER_TYPES: Final = {
    "typed": pa.struct(
        [
            pa.field("city", pa.string()),
            pa.field("amount", pa.int32()),
            pa.field("lines", pa.list_(pa.struct([pa.field("n", pa.int32())]))),
        ]
    ),
    "wider": pa.struct(
        [
            pa.field("amount", pa.int64()),
            pa.field("lines", pa.list_(pa.struct([pa.field("n", pa.int64()), pa.field("sku", pa.string())]))),
            pa.field("city", pa.int64()),
            pa.field("id", pa.uuid()),
            pa.field("rates", pa.map_(pa.string(), pa.decimal128(20, 2))),
        ]
    ),
    "renamed": pa.struct(
        [
            pa.field("town", pa.string(), metadata={"aliases": "city"}),
            pa.field("amount", pa.int64()),
            pa.field("lines", pa.list_(pa.struct([pa.field("n", pa.int64())]))),
        ]
    ),
}
"""What the topic's records are written with, step by step."""
ROWS: Final[dict[str, list[Any]]] = {
    "typed": ["Oslo", 2**31 - 1, [[1], None]],
    "wider": [2**40, [[2**50, "a"]], 7, uuid.UUID(int=5).bytes, {"x": None}],
    "renamed": ["Rome", 3, []],  # PyIceberg reads a list of structs that is null as an empty one
}


@dataclass
class TypedTable:
    """The side table of a topic, whose files are written and committed by hand."""

    world: World
    latest: LatestTable
    schema: Schema = LOG_SCHEMA
    written: int = 0
    files: list[Segment] = field(default_factory=list)
    of_bytes: list[Segment] = field(default_factory=list)

    @property
    def head(self) -> LatestHead:
        """The newest snapshot."""
        head = self.latest.load()
        assert head is not None
        return head

    def evolve(self, columns: pa.StructType) -> Schema:
        """Let the present schema become one with ``columns`` beside those that it has."""
        metadata = self.head.table.metadata
        merged = merge_row_types(read_columns(metadata.schema()), columns)
        return evolve_schema(metadata.schema(), metadata.last_column_id, merged)

    def write(self, step: str, schema: Schema) -> Segment:
        """Write a file with one row of what is written in ``step``, in the columns of ``schema``."""
        offset = 100 + self.written
        self.written += 1
        rows = project_rows(build_array([ROWS[step]], WRITER_TYPES[step]), read_columns(schema))
        system: dict[str, Any] = {"__partition": 0, "__offset": offset}
        system["__timestamp"] = datetime.fromtimestamp(offset / 1000, UTC)
        target = build_arrow_schema(schema)
        columns = [
            pa.array([system.get(column.name)], column.type)
            if column.name.startswith("__")
            else rows.field(column.name)
            for column in target
        ]
        path = storage.join(self.latest.location, "data", f"{offset}-{uuid.uuid4().hex}.parquet")
        local = storage.parse_local_path(path)
        local.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_arrays(columns, schema=target), local, store_schema=False, write_statistics=False)
        return Segment(path, 0, offset, offset, 1, local.stat().st_size, offset, offset, 0, 0)

    def commit(self, schema: Schema, *, add: list[Segment], remove: list[Segment]) -> int | None:
        """Commit files together with ``schema``; what it returns is the table's business."""
        head = self.head
        assert head.reflected is not None
        return self.latest.commit(head, head.reflected, add=add, remove=remove, operation="test", schema=schema)

    def take(self, step: str) -> None:
        """Evolve the columns by those of ``step``, and add its row; a table of bytes loses its files."""
        schema = self.evolve(WRITER_TYPES[step])
        added = self.write(step, schema)
        if not self.files:
            self.of_bytes = [segment for files in self.latest.segments(self.head).values() for segment in files]
        assert self.commit(schema, add=[added], remove=[] if self.files else self.of_bytes) is not None
        self.files.append(added)
        self.schema = schema

    def return_to_bytes(self) -> None:
        """Bring the table back to the log's own columns, with the files of then."""
        assert self.commit(LOG_SCHEMA, add=self.of_bytes, remove=self.files) is not None
        self.files = []
        self.schema = LOG_SCHEMA


def open_typed_table(world: World) -> TypedTable:
    """Make a topic with one record, and the table of bytes of its latest state."""
    world.create(1)
    set_config(world.installation.log.open(TOPIC), {"winnow.latest.table": "true"}, [])
    world.ingest([record(0, b"a", b"1")])
    update_latest_table(world.installation, TOPIC)
    return TypedTable(world, world.installation.log.latest_table(TOPIC))
