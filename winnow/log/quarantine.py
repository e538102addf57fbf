"""The side table of quarantined records: keyless ones that a compacted topic cannot hold.

Rows are keyed by ingest id, file digest and row; those that a compaction moved out of the log by ingest id, partition
and offset. They are in the table before the log's commit and count only when the log's state names their ingest id, so
a crash between the two leaves rows nobody sees.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
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

from winnow.errors import CommitConflictError
from winnow.files import storage
from winnow.files.quarantine import QuarantineWriter, moved_folder
from winnow.log.topic_log import COMMIT_TRIES, back_off, catalog_errors, ensure_namespace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

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

_PROPERTIES = {
    "write.metadata.metrics.default": "none",
    "write.metadata.delete-after-commit.enabled": "true",
    "commit.retry.num-retries": "10",
}


class Quarantine:
    """The quarantined records of one topic. ``location``: the folder of its table, which may not be there yet."""

    def __init__(self, catalog: Catalog, topic: str, location: str) -> None:
        self._catalog = catalog
        self._identifier = (NAMESPACE, topic)
        self.location = location
        self.topic = topic

    def append(self, rows: pa.Table) -> None:
        """Add rows of :data:`winnow.files.quarantine.QUARANTINE_SCHEMA`; appends do not conflict with one another."""
        with catalog_errors(f"The quarantine of topic {self.topic} could not be written"):
            table = self._created()
            # Not Table.append: PyIceberg makes an empty list of a missing one, and records must stay what they were.
            path = storage.join(self.location, "data", f"{uuid.uuid4().hex}.parquet")
            with QuarantineWriter(file_bytes=rows.nbytes + 1, name=lambda _: path) as writer:
                for batch in rows.to_batches():
                    writer.write(batch)
            table.add_files([path], check_duplicate_files=False)

    def adopt(self, paths: Sequence[str]) -> None:
        """Take files that are written already into the table.

        Those that it names are passed over, so repeating it changes nothing.

        Raises:
            CommitConflictError: other commits came first too often; nothing of this one landed.
            ServiceError: the catalog cannot be reached.
        """
        with catalog_errors(f"The quarantine of topic {self.topic} could not take over {len(paths)} file(s)"):
            for attempt in range(COMMIT_TRIES):
                table = self._created()
                there = _named(table)
                missing = [path for path in paths if path not in there]
                if not missing:
                    return
                try:
                    _add_once(table, missing)
                except CommitFailedException:
                    back_off(attempt)
                else:
                    return
        raise CommitConflictError(
            f"Other commits to the quarantine of topic {self.topic} came first {COMMIT_TRIES} times; its keyless "
            "records were not moved and nothing was published. Run it again."
        )

    def read(
        self, visible: Sequence[str], *, partition: int | None = None, offsets: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the ingests in ``visible`` (from the log's state), in no particular order.

        ``partition`` and ``offsets`` (first and last) leave out the rows of others, and of none.
        """
        if not visible:
            return
        with catalog_errors(f"The quarantine of topic {self.topic} could not be read"):
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                return
            wanted = pc.field("ingest_id").isin(list(visible))
            if partition is not None:
                wanted &= pc.field("partition") == partition
            if offsets is not None:
                wanted &= (pc.field("offset") >= offsets[0]) & (pc.field("offset") <= offsets[1])
            for path in sorted(_named(table)):
                yield from _rows(path, wanted)

    def unadopted(self, plan_id: str) -> list[storage.FileEntry]:
        """Files with keyless records that attempts at a plan wrote and the table does not name: nobody will see them.

        Ask only for a plan whose run is closed: an open one may be about to be published.
        """
        found = storage.list_files(moved_folder(self.location, plan_id))
        if not found:
            return []
        with catalog_errors(f"The quarantine of topic {self.topic} could not be read"):
            try:
                there = _named(self._catalog.load_table(self._identifier))
            except NoSuchTableError:
                there = set()
        return [entry for entry in found if entry.uri not in there]

    def _created(self) -> Table:
        ensure_namespace(self._catalog, NAMESPACE)
        try:
            return self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            try:
                return self._catalog.create_table(
                    self._identifier, schema=SCHEMA, location=self.location, properties=_PROPERTIES
                )
            except TableAlreadyExistsError:
                return self._catalog.load_table(self._identifier)


def _named(table: Table) -> set[str]:
    """Paths of the files in the table's newest snapshot. Nothing is ever taken out of it."""
    return {task.file.file_path for task in table.scan().plan_files()}


def _add_once(table: Table, paths: Sequence[str]) -> None:
    # Here only and not in the catalog: PyIceberg's own retry does not ask again whether somebody else, with the same
    # attempt in hand, has added a file meanwhile.
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    table.add_files(list(paths), check_duplicate_files=False)


def _rows(path: str, wanted: pc.Expression) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    filesystem, path_in_store = storage.filesystem_for(path)
    # Row groups without a row that is wanted are passed over by their statistics.
    scanner = ds.dataset(path_in_store, filesystem=filesystem, format="parquet").scanner(
        filter=wanted, batch_readahead=1, fragment_readahead=1, use_threads=False
    )
    for batch in scanner.to_batches():
        if batch.num_rows:
            yield batch
