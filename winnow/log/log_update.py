"""Writes a snapshot with few manifests: adds and removes segments in one commit.

PyIceberg's fast append leaves one manifest for each append for ever, and its overwrite reads every manifest of a
touched partition twice and keeps manifests that name only deleted files. Here the manifests that lose a file are read
once, what they keep goes into new ones in the order of partitions, and once there are many small ones they are put
together. So the number of manifests follows the number of files, not the number of commits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DATA_FILE_TYPE, DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.typedef import Record

from winnow.errors import WinnowError
from winnow.files.placed_files import FilePlace
from winnow.log.file_checksums import ChecksumNames
from winnow.log.manifests import (
    count_live_files,
    decode_long,
    make_segment,
    read_live_entries,
    reduce_garbage_collection,
)
from winnow.log.table import BOUNDED_IDS, LOG_SPEC, make_data_file
from winnow.values.model import Segment

if TYPE_CHECKING:
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update import TableUpdate, UpdatesAndRequirements

MAXIMUM_MANIFEST_ENTRIES: Final = 10_000
"""Maximum entries per merged manifest; one with less than half of it counts as small."""
MAXIMUM_SMALL_MANIFESTS: Final = 20
"""Maximum small manifests before a commit merges them; keeps the number of files that planning opens low."""
_MAXIMUM_BLOCK_ENTRIES: Final = 1_000
_DATA_FILE_COLUMNS: Final = [column.name for column in DATA_FILE_TYPE[2].fields]


@dataclass(frozen=True)
class _Carried:
    """Contents that the new snapshot takes over: unchanged manifests, entries to rewrite, and entries to remove."""

    manifests: list[ManifestFile] = field(default_factory=list)
    entries: list[ManifestEntry] = field(default_factory=list)
    gone: list[ManifestEntry] = field(default_factory=list)


class LogUpdate(_SnapshotProducer["LogUpdate"]):
    """One commit to a log: adds the segments ``add`` and removes those in ``remove``. An append if nothing is removed.

    Args:
        transaction: the table's transaction, at the head that the commit is made for.
        table: the table at that head.
        manifests: those of its newest snapshot.
        add: new segments.
        remove: paths of segments to take out. :attr:`missing` counts those that are no longer in the log.
        remove_from: their partitions; None: any.
        places: of the new files that lie in a table which is partitioned by more than the topic partition.
        begun_ms: when what is committed began to be built, the time that the snapshot bears; None: the present.
    """

    def __init__(
        self,
        transaction: Transaction,
        table: Table,
        manifests: Sequence[ManifestFile],
        *,
        add: Sequence[Segment],
        remove: Sequence[str],
        remove_from: Collection[int] | None = None,
        places: Mapping[str, FilePlace] | None = None,
        begun_ms: int | None = None,
    ) -> None:
        self._begun_ms = begun_ms
        self._files = ChecksumNames(table.io)
        super().__init__(Operation.OVERWRITE if remove else Operation.APPEND, transaction, self._files)
        metadata = transaction.table_metadata  # with a schema that is staged for these files
        for segment in add:
            self.append_data_file(make_data_file(metadata, segment, (places or {}).get(segment.path)))
        self._live_before = sum(map(count_live_files, manifests))
        with reduce_garbage_collection():
            self._carried = self._carry(manifests, frozenset(remove), remove_from, adds=bool(add))
            self._carried.gone[:] = map(_drop_place, self._carried.gone)
        for entry in self._carried.gone:
            self.delete_data_file(entry.data_file)
        self.missing: int = len(frozenset(remove)) - len(self._carried.gone)

    def _carry(
        self,
        manifests: Sequence[ManifestFile],
        wanted: frozenset[str],
        partitions: Collection[int] | None,
        *,
        adds: bool,
    ) -> _Carried:
        carried = _Carried()
        ordered = None if partitions is None else sorted(partitions)
        for manifest in manifests:
            if not manifest.has_added_files() and not manifest.has_existing_files():
                continue  # names only files that an earlier snapshot removed
            if not wanted or not _may_contain_partitions(manifest, ordered):
                carried.manifests.append(manifest)
                continue
            entries = read_live_entries(self._io, manifest)
            going = [entry for entry in entries if entry.data_file.file_path in wanted]
            if not going:
                carried.manifests.append(manifest)
                continue
            carried.gone.extend(going)
            carried.entries.extend(entry for entry in entries if entry.data_file.file_path not in wanted)
        small = [manifest for manifest in carried.manifests if _is_small(manifest)]
        if len(small) + adds + bool(carried.entries) > MAXIMUM_SMALL_MANIFESTS:
            paths = {manifest.manifest_path for manifest in small}
            carried.manifests[:] = [each for each in carried.manifests if each.manifest_path not in paths]
            for manifest in small:
                carried.entries.extend(read_live_entries(self._io, manifest))
        return carried

    def _manifests(self) -> list[ManifestFile]:
        with reduce_garbage_collection():
            added = [_make_entry(ManifestEntryStatus.ADDED, self._snapshot_id, each) for each in self._added_data_files]
            existing = [
                _make_entry(ManifestEntryStatus.EXISTING, each.snapshot_id, each.data_file, each)
                for each in self._carried.entries
            ]
            deleted = [
                _make_entry(ManifestEntryStatus.DELETED, self._snapshot_id, each.data_file, each)
                for each in self._carried.gone
            ]
            made = [*self._write(added), *self._write(deleted), *self._write(existing), *self._carried.manifests]
            self._check_files(made)
            return made

    def _check_files(self, made: Sequence[ManifestFile]) -> None:
        """Check that every file of the log is still in it, except the removed ones."""
        expected = self._live_before + len(self._added_data_files) - len(self._carried.gone)
        found = sum(map(count_live_files, made))
        if found != expected:
            raise WinnowError(
                f"The commit would leave {found} files in the log instead of {expected}: this is a defect of Winnow.",
                left="Nothing was changed, and readers see the log as it was.",
            )

    def _write(self, entries: Iterable[ManifestEntry]) -> list[ManifestFile]:
        by_spec: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
        written = []
        for spec_id, mine in sorted(by_spec.items()):
            # In the order of partitions, so that the next commit opens only those that hold its partitions.
            mine.sort(key=lambda entry: (entry.data_file.partition[0] or 0, entry.data_file.file_path))
            # Distributed evenly, so that no small manifest is left over.
            count = -(-len(mine) // MAXIMUM_MANIFEST_ENTRIES)
            for number in range(count):
                some = mine[len(mine) * number // count : len(mine) * (number + 1) // count]
                with self.new_manifest_writer(self.spec(spec_id)) as writer:
                    writer._writer = _Blocks(writer._writer)  # type: ignore[assignment]
                    for entry in some:
                        writer.add_entry(entry)
                written.append(writer.to_manifest_file())
        return written

    @property
    def removed(self) -> list[Segment]:
        """The removed segments, as the manifests have them."""
        return [make_segment(entry.data_file) for entry in self._carried.gone]

    def _commit(self) -> UpdatesAndRequirements:
        updates, requirements = super()._commit()
        # PyIceberg reads the names before the files are written; the names with checksums are known only afterwards.
        *self._written_manifests, manifest_list = self._files.written
        self._written_manifest_lists = [manifest_list]
        return tuple(self._change_snapshot(update, manifest_list) for update in updates), requirements

    def _change_snapshot(self, update: TableUpdate, manifest_list: str) -> TableUpdate:
        """Give the snapshot that ``update`` adds its manifest list and its time."""
        if not isinstance(update, AddSnapshotUpdate):
            return update
        begun_ms = update.snapshot.timestamp_ms if self._begun_ms is None else self._begun_ms
        # Iceberg refuses a snapshot that is older than the table by a minute, and other machines' clocks may be ahead;
        # one of the very same time would let PyIceberg date the table by a clock that is behind.
        timestamp_ms = max(begun_ms, self._transaction._table.metadata.last_updated_ms + 1)
        changes = {"manifest_list": manifest_list, "timestamp_ms": timestamp_ms}
        return update.model_copy(update={"snapshot": update.snapshot.model_copy(update=changes)})

    def _existing_manifests(self) -> list[ManifestFile]:
        return self._carried.manifests

    def _deleted_entries(self) -> list[ManifestEntry]:
        return self._carried.gone

    def _refresh_for_retry(self) -> None:
        # The carried contents belong to one head; Winnow's own loop starts over with the next.
        raise CommitFailedException("Winnow's commit loop retries, PyIceberg does not.")


class _Blocks:
    """Writes many entries per block of the file; PyIceberg writes and compresses one block per entry."""

    def __init__(self, inner: AvroOutputFile[ManifestEntry]) -> None:
        self._inner = inner
        self._waiting: list[ManifestEntry] = []
        self.output_file = inner.output_file

    def write_block(self, entries: list[ManifestEntry]) -> None:
        self._waiting += entries
        if len(self._waiting) >= _MAXIMUM_BLOCK_ENTRIES:
            self._flush()

    def tell(self) -> int:
        return self._inner.tell()

    def _flush(self) -> None:
        if self._waiting:
            self._inner.write_block(self._waiting)
            self._waiting = []

    def __exit__(self, *problem: Any) -> None:
        if problem[0] is None:
            self._flush()
        self._inner.__exit__(*problem)


def _make_entry(
    status: ManifestEntryStatus, snapshot_id: int | None, file: DataFile, before: ManifestEntry | None = None
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        # Sequence numbers of new files are the commit's; readers take them from the manifest list.
        sequence_number=None if before is None else before.sequence_number,
        file_sequence_number=None if before is None else before.file_sequence_number,
        data_file=file,
    )


def _drop_place(entry: ManifestEntry) -> ManifestEntry:
    """Return the entry of a file that leaves, without what it says of values in a table with further partition fields.

    It stands under the first spec, which has the topic partition alone: values of rows that are gone, erased ones too,
    must not be in the newest snapshot, and the columns of a former spec may be gone.
    """
    file = entry.data_file
    if len(file.partition) == 1:
        return entry
    file[_DATA_FILE_COLUMNS.index("partition")] = Record(file.partition[0])
    for name in ("lower_bounds", "upper_bounds"):
        place = _DATA_FILE_COLUMNS.index(name)
        file[place] = {number: bound for number, bound in file[place].items() if number in BOUNDED_IDS}
    file.spec_id = LOG_SPEC.spec_id
    return entry


def _is_small(manifest: ManifestFile) -> bool:
    return count_live_files(manifest) < MAXIMUM_MANIFEST_ENTRIES // 2


def _may_contain_partitions(manifest: ManifestFile, partitions: Sequence[int] | None) -> bool:
    """Check by its bounds whether ``manifest`` may name a file of one of the sorted ``partitions``."""
    summaries = manifest.partitions
    if partitions is None or manifest.partition_spec_id != LOG_SPEC.spec_id or not summaries or len(summaries) != 1:
        return True
    lower, upper = summaries[0].lower_bound, summaries[0].upper_bound
    if lower is None or upper is None:
        return True
    at = bisect_left(partitions, decode_long(lower))
    return at < len(partitions) and partitions[at] <= decode_long(upper)
