"""Computes a second time, by DuckDB from the files, what an erasure made of a topic partition.

The first computation is that of the rewrite, by Arrow (:mod:`winnow.engine.key_erasure`). Rows hold counts and no
fingerprint: that of a single record would let anyone who reads the page try keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from winnow.errors import DamagedSegmentError, ValidationBrokenError
from winnow.files import duckdb_connection
from winnow.files.checked_reading import check_before_duckdb, check_segment_offsets
from winnow.files.fingerprint import CONTENT_FINGERPRINT, EMPTY_FINGERPRINT
from winnow.files.key_sets import GivenKeys, KeySet
from winnow.files.segments import ARROW_SCHEMA
from winnow.quality.fact_table import TaskBudget
from winnow.values.erasures import ErasedPartition
from winnow.values.model import Segment

if TYPE_CHECKING:
    import duckdb

NOTHING_ERASED = "Nothing was changed."
MAXIMUM_SHARE_BYTES: Final = 256 << 20
MAXIMUM_SHARE_PARTITIONS: Final = 256
"""One DuckDB looks at so much at a time: its start, and each query, cost more than a small partition."""


@dataclass(frozen=True, slots=True)
class ErasureFacts:
    """What an erasure made of one topic partition. Zero in a sound result but for the counts.

    ``keys_left``: records of erased keys that are no wanted tombstone. ``others_changed``: 1 if any other record is not
    there bit for bit. ``tombstones_wrong``: 1 if the tombstones are not the newest erased records, without value and
    headers. ``misfit_segments``: whose offsets, records or places are not what the commit would say.
    ``records_unaccounted``: difference between the counts of both computations.
    """

    partition: int
    records_before: int
    records_after: int
    keys_left: int
    others_changed: int
    tombstones_wrong: int
    misfit_segments: int
    records_unaccounted: int


def compute_erasure_facts(
    topic: str, parts: Sequence[ErasedPartition], erased: KeySet, budget: TaskBudget
) -> list[dict[str, int | str]]:
    """Compute the rows of topic partitions; ``erased``: the keys. Many small partitions go together.

    Raises:
        DamagedSegmentError: a replaced segment is not what was written.
        ValidationBrokenError: a check could not be carried out.
    """
    rows: list[dict[str, int | str]] = []
    for some in _divide(parts):
        segments = [segment for part in some for segment in (*part.replaced, *part.written)]
        check_before_duckdb(topic, segments, ARROW_SCHEMA.names, after=NOTHING_ERASED)
        import duckdb

        try:
            with duckdb_connection.open_connection(
                memory_limit_bytes=budget.memory_limit_bytes,
                threads=budget.threads,
                spill_folder=budget.spill_folder,
                uris=[segment.path for segment in segments],
            ) as connection:
                _create_erased(connection, segments, erased)
                _create_view(connection, "before", [segment for part in some for segment in part.replaced])
                _create_view(connection, "after", [segment for part in some for segment in part.written])
                _create_wanted(connection, some)
                rows += [dict(asdict(facts)) for facts in _compute(connection, some)]
        except duckdb.Error as problem:
            raise ValidationBrokenError(
                f"The erasure of keys of topic {topic} could not be checked ({type(problem).__name__}).",
                left=NOTHING_ERASED,
                next="Run it again.",
            ) from None
    return rows


def _divide(parts: Sequence[ErasedPartition]) -> Iterator[list[ErasedPartition]]:
    """Divide partitions into shares that one DuckDB works on."""
    share, size_bytes = list[ErasedPartition](), 0
    for part in parts:
        share.append(part)
        size_bytes += sum(each.size_bytes for each in part.replaced)
        if size_bytes >= MAXIMUM_SHARE_BYTES or len(share) >= MAXIMUM_SHARE_PARTITIONS:
            yield share
            share, size_bytes = [], 0
    if share:
        yield share


def _create_erased(connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment], erased: KeySet) -> None:
    """Create the table of erased keys; of those that only their digests tell, the ones that ``segments`` have."""
    connection.execute("CREATE TEMP TABLE erased (key BLOB)")
    if isinstance(erased, GivenKeys):
        batches: Iterable[pa.Array] = [erased.keys]
    else:
        files = duckdb_connection.quote_file_list(segment.path for segment in segments)
        # Through a cursor, since the connection meanwhile writes what is found.
        distinct = connection.cursor().sql(f"SELECT DISTINCT key FROM read_parquet({files})")
        found = (batch.column(0) for batch in distinct.to_arrow_reader())
        batches = (keys.filter(erased.number(keys).is_valid()) for keys in found)
    for keys in batches:
        connection.register("found", pa.table({"key": keys}))
        connection.execute("INSERT INTO erased SELECT DISTINCT key FROM found")


def _create_view(connection: duckdb.DuckDBPyConnection, name: str, segments: Sequence[Segment]) -> None:
    """Create a view of segments, with whether the key of each record is erased."""
    columns = ", ".join(f'"{column}"' for column in ARROW_SCHEMA.names)
    source = "nothing"
    if segments:
        source = f"read_parquet({duckdb_connection.quote_file_list(segment.path for segment in segments)})"
    else:
        connection.register("nothing", ARROW_SCHEMA.empty_table())
    connection.execute(
        f"CREATE TEMP VIEW {name} AS SELECT {columns}, coalesce(key IN (SELECT key FROM erased), false) AS is_erased "
        f"FROM {source}"
    )


def _create_wanted(connection: duckdb.DuckDBPyConnection, parts: Sequence[ErasedPartition]) -> None:
    places = [(part.partition, offset) for part in parts for offset in part.tombstones]
    table = pa.table(
        {
            "partition": pa.array([number for number, _ in places], pa.int32()),
            "offset": pa.array([offset for _, offset in places], pa.int64()),
        }
    )
    connection.register("asked", table)
    connection.execute("CREATE TEMP TABLE wanted AS SELECT * FROM asked")


_STAYS = '("partition", "offset") IN (SELECT "partition", "offset" FROM wanted)'
_NOTHING = (0, EMPTY_FINGERPRINT, 0)


def _compute(connection: duckdb.DuckDBPyConnection, parts: Sequence[ErasedPartition]) -> Iterator[ErasureFacts]:
    def ask(source: str, condition: str, more: str = "0") -> dict[int, tuple[int, str, int]]:
        rows = connection.execute(
            f'SELECT "partition", count(*), {CONTENT_FINGERPRINT}, {more} FROM {source} WHERE {condition} GROUP BY ALL'
        ).fetchall()
        return {number: (count, fingerprint, further) for number, count, fingerprint, further in rows}

    before, after = ask("before", "NOT is_erased"), ask("after", "NOT is_erased")
    gone = ask("before", "is_erased")
    # What was asked for is a tombstone there, with an empty list of headers.
    made = (
        'SELECT "partition", "offset", "timestamp", "timestampType", key, NULL::BLOB AS value, '
        "coalesce(headers[:0], []) AS headers, is_erased FROM before"
    )
    expected = ask(f"({made})", f"is_erased AND {_STAYS}")
    stayed = ask("after", "is_erased", f"count(*) FILTER (NOT ({_STAYS} AND value IS NULL))")
    newest = dict(
        connection.execute(
            'SELECT "partition", count(*) FROM (SELECT "partition", max("offset") AS "offset" FROM before '
            f'WHERE is_erased GROUP BY "partition", key) WHERE {_STAYS} GROUP BY ALL'
        ).fetchall()
    )
    for part in parts:
        number = part.partition
        others, kept = before.get(number, _NOTHING), after.get(number, _NOTHING)
        erased, left = gone.get(number, _NOTHING), stayed.get(number, _NOTHING)
        wrong = newest.get(number, 0) != len(part.tombstones) or expected.get(number, _NOTHING)[:2] != left[:2]
        yield ErasureFacts(
            partition=number,
            records_before=others[0] + erased[0],
            records_after=kept[0] + left[0],
            keys_left=left[2],
            others_changed=int(others[:2] != kept[:2]),
            tombstones_wrong=int(wrong),
            misfit_segments=sum(_count_misfits(segment, made_of) for segment, made_of in part.pairs),
            records_unaccounted=abs(erased[0] - part.records),
        )


def _count_misfits(replaced: Segment, written: Sequence[Segment]) -> int:
    """Count new segments that are not what the commit would say of them, or do not fit where the old one was."""
    wrong, last = 0, replaced.first_offset - 1
    for segment in written:
        try:
            check_segment_offsets(segment)
        except DamagedSegmentError:
            wrong += 1
            continue
        fits = last < segment.first_offset and segment.last_offset <= replaced.last_offset
        wrong += not (fits and segment.partition == replaced.partition)
        last = segment.last_offset
    return wrong
