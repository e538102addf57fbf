"""Finds files of attempts and ingest calls that no commit refers to, and decides which may be deleted.

ARCHITECTURE.md proves what may be deleted after which commit. In short: a file of an attempt once the topic's fence is
above the attempt's, a file of an ingest call once a commit has voided the call, and neither while a kept snapshot names
it. Both conditions stay true once they hold, so a sweep that was paused deletes nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.files import storage
from winnow.files.quarantine_files import locate_ingest_folder, locate_keyless_move_folder, may_contain_ingest
from winnow.log.head import Head
from winnow.log.head_age import find_missing_receipts
from winnow.log.quarantine import Quarantine
from winnow.log.reference_chains import list_ingest_references
from winnow.log.snapshot_expiry import FileReferences, list_attempt_files, list_visible_quarantine_ingests
from winnow.model import RetiredFile, TopicState, VoidedIngest
from winnow.pipeline.context import Context
from winnow.store import OpenIngest, Run


@dataclass(frozen=True, slots=True)
class Leftover:
    """One file in the folder of a plan or of an ingest call.

    ``fence``: that of its attempt, None if no such attempt is known; None for files of ingest calls.
    ``quarantined``: whether it is in the quarantine's folder.
    """

    uri: str
    size_bytes: int
    fence: int | None = None
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class RunLeftovers:
    """All files in the folders of a closed run's plan, including those that the log names."""

    run: Run
    files: tuple[Leftover, ...]


@dataclass(frozen=True, slots=True)
class IngestLeftovers:
    """All files in the folders of an ingest call whose end is not recorded."""

    ingest: OpenIngest
    files: tuple[Leftover, ...]


def list_runs(ctx: Context, head: Head, *, closed_before_ms: int) -> list[RunLeftovers]:
    """List the files of closed runs whose folders were not yet found empty twice.

    Left out is a run that the metadata store calls published and of which the log has no receipt: the table was rolled
    back past its publish, and may be rolled forward again.
    """
    topic = head.state.topic
    quarantine = ctx.log.quarantine(topic, head)
    found: list[RunLeftovers] = []
    runs = ctx.store.runs.list_to_sweep(topic, closed_before_ms)
    if runs:
        unknown = find_missing_receipts(head, ctx.store.topic_heads.list_published(topic))
        runs = [run for run in runs if run.plan_id not in unknown]
    adopted = [file.path for file in quarantine.files()] if runs else []
    for run in runs:
        entries = list_attempt_files(head.location, run.plan_id)
        moved = quarantine.list_files_of_plan(run.plan_id, adopted)
        # Queried after the listing: an attempt is recorded before its first file.
        fences = ctx.store.runs.list_attempt_fences(run.plan_id)
        files = [
            *_build_leftovers(entries, storage.join(head.location, "data", run.plan_id), fences, quarantined=False),
            *_build_leftovers(
                moved, locate_keyless_move_folder(quarantine.location, run.plan_id), fences, quarantined=True
            ),
        ]
        if ctx.store.runs.find(run.plan_id) == run:  # otherwise it was reopened meanwhile, and is running
            found.append(RunLeftovers(run, tuple(files)))
    return found


def list_ingests(ctx: Context, head: Head, *, idle_since_ms: int) -> list[IngestLeftovers]:
    """List the files of ingest calls that are void, or have not renewed their row since then."""
    topic = head.state.topic
    quarantine = ctx.log.quarantine(topic, head)
    found: list[IngestLeftovers] = []
    idle = [
        ingest
        for ingest in ctx.store.ingests.list_open(topic)
        if ingest.voided_at_ms is not None or ingest.renewed_at_ms <= idle_since_ms
    ]
    adopted = [file.path for file in quarantine.files()] if idle else []
    for ingest in idle:
        ledgers = {path: storage.read_size_bytes(path) for path in head.documents.locate_ledgers(ingest.ingest_id)}
        files = [
            *(
                Leftover(entry.uri, entry.size_bytes)
                for entry in storage.list_files(locate_ingest_folder(head.location, ingest.ingest_id))
            ),
            *(
                Leftover(entry.uri, entry.size_bytes, quarantined=True)
                for entry in quarantine.list_files_of_ingest(ingest.ingest_id, adopted)
            ),
            *(Leftover(path, size_bytes) for path, size_bytes in ledgers.items() if size_bytes is not None),
        ]
        found.append(IngestLeftovers(ingest, tuple(files)))
    return found


