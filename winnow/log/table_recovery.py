"""Makes a metadata file that lies in a table's folder the newest one in the catalog again.

A chosen metadata file is read as if a catalog named it: every check of a head applies to it. One commit then makes it
the head: it carries the log unchanged and raises sequence number, fence, ingest number and metadata number above all
that is known, so that nothing which was prepared over another history fits. The catalog changes in a single step, from
exactly the entry that was seen, or from none.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    update_table_metadata,
)

from winnow.errors import CommitConflictError, DamagedMetadataError, WinnowError
from winnow.files import storage
from winnow.log import reference_chains
from winnow.log.catalog_access import translate_catalog_errors
from winnow.log.file_checksums import ChecksumNames
from winnow.log.head import Head
from winnow.log.head_checks import MAIN
from winnow.log.manifests import list_live_manifests
from winnow.log.places import is_below, normalize_place
from winnow.log.snapshot_expiry import Expiry, list_snapshots_naming, plan_leaving_out
from winnow.log.state import STATE_PROPERTY, StateReference, read_receipt, read_state
from winnow.log.topic_log import TopicLog
from winnow.log.warehouse_survey import MAXIMUM_READERS, FoundMetadata
from winnow.values.counts import format_count
from winnow.values.model import Segment

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

FileAccess = FileIO
"""Access to a table's files, for who does not know PyIceberg."""
MAXIMUM_PROBLEMS: Final = 20
"""Maximum problems of one kind that are told of a damaged table."""


