"""Finds files of attempts and ingest calls that no commit refers to, and decides which may be deleted.

ARCHITECTURE.md proves what may be deleted after which commit. In short: a file of an attempt once the sweep has raised
the topic's fence after it listed the file, a file of an ingest call once a commit has voided the call, and neither
while a kept snapshot names it. Both conditions stay true once they hold, so a sweep that was paused deletes nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from winnow.engine import staging
from winnow.files import storage
from winnow.files.file_names import (
    find_attempt,
    is_attempt_folder,
    is_ingest_file,
    is_ingest_id,
    is_plan_id,
    is_task_folder,
)
from winnow.files.quarantine_files import may_contain_ingest, name_ingest_folder
from winnow.log.head import Head
from winnow.log.head_age import find_missing_receipts
from winnow.log.quarantine import Quarantine
from winnow.log.reference_chains import list_ingest_references
from winnow.log.snapshot_expiry import (
    FileReferences,
    list_attempt_files,
    list_kept_states,
    list_visible_quarantine_ingests,
)
from winnow.pipeline.installation import Installation
from winnow.store import OpenIngest, Run
from winnow.values.topic_state import RetiredFile, TopicState, VoidedIngest


@dataclass(frozen=True, slots=True)
class Leftover:
    """One file in the folder of a recorded attempt or of an ingest call, named as their tasks name files.

    ``location`` and ``path``: the table's folder, and the place below it. ``quarantined``: whether it is in the
    quarantine's folder.
    """

    location: str
    path: str
    size_bytes: int
    quarantined: bool = False

    @property
    def uri(self) -> str:
        """Its address."""
        return storage.join(self.location, self.path)


@dataclass(frozen=True, slots=True)
class RunLeftovers:
    """All files in the folders of a closed run's plan, including those that the log names.

    ``others``: whatever else lies there: in folders of no recorded attempt, under other names, links. It stays.
    ``attempts``: the recorded ones.
    """

    run: Run
    files: tuple[Leftover, ...]
    others: tuple[str, ...] = ()
    attempts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class IngestLeftovers:
    """All files in the folders of an ingest call whose end is not recorded; ``others``: as of :class:`RunLeftovers`."""

    ingest: OpenIngest
    files: tuple[Leftover, ...]
    others: tuple[str, ...] = ()


def list_runs(installation: Installation, head: Head, *, closed_before_ms: int) -> list[RunLeftovers]:
    """List the files of closed runs whose folders were not yet found empty twice.

    Left out is a run that the metadata store calls published and of which the log has no receipt: the table was rolled
    back past its publish, and may be rolled forward again.
    """
    topic = head.state.topic
    quarantine = installation.log.quarantine(topic, head)
    found: list[RunLeftovers] = []
    runs = installation.store.runs.list_to_sweep(topic, closed_before_ms)
    if runs:
        unknown = find_missing_receipts(head, installation.store.topic_heads.list_published(topic))
        runs = [run for run in runs if run.plan_id not in unknown]
    adopted = [file.path for file in quarantine.files()] if runs else []
    for run in runs:
        if not is_plan_id(run.plan_id):
            continue  # a row that nobody of Winnow's wrote: its name may be that of another folder
        staged = list_attempt_files(head.location, run.plan_id)
        moved = quarantine.list_files_of_plan(run.plan_id, adopted)
        # Queried after the listing: an attempt is recorded before its first file.
        attempts = installation.store.runs.list_attempts(run.plan_id)
        listed = [(head.location, staged, False), (quarantine.location, moved, True)]
        files: list[Leftover] = []
        others: list[str] = []
        for location, listing, quarantined in listed:
            others += listing.others
            for entry in listing.files:
                path = storage.find_path_below(location, entry.uri) or ""
                attempt = find_attempt(path.removeprefix(f"data/{run.plan_id}/"), attempts)
                if attempt is None:
                    others.append(entry.uri)
                else:
                    files.append(Leftover(location, path, entry.size_bytes, quarantined))
        if installation.store.runs.find(run.plan_id) == run:  # otherwise it was reopened meanwhile, and is running
            found.append(RunLeftovers(run, tuple(files), tuple(others), attempts))
    return found


def list_ingests(installation: Installation, head: Head, *, idle_since_ms: int) -> list[IngestLeftovers]:
    """List the files of ingest calls that are void, or have not renewed their row since then."""
    topic = head.state.topic
    quarantine = installation.log.quarantine(topic, head)
    found: list[IngestLeftovers] = []
    idle = [
        ingest
        for ingest in installation.store.ingests.list_open(topic)
        if ingest.voided_at_ms is not None or ingest.renewed_at_ms <= idle_since_ms
    ]
    adopted = [file.path for file in quarantine.files()] if idle else []
    for ingest in idle:
        if not is_ingest_id(ingest.ingest_id):
            continue  # a row that nobody of Winnow's wrote
        written = storage.list_named_files(
            head.location, name_ingest_folder(ingest.ingest_id), partial(is_ingest_file, quarantined=False)
        )
        aside = quarantine.list_files_of_ingest(ingest.ingest_id, adopted)
        files = [
            *_build_leftovers(head.location, written.files, quarantined=False),
            *_build_leftovers(quarantine.location, aside.files, quarantined=True),
            *_find_ledgers(head, ingest.ingest_id),
        ]
        found.append(IngestLeftovers(ingest, tuple(files), (*written.others, *aside.others)))
    return found


def _find_ledgers(head: Head, ingest_id: str) -> Iterator[Leftover]:
    for uri in head.documents.locate_ledger(ingest_id):
        size_bytes = storage.read_size_bytes(uri)
        for root in (head.copies, head.location):
            path = storage.find_path_below(root, uri)
            if path is not None and size_bytes is not None:
                yield Leftover(root, path, size_bytes)


def needs_fence(runs: Iterable[RunLeftovers], head: Head, referenced: FileReferences, quarantine: Quarantine) -> bool:
    """Check whether the fence has to be raised, because no commit names some listed file of ``runs`` yet.

    However high it is already: which fence an attempt has is known from a row of the store only, which anybody may have
    written who may write there, while a fence that is raised after the listing is above those of all listed files.
    """
    kept = _list_kept_paths(head, referenced)
    visible = frozenset(head.state.quarantine_ingests)

    def is_named(file: Leftover) -> bool:
        if file.quarantined:
            return may_contain_ingest(file.uri, quarantine.location, visible)
        return file.path in kept

    return not all(is_named(file) for run in runs for file in run.files)


def select_ingests_to_void(
    ingests: Iterable[IngestLeftovers], state: TopicState
) -> tuple[list[OpenIngest], list[OpenIngest]]:
    """Return the ``ingests`` that a commit has yet to void, and those that turn out to be committed."""
    calls = [each.ingest for each in ingests]
    committed = _list_committed_ingests(state) if calls else frozenset()
    return (
        [
            call
            for call in calls
            if call.ingest_id not in committed and not state.is_voided(call.ingest_id, call.number)
        ],
        [call for call in calls if call.ingest_id in committed],
    )


def _list_committed_ingests(state: TopicState) -> frozenset[str]:
    ledgers = frozenset(reference.ingest_id for reference in list_ingest_references(state))
    return ledgers | set(state.quarantine_ingests) | {erasure.erasure_id for erasure in state.erasures}


def apply_voided_ingests(
    state: TopicState, voided: Sequence[OpenIngest], still_open: Iterable[OpenIngest]
) -> TopicState:
    """Return ``state`` after voiding ingest calls; those before all ``still_open`` ones are named by number alone."""
    ids = {each.ingest_id for each in state.voided_ingests}
    named = [*state.voided_ingests, *(VoidedIngest(i.ingest_id, i.number) for i in voided if i.ingest_id not in ids)]
    gone = {each.ingest_id for each in named}
    open_numbers = [each.number for each in still_open if each.ingest_id not in gone]
    first_valid = max(
        state.first_valid_ingest, min(open_numbers, default=max((each.number + 1 for each in named), default=0))
    )
    return replace(
        state,
        first_valid_ingest=first_valid,
        voided_ingests=tuple(each for each in named if each.number >= first_valid),
    )


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a record names, with the table's folder that it lies in: the root of the record."""

    file: RetiredFile
    location: str
    path: str


