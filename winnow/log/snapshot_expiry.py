"""Expires snapshots of the log and the quarantine, and lists the files that snapshots still refer to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate

from winnow.errors import CommitConflictError, DamagedMetadataError
from winnow.files import storage
from winnow.files.file_names import is_attempt_file
from winnow.log.catalog_access import translate_catalog_errors, wait_before_retry
from winnow.log.document_copies import Document
from winnow.log.document_places import locate_copy
from winnow.log.head import Head
from winnow.log.head_checks import MAIN
from winnow.log.manifests import list_live_manifests, list_live_paths
from winnow.log.quarantine import Quarantine
from winnow.log.state import STATE_PROPERTY, StateReference, make_state_document, read_state
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES, TopicLog

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from winnow.log.latest_tables import LatestTable
    from winnow.values.topic_state import TopicState


NO_GRACE_MS: Final = -(2**62)
"""A grace that has passed by any machine's clock."""


@dataclass
class FileReferences:
    """Paths of files some snapshot refers to."""

    data: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    manifest_lists: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)

    def __contains__(self, path: str) -> bool:
        return path in self.data or path in self.manifests or path in self.manifest_lists or path in self.states

    def list_paths(self) -> set[str]:
        """List all paths."""
        return self.data | self.manifests | self.manifest_lists | self.states

    def list_below(self, location: str) -> set[str]:
        """List the paths below the folder ``location``, however the files that name them write it."""
        found = (storage.find_path_below(location, path) for path in self.list_paths())
        return {path for path in found if path is not None}

    def list_names(self) -> set[str]:
        """List the files' names, which nothing else has: a catalog may write a folder another way (file:/ for file:///)."""
        return set(map(storage.get_name, self.list_paths()))

    def add(self, table: Table, snapshot: Snapshot, known: set[str]) -> None:
        """Add everything ``snapshot`` refers to; manifests in ``known`` were read already."""
        self.manifest_lists.add(snapshot.manifest_list)
        self.states.update(list_state_places(table, snapshot))
        for manifest in list_live_manifests(table.io, snapshot):
            self.manifests.add(manifest.manifest_path)
            if manifest.manifest_path in known:
                continue
            known.add(manifest.manifest_path)
            self.data.update(list_live_paths(table.io, manifest))


def find_state_path(table: Table, snapshot: Snapshot) -> str | None:
    """Find the state file that a snapshot's summary names."""
    summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    return StateReference.from_summary(table.name()[-1], summary).path if summary.get(STATE_PROPERTY) else None


def list_state_places(table: Table, snapshot: Snapshot) -> tuple[str, ...]:
    """List the places of the state file that a snapshot's summary names, and of its copy, which is first."""
    path = find_state_path(table, snapshot)
    copies = find_copies(table)
    return () if path is None else (path,) if copies is None else (locate_copy(copies, path), path)


def list_state_documents(table: Table) -> list[Document]:
    """List the states that the snapshots of ``table`` name, the newest first."""
    found = []
    for snapshot in reversed(table.metadata.snapshots):
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if summary.get(STATE_PROPERTY):
            found.append(make_state_document(StateReference.from_summary(table.name()[-1], summary)))
    return found


def collect_state_places(table: Table) -> set[str]:
    """Collect the places of the states that the snapshots of ``table`` name, and of their copies."""
    return {place for snapshot in table.metadata.snapshots for place in list_state_places(table, snapshot)}


def find_copies(table: Table) -> str | None:
    """Find the folder of the copies of the table's documents; None: the Winnow of the newest commit wrote none.

    That the state names the same one is checked when the head is loaded.
    """
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot is not None and snapshot.summary is not None else {}
    return StateReference.from_summary(table.name()[-1], summary).copies if summary.get(STATE_PROPERTY) else None