class Land(Protocol):
    """Makes metadata the newest ones of a table in the catalog."""

    def __call__(
        self, metadata: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> str:
        """Return the location of the metadata file that the catalog names now.

        Raises:
            CommitFailedException: its entry is not what was seen; nothing changed.
        """


class LeavesOut(Protocol):
    """What no reader may find in the metadata that a commit lands."""

    def list_hidden_files(self) -> Collection[str]:
        """List the data files that no snapshot may name."""

    def record_expiring(self, expiry: Expiry) -> None:
        """Record what is left of the snapshots that are left out, before the metadata are landed."""


@runtime_checkable
class SwapsMetadata(Protocol):
    """A catalog whose entries can be set to any metadata file."""

    def find_metadata_location(self, identifier: str | Identifier) -> str | None:
        """Find the metadata file that a table's entry names; None: there is no entry."""

    def swap_metadata(self, identifier: Identifier, before: str, after: str) -> None:
        """Set the metadata file of an entry that names ``before``."""


@dataclass(frozen=True)
class CatalogEntry:
    """The catalog's entry of a table. ``metadata_location`` None: there is none.

    ``table`` None: there is none, or its metadata file cannot be read.
    """

    metadata_location: str | None
    table: Table | None

    @property
    def location(self) -> str | None:
        """The table's folder; None: there is no entry."""
        if self.table is not None:
            return str(self.table.location())
        return None if self.metadata_location is None else self.metadata_location.rpartition("/metadata/")[0]

    @property
    def table_uuid(self) -> str | None:
        """Identity of the table; None: it is not known."""
        return None if self.table is None else str(self.table.metadata.table_uuid)


def find_entry(catalog: Catalog, identifier: Identifier) -> CatalogEntry:
    """Find the catalog's entry of a table.

    Raises:
        ServiceError: the catalog cannot be reached, or it cannot read the metadata file that it names itself.
    """
    name = ".".join(identifier)
    with translate_catalog_errors(f"The entry of {name} could not be read"):
        location = catalog.find_metadata_location(identifier) if isinstance(catalog, SwapsMetadata) else None
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            return CatalogEntry(None, None)
        except (OSError, WinnowError, ValueError):
            if location is None:
                raise
            return CatalogEntry(location, None)
        return CatalogEntry(table.metadata_location, table)


class ChosenMetadata:
    """Stands for a catalog in which the chosen metadata file of a table is the newest one.

    Args:
        catalog: the catalog itself; asked only what became of a commit.
        identifier: the table's.
        found: the chosen metadata file.
        io: access to the table's files.
        land: what a commit does; None: nothing is committed.
        hides: what the landed metadata leave out; None: nothing.
    """

    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        found: FoundMetadata,
        io: FileIO,
        land: Land | None = None,
        hides: LeavesOut | None = None,
    ) -> None:
        assert found.metadata is not None
        self._hides = hides
        self.metadata = found.metadata
        self.properties: dict[str, str] = {}
        self._catalog, self._identifier, self._found, self._io, self._land = catalog, identifier, found, io, land
        self._tried: int | None = None

    @property
    def topic(self) -> str:
        """The table's name in the catalog."""
        return str(self._identifier[-1])

    @property
    def io(self) -> FileIO:
        """Access to the table's files."""
        return self._io

    def load_table(self, identifier: Identifier) -> Table:
        """Load the table from the chosen metadata; after a commit from the catalog.

        Raises:
            CommitConflictError: a commit was tried, and the catalog's entry was not what was seen.
        """
        if self._tried is None:
            return Table(identifier, self.metadata, self._found.location, self._io, self)  # type: ignore[arg-type]
        now = self._catalog.load_table(self._identifier)
        if now.metadata.snapshot_by_id(self._tried) is None:
            raise CommitConflictError(
                f"The catalog's entry of {'.'.join(self._identifier)} was changed meanwhile.",
                left="Nothing of this call landed.",
                next="Run it again: it looks at everything anew.",
            )
        return now

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to the chosen metadata: the result becomes the newest of the catalog.

        Raises:
            CommitFailedException: the catalog's entry is not what was seen; nothing changed.
        """
        assert self._land is not None
        for requirement in requirements:
            requirement.validate(self.metadata)
        made = update_table_metadata(self.metadata, updates, metadata_location=self._found.location)
        self._tried = made.current_snapshot_id
        if self._hides is not None and (hidden := self._hides.list_hidden_files()):
            made = self._leave_out(made, hidden, self._hides)
        location = self._land(made, requirements, updates)
        return CommitTableResponse.model_validate({"metadata": made, "metadata-location": location})

    def _leave_out(self, made: TableMetadata, hidden: Collection[str], hides: LeavesOut) -> TableMetadata:
        """Leave out the snapshots that name one of the ``hidden`` files, and tags and branches that keep one."""
        table = Table(self._identifier, made, self._found.location, self._io, self)  # type: ignore[arg-type]
        going = list_snapshots_naming(table, hidden) - {made.current_snapshot_id or 0}
        hides.record_expiring(plan_leaving_out(table, going))
        return made.model_copy(
            update={
                "snapshots": [each for each in made.snapshots if each.snapshot_id not in going],
                "snapshot_log": [each for each in made.snapshot_log if each.snapshot_id not in going],
                "refs": {name: each for name, each in made.refs.items() if each.snapshot_id not in going},
            }
        )

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """Delete nothing, other than PyIceberg after a commit: the folder may be all that is left."""


@dataclass(frozen=True)
class ProvenLog:
    """What a metadata file leads to. ``problems``: what of it is missing or differs; empty: it is complete.

    ``head`` None: its state could not be read.
    """

    found: FoundMetadata
    head: Head | None
    segments: tuple[Segment, ...] = ()
    problems: tuple[str, ...] = ()

    def require_complete(self) -> Head:
        """Return the head.

        Raises:
            DamagedMetadataError: it is not complete; the message says what is missing.
        """
        if self.problems or self.head is None:
            listed = "; ".join(self.problems[:MAXIMUM_PROBLEMS])
            raise DamagedMetadataError(
                f"The table of {self.found.location} is not complete: {listed}.",
                left="Nothing was changed.",
                next=(
                    "Restore these files from a backup or the object store's versions, or choose an older metadata "
                    "file with --metadata."
                ),
            )
        return self.head


def prove_log(log: TopicLog, found: FoundMetadata) -> ProvenLog:
    """Follow everything that the chosen metadata of ``log`` name, and compare it with what was committed.

    Read are the state, the manifests, and the receipts, links and ledgers that the state names, each against its
    digest; of each segment it is checked that the file is there, in its size and inside of the table's folder.
    """
    problems: list[str] = []
    try:
        head = log.head(even_deleted=True)
    except WinnowError as problem:
        return ProvenLog(found, None, problems=(problem.clause,))
    if head.state.topic != log.topic:
        problems.append(f"its state is of topic {head.state.topic}")
    problems += [f"a manifest is outside of the table's folder ({path})" for path in _find_manifests_outside(head)]
    segments: list[Segment] = []
    if not problems:
        problems += _collect(lambda: segments.extend(each for some in log.segments(head).values() for each in some))
        problems += find_missing_segments(head.location, segments)
        problems += find_missing_documents(head)
    return ProvenLog(found, head, tuple(segments), tuple(problems))


def _collect(action: Callable[[], object]) -> list[str]:
    try:
        action()
    except FileNotFoundError as problem:
        return [f"a file is gone ({problem.filename or problem})"]
    except WinnowError as problem:
        return [problem.clause]
    return []


def _find_manifests_outside(head: Head) -> list[str]:
    snapshot = head.snapshot
    if snapshot is None:
        return []
    try:
        paths = [each.manifest_path for each in list_live_manifests(head.table.io, snapshot)]
    except (OSError, WinnowError):
        return []  # whoever lists the segments says it
    return [path for path in paths if not is_below(path, head.location)]


def find_missing_segments(location: str, segments: Sequence[Segment]) -> list[str]:
    """Describe the segments whose files are not there, are no plain files, or have another size; through no link."""
    outside = [each for each in segments if not is_below(each.path, location)]
    if outside:
        return [
            f"{format_count(len(outside), 'segment', 'are')} outside of the table's folder, such as {outside[0].path}"
        ]
    sizes = _read_sizes(location, segments)
    missing = [each for each in segments if sizes.get(normalize_place(each.path)) is None]
    other = [each for each in segments if sizes.get(normalize_place(each.path)) not in {None, each.size_bytes}]
    said = [("gone, or behind a link", missing), ("of another size than was committed", other)]
    return [f"{format_count(len(some), 'segment', 'are')} {how}, such as {some[0].path}" for how, some in said if some]


def _read_sizes(location: str, segments: Sequence[Segment]) -> dict[str, int]:
    if not storage.is_local(location):
        return {normalize_place(each.uri): each.size_bytes for each in storage.list_files(location)}
    top = os.path.realpath(storage.parse_local_path(location))
    sizes = {}
    for path in (normalize_place(each.path) for each in segments):
        try:
            found = os.lstat(path)
        except OSError:
            continue
        is_inside = os.path.realpath(path) == top + path.removeprefix(normalize_place(location))
        if stat.S_ISREG(found.st_mode) and is_inside:
            sizes[path] = found.st_size
    return sizes


def find_missing_documents(head: Head) -> list[str]:
    """Describe the receipts, links and ledgers that the state of ``head`` names, and that are gone or differ."""
    try:
        receipts = reference_chains.list_receipt_references(head.state)
        ledgers = reference_chains.list_ingest_references(head.state)
    except WinnowError as problem:
        return [problem.clause]
    reads: list[Callable[[], object]] = [partial(read_receipt, head.state, each) for each in receipts]
    reads += [partial(reference_chains.read_ledger, head.state, each) for each in ledgers]
    with ThreadPoolExecutor(MAXIMUM_READERS, thread_name_prefix="documents") as pool:
        return [said for each in pool.map(_collect, reads) for said in each]


# ------------------------------------------------------------------ landing


def drop_unreadable_snapshots(chosen: ChosenMetadata) -> None:
    """Leave out earlier snapshots whose metadata files a sweep has removed since; the head and named ones stay."""
    metadata = chosen.metadata
    named = {each.snapshot_id for each in metadata.refs.values()} | {metadata.current_snapshot_id}
    kept = [each for each in metadata.snapshots if each.snapshot_id in named or _is_readable(chosen, each)]
    ids = {each.snapshot_id for each in kept}
    log = [each for each in metadata.snapshot_log if each.snapshot_id in ids]
    chosen.metadata = metadata.model_copy(update={"snapshots": kept, "snapshot_log": log})


def _is_readable(chosen: ChosenMetadata, snapshot: Snapshot) -> bool:
    try:
        manifests = list_live_manifests(chosen.io, snapshot)
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if summary.get(STATE_PROPERTY):
            read_state(chosen.topic, StateReference.from_summary(chosen.topic, summary))
    except (OSError, WinnowError):
        return False
    return all(storage.exists(each.manifest_path) for each in manifests)


def land_in_entry(catalog: SwapsMetadata, identifier: Identifier, before: str, io: FileIO, number: int) -> Land:
    """Return how a SQL catalog's entry is set from exactly the metadata file ``before``, be that there or not."""

    def land(metadata: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> str:
        location = _write_metadata(metadata, io, number)
        try:
            catalog.swap_metadata(identifier, before, location)
        except CommitFailedException:
            storage.delete_unreferenced([location])
            raise
        return location

    return land


def land_as_new_entry(catalog: Catalog, identifier: Identifier, io: FileIO, number: int) -> Land:
    """Return how a table is entered into any catalog that has none of its name."""

    def land(metadata: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> str:
        location = _write_metadata(metadata, io, number)
        try:
            catalog.register_table(identifier, location)
        except TableAlreadyExistsError as problem:
            storage.delete_unreferenced([location])
            raise CommitFailedException("There is a table of that name now.") from problem
        return location

    return land


def land_through_catalog(catalog: Catalog, present: Table, chosen: FoundMetadata) -> Land:
    """Return how a catalog that writes its metadata files itself gets there from ``present``, in one commit.

    It adds the snapshots that the entry lacks, removes those that it has too many, and sets the table's properties.
    """

    def land(metadata: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> str:
        have = {each.snapshot_id for each in present.metadata.snapshots}
        want = {each.snapshot_id for each in metadata.snapshots}
        added = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
        lacking = sorted(
            (each for each in metadata.snapshots if each.snapshot_id not in have | added and _follows(present, each)),
            key=lambda each: each.sequence_number or 0,
        )
        surplus = sorted(have - want)
        steps: list[TableUpdate] = [AddSnapshotUpdate(snapshot=each) for each in lacking]
        steps += updates
        steps += [
            RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
            for name in sorted(set(present.metadata.refs) - set(metadata.refs))
        ]
        if surplus:
            steps.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": surplus}))
        steps.append(SetPropertiesUpdate(updates=dict(metadata.properties)))
        seen = (
            AssertTableUUID(uuid=present.metadata.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": MAIN, "snapshot-id": present.metadata.current_snapshot_id}),
        )
        answer = catalog.commit_table(present, seen, tuple(steps))
        return str(answer.metadata_location)

    return land


def _follows(present: Table, snapshot: Snapshot) -> bool:
    """Check whether the entry's table may still be given ``snapshot``: numbers only grow in one history."""
    return (snapshot.sequence_number or 0) > getattr(present.metadata, "last_sequence_number", 0)


def _write_metadata(metadata: TableMetadata, io: FileIO, number: int) -> str:
    """Write a metadata file below the table's folder, with a checksum in its name; return its location."""
    name = f"{number:05d}-{uuid.uuid4()}.metadata.json"
    output = ChecksumNames(io).new_output(storage.join(metadata.location, "metadata", name))
    ToOutputFile.table_metadata(metadata, output)
    return output.location
