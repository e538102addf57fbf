"""Publishes a validated attempt in one snapshot, then moves the checkpoint."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from winnow.config.definitions import LATEST_TABLE
from winnow.errors import CommitUnknownError, PlanVoidError, RunAgainError, say_left
from winnow.files.quarantine_files import make_keyless_move_id
from winnow.log.fence import end_attempts
from winnow.log.head import Change, Head
from winnow.log.state import MOVE_PROPERTY, PLAN_PROPERTY
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.partition_states import apply_cleaning, apply_retention, count_ahead_of_time
from winnow.pipeline.compaction.plan_limits import PlanLimits, build_limits, require_within_limits
from winnow.pipeline.compaction.plan_validity import find_fence_violation, find_void
from winnow.pipeline.compaction.run_plan import close_as_void, read_validated_attempt
from winnow.pipeline.compaction.staged_files import check_staged_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.overview import refresh_overview
from winnow.pipeline.topics.topic_view import build_rules
from winnow.report import alert_kinds
from winnow.report.alert_kinds import PUBLISHED_AGAIN, AlertKind
from winnow.report.events import log_event
from winnow.report.receipts import describe_simulation
from winnow.store import Run, RunState
from winnow.values.counts import format_count
from winnow.values.model import PartitionPlan, Plan, Reason, Segment, Status
from winnow.values.results import PartitionReceipt, Receipt, StagedPartition, StagingManifest, extract_figures
from winnow.values.reversal import PartitionReversal, make_reversal
from winnow.values.topic_state import RetiredFile, TopicState


def adopt_keyless_files(installation: Installation, plan: Plan, manifest: StagingManifest) -> str | None:
    """Add the attempt's files of keyless records to the quarantine's table.

    The same file is never added twice, so publishing again changes nothing. Call it before the log's commit, and let
    that commit name the result in :attr:`winnow.values.topic_state.TopicState.quarantine_ingests`.

    Returns:
        The ingest id of the moved records, None when the attempt moved none.

    Raises:
        CommitConflictError: other commits to the quarantine came first too often; nothing moved.
        ServiceError: the catalog cannot be reached.
    """
    files = [file for part in manifest.partitions for file in part.keyless_files]
    if not files:
        return None
    installation.log.quarantine(plan.topic).adopt(files)
    return make_keyless_move_id(plan.plan_id, manifest.attempt)


class _AlreadyPublishedError(Exception):
    """The plan id is in the table's history already."""


def publish_attempt(installation: Installation, plan_id: str, attempt: str) -> Receipt:
    """Publish a validated attempt and move the checkpoint. Publishing again returns the same receipt.

    Raises:
        ValidationFailedError: the attempt has not passed validation, or was changed since.
        PlanVoidError: refused; the log changed under the plan, or the plan is not the recorded one.
        CommitUnknownError: the outcome is not known; the next run settles it.
    """
    run = installation.store.runs.get(plan_id)
    log = installation.log.open(run.topic)
    known = log.find_receipt(plan_id, log.newest_head(), since_ms=run.opened_at_ms)
    if known is not None:
        return move_checkpoint(installation, log, known)
    verdict = installation.store.verdicts.find(plan_id, attempt)
    try:
        plan, manifest = read_validated_attempt(run, verdict, attempt)
    except PlanVoidError as problem:
        close_as_void(installation, run, problem)
        raise
    assert verdict is not None
    started_ms = installation.now_ms()
    # Refused if another attempt has replaced this one, and only from the state that was seen: of two processes with
    # the same attempt only one continues.
    installation.store.runs.set_state(plan_id, RunState.PUBLISHING, started_ms, attempt=attempt, seen=run.status)
    try:
        receipt, live = _commit(installation, log, plan, manifest, run, verdict.data_docs)
    except PlanVoidError as problem:
        published = _close_as_refused(installation, log, run, str(problem))
        if published is not None:
            return published
        raise
    except CommitUnknownError as problem:
        unknown = alert_kinds.make_commit_unknown(plan.topic, plan_id, problem.what, at_ms=installation.now_ms())
        explanation = unknown.explain()
        with contextlib.suppress(PlanVoidError):  # another attempt replaced it and searches for the receipt too
            installation.store.runs.set_state(
                plan_id, RunState.UNKNOWN, installation.now_ms(), message=str(explanation), attempt=attempt
            )
        log_event("unknown", plan.topic, plan_id=plan_id, attempt=attempt)
        installation.alerts.open_alert(unknown)
        raise CommitUnknownError(*explanation) from problem
    return move_checkpoint(installation, log, receipt, started_ms=started_ms, live=live)