def locate_files(files: Iterable[RetiredFile], locations: Sequence[str], is_named: Callable[[str], bool]) -> Located:
    """Find which of ``files`` lie below one of ``locations`` under names of their kind; no others may be deleted."""
    found: list[NamedFile] = []
    others: list[str] = []
    for file in files:
        for location in locations:
            path = storage.find_path_below(location, file.path)
            if path is not None and is_named(path):
                found.append(NamedFile(file, location, path))
                break
        else:
            others.append(storage.format_path(file.path))
    return Located(found, others)


@dataclass(frozen=True, slots=True)
class Located:
    """The files that a record may name, and the paths of those that it may not."""

    files: list[NamedFile]
    others: list[str]


class DeletionFilter:
    """Decides file by file what may be deleted, from a head that was loaded after the sweep's own commit.

    Args:
        head: the newest.
        referenced: what its kept snapshots name.
        quarantine: the topic's.
        fence_raised: whether the sweep itself raised the fence after it listed the files.
    """

    def __init__(self, head: Head, referenced: FileReferences, quarantine: Quarantine, *, fence_raised: bool) -> None:
        self._head = head
        self._quarantine = quarantine
        self._fence_raised = fence_raised
        self._kept = _list_kept_paths(head, referenced)
        self._visible: set[str] | None = None
        self._committed: set[str] | None = None

    def select_of_run(self, run: RunLeftovers) -> list[Leftover]:
        """Return the files of a closed run that no commit names and none will."""
        if not self._fence_raised:
            return []
        return [file for file in run.files if self._is_unnamed(file)]

    def select_of_ingest(self, ingest: IngestLeftovers) -> list[Leftover]:
        """Return the files of an ingest call that is void; none of a call that is not, or is committed after all.

        Of a committed erasure: those that nothing names. Its one commit has been, so none will.
        """
        call = ingest.ingest
        if call.ingest_id in (each.erasure_id for each in self._head.state.erasures):
            return [file for file in ingest.files if self._is_unnamed(file)]
        if not ingest.files or not self._head.state.is_voided(call.ingest_id, call.number):
            return []
        if self._is_committed(call.ingest_id):
            return []
        return [file for file in ingest.files if self._is_unnamed(file)]

    def _is_committed(self, ingest_id: str) -> bool:
        """Check whether a kept snapshot names the ledger of an ingest call: the row of such a call leads to nothing."""
        if self._committed is None:
            kept = list_kept_states(self._head.state.topic, self._head.table)
            named = chain(list_ingest_references(self._head.state), *(state.ingests for state in kept))
            self._committed = {each.ingest_id for each in named}
        return ingest_id in self._committed

    def list_orphaned(
        self, runs: Iterable[RunLeftovers], ingests: Iterable[IngestLeftovers], deleted: Collection[str]
    ) -> list[Leftover]:
        """List the files of closed runs and idle ingest calls that no commit names and that were not ``deleted``."""
        files = (*(file for each in runs for file in each.files), *(file for each in ingests for file in each.files))
        return [file for file in files if file.uri not in deleted and self._is_unnamed(file)]

    def _is_unnamed(self, file: Leftover) -> bool:
        if not file.quarantined:
            return file.path not in self._kept
        if self._visible is None:
            self._visible = list_visible_quarantine_ingests(self._head.state.topic, self._head.table)
        return not may_contain_ingest(file.uri, self._quarantine.location, self._visible)


