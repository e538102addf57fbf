"""What one ingest call is asked to do, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest.log_cut import LogCut, RemovedRecords
from winnow.pipeline.installation import Installation
from winnow.sources.record_input import RecordInput
from winnow.values.model import OffsetRange
from winnow.values.topic_state import KnownObject, TablePosition, TopicState


@dataclass(frozen=True, slots=True)
class PartitionIngest:
    """The effect of one call on one partition. ``first_offset`` is that of the first record appended."""

    partition: int
    first_offset: int | None
    log_end_offset: int
    records_appended: int
    records_skipped: int
    records_quarantined: int


@dataclass(frozen=True, slots=True)
class UncommittedRecords:
    """What open transactions hold back of a topic partition at its brokers, as of the call's look at them.

    ``last_stable_offset``: where the oldest of them begins, in the brokers' offsets. ``end_offset``: the high
    watermark. ``records``: offsets between them, which no reader of committed records gets yet. ``open_since_ms``: the
    timestamp of the first of them; None if it is not known.
    """

    partition: int
    last_stable_offset: int
    end_offset: int
    records: int
    open_since_ms: int | None


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The effect of one call. ``snapshot_id`` None: there was nothing new.

    A file never seen before whose records all exist already makes a snapshot without data files: it records the file,
    which is then still known after a compaction has removed its records.

    ``records_left_out``: records of other topics than ``source_topic``; they count nowhere else. ``ingest_id``: None if
    nothing was committed. ``uncommitted``: what a source of transactions holds back; empty for files. ``removed``:
    records that left the log in the same commit, for those that the brokers have in their place. ``records_erased``:
    old copies of erased keys that were left out; they count nowhere else.
    """

    topic: str
    snapshot_id: int | None
    files: int
    records_appended: int
    records_skipped: int
    records_quarantined: int
    partitions: tuple[PartitionIngest, ...]
    notices: tuple[str, ...]
    records_left_out: int = 0
    source_topic: str | None = None
    layout: str = "winnow"
    ingest_id: str | None = None
    uncommitted: tuple[UncommittedRecords, ...] = ()
    removed: tuple[RemovedRecords, ...] = ()
    records_erased: int = 0


class LogMovedError(Exception):
    """The log has changed under the prepared segments; prepare again."""


@dataclass(frozen=True, slots=True)
class InputDescription:
    """What the ledger says of an input; as :class:`winnow.values.topic_state.IngestLedger`."""

    layout: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    source_topic: str | None = None
    objects: tuple[KnownObject, ...] = ()
    table: TablePosition | None = None


class SourcePosition:
    """What the commit of a call says of its source, and how far it moves it. As it is: of one without a position."""

    @property
    def continues(self) -> bool | None:
        """Whether an earlier call read the source's beginning: then the position is committed also if nothing was new.

        None: there is no position, or it does not move.
        """
        return None

    @property
    def offsets_read(self) -> Mapping[int, OffsetRange]:
        """Per partition the offsets of the log that a source without gaps of its own tells to be complete.

        The log then ends where they end, also if the last of them have no record.
        """
        return {}

    def describe(self) -> InputDescription:
        """Describe for the ledger what was read, once all of it is."""
        return InputDescription()

    def check(self, _state: TopicState) -> None:
        """Raise if another call has moved the position since it was read."""

    def advance(self, state: TopicState, _ingest_id: str) -> TopicState:
        """Return ``state`` with the position as it is after the call of that id."""
        return state


@dataclass(frozen=True)
class IngestRequest:
    """The parameters of one ingest call.

    ``opened``: the head for which the input was opened. ``cut``: what leaves the log in the commit; ``opened`` and
    every head that segments are prepared for are without it.
    """

    installation: Installation
    log: TopicLog
    source: RecordInput
    position: SourcePosition
    opened: Head
    as_of_ms: int
    again: bool = False
    trust_compacted: bool = False
    cut: LogCut | None = None

    def prepare_head(self, head: Head) -> Head:
        """Return ``head`` without what the call cuts off.

        Raises as :meth:`winnow.pipeline.ingest.log_cut.LogCut.apply`.
        """
        return head if self.cut is None else self.cut.apply(self.log, head)