def _close_as_refused(installation: Installation, log: TopicLog, run: Run, message: str) -> Receipt | None:
    """Close ``run``, whose plan is void, as refused; the receipt when an earlier try of it was published after all.

    Raises:
        CommitConflictError, CommitUnknownError: an earlier try may still be published; the run stays open.
    """
    if run.status.is_unsettled:
        found = end_attempts(log, run.plan_id, run.fence, since_ms=run.opened_at_ms)
        if found is not None:
            return move_checkpoint(installation, log, found)
    with contextlib.suppress(
        RunAgainError
    ):  # the process that closed the run, or began another attempt, has recorded its outcome
        installation.store.runs.set_state(
            run.plan_id,
            RunState.REFUSED,
            installation.now_ms(),
            message=message,
            attempt=run.attempt,
            seen=RunState.PUBLISHING,
        )
    log_event("refused", run.topic, plan_id=run.plan_id, attempt=run.attempt)
    if run.status.is_unsettled:
        installation.alerts.recover(
            run.topic, {AlertKind.COMMIT_UNKNOWN}, (), describe_not_published(run.plan_id), plan_id=run.plan_id
        )
    return None


def describe_not_published(plan_id: str) -> str:
    """Describe a run whose commit was in doubt and turned out not to exist."""
    return f"is settled: plan {plan_id} is not in the table's history and void, and the next run plans anew"


def move_checkpoint(
    installation: Installation,
    log: TopicLog,
    receipt: Receipt,
    *,
    started_ms: int | None = None,
    live: Mapping[int, tuple[Segment, ...]] | None = None,
) -> Receipt:
    """Move the checkpoint in the metadata store from a receipt; repeating it changes nothing.

    ``started_ms``: when its publishing began, if in this call. ``live``: the segments that its commit left.
    """
    published = f"Plan {receipt.plan_id} is published, and readers see its result; the next run completes the store."
    with say_left(published):
        _move_checkpoint(installation, log, receipt, started_ms, live)
    return receipt


def _move_checkpoint(
    installation: Installation,
    log: TopicLog,
    receipt: Receipt,
    started_ms: int | None,
    live: Mapping[int, tuple[Segment, ...]] | None,
) -> None:
    assert receipt.plan_id is not None
    head = log.head()
    state = head.state
    retired = [file for file in state.waiting_files if file.plan_id == receipt.plan_id]
    installation.store.projection.record_publication(
        receipt, state.partitions, retired, installation.now_ms(), table_uuid=head.table_uuid
    )
    run = installation.store.runs.find(receipt.plan_id)
    if run is None or run.status is not RunState.PUBLISHED:
        # Before the state says that all is done. Asking again for an old receipt must not close alerts.
        _resolve_alerts(installation, receipt, state)
    if run is not None:
        installation.store.runs.set_state(
            receipt.plan_id,
            RunState.PUBLISHED,
            installation.now_ms(),
            snapshot_id=receipt.snapshot_id,
            message=receipt.message,
            attempt=receipt.attempt or run.attempt,
        )
        if run.status is not RunState.PUBLISHED:
            _log_published(receipt, None if started_ms is None else installation.now_ms() - started_ms)
    refresh_overview(installation, receipt.topic, head, live)
    if LATEST_TABLE in head.table.properties:
        # The engine takes a while to load, and most topics keep no such table.
        from winnow.pipeline.latest.table import update_after_publish

        update_after_publish(installation, receipt.topic, head)


def _resolve_alerts(installation: Installation, receipt: Receipt, state: TopicState) -> None:
    # Retention continues where a partition is marked, and resolves only the doubt about its own commit.
    well = [part.partition for part in receipt.partitions if state.partitions[part.partition].uncleanable is None]
    kinds = PUBLISHED_AGAIN if well else {AlertKind.COMMIT_UNKNOWN}
    how = "was compacted and published again" if well else f"is settled: plan {receipt.plan_id} is published"
    installation.alerts.recover(receipt.topic, kinds, well, how, plan_id=receipt.plan_id)


def _log_published(receipt: Receipt, duration_ms: int | None) -> None:
    parts = receipt.partitions
    log_event(
        "published",
        receipt.topic,
        plan_id=receipt.plan_id,
        attempt=receipt.attempt,
        snapshot_id=str(receipt.snapshot_id),
        partitions=len(parts),
        records_in=sum(part.records_in for part in parts),
        records_kept=sum(part.records_kept for part in parts),
        records_superseded=sum(part.records_superseded for part in parts),
        tombstones_expired=sum(part.tombstones_expired for part in parts),
        records_keyless=sum(part.records_keyless for part in parts),
        records_retired=sum(part.records_retired for part in parts),
        bytes_in=sum(part.bytes_in for part in parts),
        bytes_out=sum(part.bytes_out for part in parts),
        bytes_retired=sum(part.bytes_retired for part in parts),
        engine_seconds=round(math.fsum(part.seconds for part in parts), 3),
        duration_ms=duration_ms,
    )


