"""The side table of quarantined records: records without a key that a compacted topic cannot hold.

Rows are keyed by ingest id, file digest and row; those that a compaction moved out of the log by ingest id, partition
and offset. They are in the table before the log's commit and count only when the log's state names their ingest id, so
a crash between the two leaves rows that no reader sees.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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

from winnow.errors import CommitConflictError, DamagedMetadataError, DamagedSegmentError
from winnow.files import storage
from winnow.files.checked_reading import PAGES_BYTES, translate_read_errors
from winnow.files.file_names import is_attempt_file, is_ingest_file
from winnow.files.parquet_footer import require_readable_footer
from winnow.files.quarantine_files import (
    QuarantineWriter,
    locate_ingest_folder,
    may_contain_ingest,
    name_ingest_folder,
)
from winnow.log.catalog_access import ensure_namespace, translate_catalog_errors, wait_before_retry
from winnow.log.deleted_topics import drop_table
from winnow.log.file_checksums import make_damage_error
from winnow.log.manifests import list_live_manifests, list_live_paths, read_live_sizes
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

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
    "write.metadata.previous-versions-max": "20",
    "commit.retry.num-retries": "10",
}


@dataclass(frozen=True, slots=True, order=True)
class QuarantineFile:
    """A file of the quarantine as listed in the table's manifest."""

    path: str
    records: int
    size_bytes: int


