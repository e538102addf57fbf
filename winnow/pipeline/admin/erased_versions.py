"""Sees to it that what an erasure deletes is gone from the object store, too: no earlier version, no broken-off upload.

Before an erasure the store is asked whether it lets go of what is deleted. Afterwards each sweep, until the erasure is
closed, removes the versions of all data files that were deleted from the topic's folders, in whichever run: those that
left before the erasure may hold the key as well. A file that a snapshot names is never touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlparse

from winnow.errors import KeptVersionsError, WinnowError
from winnow.files import object_store, storage
from winnow.files.file_names import is_written_file
from winnow.files.object_versions import OpenUpload, VersionedFolder
from winnow.files.quarantine_files import INGEST_FOLDER_PREFIX
from winnow.log.head import Head
from winnow.log.snapshot_expiry import FileReferences, collect_references
from winnow.pipeline.installation import Installation
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.values.counts import format_count
from winnow.values.topic_state import TopicState

log = logging.getLogger("winnow")

_DATA = "data"
_KEEPS_NONE = "no such object, in a bucket that keeps no versions"
_NO_TABLE = "no such object, nor a table for which credentials are vended to ask for its versions"
_DECLARED = "no such object; that nothing is kept of it is declared (erase.trust_bucket_deletes)"


def require_final_deletes(installation: Installation, head: Head, erasure_id: str) -> None:
    """Check that the store lets go of what is deleted from the folders of a topic. Changes nothing.

    Raises:
        KeptVersionsError: it does not, a right is missing, or it cannot be asked and nobody has declared it.
        ConfigurationError: the library that asks is not installed.
        ServiceError: the store does not answer.
    """
    topic = head.state.topic
    try:
        buckets: dict[str, bool] = {}
        for location in _list_locations(installation, head):
            folder = open_versions(installation, storage.join(location, _DATA))
            if folder is None:
                continue
            if folder.bucket not in buckets:
                buckets[folder.bucket] = bool(folder.keeps_versions)
                folder.list_uploads()
            if buckets[folder.bucket]:
                folder.require_removable(f"{erasure_id}/none.parquet", installation.now_ms())
    except WinnowError as problem:
        raise type(problem)(
            f"Keys of topic {topic} were not erased. {problem.what}", left=NOTHING_ERASED, next=problem.next
        ) from problem


def has_open_erasures(state: TopicState) -> bool:
    """Check whether an erasure is not closed, so that something of it may still be deleted."""
    return any(each.closed_at_ms is None and not each.lifts for each in state.erasures)


def remove_erased_versions(installation: Installation, head: Head, referenced: FileReferences) -> str:
    """Remove what the store keeps of data files that were deleted, where an erasure is not closed.

    Returns why something is left; empty: nothing is.

    Args:
        installation: the topic's.
        head: the newest.
        referenced: what its kept snapshots name.
    """
    if not has_open_erasures(head.state):
        return ""
    try:
        left = 0
        for location in _list_locations(installation, head):
            folder = open_versions(installation, storage.join(location, _DATA))
            if folder is not None:
                is_log = location == head.location
                named = _list_kept_of_log(head, referenced) if is_log else _list_kept_of_table(installation, head)
                _abort_uploads(installation, folder, head, is_log=is_log)
                left += _remove_versions(folder, named)
    except WinnowError as problem:
        log.warning("Earlier versions of erased files of topic %s were not removed. %s", head.state.topic, problem)
        return f"Earlier versions of files with erased keys are left. {problem}"
    return f"{format_count(left, 'earlier version')} of deleted files are left." if left else ""


def _remove_versions(folder: VersionedFolder, kept: Callable[[str], bool]) -> int:
    if not folder.keeps_versions:
        return 0
    return folder.remove_old_versions(lambda path: is_written_file(path) and not kept(f"{_DATA}/{path}"))


def _list_locations(installation: Installation, head: Head) -> Iterator[str]:
    """List the folders of tables with records that have keys; those in quarantine have none."""
    yield head.location
    yield _locate_latest(installation, head)


def _locate_latest(installation: Installation, head: Head) -> str:
    latest = installation.log.latest_table(head.state.topic, head)
    table = latest.table()
    return str(table.location()) if table is not None and latest.owns(table) else latest.location


def open_versions(installation: Installation, location: str) -> VersionedFolder | None:
    """Open the folder of a table in a store that can keep versions; None: in this one a deleted file is gone.

    Raises:
        KeptVersionsError: whether it is cannot be asked, and nobody has declared it.
    """
    scheme = urlparse(location).scheme
    if scheme in object_store.S3_SCHEMES:
        try:
            folder = VersionedFolder(location)
        except FileNotFoundError:  # no credentials are vended for a table that is not there
            return None
        if folder.keeps_versions is not None:
            return folder
    elif scheme not in object_store.GCS_SCHEMES | object_store.AZURE_SCHEMES:
        return None
    if installation.settings.erase.trust_bucket_deletes:
        return None
    raise KeptVersionsError(
        f"Winnow cannot ask the store of {location} whether it keeps what is deleted (versions, soft delete, a "
        "retention).",
        next="Turn these off for the bucket, have what they hold expire, then declare it: "
        "WINNOW_ERASE__TRUST_BUCKET_DELETES=true",
    )


def _list_kept_of_log(head: Head, referenced: FileReferences) -> Callable[[str], bool]:
    """Return what tells the paths of files that may be needed: a snapshot names them, or they wait for their grace."""
    retired = {storage.find_path_below(head.location, file.path) for file in head.state.retired}
    kept = referenced.list_below(head.location) | retired
    return kept.__contains__


def _list_kept_of_table(installation: Installation, head: Head) -> Callable[[str], bool]:
    table = installation.log.latest_table(head.state.topic, head).table()
    names = set() if table is None else collect_references(table).list_names()
    return lambda path: storage.get_name(path) in names


def _abort_uploads(installation: Installation, folder: VersionedFolder, head: Head, *, is_log: bool) -> None:
    """Abort the uploads of data files that no run and no ingest call at work has begun."""
    uploads = [each for each in folder.list_uploads() if is_written_file(each.path)]
    if not uploads:
        return
    # Asked after the listing: a run and an ingest call are recorded before their first file.
    topic, store = head.state.topic, installation.store
    at_work = {run.plan_id for run in store.runs.list_open(topic) if run.fence >= head.fence}
    at_work |= {
        f"{INGEST_FOLDER_PREFIX}{call.ingest_id}"
        for call in store.ingests.list_open(topic)
        if not head.state.is_voided(call.ingest_id, call.number)
    }

    def is_void(upload: OpenUpload) -> bool:
        return not is_log or upload.path.partition("/")[0] not in at_work

    folder.abort_uploads(filter(is_void, uploads))


@dataclass
class AbsenceProofs:
    """Asks the store about files that were deleted."""

    installation: Installation
    _folders: dict[str, VersionedFolder | None] = field(default_factory=dict)

    def ask(self, uri: str) -> tuple[bool, str]:
        """Return whether nothing of the file is there, and the answer of the store that says so."""
        if storage.exists(uri):
            return False, "still there"
        if storage.is_local(uri) or urlparse(uri).scheme in object_store.HADOOP_SCHEMES:
            return True, "no such file"
        parent, _, name = uri.rpartition("/")
        try:
            if parent not in self._folders:
                self._folders[parent] = open_versions(self.installation, parent)
            folder = self._folders[parent]
            if folder is None:
                return True, _DECLARED if self.installation.settings.erase.trust_bucket_deletes else _NO_TABLE
            if not folder.keeps_versions:
                return True, _KEEPS_NONE
            versions = sum(1 for _ in folder.list_versions(name))
        except WinnowError as problem:
            return True, f"no such object; its versions were not listed: {problem.what}"
        return versions == 0, f"{format_count(versions, 'version')} listed" if versions else "no version listed"
