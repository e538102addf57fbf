"""Goes on from an older head of a topic, as the catalog names it, and gives up what was committed after it.

What is given up is written down first. Then one commit raises fence, ingest number, sequence number and metadata number
above all that the metadata store and the warehouse know, so that nothing which was prepared over the given-up history
fits any more. Its files become leftovers after a grace.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain

from winnow.errors import DamagedMetadataError, UsageError
from winnow.files import storage
from winnow.log.document_copies import write_document
from winnow.log.document_places import DocumentKind
from winnow.log.head import Head
from winnow.log.head_age import find_missing_offsets, find_missing_receipts
from winnow.log.raised_head import KnownNumbers, make_raised_change
from winnow.log.reference_chains import list_ingest_references
from winnow.log.snapshot_expiry import expire_snapshots, list_unreadable_snapshots
from winnow.log.topic_log import TopicLog
from winnow.log.warehouse_survey import WarehouseSurvey
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.older_worlds import UNCHANGED, OlderWorld
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.store.audit import AuditAction
from winnow.values import documents
from winnow.values.counts import format_count
from winnow.values.results import Receipt
from winnow.values.topic_state import TopicHead, TopicState

MAXIMUM_NAMED_FILES = 3


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What is given up by going on from an older head, as far as metadata store and warehouse know it.

    ``recorded``: the heads that were recorded, one per life. ``newest_metadata``: of the table's folder.
    ``receipts``: of the published runs that the log lacks. ``plan_ids``: these runs, also those without a receipt.
    ``log_ends``: per partition the log end that is given up. ``ingest_ids``: calls whose records the log lacks.
    """

    topic: str
    table_uuid: str
    given_up_at_ms: int
    actor: str
    reason: str
    found_metadata: str
    recorded: tuple[TopicHead, ...]
    newest_metadata: str | None
    plan_ids: tuple[str, ...]
    receipts: tuple[Receipt, ...]
    log_ends: dict[int, int]
    ingest_ids: tuple[str, ...]
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class AcceptedHead:
    """An older head that was accepted. ``document``: where what was given up is written down."""

    topic: str
    document: str
    fence: int
    runs_given_up: int
    ingests_given_up: int
    offsets_given_up: int