def _commit(
    installation: Installation, log: TopicLog, plan: Plan, manifest: StagingManifest, run: Run, data_docs: str | None
) -> tuple[Receipt, Mapping[int, tuple[Segment, ...]] | None]:
    """Commit the attempt; return the receipt, and the segments in the log after a commit made now."""
    moved: str | None = None
    listed = False
    after: dict[int, tuple[Segment, ...]] = {}

    def build(head: Head) -> Change:
        # The same checks on every try, in this order: a commit that succeeded is done, regardless of later changes.
        if any(each.plan_id == plan.plan_id for each in log.receipt_references(head, since_ms=run.opened_at_ms)):
            raise _AlreadyPublishedError
        fenced = find_fence_violation(run, head)
        if fenced is not None:
            raise PlanVoidError(fenced.message)
        live = log.segments(head)
        limits = build_limits(installation, head, opened_at_ms=run.opened_at_ms)
        change = build_change(
            log, head, live, plan, manifest, limits, now_ms=installation.now_ms(), data_docs=data_docs, moved=moved
        )
        nonlocal listed, after
        after = _list_segments_after(live, change)
        if not listed:
            # Once is enough: after this, only a higher fence allows deleting them.
            _check_staged_files(log, run, plan, manifest)
            listed = True
        return change

    try:
        if any(part.keyless_files for part in manifest.partitions):
            build(log.newest_head())  # a void plan must not leave rows in the quarantine that no state will ever name
        installation.guard.require_own()
        moved = adopt_keyless_files(installation, plan, manifest)
        committed = log.commit(build)
    except _AlreadyPublishedError:
        found = log.find_receipt(plan.plan_id, since_ms=run.opened_at_ms)
        assert found is not None
        return found, None
    assert committed.receipt is not None
    return committed.receipt, after


def _check_staged_files(log: TopicLog, run: Run, plan: Plan, manifest: StagingManifest) -> None:
    """Check that the attempt's files are there; if the fence was raised meanwhile, a sweep took them: say that."""
    try:
        check_staged_files(plan, manifest)
    except PlanVoidError:
        fenced = find_fence_violation(run, log.head())
        if fenced is not None:
            raise PlanVoidError(fenced.message) from None
        raise


def _list_segments_after(live: Mapping[int, tuple[Segment, ...]], change: Change) -> dict[int, tuple[Segment, ...]]:
    """List the segments per partition in offset order once ``change`` is committed over ``live``."""
    found: dict[int, list[Segment]] = {}
    removed = set(change.remove)
    for segment in (*chain.from_iterable(live.values()), *change.add):
        if segment.path not in removed:
            found.setdefault(segment.partition, []).append(segment)
    return {number: tuple(sorted(each, key=lambda s: s.first_offset)) for number, each in found.items()}


def build_change(
    log: TopicLog,
    head: Head,
    live: Mapping[int, tuple[Segment, ...]],
    plan: Plan,
    manifest: StagingManifest,
    limits: PlanLimits,
    *,
    now_ms: int,
    data_docs: str | None,
    moved: str | None = None,
) -> Change:
    """Build the change that publishing ``manifest`` makes to ``head``, whose segments are ``live``.

    ``moved``: the ingest id of keyless records now in quarantine.

    Raises:
        PlanVoidError: the segments below the plan's end offsets differ from the planned ones, the plan exceeds
            ``limits``, or the manifest names files that are not the attempt's own.
    """
    void = find_void(log, head, plan, live)
    if void is not None:
        raise PlanVoidError(void.message)
    require_within_limits(log, head, plan, manifest, live, limits)
    staged = {part.partition: part for part in manifest.partitions}
    # Present readers may hold records that this run removes, so a tombstone's life begins no earlier than now.
    cleaning_time_ms = max(plan.as_of_ms, now_ms)
    states = dict(head.state.partitions)
    receipts: list[PartitionReceipt] = []
    reversals: list[PartitionReversal] = []
    added: list[Segment] = []
    removed: list[Segment] = []
    for partition in sorted(plan.partitions, key=lambda p: p.partition):
        part = staged[partition.partition]
        gone = {path for rewrite in part.rewrites for path in rewrite.inputs}
        outputs = [segment for rewrite in part.rewrites for segment in rewrite.outputs]
        taken = (*partition.retired, *(segment for segment in partition.segments if segment.path in gone))
        removed.extend(taken)
        added.extend(outputs)
        planned = {segment.path for segment in (*partition.retired, *partition.segments)}
        after = [segment for segment in partition.segments if segment.path not in gone] + outputs
        after += [segment for segment in live.get(partition.partition, ()) if segment.path not in planned]
        state = apply_retention(states[partition.partition], partition, after)
        if partition.compacts:
            state = apply_cleaning(
                state, partition, plan, after, cleaning_time_ms=cleaning_time_ms, extended=part.facts.extended
            )
        reversals.append(
            make_reversal(
                partition.partition,
                states[partition.partition],
                state,
                compacts=partition.compacts,
                removed=taken,
                added=tuple(segment.path for segment in outputs),
            )
        )
        states[partition.partition] = state
        receipt = _build_partition_receipt(partition, part)
        if plan.as_of_ms > now_ms:
            receipt = _add_ahead_of_time(receipt, log, head, partition, live, now_ms=now_ms)
        receipts.append(receipt)
    moves = {} if moved is None else {MOVE_PROPERTY: moved}
    retired = tuple(RetiredFile(s.path, s.size_bytes, now_ms, plan.plan_id) for s in removed)
    template = Receipt(
        topic=plan.topic,
        plan_id=plan.plan_id,
        status=Status.PUBLISHED,
        snapshot_id=None,
        partitions=tuple(receipts),
        message=_format_message(plan, receipts, now_ms=now_ms),
        as_of_ms=plan.as_of_ms,
        finished_at_ms=now_ms,
        attempt=manifest.attempt,
        data_docs=data_docs,
    )
    return Change(
        state=replace(
            head.state,
            partitions=states,
            retired=(*head.state.retired, *retired),
            quarantine_ingests=(*head.state.quarantine_ingests, *moves.values()),
        ),
        add=added,
        remove=[segment.path for segment in removed],
        remove_from={segment.partition for segment in removed},
        summary={
            "winnow.operation": "compact",
            PLAN_PROPERTY: plan.plan_id,
            **moves,
            "winnow.records-in": str(sum(r.records_in for r in receipts)),
            "winnow.records-kept": str(sum(r.records_kept for r in receipts)),
            "winnow.records-superseded": str(sum(r.records_superseded for r in receipts)),
            "winnow.tombstones-expired": str(sum(r.tombstones_expired for r in receipts)),
        },
        receipt=lambda snapshot_id: replace(template, snapshot_id=snapshot_id),
        reversal=reversals,
    )


