"""The side table of quarantined records: keyless ones that a compacted topic cannot hold.

Rows are keyed by ingest id, file digest and row. They are written before the log's commit and count only when the
log's state names their ingest id, so a crash between the two leaves rows nobody sees.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from winnow.files import storage
from winnow.log.topic_log import catalog_errors, ensure_namespace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NAMESPACE = "winnow_quarantine"

SCHEMA = Schema(
    NestedField(1, "ingest_id", StringType(), required=False),
    NestedField(2, "file_digest", StringType(), required=False),
    NestedField(3, "row", LongType(), required=False),
    NestedField(4, "partition", IntegerType(), required=False),
    NestedField(5, "offset", LongType(), required=False),
    NestedField(6, "timestamp", TimestamptzType(), required=False),
    NestedField(7, "timestampType", IntegerType(), required=False),
    NestedField(8, "key", BinaryType(), required=False),
    NestedField(9, "value", BinaryType(), required=False),
    NestedField(
        10,
        "headers",
        ListType(
            11,
            StructType(
                NestedField(12, "key", StringType(), required=False),
                NestedField(13, "value", BinaryType(), required=False),
            ),
            element_required=False,
        ),
        required=False,
    ),
)

ARROW = pa.schema(
    [
        ("ingest_id", pa.string()),
        ("file_digest", pa.string()),
        ("row", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)

_PROPERTIES = {
    "write.metadata.metrics.default": "none",
    "write.metadata.delete-after-commit.enabled": "true",
    "commit.retry.num-retries": "10",
}


class Quarantine:
    """The quarantined records of one topic."""

    def __init__(self, catalog: Catalog, topic: str, location: str) -> None:
        self._catalog = catalog
        self._identifier = (NAMESPACE, topic)
        self._location = location
        self.topic = topic

    def append(self, rows: pa.Table) -> None:
        """Add rows of schema :data:`ARROW`; appends do not conflict with one another."""
        with catalog_errors(f"The quarantine of topic {self.topic} could not be written"):
            ensure_namespace(self._catalog, NAMESPACE)
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                try:
                    table = self._catalog.create_table(
                        self._identifier, schema=SCHEMA, location=self._location, properties=_PROPERTIES
                    )
                except TableAlreadyExistsError:
                    table = self._catalog.load_table(self._identifier)
            # Not Table.append: PyIceberg makes an empty list of a missing one, and records must stay what they were.
            path = storage.join(self._location, "data", f"{uuid.uuid4().hex}.parquet")
            _write(path, rows)
            table.add_files([path], check_duplicate_files=False)

    def read(self, visible: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows of the ingests in ``visible`` (from the log's state), in no particular order."""
        if not visible:
            return
        with catalog_errors(f"The quarantine of topic {self.topic} could not be read"):
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                return
            named = pa.array(visible, pa.string())
            for task in table.scan().plan_files():
                for batch in _batches(task.file.file_path):
                    yield batch.filter(pc.is_in(batch.column("ingest_id"), named))


def _write(path: str, rows: pa.Table) -> None:
    storage.make_parent(path)
    filesystem, path_in_store = storage.filesystem_for(path)
    with filesystem.open_output_stream(path_in_store) as stream:
        # As in segments: no minima and maxima of user bytes.
        pq.write_table(rows, stream, compression="zstd", write_statistics=["ingest_id", "row", "partition", "offset"])


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    filesystem, path_in_store = storage.filesystem_for(path)
    with filesystem.open_input_file(path_in_store) as stream:
        yield from pq.ParquetFile(stream).iter_batches()
