"""Compares the records of a spool below the log end with the log: equal, different, or absent there.

Knows the log by its segments and end alone, so that a Spark task can do it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from winnow.arrivals.recreated_topic import describe_new_beginning
from winnow.arrivals.spool import Spool, format_file_numbers
from winnow.errors import BadInputError, DamagedSegmentError
from winnow.files import duckdb_connection
from winnow.files.checked_reading import check_before_duckdb, find_damaged_segment, make_damage_error, read_segment
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.files.segments import ARROW_SCHEMA
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.model import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import duckdb


_COMPARED_FIELDS = ("timestamp", "timestampType", "key", "value", "headers")
MAXIMUM_KEYS = 8_192
"""Keys that are looked at together."""
_EXISTING_COLUMNS = '"offset", epoch_ms("timestamp") AS "timestamp", "timestampType", key, value, headers'


@dataclass(frozen=True, slots=True)
class AbsentRecord:
    """An arriving record that the log does not have: number of its file, row, offset."""

    file: int
    row: int
    offset: int


@dataclass(frozen=True, slots=True)
class AbsentRecords:
    """The arriving records that the log does not have: the first of each file, and how many there are.

    ``later``: how many of them are later than all records of the log.
    """

    firsts: tuple[AbsentRecord, ...] = ()
    count: int = 0
    later: int = 0

    @property
    def are_later(self) -> bool:
        """Whether all are later than the log, and there are several.

        A single one may be a tombstone that was the newest record and has expired.
        """
        return self.count == self.later > 1


class LogComparison:
    """The arriving records of one partition below the log end, each with whether the log has it."""

    def __init__(
        self, spool: Spool, partition: int, connection: duckdb.DuckDBPyConnection, newest_ms: int | None
    ) -> None:
        self._spool = spool
        self._partition = partition
        self._connection = connection
        # Without a time in the log nothing is later; DuckDB refuses to order by the word false.
        later = "arrived_ms <> arrived_ms" if newest_ms is None else f"arrived_ms > {newest_ms}"
        self._later = f"coalesce({later}, false)"

    def require_equal(self) -> None:
        """Raise if the log has another record at one of the offsets.

        Raises:
            BadInputError: with file, row, partition and offset.
        """
        # Records later than the log come first: they tell why.
        row = duckdb_connection.fetch_one_row(
            self._connection,
            f'SELECT file, row, "offset", {self._later} FROM compared WHERE present AND NOT equal '
            f'ORDER BY {self._later} DESC, "sequence" LIMIT 1',
        )
        if row is None:
            return
        where = f"{self._spool.files[row[0]].path}, row {row[1]} (partition {self._partition}, offset {row[2]})"
        if row[3]:
            raise BadInputError(f"{where}: {describe_new_beginning(self._spool.topic, self._partition, row[2])}")
        raise BadInputError(
            f"{where}: topic {self._spool.topic} holds another record at this offset. Is the file of another topic or "
            "cluster?",
            left=NOTHING_INGESTED,
        )

    def drop_absent(self, is_known: Callable[[bytes], bool]) -> None:
        """Forget the records that the log does not have of keys of which ``is_known`` says that they may be missing."""
        keys = self._connection.sql(
            'SELECT DISTINCT key FROM compared JOIN spool USING ("sequence") WHERE NOT present AND key IS NOT NULL'
        ).to_arrow_reader(MAXIMUM_KEYS)
        known = [key for batch in keys for key in batch.column(0).to_pylist() if is_known(key)]
        self._connection.register("known_keys", pa.table({"key": pa.array(known, pa.binary())}))
        self._connection.execute(
            'DELETE FROM compared WHERE NOT present AND "sequence" IN '
            '(SELECT "sequence" FROM spool SEMI JOIN known_keys USING (key))'
        )
        self._connection.unregister("known_keys")

    def require_present(self, from_offset: int, log_end_offset: int) -> None:
        """Raise if the log does not have a record at or above ``from_offset``, where none was compacted away.

        Raises:
            BadInputError: with file, row, partition and offset of the first.
        """
        row = duckdb_connection.fetch_one_row(
            self._connection,
            f'SELECT file, row, "offset" FROM compared WHERE NOT present AND "offset" >= {from_offset} '
            'ORDER BY "sequence" LIMIT 1',
        )
        if row is not None:
            path, are_later = self._spool.files[row[0]].path, self.list_absent().are_later
            raise build_missing_offset_error(
                self._spool.topic, path, AbsentRecord(*row), self._partition, log_end_offset, are_later=are_later
            )

    def list_absent(self) -> AbsentRecords:
        """Return the records that the log does not have, in the order of files."""
        rows = self._connection.execute(
            'SELECT file, arg_min(row, "sequence"), arg_min("offset", "sequence"), count(*), '
            f"count(*) FILTER ({self._later}) FROM compared WHERE NOT present GROUP BY file ORDER BY file"
        ).fetchall()
        return AbsentRecords(
            tuple(AbsentRecord(*row[:3]) for row in rows), sum(row[3] for row in rows), sum(row[4] for row in rows)
        )


@contextmanager
def compare_with_log(
    spool: Spool,
    partition: int,
    log_end_offset: int,
    segments: Sequence[Segment],
    taken: Sequence[int],
    *,
    newest_ms: int | None = None,
    read_quarantined: Callable[[tuple[int, int]], Iterable[pa.RecordBatch]] | None = None,
) -> Iterator[LogComparison | None]:
    """Compare the records of the files ``taken`` below ``log_end_offset``; None if there are none.

    ``segments``: the live ones of the partition. ``newest_ms``: the newest timestamp of its records.
    ``read_quarantined``: reads the quarantined records within offsets.

    Raises:
        DamagedSegmentError: a segment of the log is not what was written.
    """
    import duckdb

    below = _find_bounds_below(spool, partition, log_end_offset, taken)
    if below is None:
        yield None
        return
    first, last = below
    reached = [s for s in segments if s.first_offset <= last and first <= s.last_offset]
    check_before_duckdb(spool.topic, reached, ARROW_SCHEMA.names, after=NOTHING_INGESTED)
    connection = spool.connect([segment.path for segment in reached])
    try:
        _create_quarantined(connection, () if read_quarantined is None else read_quarantined(below))
        _create_existing(connection, reached)
        _create_compared(connection, partition, log_end_offset, taken)
        yield LogComparison(spool, partition, connection, newest_ms)
    except duckdb.Error as problem:
        find_damaged_segment(spool.topic, reached, problem, after=NOTHING_INGESTED)
        raise
    finally:
        connection.close()


def read_log_segment(topic: str, segment: Segment, start: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment of the log of ``topic`` from offset ``start`` on, for a call that compares them.

    Raises:
        DamagedSegmentError: it is not what was written; nothing landed.
    """
    try:
        yield from read_segment(segment, start)
    except DamagedSegmentError as problem:
        raise make_damage_error(topic, segment, str(problem), NOTHING_INGESTED) from None