def compute_required_fences(
    runs: Iterable[RunLeftovers], head: Head, referenced: FileReferences, quarantine: Quarantine
) -> list[int] | None:
    """Return the fences that the topic's must exceed before files of ``runs`` may go; None: it is high enough.

    An unknown attempt may have any fence up to the current one.
    """
    kept = list_kept_paths(head.state)
    visible = frozenset(head.state.quarantine_ingests)

    def is_named(file: Leftover) -> bool:
        if file.quarantined:
            return may_contain_ingest(file.uri, quarantine.location, visible)
        return file.uri in referenced or file.uri in kept

    needed = [
        head.fence if file.fence is None else file.fence for run in runs for file in run.files if not is_named(file)
    ]
    return needed if any(fence >= head.fence for fence in needed) else None


def select_ingests_to_void(
    ingests: Iterable[IngestLeftovers], state: TopicState
) -> tuple[list[OpenIngest], list[OpenIngest]]:
    """Return the ``ingests`` that a commit has yet to void, and those that turn out to be committed."""
    waiting = [each.ingest for each in ingests if not state.is_voided(each.ingest.ingest_id, each.ingest.number)]
    if not waiting:
        return [], []
    committed = {reference.ingest_id for reference in list_ingest_references(state)} | set(state.quarantine_ingests)
    return (
        [ingest for ingest in waiting if ingest.ingest_id not in committed],
        [ingest for ingest in waiting if ingest.ingest_id in committed],
    )


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


class DeletionFilter:
    """Decides file by file what may be deleted, from a head that was loaded after the sweep's own commit.

    Args:
        head: the newest.
        referenced: what its kept snapshots name.
        quarantine: the topic's.
        passed_unknown: whether the sweep itself lifted the fence after it listed the files.
    """

    def __init__(self, head: Head, referenced: FileReferences, quarantine: Quarantine, *, passed_unknown: bool) -> None:
        self._head = head
        self._quarantine = quarantine
        self._referenced = referenced
        self._passed_unknown = passed_unknown
        self._kept = list_kept_paths(head.state)
        self._visible: set[str] | None = None

    def select_of_run(self, run: RunLeftovers) -> list[Leftover]:
        """Return the files of a closed run that no commit names and none will."""
        return [file for file in run.files if self._is_below_fence(file) and self._is_unnamed(file)]

    def select_of_ingest(self, ingest: IngestLeftovers) -> list[Leftover]:
        """Return the files of an ingest call that is void; none of a call that is not."""
        call = ingest.ingest
        if not self._head.state.is_voided(call.ingest_id, call.number):
            return []
        return [file for file in ingest.files if self._is_unnamed(file)]

    def list_orphaned(
        self, runs: Iterable[RunLeftovers], ingests: Iterable[IngestLeftovers], deleted: Collection[str]
    ) -> list[Leftover]:
        """List the files of closed runs and idle ingest calls that no commit names and that were not ``deleted``."""
        files = (*(file for each in runs for file in each.files), *(file for each in ingests for file in each.files))
        return [file for file in files if file.uri not in deleted and self._is_unnamed(file)]

    def _is_below_fence(self, file: Leftover) -> bool:
        return self._passed_unknown if file.fence is None else file.fence < self._head.fence

    def _is_unnamed(self, file: Leftover) -> bool:
        if not file.quarantined:
            return file.uri not in self._referenced and file.uri not in self._kept
        if self._visible is None:
            self._visible = list_visible_quarantine_ingests(self._head.state.topic, self._head.table)
        return not may_contain_ingest(file.uri, self._quarantine.location, self._visible)


def delete_leftovers(quarantine: Quarantine, files: Collection[Leftover]) -> None:
    """Delete ``files``; those of the quarantine leave its table first."""
    withdrawn = [file.uri for file in files if file.quarantined]
    if withdrawn:
        quarantine.remove_files(withdrawn)
    for file in files:
        storage.delete(file.uri)


def withdraw_quarantined(quarantine: Quarantine, head: Head, files: Sequence[RetiredFile]) -> list[RetiredFile]:
    """Take condemned files of the quarantine out of its table; return which of ``files`` may be deleted now.

    Left out are files of ingest calls that a kept snapshot names.
    """
    below = f"{quarantine.location}/"
    aside = {file.path for file in files if file.path.startswith(below)}
    if not aside:
        return list(files)
    visible = list_visible_quarantine_ingests(head.state.topic, head.table)
    named = {path for path in aside if may_contain_ingest(path, quarantine.location, visible)}
    if aside - named:
        quarantine.remove_files(aside - named)
    return [file for file in files if file.path not in named]


def list_kept_paths(state: TopicState) -> frozenset[str]:
    """Files that wait for their grace, or are being deleted as retired ones: not leftovers."""
    return frozenset(file.path for file in state.waiting_files)


def _build_leftovers(
    entries: Iterable[storage.FileEntry], folder: str, fences: Mapping[str, int], *, quarantined: bool
) -> Iterator[Leftover]:
    for entry in entries:
        attempt = entry.uri.removeprefix(folder + "/").partition("/")[0]
        yield Leftover(entry.uri, entry.size_bytes, fences.get(attempt), quarantined)
