"""The physical removal of retired files: record, expire, check every reference, delete, mark. Only here do bytes go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from winnow.config.topic import TopicConfig
from winnow.files import storage
from winnow.log.references import References
from winnow.log.sweep import Expiry, attempt_files, expire, live_references, plan_expiry
from winnow.log.topic_log import Change, Head, TopicLog
from winnow.model import RetiredFile
from winnow.pipeline.context import Context
from winnow.pipeline.leases import holding
from winnow.pipeline.overview import refresh_picture
from winnow.pipeline.settle import settle
from winnow.report.alerts import Kind
from winnow.report.events import tell
from winnow.store import Run, RunState

_CLOSED = (RunState.REFUSED, RunState.INVALID, RunState.VOID, RunState.PUBLISHED)
"""Runs whose attempt folders may be listed. Never an unknown run, never one that is still open."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep of one topic removed, and what still waits for its grace."""

    topic: str
    files_deleted: int
    bytes_deleted: int
    snapshots_expired: int
    files_waiting: int
    bytes_waiting: int
    message: str


def sweep(ctx: Context, topics: Sequence[str] = ()) -> list[SweepReport]:
    """Remove what no reader can reach any more, topic by topic (none = all). Running it again removes nothing more."""
    return [_sweep_topic(ctx, topic) for topic in topics or ctx.log.names()]


def _sweep_topic(ctx: Context, topic: str) -> SweepReport:
    started_ms = ctx.now_ms()
    with holding(ctx, topic):
        settle(ctx, topic)
        log = ctx.log.open(topic)
        head = log.head()
        config: TopicConfig = log.config(head)
        now_ms = ctx.now_ms()
        expiry = plan_expiry(log, now_ms=now_ms, grace_ms=config.retired_grace_ms)
        _record(ctx, topic, expiry, now_ms)
        expire(log, expiry.snapshot_ids)
        referenced = live_references(log)
        due = [file for file in head.state.retired if file.retired_at_ms + config.retired_grace_ms <= now_ms]
        deleted_data = _delete(ctx, topic, _unreferenced(due, referenced), now_ms)
        deleted_other = _delete(ctx, topic, _unreferenced(_ledger(ctx, topic), referenced), now_ms)
        deleted_attempts = _delete_attempts(ctx, log, head, config, referenced, now_ms)
        gone = {file.path for file in deleted_data}
        if gone:
            log.commit(lambda current: _forget(current, gone))
        state = log.head().state
        ctx.store.record_states(topic, state.partitions, now_ms)
        if gone:
            refresh_picture(ctx, topic)
    waiting = state.retired
    deleted = [*deleted_data, *deleted_other, *deleted_attempts]
    report = SweepReport(
        topic=topic,
        files_deleted=len(deleted),
        bytes_deleted=sum(file.size_bytes for file in deleted),
        snapshots_expired=len(expiry.snapshot_ids),
        files_waiting=len(waiting),
        bytes_waiting=sum(file.size_bytes for file in waiting),
        message=_message(topic, len(deleted), len(waiting), config.retired_grace_ms),
    )
    tell(
        "swept",
        topic,
        files_deleted=report.files_deleted,
        bytes_deleted=report.bytes_deleted,
        snapshots_expired=report.snapshots_expired,
        files_waiting=report.files_waiting,
        bytes_waiting=report.bytes_waiting,
        duration_ms=ctx.now_ms() - started_ms,
    )
    stuck_ms = ctx.settings.alert.sweep_stuck_ms
    if not ctx.store.waiting_files(now_ms - config.retired_grace_ms - stuck_ms, topic):
        ctx.alerts.recover(topic, {Kind.SWEEP_STUCK}, None, "was swept")
    return report


def _message(topic: str, deleted: int, waiting: int, grace_ms: int) -> str:
    text = f"{topic}: {deleted} file(s) removed."
    if waiting:
        text += f" {waiting} retired file(s) wait for their grace of {grace_ms:,} ms (winnow.retired.grace.ms)."
    return text


def _record(ctx: Context, topic: str, expiry: Expiry, now_ms: int) -> None:
    """Write down what expiring will leave unreferenced, so that a crash after it leaves no file forgotten."""
    for kind, paths in (
        ("manifest", expiry.manifests),
        ("manifest_list", expiry.manifest_lists),
        ("state", expiry.states),
    ):
        files = [RetiredFile(path, storage.size_bytes(path) or 0, now_ms, "expiry") for path in sorted(paths)]
        if files:
            ctx.store.record_retired(topic, files, kind)


def _ledger(ctx: Context, topic: str) -> list[RetiredFile]:
    return [
        RetiredFile(row.path, row.size_bytes, row.retired_at_ms, row.plan_id)
        for row in ctx.store.retired(topic, pending_only=True)
        if row.kind not in {"data", "attempts"}
    ]


def _unreferenced(files: Iterable[RetiredFile], referenced: References) -> list[RetiredFile]:
    return [file for file in files if file.path not in referenced]


def _delete(ctx: Context, topic: str, files: Sequence[RetiredFile], now_ms: int) -> list[RetiredFile]:
    for file in files:
        storage.delete(file.path)
    if files:
        ctx.store.mark_deleted(topic, [file.path for file in files], now_ms)
    return list(files)


def _delete_attempts(
    ctx: Context, log: TopicLog, head: Head, config: TopicConfig, referenced: References, now_ms: int
) -> list[RetiredFile]:
    """Files of attempts that were not published or were superseded, once the grace after their run's end has passed."""
    removed: list[RetiredFile] = []
    still_retired = {file.path for file in head.state.retired}
    swept_at_ms = _swept_at_ms(ctx, log.topic)
    for run in ctx.store.runs(log.topic):
        # A plan may be tried again after its folder was swept.
        due_ms = run.updated_at_ms + config.retired_grace_ms
        if run.status not in _CLOSED or due_ms > now_ms or swept_at_ms.get(run.plan_id, -1) >= due_ms:
            continue
        aside = ctx.log.quarantine(log.topic).unadopted(run.plan_id)
        for entry in (*attempt_files(head.location, run.plan_id), *aside):
            if entry.uri in referenced or entry.uri in still_retired:
                continue
            storage.delete(entry.uri)
            removed.append(RetiredFile(entry.uri, entry.size_bytes, run.updated_at_ms, run.plan_id))
        _remember_swept(ctx, head, run, now_ms)
    return removed


def _swept_at_ms(ctx: Context, topic: str) -> dict[str, int]:
    """When the folder of each plan was swept last."""
    rows = [row for row in ctx.store.retired(topic, pending_only=False) if row.kind == "attempts"]
    found: dict[str, int] = {}
    for row in rows:
        found[row.plan_id] = max(found.get(row.plan_id, -1), row.deleted_at_ms or -1)
    return found


def _remember_swept(ctx: Context, head: Head, run: Run, now_ms: int) -> None:
    """Its folder is listed once, not at every sweep for ever after."""
    folder = storage.join(head.location, "data", run.plan_id, run.attempt or "-")
    ctx.store.record_retired(run.topic, [RetiredFile(folder, 0, now_ms, run.plan_id)], "attempts")
    ctx.store.mark_deleted(run.topic, [folder], now_ms)


def _forget(head: Head, gone: set[str]) -> Change:
    left = tuple(file for file in head.state.retired if file.path not in gone)
    return Change(state=replace(head.state, retired=left), summary={"winnow.operation": "sweep"})
