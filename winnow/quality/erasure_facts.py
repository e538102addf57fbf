"""Computes a second time, by DuckDB from the files, what an erasure made of a topic partition.

The first computation is that of the rewrite, by Arrow (:mod:`winnow.engine.key_erasure`). Rows hold counts and no
fingerprint: that of a single record would let anyone who reads the page try keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from winnow.errors import DamagedSegmentError, ValidationBrokenError
from winnow.files import duckdb_connection
from winnow.files.checked_reading import check_before_duckdb, check_segment_offsets
from winnow.files.fingerprint import CONTENT_FINGERPRINT
from winnow.files.segments import ARROW_SCHEMA
from winnow.quality.fact_table import TaskBudget
from winnow.values.model import Segment

if TYPE_CHECKING:
    import duckdb

NOTHING_ERASED = "Nothing was changed."
_ERASED = "key IN (SELECT key FROM erased)"


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
    topic: str,
    pairs: Sequence[tuple[Segment, Sequence[Segment]]],
    keys: pa.Array,
    *,
    records_erased: int,
    tombstones: Sequence[int],
    budget: TaskBudget,
) -> dict[str, int | str]:
    """Compute the row of one topic partition.

    Args:
        topic: the topic.
        pairs: each segment that held a key, with those that are to take its place.
        keys: what was erased, a binary array.
        records_erased: how many records the rewrite says were of these keys, those that stay as tombstones too.
        tombstones: offsets of the erased records that stay as tombstones.
        budget: limits of the computation.

    Raises:
        DamagedSegmentError: a replaced segment is not what was written.
        ValidationBrokenError: a check could not be carried out.
    """
    replaced = [segment for segment, _ in pairs]
    written = [each for _, after in pairs for each in after]
    check_before_duckdb(topic, [*replaced, *written], ARROW_SCHEMA.names, after=NOTHING_ERASED)
    import duckdb

    try:
        with duckdb_connection.open_connection(
            memory_limit_bytes=budget.memory_limit_bytes,
            threads=budget.threads,
            spill_folder=budget.spill_folder,
            uris=[segment.path for segment in (*replaced, *written)],
        ) as connection:
            connection.register("given", pa.table({"key": keys}))
            connection.execute("CREATE TEMP TABLE erased AS SELECT DISTINCT key FROM given")
            _create_view(connection, "before", replaced)
            _create_view(connection, "after", written)
            facts = _compute(connection, pairs, records_erased, tombstones)
    except duckdb.Error as problem:
        raise ValidationBrokenError(
            f"The erasure of keys of topic {topic} could not be checked ({type(problem).__name__}).",
            left=NOTHING_ERASED,
            next="Run it again.",
        ) from None
    return dict(asdict(facts))


def _create_view(connection: duckdb.DuckDBPyConnection, name: str, segments: Sequence[Segment]) -> None:
    if not segments:
        connection.register("nothing", ARROW_SCHEMA.empty_table())
        connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM nothing")
        return
    files = duckdb_connection.quote_file_list(segment.path for segment in segments)
    columns = ", ".join(f'"{column}"' for column in ARROW_SCHEMA.names)
    connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM read_parquet({files})")


def _compute(
    connection: duckdb.DuckDBPyConnection,
    pairs: Sequence[tuple[Segment, Sequence[Segment]]],
    records_erased: int,
    tombstones: Sequence[int],
) -> ErasureFacts:
    def ask(query: str) -> int | str:
        row = duckdb_connection.fetch_one_row(connection, query)
        assert row is not None
        found: int | str = row[0]
        return found

    before, after = int(ask("SELECT count(*) FROM before")), int(ask("SELECT count(*) FROM after"))
    gone = int(ask(f"SELECT count(*) FROM before WHERE {_ERASED}"))
    fingerprint = f"SELECT {CONTENT_FINGERPRINT} FROM"
    others = f"WHERE key IS NULL OR NOT ({_ERASED})"
    connection.register("asked", pa.table({"offset": pa.array(tombstones, pa.int64())}))
    connection.execute('CREATE TEMP TABLE wanted AS SELECT "offset" FROM asked')
    stays = '"offset" IN (SELECT "offset" FROM wanted)'
    # The newest record of its key is a tombstone there, with an empty list of headers.
    made = (
        'SELECT "partition", "offset", "timestamp", "timestampType", key, NULL::BLOB AS value, '
        "coalesce(headers[:0], []) AS headers FROM before"
    )
    expected = ask(f"{fingerprint} ({made} WHERE {_ERASED} AND {stays})")
    newest = int(
        ask(
            f'SELECT count(*) FROM (SELECT max("offset") AS "offset" FROM before WHERE {_ERASED} GROUP BY key) '
            f"WHERE {stays}"
        )
    )
    tombstones_wrong = int(newest != len(tombstones) or expected != ask(f"{fingerprint} after WHERE {_ERASED}"))
    left = int(ask(f"SELECT count(*) FROM after WHERE {_ERASED} AND NOT ({stays} AND value IS NULL)"))
    stayed = int(ask(f"SELECT count(*) FROM after WHERE {_ERASED}"))
    return ErasureFacts(
        partition=pairs[0][0].partition,
        records_before=before,
        records_after=after,
        keys_left=left,
        others_changed=int(ask(f"{fingerprint} before {others}") != ask(f"{fingerprint} after {others}")),
        tombstones_wrong=tombstones_wrong,
        misfit_segments=sum(_count_misfits(segment, made_of) for segment, made_of in pairs),
        records_unaccounted=abs(gone - records_erased) + abs(before - gone - (after - stayed)),
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
