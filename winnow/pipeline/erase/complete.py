"""Erases keys, and sees to it that nothing of them stays on disk: what a call reports, and how it ends if it cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from winnow.config.definitions import LATEST_TABLE
from winnow.errors import RunAgainError, WinnowError
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.erasure_progress import register_erasures
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.erase.approval import find_request, read_plan, require_unused
from winnow.pipeline.erase.erase import CommittedErasure, EraseRequest, commit_erasure
from winnow.pipeline.erase.outside import count_backups
from winnow.pipeline.erase.scan import Progress
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.overview import refresh_overview
from winnow.report.events import log_event
from winnow.store.audit import AuditAction
from winnow.store.erase_requests import RequestedErasure, RequestState
from winnow.values.counts import format_count
from winnow.values.erasures import ErasureDocument


@dataclass(frozen=True, slots=True)
class EraseReport:
    """What an erasure did.

    ``keys``: that were to be erased. ``keys_found``: of which readers could see a record, or could have without a log
    start. ``records``: that were erased. ``files``: that held one, in all places. ``was_erased``: an earlier call had
    erased them, and this one completed it. ``deleted``: none of these files is on disk any more. ``closed``: the
    certificate is; nothing is left that has a key or could write one. ``tombstones``: that stay, with their keys.
    """

    topic: str
    erasure_id: str
    snapshot_id: int | None
    keys: int
    keys_found: int
    records: int
    files: int
    bytes: int
    was_erased: bool
    deleted: bool
    closed: bool
    tombstones: int
    outside: tuple[str, ...]


def erase_or_ask(
    installation: Installation,
    request: EraseRequest,
    progress: Progress = lambda done, total: None,
    *,
    keys_from: str | None = None,
    is_first_try: bool = True,
) -> EraseReport | RequestedErasure:
    """Erase keys; where that takes two persons, ask for it as long as it is not approved, which commits nothing.

    Args:
        installation: where.
        request: with ``request_id``: it is carried out or refused, and no other request is made.
        progress: as of :func:`erase_keys`.
        keys_from: the place of the file with the keys; None: they were typed.
        is_first_try: refuse a request that was carried out; else it is completed.

    Raises:
        EraseRefusedError: the request is not approved, or was carried out, or is for something else, or too old.
        Also the errors of :func:`erase_keys`.
    """
    if request.request_id is not None:
        found = installation.store.erase_requests.find(request.request_id)
        if is_first_try:
            require_unused(found)
    elif installation.settings.erase.approvals > 1:
        found = find_request(installation, request, keys_from=keys_from, progress=progress)
        if found.state is RequestState.PENDING:
            return found
    else:
        found = None
    if found is not None:
        request = replace(request, request_id=found.request_id, reason=read_plan(found).reason)
    return erase_keys(installation, request, progress)


def erase_keys(
    installation: Installation, request: EraseRequest, progress: Progress = lambda done, total: None
) -> EraseReport:
    """Erase keys from a topic: from its log for readers in one commit, then from disk. Repeating it changes nothing.

    Raises:
        RunAgainError: they are erased for readers, and not yet from disk.
        Also the errors of :func:`winnow.pipeline.erase.erase.commit_erasure`.
    """
    started_ms = installation.now_ms()
    committed = commit_erasure(installation, request, progress)
    if request.request_id is not None:
        installation.store.erase_requests.note_used(request.request_id, committed.erasure_id)
    topic = request.topic
    log = installation.log.open(topic)
    complete_store(installation, log)
    if committed.snapshot_id is not None:
        _tell(installation, committed, installation.now_ms() - started_ms)
    delete_erased_files(installation, topic)
    return _make_report(committed, log.head())


def describe_consequences(installation: Installation, topic: str) -> str:
    """Say what an erasure from ``topic`` would end, or not reach: runs, ingest calls, tags, backups; empty: nothing."""
    refs = installation.log.open(topic).head(even_deleted=True).table.metadata.refs
    counts = (
        (len(installation.store.runs.list_open(topic)), "run", "at work: void afterwards"),
        (len(installation.store.ingests.list_open(topic)), "ingest call", "at work: to be started over"),
        (len(refs) - ("main" in refs), "ref", "that may keep files with such records, which refuses it"),
        (count_backups(installation), "backup", "that may hold such records until winnow backup erase"),
    )
    said = [f"{format_count(count, noun)} {what}" for count, noun, what in counts if count]
    return f"{topic}: {'; '.join(said)}." if said else ""


def complete_store(installation: Installation, log: TopicLog) -> None:
    """Bring register and metadata store in line with the newest head, and the table of the latest state with the log.

    Raises:
        RunAgainError: an erasure could not be registered.
    """
    head = log.head()
    topic = log.topic
    require_registered(installation, head)
    erased = head.state.list_erased_files()
    installation.store.retired_files.record_erased(topic, erased, table_uuid=head.table_uuid)
    installation.store.projection.record_states(
        topic, head.state.partitions, installation.now_ms(), table_uuid=head.table_uuid
    )
    refresh_overview(installation, topic, head)
    if LATEST_TABLE in head.table.properties:
        from winnow.pipeline.latest.table import update_after_publish

        update_after_publish(installation, topic, head)


def require_registered(installation: Installation, head: Head) -> None:
    """Register every erasure of ``head`` that the register lacks.

    Raises:
        RunAgainError: one could not be.
    """
    missing = {each.erasure_id for each in head.state.erasures} - register_erasures(installation, head)
    if missing:
        raise RunAgainError(
            f"Topic {head.state.topic} has {format_count(len(missing), 'committed erasure')} not yet in the "
            f"register ({installation.settings.erase.register_folder}), so an older state that is put back would not "
            "know of them.",
            left="No reader sees the erased records any more. Every later sweep goes on.",
            next=f"Make the register writable, then: winnow sweep {head.state.topic}",
        )


def delete_erased_files(installation: Installation, topic: str) -> None:
    """Delete the files of erasures of ``topic`` that are not deleted yet, behind the fence.

    Raises:
        RunAgainError: some of them are still there.
    """
    log = installation.log.open(topic)
    if not log.head().state.unfinished_erasures:
        return
    try:
        reports = sweep_topics(installation, [topic])
    except WinnowError as problem:
        raise _make_unfinished_error(log, problem.what) from problem
    if log.head().state.unfinished_erasures:
        kept = next((each.kept_versions for each in reports if each.kept_versions), "")
        raise _make_unfinished_error(log, kept or "A snapshot or the table of the latest state still names some.")


def _make_unfinished_error(log: TopicLog, why: str) -> RunAgainError:
    state = log.head().state
    waiting = len(state.list_erased_files())
    return RunAgainError(
        f"The keys are erased for readers of topic {log.topic}, and not yet from disk: "
        f"{format_count(waiting, 'file', 'wait')}. {why}",
        left="No reader sees these records any more, and every later sweep goes on with deleting the files.",
        next=f"Run it again, or: winnow sweep {log.topic}",
    )


def _make_report(committed: CommittedErasure, head: Head) -> EraseReport:
    document = committed.document
    reference = next(each for each in head.state.erasures if each.erasure_id == document.erasure_id)
    return EraseReport(
        topic=document.topic,
        erasure_id=document.erasure_id,
        snapshot_id=committed.snapshot_id,
        keys=document.keys,
        keys_found=document.keys_found,
        records=document.records,
        files=len(document.files),
        bytes=sum(file.size_bytes for file in document.files),
        was_erased=committed.snapshot_id is None,
        deleted=reference.deleted_at_ms is not None,
        closed=reference.closed_at_ms is not None and not document.tombstones,
        tombstones=len(document.tombstones),
        outside=document.outside,
    )


def _tell(installation: Installation, committed: CommittedErasure, duration_ms: int) -> None:
    document: ErasureDocument = committed.document
    log_event(
        "erased",
        document.topic,
        erasure_id=document.erasure_id,
        keys=document.keys,
        records=document.records,
        files=len(document.files),
        snapshot_id=str(committed.snapshot_id),
        duration_ms=duration_ms,
    )
    detail = (
        f"{document.erasure_id}: {format_count(document.keys, 'key')}, {format_count(document.records, 'record')} in "
        f"{format_count(len(document.files), 'file')}"
    )
    record_action(installation, AuditAction.ERASE, document.topic, detail=detail, reason=document.reason)