def accept_older_head(
    installation: Installation, topic: str, *, reason: str, older: OlderWorld = UNCHANGED
) -> AcceptedHead:
    """Go on from the head of ``topic`` that the catalog names, although later commits were recorded.

    Killed at any line, the next call completes it. ``older``: what the commit does again.

    Raises:
        UsageError: no reason is given, or the catalog is not older than what is known.
        DamagedMetadataError: files of the older head are gone, or a sweep is deleting them.
        TopicBusyError: another run holds the topic.
        CommitConflictError, CommitUnknownError, ServiceError: see :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    if not reason.strip():
        raise UsageError(
            f"--accept-older-head needs --reason TEXT: the audit log keeps it. Topic {topic} is as it was."
        )
    with hold_lease(installation, topic):
        log = installation.log.open(topic)
        head = log.head(even_deleted=True)
        lives = installation.store.topic_heads.list_lives(topic)
        survey = log.survey(head, [each.metadata_location for each in lives])
        lost = _list_lost_states(head, survey)
        published = find_missing_receipts(head, installation.store.topic_heads.list_published(topic))
        if log.find_older(head) is None and not lost and not published:
            raise UsageError(
                f"The catalog's entry of topic {topic} is not older than what is known of it: there is nothing to "
                "accept.",
                left="Nothing was changed.",
            )
        _require_files(log, head, lost)
        older.look(log, head)
        given_up = _describe(installation, head, lives, survey, lost, published, reason)
        # Before the commit: calls that turn out to be committed, in a newer catalog that is put back, are closed again.
        for ingest_id in given_up.ingest_ids:
            installation.store.ingests.reopen(ingest_id, topic, now_ms=installation.now_ms())
        written = write_document(head.documents, DocumentKind.GIVEN_UP, f"{uuid.uuid4().hex}.json", _dump(given_up))
        known = _find_known_numbers(installation, head, lives, survey)
        committed = older.commit(
            log,
            lambda current: make_raised_change(_require_same(head, current), known, "accept-older-head"),
            even_deleted=True,
            over_older=True,
        )
        installation.store.topic_heads.begin_life(topic, head.table_uuid)
        installation.store.runs.give_up(given_up.plan_ids, installation.now_ms())
        installation.store.ingests.renew_open(topic, installation.now_ms())
        expire_snapshots(log, frozenset(list_unreadable_snapshots(log.newest_head(even_deleted=True).table)))
        if committed.state.deleted_at_ms is None:
            rebuild_store(installation, [topic])
    offsets = sum(end - have for have, end in find_missing_offsets(head, given_up.log_ends).values())
    detail = f"{len(given_up.plan_ids):,} runs, {offsets:,} offsets given up: {written.path}"
    record_action(installation, AuditAction.ACCEPT_OLDER_HEAD, topic, detail=detail)
    fence = committed.head.fence
    return AcceptedHead(topic, written.path, fence, len(given_up.plan_ids), len(given_up.ingest_ids), offsets)


def _dump(given_up: GivenUp) -> bytes:
    return documents.dump_json(given_up)


def _require_same(seen: Head, current: Head) -> Head:
    """Return ``current`` if it is the head that was looked at.

    Raises:
        UsageError: the catalog names another one by now.
    """
    if (current.table_uuid, current.snapshot_id) != (seen.table_uuid, seen.snapshot_id):
        raise UsageError(
            f"The catalog's entry of topic {seen.state.topic} was changed meanwhile.",
            left="Nothing was committed.",
            next="Run it again: it looks at everything anew.",
        )
    return current


def _list_lost_states(head: Head, survey: WarehouseSurvey) -> list[TopicState]:
    """List the states of the commits after ``head`` that the catalog has had, newest last."""
    mine = next((each.rank[:2] for each in survey.found if each.name == storage.get_name(_locate(head))), (0, 0))
    later = [each for each in survey.landed if each.rank[:2] > mine]
    return [survey.states[each.name] for each in later if each.name in survey.states]


def _locate(head: Head) -> str:
    return str(head.table.metadata_location)


def _require_files(log: TopicLog, head: Head, lost: Collection[TopicState]) -> None:
    """Check that every segment of ``head`` is there, and that no sweep of the given-up history is deleting it.

    Raises:
        DamagedMetadataError: one is not, or may go at any moment.
    """
    paths = [segment.path for segment in chain.from_iterable(log.segments(head).values())]
    condemned = {file.path for state in lost for file in state.condemned}
    gone = [path for path in paths if path in condemned or storage.read_size_bytes(path) is None]
    if gone:
        raise DamagedMetadataError(
            f"Topic {head.state.topic} cannot go on from the head that the catalog names: {len(gone):,} of its "
            f"{len(paths):,} segments were deleted since, or are being deleted: "
            f"{', '.join(gone[:MAXIMUM_NAMED_FILES])}.",
            left="Nothing was changed.",
            next=f"Put the newer catalog back, or: winnow topics recover {head.state.topic}",
        )


def _describe(
    installation: Installation,
    head: Head,
    lives: Iterable[TopicHead],
    survey: WarehouseSurvey,
    lost: Collection[TopicState],
    published: Collection[str],
    reason: str,
) -> GivenUp:
    topic = head.state.topic
    receipts = [installation.store.projection.find_receipt(plan_id) for plan_id in sorted(published)]
    ends = dict(installation.store.topic_heads.list_log_ends(topic))
    for number, partition in chain.from_iterable(state.partitions.items() for state in lost):
        ends[number] = max(ends.get(number, 0), partition.log_end_offset)
    kept = _list_ingest_ids(head.state)
    ingests = set(chain.from_iterable(map(_list_ingest_ids, lost))) - kept
    return GivenUp(
        topic=topic,
        table_uuid=head.table_uuid,
        given_up_at_ms=installation.now_ms(),
        actor=installation.actor,
        reason=reason,
        found_metadata=_locate(head),
        recorded=tuple(lives),
        newest_metadata=survey.newest_metadata_location,
        plan_ids=tuple(sorted(published)),
        receipts=tuple(each for each in receipts if each is not None),
        log_ends={number: end for number, (_, end) in sorted(find_missing_offsets(head, ends).items())},
        ingest_ids=tuple(sorted(ingests)),
    )


def _list_ingest_ids(state: TopicState) -> set[str]:
    return {each.ingest_id for each in list_ingest_references(state)} | set(state.quarantine_ingests)


def _find_known_numbers(
    installation: Installation, head: Head, lives: Iterable[TopicHead], survey: WarehouseSurvey
) -> KnownNumbers:
    """Find the highest numbers that metadata store and warehouse know of the table."""
    topic = head.state.topic
    mine = [each for each in lives if each.table_uuid == head.table_uuid]
    runs = installation.store.runs.list_runs(topic)
    opened = installation.store.ingests.list_open(topic)
    return KnownNumbers(
        sequence_number=max([survey.highest_sequence_number, *(each.last_sequence_number for each in mine)]),
        metadata_number=survey.highest_metadata_number,
        fence=max([survey.highest_fence, *(each.fence for each in mine), *(run.fence for run in runs)]),
        ingest_number=max(
            [survey.highest_ingest_number, *(each.ingest_number for each in mine), *(each.number for each in opened)]
        ),
    )


def describe_accepted(accepted: AcceptedHead) -> str:
    """Describe an older head that was accepted, and what comes of the files of what was given up."""
    return (
        f"Topic {accepted.topic} goes on from the head that the catalog names. Given up: "
        f"{format_count(accepted.runs_given_up, 'published run')}, "
        f"{format_count(accepted.ingests_given_up, 'ingest call')}, "
        f"{format_count(accepted.offsets_given_up, 'offset')}. They are written down in {accepted.document}; their "
        "files are deleted by a sweep when winnow.retired.grace.ms have passed. Ingest again what is missing."
    )
