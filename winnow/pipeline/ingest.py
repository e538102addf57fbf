"""Step 0: sources into appended segments. One call is one commit; the same offsets never land twice.

The input is read once into a local spool. Segments are then made against the log's head; when another commit moves the
log meanwhile, they are made again from the spool and the new head.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.config.topic import TopicConfig
from winnow.errors import BadInputError, CommitConflictError, UnknownTopicError
from winnow.files import storage
from winnow.files.schema import ARROW_SCHEMA
from winnow.files.segments import SegmentWriter, conform
from winnow.log.ledger import write_ledger
from winnow.log.quarantine import ARROW as QUARANTINE_SCHEMA
from winnow.log.topic_log import COMMIT_TRIES, Change, Head, TopicLog
from winnow.model import Append, IngestLedger, PartitionState, Segment, TopicState
from winnow.pipeline.context import Context
from winnow.pipeline.overlap import check_overlap, no_quarantine
from winnow.pipeline.spool import Arrivals, Spool, SpooledFile
from winnow.sources.parquet import extra_columns
from winnow.sources.paths import expand_paths

BATCH_ROWS = 8_192
QUARANTINE_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class PartitionIngest:
    """What one call did to one partition. ``first_offset`` is that of the first record appended."""

    partition: int
    first_offset: int | None
    log_end_offset: int
    records_appended: int
    records_skipped: int
    records_quarantined: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one call did. ``snapshot_id`` None: nothing new was there."""

    topic: str
    snapshot_id: int | None
    files: int
    records_appended: int
    records_skipped: int
    records_quarantined: int
    partitions: tuple[PartitionIngest, ...]
    notices: tuple[str, ...]


class _LogMovedError(Exception):
    """The log went on under the prepared segments; prepare again."""