def collect_references(table: Table, snapshot_ids: set[int] | None = None) -> FileReferences:
    """Collect everything that the given snapshots refer to (None: all in the metadata, on every branch and tag)."""
    found = FileReferences()
    known: set[str] = set()
    for snapshot in table.metadata.snapshots:
        if snapshot_ids is None or snapshot.snapshot_id in snapshot_ids:
            found.add(table, snapshot, known)
    return found


def list_expirable_snapshots(table: Table, *, now_ms: int, grace_ms: int) -> set[int]:
    """List snapshots that may expire: not the head, on no branch or tag, and replaced longer ago than the grace.

    A snapshot is replaced when its successor is committed. If that has been expired before it, which happens while a
    tag holds it, the next snapshot that is left counts.
    """
    heads = {reference.snapshot_id for reference in table.metadata.refs.values()}
    replaced_ms: dict[int, int] = {}
    by_age = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
    for snapshot, later in pairwise(by_age):
        replaced_ms[snapshot.snapshot_id] = later.timestamp_ms
    for snapshot in table.metadata.snapshots:
        if snapshot.parent_snapshot_id is not None:
            replaced_ms[snapshot.parent_snapshot_id] = snapshot.timestamp_ms
    return {
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id not in heads
        and snapshot.snapshot_id in replaced_ms
        and replaced_ms[snapshot.snapshot_id] + grace_ms <= now_ms
    }


def list_snapshots_naming(table: Table, paths: Collection[str], among: Collection[int] | None = None) -> set[int]:
    """List the snapshots (of ``among``; None: all) that name one of the data files ``paths``; reads each manifest once.

    Raises:
        DamagedMetadataError: a manifest or its list is damaged.
    """
    location = str(table.location())
    wanted = {storage.find_path_below(location, path) or path for path in paths}
    naming: dict[str, bool] = {}
    found: set[int] = set()
    for snapshot in table.metadata.snapshots if wanted else ():
        if among is not None and snapshot.snapshot_id not in among:
            continue
        for manifest in list_live_manifests(table.io, snapshot):
            if manifest.manifest_path not in naming:
                live = list_live_paths(table.io, manifest)
                naming[manifest.manifest_path] = any(
                    (storage.find_path_below(location, path) or path) in wanted for path in live
                )
            if naming[manifest.manifest_path]:
                found.add(snapshot.snapshot_id)
                break
    return found


@dataclass(frozen=True)
class Expiry:
    """The snapshots to expire, and the files that would then be unreferenced."""

    snapshot_ids: frozenset[int]
    manifests: frozenset[str]
    manifest_lists: frozenset[str]
    states: frozenset[str]


def plan_expiry(
    log: TopicLog, *, now_ms: int, grace_ms: int, kept: Collection[int] = (), erased: Collection[str] = ()
) -> Expiry:
    """Plan which snapshots to expire now, and which metadata files only they refer to. Changes nothing.

    ``kept``: snapshots that stay however old they are. ``erased``: data files for which there is no grace: a snapshot
    that names one goes, however new it is.
    """
    table = log.newest_head().table
    going = list_expirable_snapshots(table, now_ms=now_ms, grace_ms=grace_ms)
    if erased:
        replaced = list_expirable_snapshots(table, now_ms=now_ms, grace_ms=NO_GRACE_MS)
        going |= list_snapshots_naming(table, erased, replaced)
    return plan_leaving_out(table, going - set(kept))


def plan_leaving_out(table: Table, going: Collection[int]) -> Expiry:
    """Plan which metadata files only the snapshots ``going`` refer to. Changes nothing."""
    going = set(going)
    staying = {snapshot.snapshot_id for snapshot in table.metadata.snapshots} - going
    left = collect_references(table, staying)
    gone = collect_references(table, going)
    return Expiry(
        snapshot_ids=frozenset(going),
        manifests=frozenset(gone.manifests - left.manifests),
        manifest_lists=frozenset(gone.manifest_lists - left.manifest_lists),
        states=frozenset(gone.states - left.states),
    )