class Quarantine:
    """The quarantined records of one topic, in a side table that may not exist yet.

    ``locate`` finds the folder of its files, at first use.
    """

    def __init__(self, catalog: Catalog, identifier: Identifier, locate: Callable[[], str]) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._locate = locate
        self.topic = str(identifier[-1])

    @cached_property
    def location(self) -> str:
        """The folder of its files, named after the log's life.

        Raises:
            UnknownTopicError: there is no such topic.
            ServiceError: the catalog cannot be reached.
        """
        return self._locate()

    def prepare(self) -> None:
        """Create the table if there is none, so that the catalog vends credentials for its folder.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        with translate_catalog_errors(f"The quarantine of topic {self.topic} could not be made"):
            self._create_table()

    def append(self, rows: pa.Table, ingest_id: str) -> None:
        """Add rows of :data:`winnow.files.quarantine_files.QUARANTINE_SCHEMA`, all of one ingest call.

        Raises:
            CommitConflictError: other commits came first too often; no record of the call is visible.
            DamagedMetadataError: the table's manifest list is damaged.
            ServiceError: the catalog cannot be reached.
        """
        with translate_catalog_errors(f"The quarantine of topic {self.topic} could not be written"):
            self._create_table()
            # Not Table.append: PyIceberg turns a missing list into an empty one, and records must not change.
            path = storage.join(locate_ingest_folder(self.location, ingest_id), f"{uuid.uuid4().hex}.parquet")
            with QuarantineWriter(file_bytes=rows.nbytes + 1, name=lambda _: path, below=self.location) as writer:
                for batch in rows.to_batches():
                    writer.write(batch)
            storage.sync([path])
            if not self._add_files([path], are_new=True):
                raise self._make_conflict_error("records without a key were not put there", "Nothing was ingested.")

    def adopt(self, paths: Sequence[str]) -> None:
        """Add files that are already written to the table.

        Files that the table names already are skipped, so repeating it changes nothing.

        Raises:
            CommitConflictError: other commits came first too often; nothing was added.
            DamagedMetadataError: the table's manifest list is damaged.
            ServiceError: the catalog cannot be reached.
        """
        with translate_catalog_errors(
            f"The quarantine of topic {self.topic} could not add {format_count(len(paths), 'file')}"
        ):
            if not self._add_files(paths, are_new=False):
                raise self._make_conflict_error("keyless records were not moved there", "Nothing was published.")

    def _add_files(self, paths: Sequence[str], *, are_new: bool) -> bool:
        """Add the files that the table does not name; return False if other commits came first too often.

        ``are_new``: nobody else knows them, so that what the table names is not read before the first try.
        """
        for attempt in range(MAXIMUM_COMMIT_TRIES):
            table = self._create_table()
            there: set[str] = set()
            if are_new and not attempt:
                _list_manifests(table)  # PyIceberg tells a damaged list by whatever its decoder raises
            else:
                there = _list_paths(table)
            missing = [path for path in paths if path not in there]
            if not missing:
                return True
            try:
                _add_once(table, missing)
            except CommitFailedException:
                wait_before_retry(attempt)
            else:
                return True
        return False

    def _make_conflict_error(self, what: str, left: str) -> CommitConflictError:
        return CommitConflictError(
            f"Other commits to the quarantine of topic {self.topic} came first {MAXIMUM_COMMIT_TRIES} times; {what}.",
            left=left,
            next="Run it again.",
        )

    def read(
        self, visible: Sequence[str], *, partition: int | None = None, offsets: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows of the ingests in ``visible`` (from the log's state), in no particular order.

        ``partition`` and ``offsets`` (first and last) select rows; rows without these values are left out.

        Raises:
            DamagedSegmentError: a file differs from what was written.
            ServiceError: the catalog cannot be reached.
        """
        if not visible:
            return
        with translate_catalog_errors(f"The quarantine of topic {self.topic} could not be read"):
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                return
            wanted = pc.field("ingest_id").isin(list(visible))
            if partition is not None:
                wanted &= pc.field("partition") == partition
            if offsets is not None:
                wanted &= (pc.field("offset") >= offsets[0]) & (pc.field("offset") <= offsets[1])
            ids = frozenset(visible)
            for path in sorted(_list_paths(table)):
                if may_contain_ingest(path, self.location, ids):
                    yield from _read_rows(self.topic, path, wanted)
                elif not storage.exists(path):
                    # Rows of an ingest that will never be visible, or a name in a damaged manifest.
                    raise _list_missing(self.topic, path)

    def files(self) -> list[QuarantineFile]:
        """List the files of the table by path; none if there is no table.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        with translate_catalog_errors(f"The quarantine of topic {self.topic} could not be read"):
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                return []
            found = [read_live_sizes(table.io, manifest) for manifest in _list_manifests(table)]
        return sorted(QuarantineFile(path, *sizes) for each in found for path, sizes in each.items())

    def table(self) -> Table | None:
        """Load the table; None if nothing was ever quarantined.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        with translate_catalog_errors(f"The quarantine of topic {self.topic} could not be read"):
            try:
                return self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                return None

    def drop(self, metadata_location: str) -> None:
        """Drop the table's entry in the catalog if it still is at ``metadata_location``; its files stay."""
        drop_table(self._catalog, self._identifier, metadata_location, f"the quarantine of topic {self.topic}")

    def list_files_of_plan(self, plan_id: str, adopted: Collection[str]) -> storage.Listing:
        """List files with keyless records that attempts at a plan wrote: in their folder, or named by the table.

        ``adopted``: the paths of :meth:`files`.
        """
        return self._list_files(f"data/{plan_id}", adopted, partial(is_attempt_file, quarantined=True))

    def list_files_of_ingest(self, ingest_id: str, adopted: Collection[str]) -> storage.Listing:
        """List files with keyless records that an ingest call wrote; ``adopted`` as for :meth:`list_files_of_plan`."""
        return self._list_files(name_ingest_folder(ingest_id), adopted, partial(is_ingest_file, quarantined=True))

    def _list_files(self, folder: str, adopted: Collection[str], is_named: Callable[[str], bool]) -> storage.Listing:
        listing = storage.list_named_files(self.location, folder, is_named)
        there = {entry.uri for entry in listing.files}
        # A process that was paused may have added a file after a sweep deleted it.
        below = f"{storage.join(self.location, folder)}/"
        gone = [path for path in adopted if path.startswith(below) and path not in there]
        named = [storage.FileEntry(path, 0) for path in sorted(gone) if is_named(path.removeprefix(below))]
        return storage.Listing((*listing.files, *named), listing.others)

    def remove_files(self, paths: Collection[str]) -> None:
        """Remove files from the table whose records no state names or will name. Repeating it changes nothing.

        Raises:
            CommitConflictError: other commits came first too often; the table still names the files.
            ServiceError: the catalog cannot be reached.
        """
        gone = frozenset(paths)
        with translate_catalog_errors(f"Files could not be taken out of the quarantine of topic {self.topic}"):
            for attempt in range(MAXIMUM_COMMIT_TRIES):
                try:
                    table = self._catalog.load_table(self._identifier)
                except NoSuchTableError:
                    return
                if not gone & _list_paths(table):
                    return
                files = [task.file for task in table.scan().plan_files() if task.file.file_path in gone]
                if not files:
                    return
                try:
                    with (
                        _disable_retries(table).transaction() as transaction,
                        transaction.update_snapshot().overwrite() as snapshot,
                    ):
                        for file in files:
                            snapshot.delete_data_file(file)
                except CommitFailedException:
                    wait_before_retry(attempt)
                else:
                    return
        raise CommitConflictError(
            f"Other commits to the quarantine of topic {self.topic} came first {MAXIMUM_COMMIT_TRIES} times.",
            left="Nothing was taken out of it.",
            next="Run the sweep again.",
        )

    def _create_table(self) -> Table:
        ensure_namespace(self._catalog, str(self._identifier[0]))
        try:
            return self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            try:
                return self._catalog.create_table(
                    self._identifier, schema=SCHEMA, location=self.location, properties=_PROPERTIES
                )
            except TableAlreadyExistsError:
                return self._catalog.load_table(self._identifier)