def delete_leftovers(quarantine: Quarantine, files: Collection[Leftover]) -> list[Leftover]:
    """Delete ``files``, those of the quarantine after its table has let them go; return which are gone."""
    withdrawn = [file.uri for file in files if file.quarantined]
    if withdrawn:
        quarantine.remove_files(withdrawn)
    return [file for file in files if storage.delete(file.uri, below=file.location)]


def withdraw_quarantined(quarantine: Quarantine, head: Head, files: Sequence[NamedFile]) -> list[NamedFile]:
    """Take condemned files of the quarantine out of its table; return which of ``files`` may be deleted now.

    Left out are files of ingest calls that a kept snapshot names.
    """
    aside = {file.file.path for file in files if file.location == quarantine.location}
    if not aside:
        return list(files)
    visible = list_visible_quarantine_ingests(head.state.topic, head.table)
    named = {path for path in aside if may_contain_ingest(path, quarantine.location, visible)}
    if aside - named:
        quarantine.remove_files(aside - named)
    return [file for file in files if file.file.path not in named]


def _list_kept_paths(head: Head, referenced: FileReferences) -> frozenset[str]:
    """List the paths below the table's folder of files that are no leftovers.

    Kept snapshots name them, or they wait for their grace, or are being deleted as retired ones. Below the folder,
    because a catalog may write the same place another way (file:/ for file:///).
    """
    waiting = (storage.find_path_below(head.location, file.path) for file in head.state.waiting_files)
    return frozenset(referenced.list_below(head.location)).union(path for path in waiting if path is not None)


