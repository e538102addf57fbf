"""Step 0: sources into appended segments. One call is one commit; the same offsets never land twice.

The input is read once into a local spool. Segments are then made against the log's head; when another commit moves the
log meanwhile, they are made again from the spool and the new head.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from winnow.config.topic import TopicConfig
from winnow.errors import BadInputError, CommitConflictError, ServiceError, UnknownTopicError
from winnow.files import storage
from winnow.log.ledger import digests_seen, write_ledger
from winnow.log.topic_log import COMMIT_TRIES, Change, Head, TopicLog
from winnow.model import Append, IngestLedger, PartitionState, TopicState
from winnow.pipeline.appending import PartitionAppender, Prepared, by_partition
from winnow.pipeline.context import Context
from winnow.pipeline.ingest_report import IngestReport, report_of
from winnow.pipeline.keyless import KeylessRecords, check_order, refuse_keyless
from winnow.pipeline.overlap import check_overlap
from winnow.pipeline.spool import Arrivals, Spool, SpooledFile
from winnow.report.events import tell
from winnow.sources.parquet import extra_columns
from winnow.sources.paths import expand_paths

BATCH_ROWS = 8_192


class _LogMovedError(Exception):
    """The log went on under the prepared segments; prepare again."""


def ingest_files(
    ctx: Context,
    topic: str,
    paths: Sequence[str],
    *,
    as_of_ms: int,
    again: bool = False,
    trust_compacted: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> IngestReport:
    """Append the records of ``paths``, in the order given, to ``topic``.

    Args:
        ctx: where.
        topic: an existing topic.
        paths: JSON lines, Parquet files or folders of them.
        as_of_ms: recorded with the append; stands in where records carry no timestamp.
        again: append files without offsets once more, although they were ingested before.
        trust_compacted: take absent offsets below the first dirty one as compacted away in the source.
        progress: told (bytes read, bytes in all).

    Raises:
        BadInputError: bad input or unknown topic; nothing landed.
    """
    started_ms = ctx.now_ms()
    log = ctx.log.open(topic)
    try:
        head = log.head()
    except UnknownTopicError as problem:
        raise BadInputError(f"{problem}. Nothing of this call landed.") from problem
    files = expand_paths(paths)
    with Spool(topic, log.partitions(head), ctx.budget) as spool:
        spool.read(files, progress)
        for _ in range(COMMIT_TRIES):
            call = _Call(ctx, log, spool, log.head(), as_of_ms, again, trust_compacted)
            with contextlib.suppress(_LogMovedError):
                done = call.run()
                tell(
                    "ingested",
                    topic,
                    files=done.files,
                    records_appended=done.records_appended,
                    records_skipped=done.records_skipped,
                    records_quarantined=done.records_quarantined,
                    snapshot_id=None if done.snapshot_id is None else str(done.snapshot_id),
                    duration_ms=ctx.now_ms() - started_ms,
                )
                return done
    raise CommitConflictError(
        f"The log of topic {topic} moved {COMMIT_TRIES} times while this call prepared its segments; nothing of it "
        "landed. Run it again."
    )


class _Call:
    """One try of an ingest call against one head."""

    def __init__(
        self, ctx: Context, log: TopicLog, spool: Spool, head: Head, as_of_ms: int, again: bool, trust_compacted: bool
    ) -> None:
        self.ctx = ctx
        self.log = log
        self.spool = spool
        self.head = head
        self.config: TopicConfig = log.config(head)
        self.as_of_ms = as_of_ms
        self.again = again
        self.trust_compacted = trust_compacted
        self.notices: list[str] = []
        self.prepared = Prepared(ingest_id=uuid.uuid4().hex)
        self.appender: PartitionAppender | None = None
        self.quarantines = self.config.compacts and self.config.keyless == "quarantine"

    def run(self) -> IngestReport:
        """Check, write, commit, report."""
        taken = self._taken()
        arrivals = self.spool.arrivals([file.number for file in taken])
        if self.config.compacts and not self.quarantines:
            refuse_keyless(self.log.topic, self.spool, taken, self.head.state)
        if self.quarantines:
            check_order(self.spool, taken)
        self._check_overlaps(arrivals, taken)
        try:
            self._write(arrivals, taken)
        except BaseException:
            self._discard()
            raise
        self._recognise(taken)
        if self.prepared.is_empty:
            return self._report(None)
        try:
            committed = self.log.commit(lambda head: self._change(head, taken))
        except (_LogMovedError, BadInputError, CommitConflictError):
            # Only where it is certain that nothing refers to these files; after anything else they stay.
            self._discard()
            raise
        return self._report(committed.snapshot_id)

    # -------------------------------------------------------------- which files

    def _taken(self) -> list[SpooledFile]:
        """The files of this call that are not known as a whole already."""
        taken: list[SpooledFile] = []
        seen: set[str] = set()
        for file in self.spool.files:
            extra = extra_columns(file.path) if file.path.endswith(".parquet") else []
            if extra:
                self.notices.append(f"{file.path}: columns that are not Kafka's were left out: {', '.join(extra)}.")
            known = file.lacks_offsets and file.digest in self.head.state.file_digests
            if file.records and not (self.again and file.lacks_offsets) and (known or file.digest in seen):
                why = "was ingested before" if known else "is in this call twice"
                self.notices.append(
                    f"{file.path}: skipped, its content {why}."
                    + (" Say --again to append it once more." if file.lacks_offsets else "")
                )
                self._skip_file(file)
                continue
            seen.add(file.digest)
            taken.append(file)
        return taken

    def _skip_file(self, file: SpooledFile) -> None:
        rows = self.spool.connection.execute(
            f"SELECT coalesce(partition, -1), count(*) FROM spool WHERE file = {file.number} GROUP BY 1"
        ).fetchall()
        for partition, count in rows:
            self.prepared.skipped[partition] = self.prepared.skipped.get(partition, 0) + count

    # -------------------------------------------------------------- checks

    def _check_overlaps(self, arrivals: Sequence[Arrivals], taken: Sequence[SpooledFile]) -> None:
        overlapping = [
            arrival
            for arrival in arrivals
            if arrival.min_offset is not None
            and arrival.min_offset < self.head.state.partitions[arrival.partition].log_end_offset
        ]
        if not overlapping:
            return
        segments = self.log.segments(self.head)
        quarantine = self.ctx.log.quarantine(self.log.topic)
        for arrival in overlapping:
            check_overlap(
                self.spool,
                self.head,
                arrival.partition,
                segments.get(arrival.partition, ()),
                quarantine,
                [file.number for file in taken],
                trust_compacted=self.trust_compacted,
            )

    # -------------------------------------------------------------- segments

    def _write(self, arrivals: Sequence[Arrivals], taken: Sequence[SpooledFile]) -> None:
        for arrival in arrivals:
            state = self.head.state.partitions[arrival.partition]
            self.prepared.base[arrival.partition] = state
            self.prepared.log_end[arrival.partition] = state.log_end_offset
        condition = "partition IS NOT NULL" + (" AND key IS NOT NULL" if self.quarantines else "")
        for batch in self.spool.stream(condition, [file.number for file in taken], BATCH_ROWS):
            for part in by_partition(batch):
                partition = part.column("partition")[0].as_py()
                if self.appender is None or self.appender.partition != partition:
                    if self.appender is not None:
                        self.appender.finish()
                    self.appender = self._appender(partition)
                self.appender.add(part)
        if self.appender is not None:
            self.appender.finish()
        if self.quarantines:
            aside = KeylessRecords(self.spool, self.head.state, taken, self.prepared)
            aside.pass_over()
            aside.count()
            if self.prepared.quarantined:
                aside.write(self.ctx.log.quarantine(self.log.topic))

    def _appender(self, partition: int) -> PartitionAppender:
        return PartitionAppender(
            partition,
            self.head.state.partitions[partition],
            self.spool.files,
            self.prepared,
            location=self.head.location,
            segment_bytes=self.config.segment_bytes,
            as_of_ms=self.as_of_ms,
            now_ms=self.ctx.now_ms(),
        )

    def _recognise(self, taken: Sequence[SpooledFile]) -> None:
        """Note slices that add nothing and are not known yet.

        Once a compaction has removed their records, only the ledger can tell that they were there. A slice is noted
        once, so repeating the call commits nothing.
        """
        state = self.head.state
        noted = {p: {entry.digest for entry in entries} for p, entries in self.prepared.slices.items()}
        for partition in sorted(self.prepared.base):
            digests = {file.slices[partition] for file in taken if partition in file.slices and not file.lacks_offsets}
            unknown = digests - noted.get(partition, set())
            unknown -= {entry.digest for entry in state.partitions[partition].appends}
            if unknown:
                unknown -= digests_seen(state, partition)
            if unknown:
                # An empty range: the ledger names the slice, and no offset is said to have come with it.
                end = state.partitions[partition].log_end_offset
                self.prepared.recognised[partition] = [
                    Append(digest, end, end - 1, 0, self.as_of_ms) for digest in sorted(unknown)
                ]

    # -------------------------------------------------------------- commit

    def _change(self, head: Head, taken: Sequence[SpooledFile]) -> Change:
        for partition, base in self.prepared.base.items():
            current = head.state.partitions[partition]
            if (current.log_end_offset, current.first_dirty_offset, current.log_start_offset) != (
                base.log_end_offset,
                base.first_dirty_offset,
                base.log_start_offset,
            ):
                raise _LogMovedError
        if self._known_now(head, taken):
            raise _LogMovedError
        if not self.prepared.adds_records and head.state.ingests != self.head.state.ingests:
            raise _LogMovedError  # the other call may have brought the same file
        ledger = IngestLedger(
            ingest_id=self.prepared.ingest_id,
            topic=self.log.topic,
            slices={
                p: (*self.prepared.slices.get(p, ()), *self.prepared.recognised.get(p, ()))
                for p in sorted({*self.prepared.slices, *self.prepared.recognised})
            },
        )
        reference = write_ledger(head.location, ledger, self.as_of_ms)
        lacking = {file.digest: self.as_of_ms for file in taken if file.lacks_offsets}
        state = replace(
            head.state,
            partitions={**head.state.partitions, **self._appended_states(head.state)},
            ingests=(*head.state.ingests, reference),
            quarantine_ingests=(
                *head.state.quarantine_ingests,
                *([self.prepared.ingest_id] if self.prepared.quarantined else []),
            ),
            file_digests={**head.state.file_digests, **lacking},
        )
        added = [segment for found in self.prepared.segments.values() for segment in found]
        return Change(
            state=state,
            add=added,
            summary={
                "winnow.operation": "ingest",
                "winnow.ingest-id": self.prepared.ingest_id,
                "winnow.records": str(sum(segment.records for segment in added)),
            },
        )

    def _known_now(self, head: Head, taken: Sequence[SpooledFile]) -> bool:
        """Whether somebody else ingested one of the files without offsets since this try began."""
        before = self.head.state.file_digests
        return not self.again and any(
            file.lacks_offsets and file.digest in head.state.file_digests and file.digest not in before
            for file in taken
        )

    def _appended_states(self, state: TopicState) -> dict[int, PartitionState]:
        changed: dict[int, PartitionState] = {}
        for partition, log_end in self.prepared.log_end.items():
            current = state.partitions[partition]
            if log_end == current.log_end_offset:
                continue
            starts_here = current.log_end_offset == 0
            lowest = self.prepared.lowest.get(partition, 0)
            changed[partition] = replace(
                current,
                log_start_offset=lowest if starts_here else current.log_start_offset,
                log_end_offset=log_end,
                appends=(*current.appends, *self.prepared.slices.get(partition, ())),
            )
        return changed

    def _discard(self) -> None:
        paths = [segment.path for found in self.prepared.segments.values() for segment in found]
        if self.appender is not None:
            paths += self.appender.abandon()
        for path in paths:
            with contextlib.suppress(OSError, ServiceError):
                storage.delete(path)

    def _report(self, snapshot_id: int | None) -> IngestReport:
        return report_of(
            self.log.topic,
            snapshot_id,
            self.prepared,
            states=self.head.state.partitions,
            files=len(self.spool.files),
            notices=self.notices,
        )
