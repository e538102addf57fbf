"""Which files a table's snapshots refer to: what the sweep must never delete."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from winnow.log.manifests import list_live_manifests, list_live_paths
from winnow.log.state import STATE_PROPERTY, StateReference


@dataclass
class FileReferences:
    """Paths of files some snapshot refers to."""

    data: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    manifest_lists: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)

    def __contains__(self, path: str) -> bool:
        return path in self.data or path in self.manifests or path in self.manifest_lists or path in self.states

    def add(self, table: Table, snapshot: Snapshot, known: set[str]) -> None:
        """Take in everything ``snapshot`` refers to; manifests in ``known`` were read already."""
        self.manifest_lists.add(snapshot.manifest_list)
        state = find_state_path(table, snapshot)
        if state is not None:
            self.states.add(state)
        for manifest in list_live_manifests(table.io, snapshot):
            self.manifests.add(manifest.manifest_path)
            if manifest.manifest_path in known:
                continue
            known.add(manifest.manifest_path)
            self.data.update(list_live_paths(table.io, manifest))


def find_state_path(table: Table, snapshot: Snapshot) -> str | None:
    """The state file a snapshot's summary names."""
    summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    return StateReference.from_summary(table.name()[-1], summary).path if summary.get(STATE_PROPERTY) else None


def collect_references(table: Table, snapshot_ids: set[int] | None = None) -> FileReferences:
    """Everything the named snapshots (none = all that are left, on every branch and tag) refer to."""
    found = FileReferences()
    known: set[str] = set()
    for snapshot in table.metadata.snapshots:
        if snapshot_ids is None or snapshot.snapshot_id in snapshot_ids:
            found.add(table, snapshot, known)
    return found


def list_expirable_snapshots(table: Table, *, now_ms: int, grace_ms: int) -> set[int]:
    """Snapshots whose grace has passed: not the head, on no branch or tag, and replaced longer ago than the grace.

    A snapshot is replaced when its successor is committed; a snapshot with no successor in the metadata is kept.
    """
    heads = {reference.snapshot_id for reference in table.metadata.refs.values()}
    replaced_ms: dict[int, int] = {}
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
