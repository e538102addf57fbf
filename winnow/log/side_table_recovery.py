"""Brings a topic's side tables back into the catalog: quarantined records, and the latest state.

They carry no state that proves them. Rows of the quarantine count only where the log's state names their ingest call,
and the table of the latest state names the log's snapshot that it shows, so a newer one than the catalog had does no
harm. The newest metadata file that leads to no missing file is taken, as it is: one whose older snapshots' files are
gone was replaced by an expiry, which nothing else may tell, since it adds no snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

from winnow.errors import CommitConflictError, WinnowError
from winnow.files import storage
from winnow.log.catalog_access import ensure_namespace
from winnow.log.manifests import list_live_manifests, read_live_sizes
from winnow.log.places import is_below
from winnow.log.table_recovery import SwapsMetadata
from winnow.log.warehouse_survey import FoundMetadata, WarehouseSurvey, survey_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Identifier


class SideTableAction(StrEnum):
    """What is to be done about a side table, or was."""

    REGISTER = "register"
    """The catalog has none of its name."""
    BRING_FORWARD = "bring forward"
    """The catalog names older metadata."""
    KEEP = "keep"
    LEAVE = "leave"
    """What lies there cannot be brought into the catalog; the reason says why."""


@dataclass(frozen=True, slots=True)
class SideTable:
    """One side table. ``metadata_location``: what the catalog is to name; None: it is left as it is.

    ``before``: what the catalog names; None: it has no such entry.
    """

    name: str
    action: SideTableAction
    metadata_location: str | None
    before: str | None
    reason: str = ""


def plan_side_table(catalog: Catalog, identifier: Identifier, io: FileIO, location: str) -> SideTable | None:
    """Find what the catalog is to name for the side table at ``location``; None: there is none anywhere.

    Raises:
        ServiceError: the object store does not serve the folder.
    """
    name = ".".join(identifier)
    present = _find_present(catalog, identifier)
    survey = survey_table(io, location, known=[present] if present else (), is_log=False)
    newest = _choose(survey, io)
    if newest is None:
        if present is None and not survey.found:
            return None
        reason = "none of its metadata files leads to a complete table" if survey.found else ""
        return SideTable(name, SideTableAction.LEAVE if survey.found else SideTableAction.KEEP, None, present, reason)
    if present is None:
        return SideTable(name, SideTableAction.REGISTER, newest.location, None)
    if storage.get_name(present) == newest.name:
        return SideTable(name, SideTableAction.KEEP, None, present)
    if not isinstance(catalog, SwapsMetadata):
        reason = f"the catalog names older metadata; set it to {newest.location} with the catalog's own tool"
        return SideTable(name, SideTableAction.LEAVE, None, present, reason)
    return SideTable(name, SideTableAction.BRING_FORWARD, newest.location, present)


def _find_present(catalog: Catalog, identifier: Identifier) -> str | None:
    if isinstance(catalog, SwapsMetadata):
        return catalog.find_metadata_location(identifier)
    try:
        return str(catalog.load_table(identifier).metadata_location)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _choose(survey: WarehouseSurvey, io: FileIO) -> FoundMetadata | None:
    """Choose the newest that the survey proves, else the newest at all, of those that lead to no missing file.

    Where each leads to one, the newest whose newest snapshot is complete.
    """
    by_age = [*survey.candidates]
    if survey.newest is not None:
        by_age.append(survey.newest)
    by_age.reverse()
    reader = _FileReader(io, survey.location)
    whole = (each for each in by_age if reader.is_complete(each.metadata.snapshots if each.metadata else ()))
    readable = (each for each in by_age if reader.is_complete([each.snapshot] if each.snapshot else ()))
    return next(whole, None) or next(readable, None)


class _FileReader:
    """Checks files of a table's folder, each once: metadata files name many of them again."""

    def __init__(self, io: FileIO, location: str) -> None:
        self._io = io
        self._location = location
        self._live_files: dict[str, dict[str, int]] = {}
        self._sizes: dict[str, int | None] = {}

    def is_complete(self, snapshots: Sequence[Snapshot]) -> bool:
        """Check whether every file that ``snapshots`` name is there, in its size, inside of the table's folder."""
        if not all(is_below(each.manifest_list, self._location) for each in snapshots):
            return False
        if any(self._read_size_bytes(each.manifest_list) is None for each in snapshots):
            return False  # told without reading: an expiry takes these, too
        try:
            manifests = {each.manifest_path: each for one in snapshots for each in list_live_manifests(self._io, one)}
            sizes = {path: size for each in manifests.values() for path, size in self._list_files(each).items()}
        except (OSError, WinnowError):
            return False
        return all(is_below(each, self._location) for each in (*manifests, *sizes)) and all(
            self._read_size_bytes(path) == size for path, size in sizes.items()
        )

    def _list_files(self, manifest: ManifestFile) -> dict[str, int]:
        path = manifest.manifest_path
        if path not in self._live_files:
            sizes = read_live_sizes(self._io, manifest)
            self._live_files[path] = {each: size_bytes for each, (_, size_bytes) in sizes.items()}
        return self._live_files[path]

    def _read_size_bytes(self, path: str) -> int | None:
        if path not in self._sizes:
            self._sizes[path] = storage.read_size_bytes(path)
        return self._sizes[path]


def land_side_table(catalog: Catalog, identifier: Identifier, planned: SideTable) -> None:
    """Do what was planned.

    Raises:
        CommitConflictError: the catalog's entry is another one by now; nothing was changed.
    """
    if planned.metadata_location is None:
        return
    ensure_namespace(catalog, str(identifier[0]))
    try:
        if planned.before is None:
            catalog.register_table(identifier, planned.metadata_location)
        elif isinstance(catalog, SwapsMetadata):
            catalog.swap_metadata(identifier, planned.before, planned.metadata_location)
    except (CommitFailedException, TableAlreadyExistsError) as problem:
        raise CommitConflictError(
            f"The catalog's entry of {planned.name} was changed meanwhile.",
            left="It was left as it is.",
            next="Run it again.",
        ) from problem