def expire_snapshots(log: TopicLog, snapshot_ids: frozenset[int]) -> None:
    """Expire snapshots of the log by id; skip those that are gone already, and retry on conflict."""
    heads: list[Head] = []

    def load() -> Table:
        heads[:] = [log.newest_head()]
        return heads[0].table

    if not _expire(load, snapshot_ids, f"topic {log.topic}"):
        raise log.conflict()
    for head in heads:  # its table has the metadata that were committed last
        log.record(head)


def list_unreadable_snapshots(table: Table) -> set[int]:
    """List earlier snapshots whose metadata files are gone, on no branch or tag: a sweep removed them already."""
    return {snapshot.snapshot_id for snapshot in _list_earlier(table) if not _is_readable(table, snapshot)}


def _list_earlier(table: Table) -> list[Snapshot]:
    """List the snapshots that are not the newest, on no branch or tag."""
    named = {reference.snapshot_id for reference in table.metadata.refs.values()}
    named.add(table.metadata.current_snapshot_id or 0)
    return [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id not in named]


def _is_readable(table: Table, snapshot: Snapshot) -> bool:
    state = find_state_path(table, snapshot)
    try:
        FileReferences().add(table, snapshot, set())
    except (FileNotFoundError, DamagedMetadataError):
        return False
    return state is None or storage.exists(state)


def list_attempt_files(table_location: str, plan_id: str) -> storage.Listing:
    """List files that tasks wrote under a plan id, and what else lies there."""
    is_named = partial(is_attempt_file, quarantined=False)
    return storage.list_named_files(table_location, f"data/{plan_id}", is_named)


def list_kept_states(topic: str, table: Table) -> Iterator[TopicState]:
    """Read the states of the kept snapshots of ``table``."""
    for snapshot in table.metadata.snapshots:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if STATE_PROPERTY in summary:
            reference = replace(StateReference.from_summary(topic, summary), copies=find_copies(table))
            yield read_state(topic, reference)


def list_visible_quarantine_ingests(topic: str, table: Table) -> set[str]:
    """List ingest ids whose quarantined records are visible in a kept snapshot of ``table``; read their states."""
    return {ingest_id for state in list_kept_states(topic, table) for ingest_id in state.quarantine_ingests}


def plan_quarantine_expiry(quarantine: Quarantine, *, now_ms: int, grace_ms: int) -> Expiry | None:
    """Plan which quarantine snapshots to expire now; None: none, or there is no table. Changes nothing.

    Also those whose manifest list is gone: a sweep took it, and a catalog that was put back names it again.

    Raises:
        DamagedMetadataError: a manifest list is damaged.
        ServiceError: the catalog cannot be reached.
    """
    table = quarantine.table()
    if table is None:
        return None
    unreadable = _list_without_manifest_list(table)
    going = list_expirable_snapshots(table, now_ms=now_ms, grace_ms=grace_ms) | unreadable
    if not going:
        return None
    gone, gone_lists = _list_metadata_files(table, going - unreadable)
    left, left_lists = _list_metadata_files(table, {each.snapshot_id for each in table.metadata.snapshots} - going)
    return Expiry(
        snapshot_ids=frozenset(going),
        manifests=frozenset(gone - left),
        manifest_lists=frozenset(gone_lists - left_lists),
        states=frozenset(),
    )


def expire_quarantine(quarantine: Quarantine, snapshot_ids: Collection[int]) -> None:
    """Expire snapshots of the quarantine by id; skip those that are gone already, and retry on conflict.

    Raises:
        CommitConflictError: other commits came first too often; the snapshots stay.
        ServiceError: the catalog cannot be reached.
    """
    if not _expire(quarantine.table, snapshot_ids, f"the quarantine of topic {quarantine.topic}"):
        raise CommitConflictError(
            f"Other commits to the quarantine of topic {quarantine.topic} came first {MAXIMUM_COMMIT_TRIES} times.",
            left="Its old snapshots stay.",
            next="Run the sweep again.",
        )


