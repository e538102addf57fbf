"""Scans a partition for the records of one key, by the exact bytes of the key.

Reads the key and the ordering columns of the partition's segments, a few files at a time; ``value`` only to identify
tombstones among the few records shown. A key with millions of records spills to disk, as in a compaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from winnow.engine.damage import explain_failure
from winnow.engine.strategy_diff import (
    READ_COLUMNS,
    DiffPartition,
    RecordCoordinates,
    RecordOrder,
    build_equivalent_plan,
    find_coordinates,
)
from winnow.engine.task_resources import TaskBudget
from winnow.engine.winners import build_greatest_offset_sql
from winnow.files import duckdb_connection
from winnow.files.duckdb_connection import quote_file_list, quote_literal
from winnow.files.page_checksums import check_local_pages
from winnow.planning.cleanable import PartitionLog
from winnow.values.model import Segment

if TYPE_CHECKING:
    import duckdb

MAXIMUM_CHUNK_BYTES = 256 << 20
"""Approximate size of the chunks in which segments are read, so that progress shows."""

Progress = Callable[[int], None]
"""Called with the number of bytes of segments read since the last call."""


class KeyScan:
    """A scan of one partition for one key. ``headers``: those that decide under the requested orders.

    Use as a context manager. Records below the log start are ignored.
    """

    def __init__(self, log: PartitionLog, headers: Iterable[str], budget: TaskBudget) -> None:
        self._log = log
        self._segments = [s for s in log.segments if s.last_offset >= log.state.log_start_offset]
        self._headers = sorted(set(headers))
        self._opened = ExitStack()
        self._connection: duckdb.DuckDBPyConnection = self._opened.enter_context(
            duckdb_connection.open_connection(
                memory_limit_bytes=budget.memory_limit_bytes,
                threads=budget.threads,
                spill_folder=budget.spill_folder,
                uris=[segment.path for segment in self._segments],
            )
        )
        self._connection.execute(
            'CREATE TEMP TABLE found ("offset" BIGINT, "timestamp" TIMESTAMPTZ, '
            "headers STRUCT(key VARCHAR, value BLOB)[])"
        )

    def __enter__(self) -> KeyScan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    @property
    def size_bytes(self) -> int:
        """Total bytes of the segments that :meth:`find` reads."""
        return sum(segment.size_bytes for segment in self._segments)

    def find(self, key: bytes, progress: Progress) -> int:
        """Find the records of ``key``; return their number.

        Raises:
            DamagedSegmentError: a segment is missing or cannot be read.
            ServiceError: the object store does not answer.
        """
        headers = "NULL"
        if self._headers:
            names = ", ".join(quote_literal(name) for name in self._headers)
            headers = f"list_filter(headers, lambda h: h.key IN ({names}))"
        for chunk in build_chunks(self._segments):
            files = quote_file_list(segment.path for segment in chunk)
            with explain_read_errors(self._log, chunk):
                check_local_pages([segment.path for segment in chunk], READ_COLUMNS)
                self._connection.execute(
                    f'INSERT INTO found SELECT "offset", "timestamp", {headers} FROM read_parquet({files}) '
                    f'WHERE key = $key AND "offset" >= {self._log.state.log_start_offset}',
                    {"key": key},
                )
            progress(sum(segment.size_bytes for segment in chunk))
        return self.count_records()

    def read_key(self, offset: int) -> bytes | None:
        """Return the key of the record at ``offset``, which must exist; None if it has no key."""
        segment = find_segment(self._segments, offset)
        assert segment is not None
        with explain_read_errors(self._log, [segment]):
            check_local_pages([segment.path], ("offset", "key"))
            (key,) = self._row(
                f'SELECT key FROM read_parquet({quote_file_list([segment.path])}) WHERE "offset" = {offset}'
            )
        return None if key is None else bytes(key)

    def count_records(self, start: int = 0, end: int | None = None) -> int:
        """Count the found records of the key in [``start``, ``end``); ``end`` None: to the log end."""
        return int(self._row(f"SELECT count(*) FROM found WHERE {_build_offset_condition(start, end)}")[0])

    def find_winner(self, order: RecordOrder, end: int) -> int | None:
        """Return the offset that wins among the records found below ``end``; None if there are none."""
        greatest = build_greatest_offset_sql(order.strategy, order.header)
        offset = self._row(f"SELECT {greatest} FROM found WHERE {_build_offset_condition(0, end)}")[0]
        return None if offset is None else int(offset)

    def list_newest(self, limit: int) -> list[int]:
        """Return the highest offsets found, at most ``limit``, ascending."""
        rows = self._connection.execute(f'SELECT "offset" FROM found ORDER BY "offset" DESC LIMIT {limit}').fetchall()
        return sorted(offset for (offset,) in rows)

    def read_coordinates(self, offsets: Iterable[int], header: str | None) -> Mapping[int, RecordCoordinates]:
        """Return coordinates by offset; offsets without a record are left out."""
        with explain_read_errors(self._log, self._segments):
            return find_coordinates(self._connection, self._segments, set(offsets), header)

    def find_offset_from(self, offset: int) -> int | None:
        """Return the offset of the first record of any key at or above ``offset``; None at the log end."""
        for segment in self._segments:
            if segment.last_offset < offset:
                continue
            first = max(offset, self._log.state.log_start_offset)
            with explain_read_errors(self._log, [segment]):
                check_local_pages([segment.path], ("offset",))
                files = quote_file_list([segment.path])
                (found,) = self._row(f'SELECT min("offset") FROM read_parquet({files}) WHERE "offset" >= {first}')
            return int(found)
        return None

    def _row(self, query: str) -> tuple[Any, ...]:
        row = duckdb_connection.fetch_one_row(self._connection, query)
        assert row is not None
        return row


def find_segment(segments: Sequence[Segment], offset: int) -> Segment | None:
    """Return the segment whose range contains ``offset``; None between two of them."""
    return next((s for s in segments if s.first_offset <= offset <= s.last_offset), None)


def build_chunks(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Yield ``segments`` in chunks that are read at once."""
    chunk: list[Segment] = []
    for segment in segments:
        chunk.append(segment)
        if sum(each.size_bytes for each in chunk) >= MAXIMUM_CHUNK_BYTES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _build_offset_condition(start: int, end: int | None) -> str:
    return f'"offset" >= {start}' + (f' AND "offset" < {end}' if end is not None else "")


@contextlib.contextmanager
def explain_read_errors(log: PartitionLog, segments: Sequence[Segment]) -> Iterator[None]:
    """Turn a read error into one that names the segment, without any of its bytes."""
    try:
        yield
    except Exception as problem:
        state = log.state
        searched = DiffPartition(log.partition, state.log_start_offset, state.log_end_offset, tuple(segments))
        found = explain_failure(problem, log.topic, build_equivalent_plan(searched))
        raise type(found)(
            f"{log.topic}-{log.partition} could not be searched: {str(found).rstrip('.')}. Nothing was changed. Run it "
            f"again; if that repeats, check the segments: winnow scrub {log.topic}"
        ) from None
