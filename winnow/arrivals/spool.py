"""Reads the input of an ingest call once into a local spool, and answers queries about it.

If the log changes while an ingest prepares its segments, they are made again from the spool, not from the sources.
Records that need not come in order are sorted there by their offsets, and those that are there twice left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import BadInputError
from winnow.files import duckdb_connection, private_files, storage
from winnow.files.record_batch import RECORD_SCHEMA
from winnow.sources.record_input import InputPass, ReadAgainError, RecordInput
from winnow.sources.slice_digests import SliceDigests
from winnow.sources.topic_filter import TopicFilter

if TYPE_CHECKING:
    import duckdb

    from winnow.arrivals.erased_records import ErasedRecords
    from winnow.engine.task_resources import TaskBudget
from typing import Any

import pyarrow.compute as pc

from winnow.arrivals.recreated_topic import describe_two_beginnings

MAXIMUM_READINGS = 5
"""An input is read again while what was assumed of it does not hold; each time one more thing is known."""
MAXIMUM_SORTED_ROWS = 8_192
SPOOL_SCHEMA = RECORD_SCHEMA.append(pa.field("file", pa.int32())).append(pa.field("sequence", pa.int64()))
Progress = Callable[[int, int, int], None]
"""Called with what was read of the input, its size (in bytes; of Kafka topics in offsets), and the records so far."""


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """One input file: its name, digests per partition, and whether any of its records has no offset.

    Digests and offsets are those of all of its records; ``records`` are those that are left without erased ones.
    """

    number: int
    path: str
    digest: str
    slices: dict[int | None, str]
    records: int
    lacks_offsets: bool


@dataclass(frozen=True, slots=True)
class PartitionArrivals:
    """The records of the call for one partition, over the files that are not skipped as a whole."""

    partition: int
    records: int
    with_offset: int
    min_offset: int | None


class Spool:
    """Reads files into a local spool and queries it. Use as a context manager: leaving it removes the spool.

    ``erased``: what is left out of the input before it is written anywhere; None: no key of the topic was erased.
    """

    def __init__(
        self,
        topic: str,
        partitions: int,
        budget: TaskBudget,
        source: RecordInput,
        erased: ErasedRecords | None = None,
    ) -> None:
        self.topic = topic
        self.source = source
        self.erased = erased
        self.records_of = TopicFilter(topic)
        self.repeats: dict[int, int] = {}
        self._partitions = partitions
        self._budget = budget
        self.files: list[SpooledFile] = []
        self._opened = ExitStack()
        self._folder = self._opened.enter_context(private_files.make_private_folder(budget.spill_folder))
        self._path = str(self._folder / "spool.parquet")
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
        self._opened.close()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with the view ``spool`` over everything read."""
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    def connect(self, uris: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
        """Open another connection with the view ``spool``, able to read the object stores of ``uris``."""
        connection = duckdb_connection.connect(
            memory_limit_bytes=self._budget.memory_limit_bytes,
            threads=max(2, self._budget.threads),
            spill_folder=str(self._folder),
            uris=uris,
        )
        connection.execute(
            f"CREATE VIEW spool AS SELECT * FROM read_parquet({duckdb_connection.quote_file_list([self._path])})"
        )
        return connection

    def read(self, progress: Progress | None = None) -> None:
        """Read the input in order; ``progress`` is called after each batch.

        Where offsets need not increase, records are sorted by them, and records that are there twice are kept once;
        ``repeats`` has their number per partition.

        Raises:
            BadInputError: a part cannot be read or holds something that is not a record, two different records have one
                offset, or whether a record of an erased key is old cannot be told.
        """
        for _ in range(MAXIMUM_READINGS):
            try:
                self._read(self.source.open_pass(self._partitions), progress)
                break
            except ReadAgainError:
                continue
        else:
            raise BadInputError(
                f"The input of topic {self.topic} changed while it was read.",
                left="Nothing of this call landed.",
                next="Run it again.",
            )

    def _read(self, opened: InputPass, progress: Progress | None) -> None:
        source, erased = self.source, self.erased
        total_bytes = sum(source.measure(number) for number in range(len(source.names)))
        read_bytes = 0
        sequence = 0
        self.files = []
        self.records_of = opened.records_of
        order = ArrivalOrder()
        if erased is not None:
            erased.restart()
        with pq.ParquetWriter(self._path, SPOOL_SCHEMA, compression="lz4", write_statistics=False) as writer:
            for number, path in enumerate(source.names):
                digests = SliceDigests()
                records = lacking = 0
                for batch in opened.read(number):
                    digests.update(batch)
                    lacking += batch.column("offset").null_count
                    kept = batch if erased is None else erased.remove(batch, path)
                    order.note(kept)
                    writer.write_batch(add_file_columns(kept, number, sequence))
                    sequence += kept.num_rows
                    records += kept.num_rows
                    if progress is not None:
                        progress(read_bytes, total_bytes, sequence)
                self.files.append(
                    SpooledFile(number, path, digests.file_digest(), dict(digests.digests()), records, lacking > 0)
                )
                read_bytes += source.measure(number)
                if progress is not None:
                    progress(read_bytes, total_bytes, sequence)
            opened.finish()
        if not source.is_ordered and not order.increases:
            self._sort()

    def _sort(self) -> None:
        """Sort the spool by offset within each partition and leave out repeats; records without offsets stay in order.

        Raises:
            BadInputError: two different records have one offset.
        """
        sorted_path = str(self._folder / "sorted.parquet")
        connection = self.connect()
        try:
            relation = connection.sql('SELECT * FROM spool ORDER BY partition, "offset", "sequence"')
            sequence = 0
            repeats = RepeatFilter(self.topic, self.source.names, self._find_newest)
            with pq.ParquetWriter(sorted_path, SPOOL_SCHEMA, compression="lz4", write_statistics=False) as writer:
                for batch in relation.to_arrow_reader(MAXIMUM_SORTED_ROWS):
                    kept = repeats.remove(batch.cast(SPOOL_SCHEMA))
                    writer.write_batch(renumber_sequence(kept, sequence))
                    sequence += kept.num_rows
            for partition, count in repeats.counts.items():
                self.repeats[partition] = count
        finally:
            connection.close()
        storage.delete(self._path)
        self._path = sorted_path

    def _find_newest(self, number: int, partition: int) -> tuple[int | None, int]:
        """Return the newest timestamp and the highest offset of the records of ``partition`` in a file, unsorted."""
        connection = self.connect()
        try:
            row = duckdb_connection.fetch_one_row(
                connection,
                f'SELECT max("timestamp"), max("offset") FROM spool WHERE partition = {partition} AND file = {number}',
            )
        finally:
            connection.close()
        assert row is not None
        return row[0], int(row[1])

    def list_arrivals(self, taken: Sequence[int]) -> list[PartitionArrivals]:
        """Return per partition the records of the files numbered ``taken``.

        Raises:
            BadInputError: records with and without offsets in one partition.
        """
        rows = self.connection.execute(
            f"""
            SELECT partition, count(*), count("offset"), min("offset") FROM spool
            WHERE partition IS NOT NULL AND file IN {format_file_numbers(taken)} GROUP BY partition ORDER BY partition
            """
        ).fetchall()
        arrivals = [PartitionArrivals(*row) for row in rows]
        for arrival in arrivals:
            if arrival.with_offset not in (0, arrival.records):
                raise self._find_mixed_offsets(arrival.partition, taken)
        return arrivals

    def _find_mixed_offsets(self, partition: int, taken: Sequence[int]) -> BadInputError:
        file, row = self._find_first(
            f'partition = {partition} AND "offset" IS NULL AND file IN {format_file_numbers(taken)}'
        )
        return BadInputError(
            f"{self.files[file].path}, row {row} (partition {partition}): this record has no offset but others of the "
            "partition have one.",
            left="Nothing of this call landed.",
            next="Give every record of a partition an offset, or none.",
        )

    def find_first_keyless(
        self, taken: Sequence[int], log_ends: Mapping[int, int]
    ) -> tuple[SpooledFile, int, int | None, int | None, int] | None:
        """Return file, row, partition and offset of the first keyless record at or above its partition's log end.

        And the number of such records; None if there are none.
        """
        ends = pa.table(
            {
                "partition": pa.array(list(log_ends), pa.int32()),
                "log_end": pa.array(list(log_ends.values()), pa.int64()),
            }
        )
        self.connection.register("log_ends", ends)
        new = (
            "FROM spool LEFT JOIN log_ends USING (partition) WHERE key IS NULL AND file IN "
            f"{format_file_numbers(taken)} "
            'AND ("offset" IS NULL OR log_end IS NULL OR "offset" >= log_end)'
        )
        count = duckdb_connection.fetch_one_row(self.connection, f"SELECT count(*) {new}")
        if count is None or count[0] == 0:
            return None
        row = duckdb_connection.fetch_one_row(
            self.connection, f'SELECT file, row, spool.partition, "offset" {new} ORDER BY "sequence" LIMIT 1'
        )
        assert row is not None
        return self.files[row[0]], int(row[1]), row[2], row[3], int(count[0])

    def _find_first(self, condition: str) -> tuple[int, int]:
        row = duckdb_connection.fetch_one_row(
            self.connection, f"SELECT file, row FROM spool WHERE {condition} ORDER BY sequence LIMIT 1"
        )
        assert row is not None
        return int(row[0]), int(row[1])

    def stream(self, condition: str, taken: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield rows that meet ``condition``, partition by partition, each in the order they were read."""
        connection = self.connect()
        try:
            partitions = duckdb_connection.fetch_one_row(
                connection,
                f"SELECT count(DISTINCT partition) FROM spool WHERE file IN {format_file_numbers(taken)} AND "
                f"({condition})",
            )
            order = "" if partitions and partitions[0] <= 1 else 'ORDER BY partition, "sequence"'
            if not order:
                connection.execute("SET threads = 1")
            relation = connection.sql(
                f"SELECT * FROM spool WHERE file IN {format_file_numbers(taken)} AND ({condition}) {order}"
            )
            yield from relation.to_arrow_reader(batch_rows)
        finally:
            connection.close()


def add_file_columns(batch: pa.RecordBatch, number: int, sequence: int) -> pa.RecordBatch:
    """Return ``batch`` of file ``number`` as rows of the spool; ``sequence``: the number of records before it."""
    count = batch.num_rows
    files = pa.array(np.full(count, number, dtype=np.int32))
    numbers = pa.array(np.arange(sequence, sequence + count, dtype=np.int64))
    return pa.RecordBatch.from_arrays([*batch.columns, files, numbers], schema=SPOOL_SCHEMA)


def renumber_sequence(batch: pa.RecordBatch, sequence: int) -> pa.RecordBatch:
    """Return rows of a spool, numbered in their order; ``sequence``: the number of rows before them."""
    numbers = pa.array(np.arange(sequence, sequence + batch.num_rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays([*batch.columns[:-1], numbers], schema=SPOOL_SCHEMA)


def format_file_numbers(numbers: Sequence[int]) -> str:
    """Format file numbers as the right side of SQL's ``file IN``; for none, a number that no file has."""
    return "(" + ", ".join(str(number) for number in (numbers or [-1])) + ")"


FindNewest = Callable[[int, int], tuple[int | None, int]]
"""Given the number of a part and a partition."""
_COMPARED = ("timestamp", "timestampType", "key", "value", "headers")


class ArrivalOrder:
    """Whether offsets increase within each partition, over all batches noted. Records without offsets keep theirs."""

    def __init__(self) -> None:
        self.increases = True
        self._last: dict[int, int] = {}

    def note(self, batch: pa.RecordBatch) -> None:
        """Look at the next batch of records."""
        offsets = batch.column("offset")
        if not self.increases or not batch.num_rows or offsets.null_count == len(offsets):
            return
        partitions = np.asarray(batch.column("partition").fill_null(-1))
        numbers = np.asarray(offsets.fill_null(-1))
        for partition in np.unique(partitions).tolist():
            mine = numbers[partitions == partition]
            if mine[0] <= self._last.get(partition, -1) or (np.diff(mine) <= 0).any():
                self.increases = False
            self._last[partition] = int(mine[-1])


class RepeatFilter:
    """Leaves out records whose partition and offset the record before them has, of records sorted by these.

    Args:
        topic: for messages.
        names: the parts of the input.
        find_newest: returns the newest timestamp and the highest offset of the records of a partition in a part.
    """

    def __init__(self, topic: str, names: Sequence[str], find_newest: FindNewest) -> None:
        self.counts: dict[int, int] = {}
        self._topic = topic
        self._names = names
        self._find_newest = find_newest
        self._before: pa.RecordBatch | None = None

    def remove(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``batch`` without repeats of records of it or of the batch before.

        Raises:
            BadInputError: two records with one offset differ.
        """
        if not batch.num_rows:
            return batch
        joined = batch if self._before is None else _join(self._before, batch)
        own = joined.num_rows - batch.num_rows
        self._before = batch.slice(batch.num_rows - 1)
        offsets, partitions = joined.column("offset"), joined.column("partition")
        numbers = np.asarray(offsets.fill_null(-1))
        parts = np.asarray(partitions.fill_null(-1))
        same = np.concatenate(([False], (np.diff(numbers) == 0) & (np.diff(parts) == 0) & (numbers[1:] >= 0)))
        if not same.any():
            return batch
        repeats = np.flatnonzero(same)
        later, earlier = joined.take(pa.array(repeats)), joined.take(pa.array(repeats - 1))
        equal = np.ones(len(repeats), np.bool_)
        for name in _COMPARED:
            equal &= _compare(earlier.column(name), later.column(name))
        if not equal.all():
            raise self._make_order_error(earlier, later, int(np.argmin(equal)))
        for partition, count in zip(*np.unique(parts[repeats], return_counts=True), strict=True):
            self.counts[int(partition)] = self.counts.get(int(partition), 0) + int(count)
        return batch.filter(pa.array(~same[own:]))

    def _make_order_error(self, earlier: pa.RecordBatch, later: pa.RecordBatch, index: int) -> BadInputError:
        if self._is_new_beginning(earlier, later, index):
            number = later.column("offset")[index].as_py()
            names = " and ".join(self._names[each.column("file")[index].as_py()] for each in (earlier, later))
            partition = later.column("partition")[index].as_py()
            return BadInputError(f"{names} {describe_two_beginnings(partition, number)}")
        places = [
            f"{self._names[each.column('file')[index].as_py()]}, row {each.column('row')[index].as_py()}"
            for each in (earlier, later)
        ]
        return BadInputError(
            f"{places[0]} and {places[1]} (partition {later.column('partition')[index].as_py()}, offset "
            f"{later.column('offset')[index].as_py()}): two different records have the same offset. Are these objects "
            "of two topics or clusters, or of a topic that was deleted and created again? Or, where offsets are not "
            "in the records, of a sink that was set back?",
            left="Nothing of this call landed.",
            next="Leave one of the objects out with --exclude GLOB.",
        )

    def _is_new_beginning(self, earlier: pa.RecordBatch, later: pa.RecordBatch, index: int) -> bool:
        """Check whether one of two records comes after the end of the other's part, under a smaller offset."""
        for one, other in ((earlier, later), (later, earlier)):
            arrived_ms = one.column("timestamp")[index].as_py()
            number, partition = other.column("file")[index].as_py(), other.column("partition")[index].as_py()
            newest_ms, highest = self._find_newest(number, partition)
            if None not in {arrived_ms, newest_ms} and arrived_ms > newest_ms:
                return bool(highest > one.column("offset")[index].as_py())
        return False


def _join(before: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.Table.from_batches([before, batch]).combine_chunks().to_batches()[0]


def _compare(one: Any, other: Any) -> Any:
    """Return where two columns are equal; null equals null."""
    if pa.types.is_list(one.type):
        return np.array(
            [left == right for left, right in zip(one.to_pylist(), other.to_pylist(), strict=True)], np.bool_
        )
    both = pc.and_(one.is_null(), other.is_null())
    return np.asarray(pc.or_kleene(pc.equal(one, other), both).fill_null(False))
