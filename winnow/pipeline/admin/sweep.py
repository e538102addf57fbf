"""Deletes files that left the log: commits what goes, deletes it, then forgets it.

No clock, lease or row of the metadata store alone permits a deletion. First a commit moves retired files whose grace
has passed to the condemned ones, raises the fence above unpublished attempts, and voids dead ingest calls. After that
commit nothing can refer to these files any more, and they are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from winnow.config.topic import TopicConfig
from winnow.engine.job_notes import sweep_jobs
from winnow.errors import DeletedTopicError, ServiceError
from winnow.files import storage
from winnow.files.file_names import is_data_file, is_retired_file
from winnow.log import fence
from winnow.log.deleted_topics import note_deleted
from winnow.log.head import Change, Head
from winnow.log.quarantine import Quarantine
from winnow.log.snapshot_expiry import (
    NO_GRACE_MS,
    Expiry,
    FileReferences,
    collect_references,
    expire_quarantine,
    expire_snapshots,
    list_quarantine_metadata_files,
    list_unreadable_snapshots,
    plan_expiry,
    plan_quarantine_expiry,
)
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin import leftovers
from winnow.pipeline.admin.document_mending import mend_documents
from winnow.pipeline.admin.erasure_progress import commit_deletions
from winnow.pipeline.admin.leftovers import DeletionFilter, IngestLeftovers, NamedFile, RunLeftovers
from winnow.pipeline.admin.missing_metadata import explain_missing_metadata
from winnow.pipeline.admin.sweep_report import SweepReport, format_mended, format_swept, format_unnamed, record_sweep
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.table import update_after_publish
from winnow.pipeline.latest.table_files import SweptTable, find_reflected_snapshot, sweep_latest_table
from winnow.pipeline.topics.deletion import find_grace_ms, note_deletion_seen, remove_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.overview import refresh_overview
from winnow.pipeline.topics.stored_rows import prune_history
from winnow.report.alert_kinds import AlertKind
from winnow.report.events import log_event
from winnow.store import OpenIngest
from winnow.values.counts import format_count
from winnow.values.topic_state import RetiredFile, TopicState

logger = logging.getLogger("winnow")


def sweep_topics(installation: Installation, topics: Sequence[str] = ()) -> list[SweepReport]:
    """Delete files that no reader can reach, topic by topic (none = all, deleted ones too). Repeatable."""
    reports = [
        _sweep_any_topic(installation, topic)
        for topic in topics or (*installation.log.names(), *installation.log.list_deleted())
    ]
    if any(report.pages_removed for report in reports):
        # Great Expectations takes seconds to load, and most sweeps do not need it.
        from winnow.quality.validation import build_site_index

        build_site_index(installation.settings.data_docs)
    return reports


class _NothingToCommitError(Exception):
    """No file, fence or ingest call needs a commit."""


@dataclass(frozen=True, slots=True)
class _ListedLeftovers:
    """What a sweep found by listing, before its own commit."""

    runs: Sequence[RunLeftovers]
    ingests: Sequence[IngestLeftovers]
    open_ingests: Sequence[OpenIngest]


def _sweep_any_topic(installation: Installation, topic: str) -> SweepReport:
    try:
        return _sweep_topic(installation, topic)
    except DeletedTopicError:
        return _sweep_deleted_topic(installation, topic)


def _sweep_deleted_topic(installation: Installation, topic: str) -> SweepReport:
    """Remove a deleted topic for good if its grace has passed."""
    log = installation.log.open(topic)
    with hold_lease(installation, topic):
        note_deleted(installation.log.deleted_notes, topic)  # a restore that came too late may have removed the note
        note_deletion_seen(installation, log)
        grace_ms = find_grace_ms(log, log.newest_head(even_deleted=True))
        removed = remove_topic(installation, topic, deleted_before_ms=installation.now_ms() - grace_ms)
    if removed is None:
        waits = f"{topic}: deleted; its files wait for their grace of {grace_ms:,} ms (winnow.retired.grace.ms)."
        return SweepReport(topic, 0, 0, 0, 0, 0, waits)
    text = f"{topic}: deleted, and its grace has passed; {format_count(removed.files_deleted, 'file')} removed."
    if removed.left:
        text += f" {format_count(len(removed.left), 'file', 'stay')} in its folder, not being Winnow's."
    return SweepReport(topic, removed.files_deleted, removed.bytes_deleted, 0, 0, 0, text, unnamed=removed.left)


def _sweep_topic(installation: Installation, topic: str) -> SweepReport:
    started_ms = installation.now_ms()
    log = installation.log.open(topic)
    with hold_lease(installation, topic), explain_missing_metadata(log):
        head = log.newest_head()
        settle_open_runs(installation, topic)
        head = log.newest_head()
        config: TopicConfig = log.config(head)
        now_ms = installation.now_ms()
        erasing = bool(head.state.unfinished_erasures)
        expiry = _expire_log(installation, log, head, config, now_ms)
        quarantine = installation.log.quarantine(topic, head)
        expired = len(expiry.snapshot_ids) + _expire_quarantine(
            installation, quarantine, now_ms, config.retired_grace_ms
        )
        found = _list_leftovers(installation, log.newest_head(), config, now_ms, at_once=erasing)
        # Read before the commit: what somebody puts in later may be a file of a commit that is about to land.
        ledger = _read_ledger(installation, topic)
        forgotten = _is_any_forgotten(ledger, expiry, log)
        fence_raised, committed = _commit_removals(
            installation, log, found, now_ms - config.retired_grace_ms, ends_commits=forgotten
        )
        # Loaded after the commit: what this head and its kept snapshots do not name, no later one will.
        head = log.newest_head()
        referenced = collect_references(head.table)
        unnamed: list[str] = []
        condemned = _select_condemned(head, quarantine, referenced, unnamed)
        deleted_data = _delete_files(installation, topic, condemned, now_ms, unnamed)
        pending = _find_unreferenced_metadata(ledger, head, quarantine, referenced, unnamed)
        deleted_other = _delete_files(installation, topic, pending, now_ms, unnamed)
        deletable = DeletionFilter(head, referenced, quarantine, fence_raised=fence_raised)
        rules = (deletable, config.retired_grace_ms, now_ms, unnamed)
        deleted_leftovers = [
            *leftovers.delete_of_runs(installation, head, found.runs, *rules),
            *leftovers.delete_of_ingests(installation, head, found.ingests, *rules),
        ]
        # Their process died, or lost the store, between its commit and closing the row.
        installation.store.ingests.close([call.ingest_id for call in committed])
        side = _sweep_beside(installation, topic, config, now_ms, NO_GRACE_MS if erasing else config.retired_grace_ms)
        gone = {file.path for file in deleted_data}
        kept_versions = commit_deletions(installation, log, gone, head, referenced)
        if gone:
            installation.store.segment_checks.forget(topic, gone)
        mended = mend_documents(installation, log)
        after = log.head()
        installation.store.projection.record_states(topic, after.state.partitions, now_ms, table_uuid=after.table_uuid)
        deleted = [*deleted_data, *deleted_other, *deleted_leftovers]
        if deleted or expired:
            refresh_overview(installation, topic, after)
        orphaned = deletable.list_orphaned(found.runs, found.ingests, {file.path for file in deleted})
        unnamed = sorted({*unnamed, *side.unnamed})
        record_sweep(installation, after, deleted, orphaned, expired, unnamed)
        rows, pages = prune_history(installation, topic, installation.now_ms())
    waiting = after.state.waiting_files
    report = SweepReport(
        topic=topic,
        files_deleted=len(deleted) + side.files_deleted,
        bytes_deleted=sum(file.size_bytes for file in deleted) + side.bytes_deleted,
        snapshots_expired=expired + side.snapshots_expired,
        files_waiting=len(waiting),
        bytes_waiting=sum(file.size_bytes for file in waiting),
        message=format_swept(topic, len(deleted) + side.files_deleted, len(waiting), config.retired_grace_ms, rows)
        + format_unnamed(unnamed)
        + format_mended(mended)
        + f" {kept_versions}".rstrip(),
        history_rows_removed=rows,
        pages_removed=pages,
        unnamed=tuple(unnamed),
        documents_restored=mended.restored,
        documents_copied=mended.copied,
        documents_lost=mended.lost,
        kept_versions=kept_versions,
    )
    log_event(
        "swept",
        topic,
        files_deleted=report.files_deleted,
        bytes_deleted=report.bytes_deleted,
        snapshots_expired=report.snapshots_expired,
        files_waiting=report.files_waiting,
        bytes_waiting=report.bytes_waiting,
        duration_ms=installation.now_ms() - started_ms,
    )
    stuck_since_ms = now_ms - config.retired_grace_ms - installation.settings.alert.sweep_stuck_ms
    if not installation.store.retired_files.list_waiting(stuck_since_ms, topic):
        installation.alerts.recover(topic, {AlertKind.SWEEP_STUCK}, None, "was swept")
    if not after.state.unfinished_erasures:
        installation.alerts.recover(topic, {AlertKind.ERASURE_UNFINISHED}, None, "has no file of an erasure any more")
    return report


def _sweep_beside(
    installation: Installation, topic: str, config: TopicConfig, now_ms: int, side_grace_ms: int
) -> SweptTable:
    """Sweep the side table of the latest state, and what killed jobs left in the staging area; return the sum."""
    side = sweep_latest_table(installation, topic, now_ms, side_grace_ms) if config.latest_table else SweptTable()
    # One that is at work for longer would lose segments, too.
    grace_ms = max(config.retired_grace_ms, installation.settings.lease_ms)
    installation.guard.require_own()
    try:
        jobs = sweep_jobs(installation.settings.staging, topic, now_ms, grace_ms)
    except (OSError, ServiceError) as problem:
        logger.warning("What killed jobs of topic %s left in the staging area was not swept. %s", topic, problem)
        return side
    return replace(
        side,
        files_deleted=side.files_deleted + jobs.files_deleted,
        bytes_deleted=side.bytes_deleted + jobs.bytes_deleted,
        unnamed=(*side.unnamed, *jobs.unnamed),
    )


def record_expiring_files(installation: Installation, topic: str, expiry: Expiry, now_ms: int) -> None:
    """Record the files that expiring will leave unreferenced, so that none is forgotten after a crash."""
    for kind, paths in (
        ("manifest", expiry.manifests),
        ("manifest_list", expiry.manifest_lists),
        ("state", expiry.states),
    ):
        files = [RetiredFile(path, storage.read_size_bytes(path) or 0, now_ms, "expiry") for path in sorted(paths)]
        if files:
            installation.store.retired_files.record(topic, files, kind)


def _expire_log(installation: Installation, log: TopicLog, head: Head, config: TopicConfig, now_ms: int) -> Expiry:
    """Expire old snapshots of the log, and those with records of erased keys, after recording unreferenced files."""
    kept = None
    if config.latest_table:
        if head.state.unfinished_erasures:
            update_after_publish(installation, log.topic, head)  # else its table needs a snapshot with such records
        # From this one the side table is brought up to date; without it all rows would have to be written again.
        kept = find_reflected_snapshot(installation, log.topic)
    plan = partial(
        plan_expiry,
        log,
        now_ms=now_ms,
        grace_ms=config.retired_grace_ms,
        kept=() if kept is None else (kept,),
        erased={file.path for file in head.state.list_erased_files()},
    )
    try:
        expiry = plan()
    except FileNotFoundError:
        if not _expire_again(installation, log):
            raise
        expiry = plan()
    record_expiring_files(installation, log.topic, expiry, now_ms)
    expire_snapshots(log, expiry.snapshot_ids)
    return expiry


def _expire_again(installation: Installation, log: TopicLog) -> bool:
    """Expire snapshots that a sweep had expired, and that a catalog which was put back names again; False: none.

    Only those whose manifest list the ledger has: of any other file that is gone nobody knows why.
    """
    files = installation.store.retired_files.list_retired(log.topic, pending_only=False)
    recorded = {row.path for row in files if row.kind == "manifest_list"}
    table = log.newest_head().table
    unreadable = list_unreadable_snapshots(table)
    again = {
        each.snapshot_id
        for each in table.metadata.snapshots
        if each.snapshot_id in unreadable and each.manifest_list in recorded
    }
    expire_snapshots(log, frozenset(again))
    return bool(again)


def _expire_quarantine(installation: Installation, quarantine: Quarantine, now_ms: int, grace_ms: int) -> int:
    """Expire old snapshots of the quarantine's table, after recording unreferenced files; return how many."""
    expiry = plan_quarantine_expiry(quarantine, now_ms=now_ms, grace_ms=grace_ms)
    if expiry is None:
        return 0
    record_expiring_files(installation, quarantine.topic, expiry, now_ms)
    expire_quarantine(quarantine, expiry.snapshot_ids)
    return len(expiry.snapshot_ids)


