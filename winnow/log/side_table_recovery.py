"""Brings a topic's side tables back into the catalog: quarantined records, and the latest state.

They carry no state that proves them. Rows of the quarantine count only where the log's state names their ingest call,
and the table of the latest state names the log's snapshot that it shows, so a newer one than the catalog had does no
harm. The newest metadata file that leads to no missing file is taken, as it is; of the quarantine it is one that names
most of the files that the log needs, since what the catalog names may be older than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

from winnow.errors import CommitConflictError, WinnowError
from winnow.files import storage
from winnow.log.catalog_access import ensure_namespace, translate_catalog_errors
from winnow.log.manifests import list_live_manifests, read_live_sizes
from winnow.log.places import is_below
from winnow.log.table_recovery import SwapsMetadata
from winnow.log.warehouse_survey import FoundMetadata, WarehouseSurvey, survey_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
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


def plan_side_table(
    catalog: Catalog,
    identifier: Identifier,
    io: FileIO,
    location: str,
    is_needed: Callable[[str], bool] | None = None,
) -> SideTable | None:
    """Find what the catalog is to name for the side table at ``location``; None: there is none anywhere.

    ``is_needed``: whether readers need the data file of this path; None: what it names does not matter.

    Raises:
        ServiceError: the object store does not serve the folder, or the catalog cannot be reached.
    """
    name = ".".join(identifier)
    with translate_catalog_errors(f"The entry of {name} could not be read"):
        present = _find_present(catalog, identifier)
    survey = survey_table(io, location, known=[present] if present else (), is_log=False)
    newest = _choose(survey, io, is_needed)
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


def _choose(survey: WarehouseSurvey, io: FileIO, is_needed: Callable[[str], bool] | None) -> FoundMetadata | None:
    """Choose the newest that the survey proves, else the newest at all, of those that lead to no missing file.

    Where some files are needed, of those that name most of these which are there, then most of these: what is lost is
    told to whoever reads it, and no name of a file that nobody needs, gone or not, decides anything.
    """
    newest_first = [*([] if survey.newest is None else [survey.newest]), *reversed(survey.candidates)]
    reader = _FileReader(io, survey.location)
    if is_needed is None:
        return next((each for each in newest_first if reader.is_complete(each)), None)
    counted = [(reader.count_needed(each, is_needed), each) for each in newest_first]
    readable = [(count, each) for count, each in counted if count is not None]
    return max(readable, key=itemgetter(0))[1] if readable else None


class _FileReader:
    """Reads the files of a table's folder, each once: metadata files name many of them again."""

    def __init__(self, io: FileIO, location: str) -> None:
        self._io = io
        self._location = location
        self._live_files: dict[str, dict[str, int]] = {}
        self._sizes: dict[str, int | None] = {}

    def is_complete(self, found: FoundMetadata) -> bool:
        """Check whether every file that the newest snapshot names is there, in its size, inside of the folder.

        Older snapshots do not count: a sweep takes those out whose files are gone.
        """
        sizes = self._read_newest(found)
        return sizes is not None and all(self._is_there(path, size) for path, size in sizes.items())

    def count_needed(self, found: FoundMetadata, is_needed: Callable[[str], bool]) -> tuple[int, int] | None:
        """Count the needed files of the newest snapshot that are there, and those that it names; None: unreadable."""
        sizes = self._read_newest(found)
        if sizes is None:
            return None
        needed = [(path, size) for path, size in sizes.items() if is_needed(path)]
        return sum(self._is_there(path, size) for path, size in needed), len(needed)

    def _read_newest(self, found: FoundMetadata) -> dict[str, int] | None:
        """Read which data files the newest snapshot names, with their bytes; None: it cannot be read."""
        try:
            manifests = [] if found.snapshot is None else list_live_manifests(self._io, found.snapshot)
            sizes = {path: size for each in manifests for path, size in self._list_files(each).items()}
        except (OSError, WinnowError):
            return None
        places = [each.manifest_path for each in manifests] + list(sizes)
        return sizes if all(is_below(each, self._location) for each in places) else None

    def _is_there(self, path: str, size_bytes: int) -> bool:
        if path not in self._sizes:
            self._sizes[path] = storage.read_size_bytes(path)
        return self._sizes[path] == size_bytes

    def _list_files(self, manifest: ManifestFile) -> dict[str, int]:
        path = manifest.manifest_path
        if path not in self._live_files:
            sizes = read_live_sizes(self._io, manifest)
            self._live_files[path] = {each: size_bytes for each, (_, size_bytes) in sizes.items()}
        return self._live_files[path]


def land_side_table(catalog: Catalog, identifier: Identifier, planned: SideTable) -> None:
    """Do what was planned.

    Raises:
        CommitConflictError: the catalog's entry is another one by now; nothing was changed.
        ServiceError: the catalog cannot be reached; repeating it does no harm.
    """
    if planned.metadata_location is None:
        return
    try:
        with translate_catalog_errors(
            f"The entry of {planned.name} could not be set to {planned.metadata_location}",
            left="Whether it was is not certain, and repeating it does no harm.",
        ):
            ensure_namespace(catalog, str(identifier[0]))
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