def expire_latest(latest: LatestTable, *, now_ms: int, grace_ms: int) -> tuple[int, set[str]]:
    """Expire old snapshots of a side table of the latest state; return how many, and the paths that only they named.

    Nothing can refer to these files any more: whoever computes an update from an expired snapshot cannot commit it.

    Raises:
        CommitConflictError: other commits came first too often; the snapshots stay.
        DamagedMetadataError: a manifest list or a manifest is damaged.
        ServiceError: the catalog cannot be reached.
    """
    table = latest.table()
    going = set() if table is None else list_expirable_snapshots(table, now_ms=now_ms, grace_ms=grace_ms)
    if table is None or not going:
        return 0, set()
    gone = collect_references(table, going)
    left = collect_references(table, {each.snapshot_id for each in table.metadata.snapshots} - going)
    if not _expire(latest.table, going, latest.name):
        raise CommitConflictError(
            f"Other commits to {latest.name} came first {MAXIMUM_COMMIT_TRIES} times.",
            left="Its old snapshots stay.",
            next="Run the sweep again.",
        )
    return len(going), {path for path in gone.list_paths() if path not in left}


def expire_unreadable(latest: LatestTable) -> int:
    """Expire the earlier snapshots of a side table of the latest state whose metadata files are gone; return how many.

    A sweep took these files, and a catalog that was put back names them again.

    Raises:
        ServiceError: the catalog cannot be reached.
    """
    table = latest.table()
    going = set() if table is None else list_unreadable_snapshots(table)
    return len(going) if going and _expire(latest.table, going, latest.name) else 0


def _list_without_manifest_list(table: Table) -> set[int]:
    return {snapshot.snapshot_id for snapshot in _list_earlier(table) if not storage.exists(snapshot.manifest_list)}


def _expire(load: Callable[[], Table | None], snapshot_ids: Collection[int], where: str) -> bool:
    """Expire those of ``snapshot_ids`` that the table still has. False: other commits came first too often."""
    for attempt in range(MAXIMUM_COMMIT_TRIES):
        table = load()
        if table is None:
            return True
        named = {reference.snapshot_id for reference in table.metadata.refs.values()}
        there = [each.snapshot_id for each in table.metadata.snapshots]
        going = [each for each in there if each in snapshot_ids and each not in named]
        if not going:
            return True
        try:
            with translate_catalog_errors(f"Snapshots of {where} were not expired"):
                _commit_expiry(table, going)
            return True
        except (CommitFailedException, ValueError):
            wait_before_retry(attempt)  # ValueError: another sweep has expired one of them meanwhile
    return False


def _commit_expiry(table: Table, going: Sequence[int]) -> None:
    """Expire snapshots if the table's head is still the one that was loaded.

    PyIceberg asks for no such thing: another engine's rollback to one of these snapshots would lose it meanwhile.
    """
    head = AssertRefSnapshotId.model_validate({"ref": MAIN, "snapshot-id": table.metadata.current_snapshot_id})
    removed = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(going)})
    with table.transaction() as transaction:
        transaction._apply((removed,), (head,))


def list_quarantine_metadata_files(quarantine: Quarantine) -> set[str]:
    """List the manifests and manifest lists that snapshots of the quarantine refer to, including the newest.

    Raises:
        DamagedMetadataError: a manifest list is damaged.
        ServiceError: the catalog cannot be reached.
    """
    table = quarantine.table()
    if table is None:
        return set()
    manifests, lists = _list_metadata_files(table, {each.snapshot_id for each in table.metadata.snapshots})
    return manifests | lists


def _list_metadata_files(table: Table, snapshot_ids: Collection[int]) -> tuple[set[str], set[str]]:
    manifests: set[str] = set()
    lists: set[str] = set()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id in snapshot_ids:
            lists.add(snapshot.manifest_list)
            manifests.update(manifest.manifest_path for manifest in list_live_manifests(table.io, snapshot))
    return manifests, lists
