"""Brings the rows of one partition in the side table of the latest state up to date, by rewriting files that change.

The rows that are there are one side of the comparison, the log the other: of keys that may have another winner now,
winners are found in the log anew. Of everything else nothing but key, offset and ordering columns is read. Files in
which a row changed are written again without it, together with small ones; new rows follow in the same files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from winnow.engine.damage import CopyCountError
from winnow.engine.key_changes import LogExtent, create_alive, create_candidates
from winnow.engine.latest_plans import PartitionUpdate, PartitionUpdatePlan
from winnow.engine.latest_records import MAXIMUM_BATCH_BYTES, MAXIMUM_BATCH_ROWS, read_latest_records
from winnow.engine.latest_rows import FILE_BYTES, RecordForm, TypedForm, find_root, write_rows
from winnow.engine.strategy_diff import RecordOrder
from winnow.engine.task_resources import TaskBudget, open_connection
from winnow.engine.winners import build_scan_sql
from winnow.files import storage
from winnow.files.duckdb_connection import fetch_one_row
from winnow.files.page_checksums import check_local_pages
from winnow.files.segments import ARROW_SCHEMA
from winnow.values.model import Segment
from winnow.values.strategies import Strategy

if TYPE_CHECKING:
    import duckdb

MAXIMUM_SMALL_FILES: Final = 8
"""Maximum files below half of :data:`FILE_BYTES` of what may be in one file before an update puts them together."""

_COLUMNS: Final = ", ".join(f'"{name}"' for name in ARROW_SCHEMA.names)
_IDENTIFYING: Final = ("key", "offset")
_DECIDING: Final = (*_IDENTIFYING, "timestamp", "headers")


def write_part(
    part: PartitionUpdatePlan, order: RecordOrder, budget: TaskBudget, *, folder: str, form: RecordForm | TypedForm
) -> PartitionUpdate:
    """Write the files that one partition of the table needs below ``folder``; they are not synced yet.

    ``form``: how rows are held; one that only learns writes nothing.

    Raises:
        CopyCountError, DamagedSegmentError, duckdb.Error, OSError: as :func:`update_partition`.
    """
    if part.before is not None:
        return update_partition(
            part.rows, part.before, part.after, part.partition, order, budget, folder=folder, form=form
        )
    added: tuple[Segment, ...] = ()
    if part.log.segments:
        records = read_latest_records(part.log, order, budget)
        added = write_rows(form, part.partition, folder, form.make_rows(records))
    return PartitionUpdate(added, part.rows, rows_inserted=sum(segment.records for segment in added))


def update_partition(
    rows: Sequence[Segment],
    before: LogExtent,
    after: LogExtent,
    partition: int,
    order: RecordOrder,
    budget: TaskBudget,
    *,
    folder: str,
    form: RecordForm | TypedForm,
) -> PartitionUpdate:
    """Write the files that bring ``rows``, the latest state of ``before``, to the latest state of ``after``.

    ``after`` has to come from ``before`` by appends, compactions, retention and a raised log start alone, so that no
    offset has another record than before. ``order`` is that by which ``rows`` were chosen, ``form`` how they are held.

    Raises:
        CopyCountError: other rows were found than are to be written.
        DamagedSegmentError: a file on a local disk is not what was written.
        duckdb.Error, OSError: a file cannot be read or written.
    """
    involved = list(dict.fromkeys([*before.list_readable(), *after.list_readable()]))
    # On an object store pages are checked while they are read (winnow.files.checked_filesystem).
    if rows:
        form.check_keys(rows, before)
    with open_connection(budget, [*involved, *rows]) as connection:
        if order.strategy is Strategy.OFFSET:
            extent = _create_candidates_by_offset(connection, form, rows, before, after)
        else:
            _check(involved, _DECIDING)
            create_candidates(connection, before, after)
            extent = after
        _check([each for each in extent.list_readable() if each.tombstones], ("value",))
        create_alive(connection, "alive", extent, order, compares_records=False)
        _create_changes(connection, form, rows, before)
        return _write_changes(connection, form, rows, after, partition, folder)


def _create_candidates_by_offset(
    connection: duckdb.DuckDBPyConnection,
    form: RecordForm | TypedForm,
    rows: Sequence[Segment],
    before: LogExtent,
    after: LogExtent,
) -> LogExtent:
    """Create ``candidates(key)`` where the highest offset wins; return the extent in which their winners lie.

    A key has another winner now if it has a record at or above the former end, which then is the winner; or if its
    winner is gone: its tombstone expired meanwhile, too, or retention or a raised log start took it.
    """
    newer = LogExtent(after.segments, max(after.start_offset, before.end_offset), after.end_offset)
    found = newer.list_readable()
    _check(found, _IDENTIFYING)
    source = build_scan_sql(found) if found else '(SELECT NULL::BLOB AS key, NULL::BIGINT AS "offset" WHERE false)'
    connection.execute(
        f"CREATE TEMP TABLE candidates AS SELECT DISTINCT key FROM {source} WHERE key IS NOT NULL AND {newer.condition}"
    )
    if not rows:
        return newer
    there = after.list_readable()
    older = [segment for segment in there if segment.last_offset < newer.start_offset]
    _check(older, ("offset",))
    gone = (
        f'ANTI JOIN (SELECT "offset" FROM {build_scan_sql(there)} WHERE {after.condition}) AS log USING ("offset")'
        if there
        else ""
    )
    connection.execute(
        f"""
        CREATE TEMP TABLE lost AS SELECT key FROM ({form.build_rows_sql(rows, before)}) AS held
        SEMI JOIN (SELECT "offset" FROM ({form.build_offsets_sql(rows)}) AS held {gone}) AS missing USING ("offset")
        """
    )
    row = fetch_one_row(connection, "SELECT count(*) FROM lost ANTI JOIN candidates USING (key)")
    assert row is not None
    if not row[0]:
        return newer
    _check(older, ("key",))
    connection.execute("INSERT INTO candidates SELECT key FROM lost ANTI JOIN candidates USING (key)")
    return after


def _create_changes(
    connection: duckdb.DuckDBPyConnection, form: RecordForm | TypedForm, rows: Sequence[Segment], before: LogExtent
) -> None:
    """Create ``held(name, key, offset)``, the candidates' rows; ``gone``, those to remove; ``fresh``, those to add."""
    connection.execute('CREATE TEMP TABLE held (name VARCHAR, key BLOB, "offset" BIGINT)')
    if rows:
        connection.execute(
            f"""
            INSERT INTO held SELECT name, key, "offset" FROM ({form.build_rows_sql(rows, before)}) AS there
            SEMI JOIN candidates USING (key)
            """
        )
    connection.execute('CREATE TEMP TABLE gone AS SELECT * FROM held ANTI JOIN alive USING (key, "offset")')
    connection.execute(
        'CREATE TEMP TABLE fresh AS SELECT key, "offset" FROM alive ANTI JOIN held USING (key, "offset")'
    )


