"""Old snapshots of the quarantine's table: which may go, and which metadata files only they refer to.

Readers take the newest snapshot alone, by the ingest ids that the log's state names, so its past is of no use to them.
Data files are not touched: a snapshot that is expired here names none that the newest has not, or they were withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException

from winnow.errors import CommitConflictError
from winnow.log.manifests import list_live_manifests
from winnow.log.quarantine import Quarantine
from winnow.log.references import list_expirable_snapshots
from winnow.log.sweep import Expiry
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES, translate_catalog_errors, wait_before_retry

if TYPE_CHECKING:
    from pyiceberg.table import Table


def plan_quarantine_expiry(quarantine: Quarantine, *, now_ms: int, grace_ms: int) -> Expiry | None:
    """Which snapshots of the quarantine may be expired now; None: none, or there is no table. Changes nothing.

    Raises:
        DamagedMetadataError: a manifest list is damaged.
        ServiceError: the catalog cannot be reached.
    """
    table = quarantine.table()
    going = set() if table is None else list_expirable_snapshots(table, now_ms=now_ms, grace_ms=grace_ms)
    if table is None or not going:
        return None
    gone, gone_lists = _list_metadata_files(table, going)
    left, left_lists = _list_metadata_files(table, {each.snapshot_id for each in table.metadata.snapshots} - going)
    return Expiry(
        snapshot_ids=frozenset(going),
        manifests=frozenset(gone - left),
        manifest_lists=frozenset(gone_lists - left_lists),
        states=frozenset(),
    )


def expire_quarantine(quarantine: Quarantine, snapshot_ids: Collection[int]) -> None:
    """Expire snapshots by id; those that are gone already are passed over. Begun again on conflict.

    Raises:
        CommitConflictError: other commits came first too often; the snapshots stay.
        ServiceError: the catalog cannot be reached.
    """
    for attempt in range(MAXIMUM_COMMIT_TRIES):
        table = quarantine.table()
        there = [] if table is None else [s.snapshot_id for s in table.metadata.snapshots]
        going = [each for each in there if each in snapshot_ids]
        if table is None or not going:
            return
        try:
            with translate_catalog_errors(f"Snapshots of the quarantine of topic {quarantine.topic} were not expired"):
                table.maintenance.expire_snapshots().by_ids(going).commit()
            return
        except (CommitFailedException, ValueError):
            wait_before_retry(attempt)  # ValueError: another sweep has expired one of them meanwhile
    raise CommitConflictError(
        f"Other commits to the quarantine of topic {quarantine.topic} came first {MAXIMUM_COMMIT_TRIES} times; its old "
        "snapshots stay. Run the sweep again."
    )


def list_quarantine_metadata_files(quarantine: Quarantine) -> set[str]:
    """The manifests and manifest lists that snapshots of the quarantine refer to, its newest among them.

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
