"""What a table's own metadata name, for the deletion of all of it: through damage, and below its own folder only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from winnow.errors import WinnowError
from winnow.files import storage
from winnow.files.file_names import is_latest_file, is_metadata_file, is_table_file
from winnow.log.manifests import list_live_manifests, list_live_paths
from winnow.log.reference_chains import list_ingest_references, list_links, list_receipt_references
from winnow.log.snapshot_expiry import find_state_path

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from winnow.values.topic_state import TopicState

_METADATA_SUFFIX = ".metadata.json"


@dataclass
class TableFiles:
    """The files below a table's folder that may go with the table.

    ``named``: paths below ``location`` that metadata name. ``is_recorded``: whether a path lies in the folder of a
    recorded run or ingest call, under a name that its tasks give. ``is_alone``: no other table has this folder, so that
    metadata of commits that died halfway, which nothing names, are this table's.
    """

    location: str
    named: set[str] = field(default_factory=set)
    is_recorded: Callable[[str], bool] = lambda _: False
    is_alone: bool = False

    def may_delete(self, path: str) -> bool:
        """Check whether the file at ``path`` below the folder goes with the table."""
        return path in self.named or self.is_recorded(path) or (self.is_alone and is_table_file(path))

    def list_files(self) -> storage.Listing:
        """List what may go, and what stays."""
        return storage.list_named_files(self.location, "", self.may_delete)


def find_table_files(
    table: Table, is_recorded: Callable[[str], bool] = lambda _: False, state: TopicState | None = None
) -> TableFiles:
    """Find the files that go with ``table``; ``state``: that of the log, if it is a log's table.

    What cannot be read for damage names nothing: those files stay, unless they lie in a recorded folder.
    """
    location = str(table.location())
    paths = [*_list_metadata(table), *(_list_documents(state) if state is not None else ())]
    named = {path for uri in paths if (path := storage.find_path_below(location, uri)) is not None}
    return TableFiles(
        location, named, is_recorded, is_alone=is_folder_of(location, str(table.metadata.table_uuid), named)
    )


def find_latest_files(table: Table, log_uuid: str | None = None) -> TableFiles:
    """Find the files that go with ``table``, a side table of the latest state, those of unfinished updates too.

    Nothing records an update that died. Its files are the table's only if no other table has this folder: the folder is
    named after ``log_uuid``, the log's life, if that is known; a torn metadata file tells of no table.
    """
    found = find_table_files(table)
    if not found.is_alone and log_uuid is not None:
        found = replace(found, is_alone=is_folder_of(found.location, log_uuid))
    return replace(found, is_recorded=is_latest_file) if found.is_alone else found


def _list_metadata(table: Table) -> Iterator[str]:
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    known: set[str] = set()
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        with suppress(WinnowError, OSError):
            yield find_state_path(table, snapshot) or ""
        manifests = []
        with suppress(WinnowError, OSError):
            manifests = list_live_manifests(table.io, snapshot)
        for manifest in manifests:
            if manifest.manifest_path in known:
                continue
            known.add(manifest.manifest_path)
            yield manifest.manifest_path
            with suppress(WinnowError, OSError):
                yield from list_live_paths(table.io, manifest)


def _list_documents(state: TopicState) -> Iterator[str]:
    yield from (file.path for file in state.waiting_files)
    yield from (erasure.path for erasure in state.erasures)
    yield from (schemas.path for schemas in state.schemas)
    with suppress(WinnowError, OSError):
        yield from (reference.path for reference in list_receipt_references(state))
    with suppress(WinnowError, OSError):
        yield from (reference.path for reference in list_ingest_references(state))
    with suppress(WinnowError, OSError):
        yield from (link.path for link in list_links(state))


def is_folder_of(location: str, uuid: str, named: Iterable[str] = ()) -> bool:
    """Check whether no other table has the folder ``location``: its name says whose it is, or all metadata in it do.

    ``uuid``: of the table, or of the log that it belongs to. ``named``: metadata files known to be the table's.
    """
    if location.rstrip("/").endswith(f"-{uuid}"):
        return True
    known = set(named)
    listing = storage.list_named_files(location, "metadata", lambda name: is_metadata_file(f"metadata/{name}"))
    unknown = (entry.uri for entry in listing.files if f"metadata/{storage.get_name(entry.uri)}" not in known)
    return all(_read_uuid(uri) == uuid for uri in unknown if uri.endswith(_METADATA_SUFFIX))


def _read_uuid(uri: str) -> str | None:
    try:
        found = json.loads(storage.read_bytes(uri))["table-uuid"]
    except (OSError, ValueError, KeyError, TypeError, WinnowError):
        return None
    return str(found)