def _write_changes(
    connection: duckdb.DuckDBPyConnection,
    form: RecordForm | TypedForm,
    rows: Sequence[Segment],
    after: LogExtent,
    partition: int,
    folder: str,
) -> PartitionUpdate:
    counted = fetch_one_row(
        connection,
        """
        SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM fresh),
               (SELECT count(*) FROM gone SEMI JOIN fresh USING (key))
        """,
    )
    assert counted is not None
    gone, fresh, updated = counted
    if not gone and not fresh:
        return PartitionUpdate()
    names = {name for (name,) in connection.execute("SELECT DISTINCT name FROM gone").fetchall()}
    touched = [segment for segment in rows if storage.get_name(segment.path) in names]
    complete = len(touched) == len(names)
    for group in form.group_files([each for each in rows if storage.get_name(each.path) not in names]):
        small = [segment for segment in group if segment.size_bytes < FILE_BYTES // 2]
        if len(small) >= MAXIMUM_SMALL_FILES:
            touched += small
    sources = _list_sources(connection, after) if fresh else []
    _check(sources, ARROW_SCHEMA.names)
    if form.learns:
        if sources:
            deque(chain.from_iterable(_read_rows(connection, form, (), sources)), maxlen=0)
        return PartitionUpdate()
    check_local_pages((segment.path for segment in touched), None)
    form.dropped.clear()
    added = write_rows(form, partition, folder, *_read_rows(connection, form, touched, sources))
    dropped = len(form.dropped)
    expected = sum(segment.records for segment in touched) - gone + fresh - dropped
    found = sum(segment.records for segment in added)
    if found != expected or not complete:
        storage.delete_unreferenced((segment.path for segment in added), below=find_root(folder))
        raise CopyCountError(
            f"{expected:,} rows of the latest state were to be written, but {found:,} records were read. Nothing of it "
            "counts; keep the log's files for analysis"
        )
    deleted = _count_deleted_by_drop(connection, form.dropped)
    return PartitionUpdate(
        added, tuple(touched), fresh - updated - (dropped - deleted), updated - deleted, gone - updated + deleted
    )


def _count_deleted_by_drop(connection: duckdb.DuckDBPyConnection, dropped: Sequence[int]) -> int:
    """Count the rows that go because the newer record of their key, at one of the offsets ``dropped``, is no row."""
    if not dropped:
        return 0
    connection.execute('CREATE TEMP TABLE no_row AS SELECT unnest(?::BIGINT[]) AS "offset"', [list(dropped)])
    row = fetch_one_row(
        connection,
        'SELECT count(*) FROM gone SEMI JOIN (SELECT key FROM fresh SEMI JOIN no_row USING ("offset")) USING (key)',
    )
    assert row is not None
    return int(row[0])


def _list_sources(connection: duckdb.DuckDBPyConnection, after: LogExtent) -> list[Segment]:
    """List the segments that hold a fresh row: their values are read, and no others."""
    readable = after.list_readable()
    connection.execute("CREATE TEMP TABLE spans (number INTEGER, first BIGINT, last BIGINT)")
    connection.execute(
        "INSERT INTO spans SELECT unnest(?), unnest(?), unnest(?)",
        [
            list(range(len(readable))),
            [segment.first_offset for segment in readable],
            [segment.last_offset for segment in readable],
        ],
    )
    found = connection.execute(
        'SELECT DISTINCT number FROM spans JOIN fresh ON "offset" BETWEEN first AND last ORDER BY number'
    )
    return [readable[number] for (number,) in found.fetchall()]


def _read_rows(
    connection: duckdb.DuckDBPyConnection,
    form: RecordForm | TypedForm,
    kept: Sequence[Segment],
    sources: Sequence[Segment],
) -> list[Iterator[pa.RecordBatch]]:
    """Return the rows of ``kept`` that stay, and the fresh ones, by offset; what does not fit in memory is spilled.

    Where not all may be in one file, each group of files is a run of its own, and the fresh rows are the last one: so
    no more files are read at a time than are put together.
    """
    largest_bytes = max(each.size_bytes // max(1, each.records) for each in (*kept, *sources))
    rows = max(1, min(MAXIMUM_BATCH_ROWS, MAXIMUM_BATCH_BYTES // max(1, largest_bytes)))
    selects = []
    if kept and isinstance(form, RecordForm):
        selects.append(f'SELECT {_COLUMNS} FROM {build_scan_sql(kept)} AS held ANTI JOIN gone USING ("offset")')
    if sources:
        selects.append(f'SELECT {_COLUMNS} FROM {build_scan_sql(sources)} AS log SEMI JOIN fresh USING ("offset")')
    query = f'{" UNION ALL ".join(selects)} ORDER BY "offset"'
    if isinstance(form, RecordForm):
        return [form.make_rows(connection.sql(query).to_arrow_reader(rows))]
    gone = connection.sql('SELECT "offset" FROM gone ORDER BY "offset"').fetchnumpy()["offset"]
    fresh = form.make_rows(connection.sql(query).to_arrow_reader(rows)) if sources else iter(())
    if form.sort is not None:
        return [chain(form.read_files(kept, gone, rows), fresh)]
    if form.placement is None:
        return [form.merge_rows(kept, gone, fresh, rows)]
    return [*(form.merge_rows(group, gone, iter(()), rows) for group in form.group_files(kept)), fresh]


def _check(segments: Iterable[Segment], columns: Collection[str]) -> None:
    check_local_pages((segment.path for segment in segments), columns)
