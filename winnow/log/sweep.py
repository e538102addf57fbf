"""Taking snapshots out of a table's metadata. Nothing here deletes a data file."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from winnow.files import storage
from winnow.log.references import collect_references, list_expirable_snapshots
from winnow.log.state import STATE_PROPERTY, StateReference, read_state
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES, TopicLog, translate_catalog_errors, wait_before_retry


@dataclass(frozen=True)
class Expiry:
    """What expiring a table's old snapshots would leave unreferenced."""

    snapshot_ids: frozenset[int]
    manifests: frozenset[str]
    manifest_lists: frozenset[str]
    states: frozenset[str]


def plan_expiry(log: TopicLog, *, now_ms: int, grace_ms: int) -> Expiry:
    """Which snapshots may be expired now, and which metadata files only they refer to. Changes nothing."""
    table = log.head().table
    going = list_expirable_snapshots(table, now_ms=now_ms, grace_ms=grace_ms)
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
    """Expire snapshots by id; those that are gone already are passed over. Begun again on conflict."""
    for attempt in range(MAXIMUM_COMMIT_TRIES):
        table = log.head().table
        there = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id in snapshot_ids]
        if not there:
            return
        try:
            with translate_catalog_errors(f"Snapshots of topic {log.topic} were not expired"):
                table.maintenance.expire_snapshots().by_ids(there).commit()
            return
        except (CommitFailedException, ValueError):
            wait_before_retry(attempt)  # ValueError: another sweep has expired one of them meanwhile
    raise log.conflict()


def list_attempt_files(table_location: str, plan_id: str) -> list[storage.FileEntry]:
    """Data files written under a plan id, by listing."""
    return storage.list_files(storage.join(table_location, "data", plan_id))


def list_visible_quarantine_ingests(topic: str, table: Table) -> set[str]:
    """Ingest ids whose quarantined records are visible in some snapshot that ``table`` has kept; reads their states."""
    found: set[str] = set()
    for snapshot in table.metadata.snapshots:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if STATE_PROPERTY in summary:
            found.update(read_state(topic, StateReference.from_summary(topic, summary)).quarantine_ingests)
    return found