def _build_partition_receipt(partition: PartitionPlan, staged: StagedPartition) -> PartitionReceipt:
    return PartitionReceipt(
        **extract_figures(staged.facts),
        partition=partition.partition,
        first_dirty_offset=partition.first_dirty_offset,
        next_first_dirty_offset=partition.next_first_dirty_offset,
        records_retired=sum(segment.records for segment in partition.retired),
        log_start_offset=partition.log_start_offset,
        bytes_retired=sum(segment.size_bytes for segment in partition.retired),
        reason=partition.reason,
        expected_records_kept=partition.expected_records_kept,
        expected_bytes_out=partition.expected_bytes_out,
        seconds=staged.seconds,
        cpu_seconds=staged.cpu_seconds,
        bytes_written=sum(segment.size_bytes for rewrite in staged.rewrites for segment in rewrite.outputs),
    )


def _add_ahead_of_time(
    receipt: PartitionReceipt,
    log: TopicLog,
    head: Head,
    partition: PartitionPlan,
    live: Mapping[int, Sequence[Segment]],
    *,
    now_ms: int,
) -> PartitionReceipt:
    """Add to ``receipt`` what the run did earlier than the wall clock would have allowed."""
    found = count_ahead_of_time(
        log.topic,
        partition,
        head.state.partitions[partition.partition],
        live.get(partition.partition, ()),
        build_rules(log.config(head)),
        tombstones_expired=receipt.tombstones_expired,
        now_ms=now_ms,
    )
    return replace(
        receipt, tombstones_expired_early=found.tombstones_expired, offsets_cleaned_early=found.offsets_cleaned
    )


def _format_message(plan: Plan, receipts: list[PartitionReceipt], *, now_ms: int) -> str:
    topic = plan.topic
    records_in = sum(r.records_in for r in receipts)
    kept = sum(r.records_kept for r in receipts)
    retired = sum(r.records_retired for r in receipts)
    compacted = [r for r in receipts if r.reason is not Reason.RETENTION or r.records_in]
    sentences = [
        f"Compacted {format_count(len(compacted), 'partition')} of {topic}: kept {kept} of {records_in} records."
    ] * bool(compacted)
    keyless = sum(r.records_keyless for r in receipts)
    if keyless:
        sentences.append(f"{keyless} records without a key went to the quarantine (winnow read {topic} --quarantined).")
    if retired:
        sentences.append(
            f"Retention removed {retired} records of "
            f"{format_count(sum(r.records_retired > 0 for r in receipts), 'partition')}."
        )
    sentences = sentences or [f"Nothing of {topic} had to be rewritten."]
    if any(partition.closes_active for partition in plan.partitions):
        sentences.append("The active segments counted as closed (--include-active-segment).")
    return " ".join([*sentences, *describe_simulation(receipts, as_of_ms=plan.as_of_ms, now_ms=now_ms)])