def _select_condemned(
    head: Head, quarantine: Quarantine, referenced: FileReferences, unnamed: list[str]
) -> list[NamedFile]:
    """Return the condemned files that no kept snapshot names, after taking those of the quarantine out of its table."""
    found = leftovers.locate_files(head.state.condemned, (head.location, quarantine.location), is_data_file)
    unnamed += found.others
    free = _select_unreferenced(found.files, head, referenced)
    return leftovers.withdraw_quarantined(quarantine, head, free)


def _find_unreferenced_metadata(
    ledger: Mapping[str, Sequence[RetiredFile]],
    head: Head,
    quarantine: Quarantine,
    referenced: FileReferences,
    unnamed: list[str],
) -> list[NamedFile]:
    """Return files of ``ledger`` that no snapshot of the log's or the quarantine's table refers to.

    A row of the store is believed only about files of its kind, below these tables' folders and that of the copies.
    Copies of states are first: a state that is gone while its copy is there was taken by another program.
    """
    pending: list[NamedFile] = []
    for kind, files in ledger.items():
        roots = (head.copies, head.location, quarantine.location)
        found = leftovers.locate_files(files, roots, partial(is_retired_file, kind=kind))
        unnamed += found.others
        pending += _select_unreferenced(found.files, head, referenced)
    pending.sort(key=lambda file: file.location != head.copies)
    if not any(file.location == quarantine.location for file in pending):
        return pending
    kept = (storage.find_path_below(quarantine.location, path) for path in list_quarantine_metadata_files(quarantine))
    of_quarantine = set(kept)
    return [file for file in pending if file.location != quarantine.location or file.path not in of_quarantine]