@dataclass
class _Prepared:
    """Segments made against one head, not yet committed."""

    ingest_id: str
    segments: dict[int, list[Segment]] = field(default_factory=dict)
    slices: dict[int, list[Append]] = field(default_factory=dict)
    log_end: dict[int, int] = field(default_factory=dict)
    lowest: dict[int, int] = field(default_factory=dict)
    appended: dict[int, int] = field(default_factory=dict)
    skipped: dict[int | None, int] = field(default_factory=dict)
    quarantined: dict[int | None, int] = field(default_factory=dict)
    base: dict[int, PartitionState] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not any(self.segments.values()) and not self.quarantined


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
    log = ctx.log.open(topic)
    try:
        head = log.head()
    except UnknownTopicError as problem:
        raise BadInputError(f"{problem} Nothing of this call landed.") from problem
    files = expand_paths(paths)
    with Spool(topic, log.partitions(head), ctx.budget) as spool:
        spool.read(files, progress)
        for _ in range(COMMIT_TRIES):
            call = _Call(ctx, log, spool, log.head(), as_of_ms, again, trust_compacted)
            with contextlib.suppress(_LogMovedError):
                return call.run()
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
        self.prepared = _Prepared(ingest_id=uuid.uuid4().hex)

    def run(self) -> IngestReport:
        taken = self._taken()
        arrivals = self.spool.arrivals([file.number for file in taken])
        self._handle_keyless(taken)
        self._check_overlaps(arrivals, taken)
        try:
            self._write(arrivals, taken)
            if self._quarantines():
                self.count_keyless(taken)
            if self.prepared.is_empty:
                return self._report(None)
            self._write_quarantine(taken)
            committed = self.log.commit(lambda head: self._change(head, taken))
        except BaseException as problem:
            if not isinstance(problem, Exception) or _is_refused(problem):
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

    def _handle_keyless(self, taken: Sequence[SpooledFile]) -> None:
        if not self.config.compacts or self.config.keyless == "quarantine":
            return
        found = self.spool.first_keyless([file.number for file in taken])
        if found is not None:
            file, row, partition, offset, count = found
            where = ", ".join(
                part
                for part in (
                    f"partition {partition}" if partition is not None else "",
                    f"offset {offset}" if offset is not None else "",
                )
                if part
            )
            raise BadInputError(
                f"{file.path}, row {row}{f' ({where})' if where else ''}: a record without a key; {count} of them in "
                f"this call. Topic {self.log.topic} is compacted, so every record needs a key. Nothing of this call "
                "landed. To keep such records aside: winnow topics alter "
                f"{self.log.topic} --config winnow.keyless=quarantine"
            )

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
        quarantined = self._visible_quarantine()
        for arrival in overlapping:
            check_overlap(
                self.spool,
                self.head,
                arrival.partition,
                segments.get(arrival.partition, ()),
                quarantined,
                [file.number for file in taken],
                trust_compacted=self.trust_compacted,
            )

    def _visible_quarantine(self) -> pa.Table:
        visible = self.head.state.quarantine_ingests
        if not visible:
            return no_quarantine()
        batches = [
            batch.cast(QUARANTINE_SCHEMA)
            for batch in self.ctx.log.quarantine(self.log.topic).read(visible)
            if batch.num_rows
        ]
        return pa.Table.from_batches(batches, QUARANTINE_SCHEMA) if batches else no_quarantine()

    # -------------------------------------------------------------- segments

    def _quarantines(self) -> bool:
        return self.config.compacts and self.config.keyless == "quarantine"

    def _write(self, arrivals: Sequence[Arrivals], taken: Sequence[SpooledFile]) -> None:
        for arrival in arrivals:
            state = self.head.state.partitions[arrival.partition]
            self.prepared.base[arrival.partition] = state
            self.prepared.log_end[arrival.partition] = state.log_end_offset
        condition = "partition IS NOT NULL" + (" AND key IS NOT NULL" if self._quarantines() else "")
        if self._quarantines():
            self._pass_over_keyless(taken)
        numbers = [file.number for file in taken]
        writer: _PartitionAppender | None = None
        for batch in self.spool.stream(condition, numbers, BATCH_ROWS):
            for part in _by_partition(batch):
                partition = part.column("partition")[0].as_py()
                if writer is None or writer.partition != partition:
                    self._finish(writer)
                    writer = _PartitionAppender(self, partition)
                writer.add(part)
        self._finish(writer)

    def _pass_over_keyless(self, taken: Sequence[SpooledFile]) -> None:
        """A quarantined record with an offset takes that offset: the log end goes beyond it."""
        rows = self.spool.connection.execute(
            f"""
            SELECT partition, min("offset"), max("offset") FROM spool
            WHERE key IS NULL AND "offset" IS NOT NULL AND file IN ({', '.join(str(f.number) for f in taken) or '-1'})
            GROUP BY partition
            """
        ).fetchall()
        for partition, lowest, highest in rows:
            state = self.head.state.partitions[partition]
            if highest >= state.log_end_offset:
                self.prepared.log_end[partition] = max(self.prepared.log_end[partition], highest + 1)
                if lowest >= state.log_end_offset:
                    self.prepared.lowest[partition] = lowest

    def _finish(self, writer: _PartitionAppender | None) -> None:
        if writer is None:
            return
        writer.finish()

    def _write_quarantine(self, taken: Sequence[SpooledFile]) -> None:
        if not self._quarantines():
            return
        side = self.ctx.log.quarantine(self.log.topic)
        rows: list[pa.RecordBatch] = []
        numbers = [file.number for file in taken]
        for batch in self.spool.stream("key IS NULL", numbers, BATCH_ROWS):
            fresh = batch.filter(pa.array(self._is_new(batch), pa.bool_()))
            if fresh.num_rows:
                rows.append(self._quarantine_rows(fresh, taken))
            if sum(r.num_rows for r in rows) >= QUARANTINE_ROWS:
                side.append(pa.Table.from_batches(rows, QUARANTINE_SCHEMA))
                rows = []
        if rows:
            side.append(pa.Table.from_batches(rows, QUARANTINE_SCHEMA))

    def _is_new(self, batch: pa.RecordBatch) -> list[bool]:
        """Which keyless records of ``batch`` are new: those below the log end were compared and are there already."""
        states = self.head.state.partitions
        return [
            offset is None or partition is None or offset >= states[partition].log_end_offset
            for partition, offset in zip(
                batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True
            )
        ]

    def _quarantine_rows(self, batch: pa.RecordBatch, taken: Sequence[SpooledFile]) -> pa.RecordBatch:
        digests = {file.number: file.digest for file in taken}
        count = batch.num_rows
        return pa.RecordBatch.from_arrays(
            [
                pa.array([self.prepared.ingest_id] * count, pa.string()),
                pa.array([digests[number] for number in batch.column("file").to_pylist()], pa.string()),
                batch.column("row"),
                batch.column("partition"),
                batch.column("offset"),
                _microseconds(batch.column("timestamp")),
                batch.column("timestampType"),
                batch.column("key"),
                batch.column("value"),
                batch.column("headers").cast(QUARANTINE_SCHEMA.field("headers").type),
            ],
            schema=QUARANTINE_SCHEMA,
        )

    def count_keyless(self, taken: Sequence[SpooledFile]) -> None:
        """Count what goes to quarantine, per partition (None: the record names no partition)."""
        for batch in self.spool.stream("key IS NULL", [file.number for file in taken], BATCH_ROWS):
            new = self._is_new(batch)
            for partition, is_new in zip(batch.column("partition").to_pylist(), new, strict=True):
                counted = self.prepared.quarantined if is_new else self.prepared.skipped
                counted[partition] = counted.get(partition, 0) + 1

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
        ledger = IngestLedger(
            ingest_id=self.prepared.ingest_id,
            topic=self.log.topic,
            slices={p: tuple(entries) for p, entries in self.prepared.slices.items()},
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
            starts_here = current.log_end_offset == 0 and current.first_dirty_offset is None
            lowest = self.prepared.lowest.get(partition, 0)
            changed[partition] = replace(
                current,
                log_start_offset=lowest if starts_here else current.log_start_offset,
                log_end_offset=log_end,
                appends=(*current.appends, *self.prepared.slices.get(partition, ())),
            )
        return changed

    def _discard(self) -> None:
        for found in self.prepared.segments.values():
            for segment in found:
                with contextlib.suppress(OSError):
                    storage.delete(segment.path)

    def _report(self, snapshot_id: int | None) -> IngestReport:
        prepared = self.prepared
        numbers = sorted(
            {*prepared.base, *(p for p in prepared.skipped if p is not None and p >= 0)}
            | {p for p in prepared.quarantined if p is not None}
        )
        states = self.head.state.partitions
        partitions = tuple(
            PartitionIngest(
                partition=number,
                first_offset=prepared.segments[number][0].first_offset if prepared.segments.get(number) else None,
                log_end_offset=prepared.log_end.get(number, states[number].log_end_offset),
                records_appended=prepared.appended.get(number, 0),
                records_skipped=prepared.skipped.get(number, 0),
                records_quarantined=prepared.quarantined.get(number, 0),
            )
            for number in numbers
        )
        return IngestReport(
            topic=self.log.topic,
            snapshot_id=snapshot_id,
            files=len(self.spool.files),
            records_appended=sum(prepared.appended.values()),
            records_skipped=sum(prepared.skipped.values()),
            records_quarantined=sum(prepared.quarantined.values()),
            partitions=partitions,
            notices=tuple(self.notices),
        )


class _PartitionAppender:
    """Writes what arrives for one partition: checks that offsets increase, gives offsets where there are none."""

    def __init__(self, call: _Call, partition: int) -> None:
        self.partition = partition
        self._call = call
        self._state = call.head.state.partitions[partition]
        self._next = self._state.log_end_offset
        self._last_arrived = -1
        self._slices: dict[int, tuple[int, int, int]] = {}
        self._appended = 0
        self._writer = SegmentWriter(
            partition=partition,
            segment_bytes=call.config.segment_bytes,
            name=lambda number: storage.join(
                call.head.location,
                "data",
                f"ingest-{call.prepared.ingest_id}",
                f"{partition:05d}-{self._state.log_end_offset:020d}-{number:05d}.parquet",
            ),
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in a batch of rows of this partition, in the order they were read."""
        if batch.column("offset").null_count == batch.num_rows:
            offsets = np.arange(self._next, self._next + batch.num_rows, dtype=np.int64)
        else:
            offsets = batch.column("offset").to_numpy(zero_copy_only=False).astype(np.int64)
            self._check_increasing(batch, offsets)
        fresh = offsets >= self._state.log_end_offset
        skipped = int((~fresh).sum())
        if skipped:
            prepared = self._call.prepared
            prepared.skipped[self.partition] = prepared.skipped.get(self.partition, 0) + skipped
            mask = pa.array(fresh)
            batch, offsets = batch.filter(mask), offsets[fresh]
        if not len(offsets):
            return
        self._next = int(offsets[-1]) + 1
        self._appended += len(offsets)
        self._note_slices(batch.column("file").to_numpy(zero_copy_only=False), offsets)
        self._writer.write(_segment_batch(batch, offsets))

    def _check_increasing(self, batch: pa.RecordBatch, offsets: np.ndarray) -> None:
        previous = np.concatenate(([self._last_arrived], offsets[:-1]))
        wrong = np.nonzero(offsets <= previous)[0]
        if len(wrong):
            at = int(wrong[0])
            file = self._call.spool.files[batch.column("file")[at].as_py()]
            raise BadInputError(
                f"{file.path}, row {batch.column('row')[at].as_py()} (partition {self.partition}, offset "
                f"{int(offsets[at])}): offsets must increase within a partition, but the one before is "
                f"{int(previous[at])}. Give the files in the order of their offsets. Nothing of this call landed."
            )
        self._last_arrived = int(offsets[-1])

    def _note_slices(self, files: np.ndarray, offsets: np.ndarray) -> None:
        for number in np.unique(files):
            mine = offsets[files == number]
            first, _, count = self._slices.get(int(number), (int(mine[0]), 0, 0))
            self._slices[int(number)] = (first, int(mine[-1]), count + len(mine))

    def finish(self) -> None:
        """Close the files and note what was appended."""
        segments = self._writer.finish()
        prepared = self._call.prepared
        if not segments:
            return
        prepared.segments[self.partition] = list(segments)
        prepared.appended[self.partition] = self._appended
        prepared.lowest[self.partition] = min(
            segments[0].first_offset, prepared.lowest.get(self.partition, segments[0].first_offset)
        )
        prepared.log_end[self.partition] = max(prepared.log_end[self.partition], segments[-1].last_offset + 1)
        prepared.slices[self.partition] = [
            Append(
                digest=self._call.spool.files[number].slices[self.partition],
                first_offset=first,
                last_offset=last,
                records=count,
                as_of_ms=self._call.as_of_ms,
            )
            for number, (first, last, count) in sorted(self._slices.items())
        ]


def _is_refused(problem: Exception) -> bool:
    """Whether nothing can refer to the prepared files: every outcome but an unknown one."""
    from winnow.errors import CommitUnknownError

    return not isinstance(problem, CommitUnknownError)


def _by_partition(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """``batch`` cut where the partition changes; rows come sorted by partition."""
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    cuts = [0, *(np.nonzero(np.diff(partitions))[0] + 1).tolist(), batch.num_rows]
    return [batch.slice(start, end - start) for start, end in zip(cuts, cuts[1:], strict=False) if end > start]


def _microseconds(milliseconds: pa.Array) -> pa.Array:
    return pc.multiply(milliseconds, 1000).cast(pa.timestamp("us", tz="UTC"))


def _segment_batch(batch: pa.RecordBatch, offsets: np.ndarray) -> pa.RecordBatch:
    columns = [
        batch.column("partition"),
        pa.array(offsets),
        _microseconds(batch.column("timestamp")),
        batch.column("timestampType"),
        batch.column("key"),
        batch.column("value"),
        batch.column("headers"),
    ]
    return conform(pa.RecordBatch.from_arrays(columns, names=ARROW_SCHEMA.names))