def _list_missing(topic: str, path: str) -> DamagedMetadataError:
    return DamagedMetadataError(
        f"A file that the quarantine of topic {topic} names is missing: {path}.",
        left="Nothing was changed.",
        next=(
            f"If a process that was paused left that name behind, winnow sweep {topic} removes it; else restore the "
            "file from a backup or the object store's versions."
        ),
    )


def _list_paths(table: Table) -> set[str]:
    """List the paths of the files in the table's newest snapshot.

    Raises:
        DamagedMetadataError: its metadata are damaged; PyIceberg takes a manifest that ends early for a short one.
    """
    paths: set[str] = set()
    for manifest in _list_manifests(table):
        for path in list_live_paths(table.io, manifest):
            if not path.isprintable():
                raise make_damage_error(manifest.manifest_path)  # no file of ours is called so
            paths.add(path)
    return paths


def _list_manifests(table: Table) -> list[ManifestFile]:
    snapshot = table.current_snapshot()
    if snapshot is None:
        if table.metadata.snapshots or table.metadata.current_snapshot_id is not None:
            raise make_damage_error(table.metadata_location)  # the table would appear empty
        return []
    return list_live_manifests(table.io, snapshot)


def _add_once(table: Table, paths: Sequence[str]) -> None:
    # Disabled here only and not in the catalog: PyIceberg's own retry does not check again whether another process with
    # the same attempt has added a file meanwhile.
    _disable_retries(table).add_files(list(paths), check_duplicate_files=False)


def _disable_retries(table: Table) -> Table:
    """Turn PyIceberg's own retry off for ``table`` in this process."""
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _read_rows(topic: str, path: str, wanted: pc.Expression) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    filesystem, path_in_store = storage.open_filesystem(path)
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    checked = ds.ParquetFileFormat(default_fragment_scan_options=options)
    try:
        with translate_read_errors(), storage.translate_store_errors(path):
            with filesystem.open_input_file(path_in_store) as stream:
                require_readable_footer(pq.ParquetFile(stream, buffer_size=PAGES_BYTES))
            # Row groups without a selected row are skipped by their statistics.
            scanner = ds.dataset(path_in_store, filesystem=filesystem, format=checked).scanner(
                filter=wanted, batch_readahead=1, fragment_readahead=1, use_threads=False
            )
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield batch
    except DamagedSegmentError as problem:
        raise DamagedSegmentError(
            f"A file of the quarantined records of topic {topic} {problem}: {path}.",
            left="Nothing was changed.",
            next="Restore that file from a backup or the object store's versions.",
        ) from problem