def _is_any_forgotten(ledger: Mapping[str, Sequence[RetiredFile]], expiry: Expiry, log: TopicLog) -> bool:
    """Check whether ``ledger`` has a file of the log that may go and is not of this sweep's own ``expiry``.

    A sweep that ended early recorded it, or somebody else who can write to the store.
    """
    own = expiry.manifests | expiry.manifest_lists | expiry.states
    others = {kind: [file for file in files if file.path not in own] for kind, files in ledger.items()}
    if not any(others.values()):
        return False
    head = log.newest_head()
    roots = (head.copies, head.location)
    located = (
        leftovers.locate_files(files, roots, partial(is_retired_file, kind=kind)) for kind, files in others.items()
    )
    referenced = collect_references(head.table)
    return any(_select_unreferenced(found.files, head, referenced) for found in located)


def _read_ledger(installation: Installation, topic: str) -> dict[str, list[RetiredFile]]:
    """Read the metadata files that were recorded as retired and are not deleted yet, by kind."""
    found: dict[str, list[RetiredFile]] = {}
    for row in installation.store.retired_files.list_retired(topic, pending_only=True):
        if row.kind not in {"data", "attempts"}:
            file = RetiredFile(row.path, row.size_bytes, row.retired_at_ms, row.plan_id)
            found.setdefault(row.kind, []).append(file)
    return found