def _build_leftovers(location: str, entries: Iterable[storage.FileEntry], *, quarantined: bool) -> Iterator[Leftover]:
    for entry in entries:
        path = storage.find_path_below(location, entry.uri)
        if path is not None:
            yield Leftover(location, path, entry.size_bytes, quarantined)


def delete_of_runs(
    installation: Installation,
    head: Head,
    listed: Sequence[RunLeftovers],
    deletable: DeletionFilter,
    grace_ms: int,
    now_ms: int,
    unnamed: list[str],
) -> list[RetiredFile]:
    """Delete what attempts left, and record empty folders."""
    installation.guard.require_own()
    quarantine = installation.log.quarantine(head.state.topic, head)
    removed: list[RetiredFile] = []
    for run_files in listed:
        run = run_files.run
        unnamed += run_files.others
        files = delete_leftovers(quarantine, deletable.select_of_run(run_files))
        removed += [RetiredFile(file.uri, file.size_bytes, run.updated_at_ms, run.plan_id) for file in files]
        for location in (head.location, quarantine.location):
            is_own = partial(is_attempt_folder, attempts=run_files.attempts)
            storage.remove_empty_folders(location, f"data/{run.plan_id}", is_own)
        storage.sync_deletions(file.uri for file in files)
        if files:
            installation.store.runs.note_empty(run, first_ms=None)
        elif run.found_empty_at_ms is None:
            installation.store.runs.note_empty(run, first_ms=now_ms)
        elif run.found_empty_at_ms + grace_ms <= now_ms:
            # A process of the run that is still alive has had a grace to write since the folder was found empty.
            staged = (run.topic, run.plan_id, run.plan_uri, run_files.attempts)
            left = staging.delete_plan(installation.settings.staging, *staged)
            unnamed += left
            if not left and not run_files.others:  # otherwise the next sweep reports it again
                installation.store.runs.note_empty(run, first_ms=run.found_empty_at_ms, swept_ms=now_ms)
    return removed


def delete_of_ingests(
    installation: Installation,
    head: Head,
    listed: Sequence[IngestLeftovers],
    deletable: DeletionFilter,
    grace_ms: int,
    now_ms: int,
    unnamed: list[str],
) -> list[RetiredFile]:
    """Delete what void ingest calls left, and record empty folders."""
    quarantine = installation.log.quarantine(head.state.topic, head)
    removed: list[RetiredFile] = []
    for ingest_files in listed:
        ingest = ingest_files.ingest
        unnamed += ingest_files.others
        files = delete_leftovers(quarantine, deletable.select_of_ingest(ingest_files))
        removed += [RetiredFile(file.uri, file.size_bytes, now_ms, ingest.ingest_id) for file in files]
        for location in (head.location, quarantine.location):
            storage.remove_empty_folders(location, name_ingest_folder(ingest.ingest_id), is_task_folder)
        storage.sync_deletions(file.uri for file in files)
        if ingest_files.files:
            installation.store.ingests.note_empty(ingest.ingest_id, None)
        elif ingest.found_empty_at_ms is None:
            installation.store.ingests.note_empty(ingest.ingest_id, now_ms)
        elif ingest.found_empty_at_ms + grace_ms <= now_ms:
            installation.store.ingests.close([ingest.ingest_id])
    return removed
