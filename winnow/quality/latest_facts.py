"""Computes a second time, by other SQL, which records the table of a topic's latest state has to show.

The first computation is the engine's (:mod:`winnow.engine.latest_update`), which finds changes; here every key's
greatest record is found in the log anew, and the offsets of the files that readers would see are compared with theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from winnow.errors import ValidationBrokenError
from winnow.files.checked_reading import check_before_duckdb
from winnow.files.duckdb_connection import fetch_one_row, open_connection, quote_file_list, quote_literal
from winnow.files.segments import FIELD_IDS
from winnow.quality.fact_table import TaskBudget
from winnow.values.model import Segment
from winnow.values.results import FIRST_OFFSETS
from winnow.values.strategies import Strategy
from winnow.values.typed_columns import SystemColumn

if TYPE_CHECKING:
    import duckdb

NOTHING_UPDATED: Final = "The table is as before."


@dataclass(frozen=True, slots=True)
class LatestPartition:
    """One topic partition of the table as it is to be.

    ``rows``: its files. ``segments``: those of the log in [``start_offset``, ``end_offset``). ``strategy`` and
    ``header``: how winners are chosen. ``error_column_id``: field id of the column that says why a row was not decoded.
    ``drops_rows``: whether a record may be no row, so that a missing one is no fault. ``max_undecoded_ratio``: the
    part of rows that may be undecoded. ``share``, of ``shares``: the keys that are looked at, by their hash; rows that
    are of no key are looked at with the first share.
    """

    partition: int
    rows: Sequence[Segment]
    segments: Sequence[Segment]
    start_offset: int
    end_offset: int
    strategy: Strategy
    header: str | None
    error_column_id: int
    drops_rows: bool = False
    max_undecoded_ratio: float = 0.0
    share: int = 0
    shares: int = 1


@dataclass(frozen=True, slots=True)
class LatestFacts:
    """What was found in one share. Zero in a sound result but for the counts of rows, and what is judged of all shares.

    ``rows_missing``: greatest records that are no tombstones and not there. ``rows_stray``: rows of other records.
    ``rows_doubled``: further rows of one record. ``rows_unaccounted``: difference to what the manifest would say.
    ``rows_not_decoded_above_limit``: all of those if they are too large a share. ``first_not_decoded``: the offsets of
    the first of them, as text.
    """

    partition: int
    rows: int
    rows_missing: int
    rows_stray: int
    rows_doubled: int
    rows_beyond_end: int
    rows_unaccounted: int
    rows_not_decoded: int
    rows_not_decoded_above_limit: int
    first_not_decoded: str


def compute_latest_facts(
    topic: str, partitions: Sequence[LatestPartition], *, budget: TaskBudget
) -> list[dict[str, int | str]]:
    """Compute a row for each partition.

    Raises:
        DamagedSegmentError: a segment is not what was written.
        ValidationBrokenError: a check could not be carried out.
    """
    judge = LatestJudge()
    return [
        judge.merge([_compute_facts(topic, partition, budget)], partition.max_undecoded_ratio)
        for partition in partitions
    ]


@dataclass(frozen=True, slots=True)
class LatestJudge:
    """Judges a partition in tasks, whole or by shares of its keys."""

    def compute(self, topic: str, described: dict[str, Any], budget: TaskBudget) -> dict[str, int | str]:
        """Compute the row of one share, whose fields are those of :class:`LatestPartition`.

        Raises:
            DamagedSegmentError, ValidationBrokenError: as :func:`compute_latest_facts`.
        """
        return _compute_facts(topic, LatestPartition(**described), budget)

    def merge(self, facts: Sequence[dict[str, int | str]], max_undecoded_ratio: float) -> dict[str, int | str]:
        """Merge the rows of all shares of one partition."""
        merged = {name: sum(int(each[name]) for each in facts) for name in _COUNTS}
        above = merged["rows_not_decoded"] > merged["rows"] * max_undecoded_ratio
        first = sorted(int(place) for each in facts for place in str(each["first_not_decoded"]).split(", ") if place)
        return {
            **merged,
            "partition": facts[0]["partition"],
            "rows_unaccounted": abs(merged["rows_unaccounted"]),
            "rows_not_decoded_above_limit": merged["rows_not_decoded"] if above else 0,
            "first_not_decoded": ", ".join(map(str, first[:FIRST_OFFSETS])),
        }


def _compute_facts(topic: str, partition: LatestPartition, budget: TaskBudget) -> dict[str, int | str]:
    import duckdb

    columns = {"key", "offset", "value", *_ORDERING[partition.strategy]}
    # All shares together check all files.
    part = slice(partition.share, None, partition.shares)
    check_before_duckdb(topic, partition.segments[part], columns, after=NOTHING_UPDATED)
    check_before_duckdb(topic, partition.rows[part], _ROW_COLUMNS, after=NOTHING_UPDATED)
    try:
        with open_connection(
            memory_limit_bytes=budget.memory_limit_bytes,
            threads=budget.threads,
            spill_folder=budget.spill_folder,
            uris=[segment.path for segment in (*partition.rows, *partition.segments)],
        ) as connection:
            return dict(asdict(_compute(connection, partition)))
    except duckdb.Error as problem:
        raise ValidationBrokenError(
            f"The table of the latest state of {topic}-{partition.partition} could not be checked "
            f"({type(problem).__name__}).",
            left=NOTHING_UPDATED,
            next=f"Run it again: winnow latest-table update {topic}",
        ) from None


_COUNTS: Final = (
    "rows",
    "rows_missing",
    "rows_stray",
    "rows_doubled",
    "rows_beyond_end",
    "rows_unaccounted",
    "rows_not_decoded",
)
_ROW_COLUMNS: Final = (SystemColumn.OFFSET.value, SystemColumn.ERROR.value)
_ORDERING: Final = {Strategy.OFFSET: (), Strategy.TIMESTAMP: ("timestamp",), Strategy.HEADER: ("headers",)}


def _compute(connection: duckdb.DuckDBPyConnection, partition: LatestPartition) -> LatestFacts:
    _create_shown(connection, partition)
    _create_wanted(connection, partition)
    counts = fetch_one_row(
        connection,
        f"""
        SELECT (SELECT count(*) FROM shown),
               (SELECT count(*) FROM wanted ANTI JOIN shown USING (place)),
               (SELECT count(*) FROM (SELECT DISTINCT place FROM shown ANTI JOIN wanted USING (place))),
               (SELECT count(*) - count(DISTINCT place) FROM shown),
               (SELECT count(*) FROM shown WHERE place IS NULL OR place >= {partition.end_offset}),
               (SELECT count(*) FROM shown WHERE problem IS NOT NULL),
               (SELECT string_agg(place, ', ') FROM
                   (SELECT place FROM shown WHERE problem IS NOT NULL ORDER BY place LIMIT {FIRST_OFFSETS}))
        """,
    )
    assert counts is not None
    rows, missing, stray, doubled, beyond, not_decoded, first = counts
    noted = 0 if partition.share else sum(segment.records for segment in partition.rows)
    return LatestFacts(
        partition.partition,
        rows,
        0 if partition.drops_rows else missing,
        stray,
        doubled,
        beyond,
        noted - rows,
        not_decoded,
        0,
        first or "",
    )


def _create_shown(connection: duckdb.DuckDBPyConnection, partition: LatestPartition) -> None:
    """Create ``shown(place, problem)``: the offset of each row, and why it was not decoded."""
    source = "(SELECT NULL::BIGINT AS place, NULL::VARCHAR AS problem WHERE false)"
    if partition.rows:
        files = quote_file_list(segment.path for segment in partition.rows)
        columns = (
            f"MAP {{{FIELD_IDS['offset']}: {{name: 'place', type: 'BIGINT', default_value: NULL}}, "
            f"{partition.error_column_id}: {{name: 'problem', type: 'VARCHAR', default_value: NULL}}}}"
        )
        source = f"read_parquet({files}, schema = {columns})"
    if partition.shares > 1:
        join, comparison = ("SEMI", "=") if partition.share else ("ANTI", "<>")
        log = f"read_parquet({quote_file_list(segment.path for segment in partition.segments)})"
        places = f'SELECT "offset" AS place FROM {log} WHERE {_build_condition(partition, comparison)}'
        source += f" AS held {join} JOIN ({places}) AS log USING (place)"
    connection.execute(f"CREATE TEMP TABLE shown AS SELECT place, problem FROM {source}")


def _create_wanted(connection: duckdb.DuckDBPyConnection, partition: LatestPartition) -> None:
    """Create ``wanted(place)``: the offset of each key's greatest record, if that is no tombstone."""
    if not partition.segments:
        connection.execute("CREATE TEMP TABLE wanted (place BIGINT)")
        return
    readable = _build_condition(partition)
    files = quote_file_list(segment.path for segment in partition.segments)
    version = _build_version_sql(partition.strategy, partition.header)
    greatest = 'max("offset")'
    if version is not None:
        greatest = f'max(struct_pack(version := {version}, place := "offset")).place'
    source = f"read_parquet({files}) WHERE {readable} GROUP BY key"
    connection.execute(f"CREATE TEMP TABLE wanted AS SELECT {greatest} AS place FROM {source}")
    with_tombstones = [segment.path for segment in partition.segments if segment.tombstones]
    if with_tombstones:
        tombstones = f"read_parquet({quote_file_list(with_tombstones)}) WHERE {readable} AND value IS NULL"
        connection.execute(f'DELETE FROM wanted WHERE place IN (SELECT "offset" FROM {tombstones})')


def _build_condition(partition: LatestPartition, comparison: str = "=") -> str:
    """Build the SQL condition that a record has a key that is looked at; with ``<>``: one of another share."""
    readable = f'"offset" >= {partition.start_offset} AND "offset" < {partition.end_offset} AND key IS NOT NULL'
    if partition.shares == 1:
        return readable
    # Not the hash by which DuckDB divides keys itself: a share's would crowd into a part of its table.
    return f"{readable} AND hash(key, 1) % {partition.shares} {comparison} {partition.share}"


def _build_version_sql(strategy: Strategy, header: str | None) -> str | None:
    """Build SQL for what decides before the offset, None: nothing.

    Eight bytes of a header order as text: sign first, then digits.
    """
    if strategy is Strategy.OFFSET:
        return None
    if strategy is Strategy.TIMESTAMP:
        return 'coalesce(epoch_us("timestamp") // 1000, -1)'
    value = f"list_last(list_filter(headers, lambda entry: entry.key = {quote_literal(header or '')})).value"
    digits = f"hex({value})"
    return (
        f"CASE WHEN octet_length({value}) = 8 "
        f"THEN CASE WHEN {digits} < '8' THEN '2' ELSE '1' END || {digits} ELSE '0' END"
    )