def _select_unreferenced(files: Iterable[NamedFile], head: Head, referenced: FileReferences) -> list[NamedFile]:
    named = {root: referenced.list_below(root) for root in (head.location, head.copies)}
    return [file for file in files if file.path not in named.get(file.location, ())]


def _delete_files(
    installation: Installation, topic: str, files: Sequence[NamedFile], now_ms: int, unnamed: list[str]
) -> list[RetiredFile]:
    """Delete ``files``, each below its table's folder; return which are gone. Others stay, and their records too."""
    if files:
        installation.guard.require_own()
    gone: list[RetiredFile] = []
    deleted: list[str] = []
    for named in files:
        uri = storage.join(named.location, named.path)
        if storage.delete(uri, below=named.location):
            gone.append(named.file)
            deleted.append(uri)
        else:
            unnamed.append(named.file.path)
    # Folders of published plans and committed ingests, in which nothing is written any more.
    for location in {named.location for named in files}:
        storage.remove_emptied_folders(deleted, storage.join(location, "data"))
    storage.sync_deletions(deleted)
    if gone:
        installation.store.retired_files.mark_deleted(topic, [file.path for file in gone], now_ms)
    return gone


def _list_leftovers(
    installation: Installation, head: Head, config: TopicConfig, now_ms: int, *, at_once: bool
) -> _ListedLeftovers:
    """List the files of closed runs and idle ingest calls; ``at_once``: also of runs that were closed a moment ago."""
    # A running ingest call renews its row three times within a lease.
    idle_since_ms = now_ms - max(config.retired_grace_ms, installation.settings.lease_ms)
    closed_before_ms = installation.now_ms() if at_once else now_ms - config.retired_grace_ms
    return _ListedLeftovers(
        runs=leftovers.list_runs(installation, head, closed_before_ms=closed_before_ms),
        ingests=leftovers.list_ingests(installation, head, idle_since_ms=idle_since_ms),
        open_ingests=installation.store.ingests.list_open(head.state.topic),
    )