def build_missing_offset_error(
    topic: str,
    path: str,
    absent: AbsentRecord,
    partition: int,
    log_end_offset: int,
    *,
    are_later: bool,
    advice: str = "",
) -> BadInputError:
    """Make the error about a record of ``path`` below the log end that the log does not have.

    ``are_later``: as :attr:`AbsentRecords.are_later`. ``advice``: what else to say if they are not.
    """
    where = f"{path}, row {absent.row} (partition {partition}, offset {absent.offset})"
    if are_later:
        return BadInputError(f"{where}: {describe_new_beginning(topic, partition, absent.offset)}")
    return BadInputError(
        f"{where}: the log of {topic}-{partition} has gone on to offset {log_end_offset} without this record. Were "
        "files ingested in the wrong order, or one left out?",
        left=f"{NOTHING_INGESTED}{advice}",
    )


def _find_bounds_below(
    spool: Spool, partition: int, log_end_offset: int, taken: Sequence[int]
) -> tuple[int, int] | None:
    row = duckdb_connection.fetch_one_row(
        spool.connection,
        f"""
        SELECT min("offset"), max("offset") FROM spool
        WHERE partition = {partition} AND "offset" < {log_end_offset} AND file IN {format_file_numbers(taken)}
        """,
    )
    return None if row is None or row[0] is None else (row[0], row[1])


def _create_quarantined(connection: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch]) -> None:
    """Create the table ``quarantined``: it can spill."""
    connection.register("rows", QUARANTINE_SCHEMA.empty_table())
    connection.execute(f"CREATE TEMP TABLE quarantined AS SELECT {_EXISTING_COLUMNS} FROM rows")
    connection.unregister("rows")
    for batch in batches:
        connection.register("rows", batch)
        connection.execute(f"INSERT INTO quarantined SELECT {_EXISTING_COLUMNS} FROM rows")
        connection.unregister("rows")


def _create_existing(connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment]) -> None:
    files = duckdb_connection.quote_file_list(segment.path for segment in segments)
    log = f"SELECT {_EXISTING_COLUMNS} FROM read_parquet({files}) UNION ALL " if segments else ""
    connection.execute(f"CREATE VIEW existing AS {log} SELECT * FROM quarantined")


def _create_compared(
    connection: duckdb.DuckDBPyConnection, partition: int, log_end_offset: int, taken: Sequence[int]
) -> None:
    equal = " AND ".join(f'arriving."{name}" IS NOT DISTINCT FROM existing."{name}"' for name in _COMPARED_FIELDS)
    connection.execute(
        f"""
        CREATE TEMP TABLE compared AS
        SELECT arriving.file, arriving.row, arriving."sequence", arriving."offset", arriving."timestamp" AS arrived_ms,
               existing."offset" IS NOT NULL AS present, ({equal}) AS equal
        FROM (SELECT * FROM spool
              WHERE partition = {partition} AND "offset" < {log_end_offset}
                AND file IN {format_file_numbers(taken)}) AS arriving
        LEFT JOIN existing USING ("offset")
        """
    )
