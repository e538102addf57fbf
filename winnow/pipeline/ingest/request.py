"""What one ingest call is asked to do, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.context import Context
from winnow.pipeline.ingest.log_cut import LogCut, RemovedRecords
from winnow.sources.record_input import RecordInput
from winnow.values.model import (
    KnownObject,
    OffsetRange,
    TablePosition,
    TopicState,
)


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
    records that left the log in the same commit, for those that the brokers have in their place.
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


class LogMovedError(Exception):
    """The log has changed under the prepared segments; prepare again."""


@dataclass(frozen=True)
class IngestRequest:
    """The parameters of one ingest call.

    ``describe``: what the ledger says of the call's input beside its slices, once all of it is read. ``continues``:
    None; for a source with a position, whether an earlier call read its beginning: then the position is committed also
    if nothing was new. ``check_position``: raises if another call has moved it since. ``opened``: the head for which
    the input was opened. ``offsets_read``: per partition the offsets of the log that a source without gaps of its own
    tells to be complete: the log then ends where they end, also if the last of them have no record. ``advance``: the
    state after the call, which has the given id, as far as the source's position is concerned. ``cut``: what leaves the
    log in the commit; ``opened`` and every head that segments are prepared for are without it.
    """

    ctx: Context
    log: TopicLog
    source: RecordInput
    as_of_ms: int
    again: bool
    trust_compacted: bool
    describe: Callable[[], InputDescription]
    opened: Head
    continues: bool | None = None
    check_position: Callable[[TopicState], None] = lambda _: None
    offsets_read: Mapping[int, OffsetRange] = field(default_factory=dict)
    advance: Callable[[TopicState, str], TopicState] = lambda state, _: state
    cut: LogCut | None = None

    def prepare_head(self, head: Head) -> Head:
        """Return ``head`` without what the call cuts off.

        Raises as :meth:`winnow.pipeline.ingest.log_cut.LogCut.apply`.
        """
        return head if self.cut is None else self.cut.apply(self.log, head)


@dataclass(frozen=True, slots=True)
class InputDescription:
    """What the ledger says of an input; as :class:`winnow.values.model.IngestLedger`."""

    layout: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    source_topic: str | None = None
    objects: tuple[KnownObject, ...] = ()
    table: TablePosition | None = None