def _commit_removals(
    installation: Installation, log: TopicLog, found: _ListedLeftovers, retired_before_ms: int, *, ends_commits: bool
) -> tuple[bool, list[OpenIngest]]:
    """Commit what makes files deletable, if needed; return whether the fence was raised, and committed ingest calls.

    ``ends_commits``: commit even so, after which no commit that another process is preparing lands as it is. Then a
    metadata file that was recorded before and is not named after it will not be.
    """
    raised = False
    voided: list[OpenIngest] = []
    committed: list[OpenIngest] = []

    def build(head: Head) -> Change:
        nonlocal raised
        referenced = collect_references(head.table)
        raised = leftovers.needs_fence(found.runs, head, referenced, installation.log.quarantine(log.topic, head))
        voided[:], committed[:] = leftovers.select_ingests_to_void(found.ingests, head.state)
        state = _mark_files_for_deletion(head.state, referenced, retired_before_ms)
        if voided:
            state = leftovers.apply_voided_ingests(state, voided, found.open_ingests)
        if raised:
            return fence.make_fence_change(replace(head, state=state), [], operation="condemn")
        if state == head.state and not ends_commits:
            raise _NothingToCommitError
        return Change(state=state, summary={"winnow.operation": "condemn"})

    try:
        log.commit(build)
    except _NothingToCommitError:
        raised = False
    installation.store.ingests.note_voided([each.ingest_id for each in voided], installation.now_ms())
    return raised, committed


def _mark_files_for_deletion(state: TopicState, referenced: FileReferences, retired_before_ms: int) -> TopicState:
    due = [file for file in state.retired if file.retired_at_ms <= retired_before_ms and file.path not in referenced]
    paths = {file.path for file in due}
    retired = tuple(file for file in state.retired if file.path not in paths)
    return replace(state, retired=retired, condemned=(*state.condemned, *due))
