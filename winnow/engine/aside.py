"""Keyless records that leave the log: copied into files of the quarantine, so that no compaction drops one silently.

They are left from before the topic's policy was switched to compact. Kafka deletes them at the first cleaning that
covers them and counts them as invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from winnow.errors import WinnowError
from winnow.files.duck import quote_file_list
from winnow.files.quarantine import QUARANTINE_SCHEMA, QuarantineWriter, locate_keyless_move_file, make_keyless_move_id
from winnow.model import PartitionPlan, Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

KEYLESS_BATCH_ROWS = 16_384
_KEYLESS_COLUMNS = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def copy_keyless_records(
    connection: duckdb.DuckDBPyConnection,
    plan: Plan,
    partition: PartitionPlan,
    attempt: str,
    folder: str,
    *,
    written: Callable[[int], None] = lambda _: None,
) -> tuple[str, ...]:
    """Copy the readable keyless records of the planned segments; the URIs of the files, none when there were none.

    The rows bear the attempt, which the staging manifest names; the files rest in ``folder``, since a retried task of
    the same attempt writes its own. Only segments whose manifest entry counts keyless records are read. ``written`` is
    told the bytes of each batch.

    Raises:
        WinnowError: there are keyless records and the plan names no place for them.
    """
    holding = [segment for segment in partition.segments if segment.keyless]
    if not holding:
        return ()
    location = plan.quarantine_location
    if location is None:
        raise WinnowError(
            f"{plan.topic}-{partition.partition} holds records without a key, and plan {plan.plan_id} names no place "
            "to keep them aside. Nothing was dropped or published. Run it again: the next plan names one."
        )
    columns = ", ".join(f'"{name}"' for name in _KEYLESS_COLUMNS)
    relation = connection.sql(
        f"""
        SELECT {columns} FROM read_parquet({quote_file_list(segment.path for segment in holding)})
        WHERE key IS NULL AND "offset" >= {partition.log_start_offset}
          AND "offset" < {partition.next_first_dirty_offset}
        """
    )

    def name(number: int) -> str:
        return locate_keyless_move_file(location, plan.plan_id, folder, partition.partition, number)

    with QuarantineWriter(file_bytes=plan.segment_bytes, name=name) as writer:
        for batch in relation.to_arrow_reader(KEYLESS_BATCH_ROWS):
            rows = _build_quarantine_rows(batch, make_keyless_move_id(plan.plan_id, attempt))
            written(rows.nbytes)
            writer.write(rows)
        return writer.finish()


def _build_quarantine_rows(batch: pa.RecordBatch, ingest_id: str) -> pa.RecordBatch:
    count = batch.num_rows
    columns = [
        pa.array([ingest_id] * count, pa.string()),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.int64()),
        *(batch.column(name).cast(QUARANTINE_SCHEMA.field(name).type) for name in _KEYLESS_COLUMNS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=QUARANTINE_SCHEMA)
