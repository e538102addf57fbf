"""The changes of a log that can be taken back: published runs from their receipts, deletions of records from the state.

Both are listed in the order of their commits, so that what came after a change is known without a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final

from winnow.errors import UsageError
from winnow.files.quarantine_files import make_keyless_move_id
from winnow.log.head import Head
from winnow.log.reference_chains import count_receipts
from winnow.log.state import read_published_run
from winnow.log.topic_log import TopicLog
from winnow.values.results import PartitionReceipt
from winnow.values.reversal import PartitionReversal, PublishedRun, decode_reversals
from winnow.values.topic_state import PartitionState, RecordsDeletion

DELETION_PREFIX: Final = "delete-records:"
"""Begins the name of a deletion of records; the topic and hex digits follow. No topic's name holds a colon."""


class ChangeKind(StrEnum):
    """What changed the log."""

    COMPACTION = "compaction"
    RETENTION = "retention"
    """A run that took whole segments and read none."""
    DELETE_RECORDS = "delete_records"


@dataclass(frozen=True, slots=True)
class LogChange:
    """One change of a log.

    ``change_id``: the plan's id, or the name of a deletion. ``partitions``: those that it changed.
    ``reversals``: what taking it back needs, by partition; empty: an older Winnow did not record it.
    ``keyless``: partitions of which records went to the quarantine, as files of ``attempt``.
    """

    change_id: str
    kind: ChangeKind
    at_ms: int
    partitions: frozenset[int]
    reversals: Mapping[int, PartitionReversal] = field(default_factory=dict)
    keyless: frozenset[int] = frozenset()
    attempt: str = ""

    @property
    def move_id(self) -> str:
        """The ingest id of its keyless records in the quarantine."""
        return make_keyless_move_id(self.change_id, self.attempt)


def make_deletion_name(topic: str, digits: str) -> str:
    """Make the name of a deletion of records from some hex digits."""
    return f"{DELETION_PREFIX}{topic}:{digits}"


def find_topic_of_deletion(change_id: str) -> str | None:
    """Return the topic that the name of a deletion of records has; None: it is no such name."""
    topic, colon, digits = change_id.removeprefix(DELETION_PREFIX).rpartition(":")
    return topic if change_id.startswith(DELETION_PREFIX) and colon and topic and digits else None


def iterate_changes(log: TopicLog, head: Head) -> Iterator[LogChange]:
    """Yield the changes of the log of ``head``, newest first; a receipt is read when its run is reached.

    Raises:
        DamagedMetadataError: a receipt, or a link to older ones, is missing or differs from the committed one.
    """
    deletions = list(head.state.deletions)
    count = count_receipts(head.state)
    # The newest references are in the state itself; older ones cost a file of the chain.
    references = list(head.state.receipts)
    with log.notice_newer_head(head.table):
        for number in range(count, -1, -1):
            while deletions and deletions[-1].receipts_before >= number:
                yield _describe_deletion(deletions.pop())
            if number == 0:
                return
            if count - number >= len(references):
                references = log.receipt_references(head)
            yield _describe_run(read_published_run(head.state, references[number - 1 - count + len(references)]))


def list_newest_changes(log: TopicLog, head: Head, limit: int) -> list[LogChange]:
    """List the newest ``limit`` changes, oldest first."""
    return list(islice(iterate_changes(log, head), limit))[::-1]


def list_changes_from(log: TopicLog, head: Head, change_id: str) -> list[LogChange]:
    """List the changes from ``change_id`` on, oldest first.

    Raises:
        UsageError: the log has no such change.
    """
    found: list[LogChange] = []
    for change in iterate_changes(log, head):
        found.append(change)
        if change.change_id == change_id:
            return found[::-1]
    raise UsageError(
        f"The log of topic {log.topic} has no run {change_id}.",
        left="Nothing was changed.",
        next=f"See what can be taken back with: winnow undo --list {log.topic}",
    )


def _describe_run(run: PublishedRun) -> LogChange:
    assert run.plan_id is not None
    recorded = () if run.reversal is None else decode_reversals(run.reversal)
    reversals = {each.partition: each for each in recorded}
    keyless = frozenset(part.partition for part in run.partitions if part.records_keyless)
    compacts = any(map(_is_compacted, run.partitions)) or any(each.compacts for each in reversals.values())
    return LogChange(
        change_id=run.plan_id,
        kind=ChangeKind.COMPACTION if compacts else ChangeKind.RETENTION,
        at_ms=run.finished_at_ms,
        partitions=frozenset(part.partition for part in run.partitions),
        reversals=reversals,
        keyless=keyless,
        attempt=run.attempt or "",
    )


def _is_compacted(part: PartitionReceipt) -> bool:
    return part.records_in > 0


def _describe_deletion(deletion: RecordsDeletion) -> LogChange:
    reversals = {
        each.partition: PartitionReversal(
            each.partition,
            PartitionState(log_start_offset=each.before),
            PartitionState(log_start_offset=each.after),
            compacts=False,
        )
        for each in deletion.raises
    }
    return LogChange(
        deletion.change_id, ChangeKind.DELETE_RECORDS, deletion.at_ms, frozenset(reversals), reversals=reversals
    )
