"""Keys that sit in another partition than Kafka's default partitioner would choose now.

A topic that grew keeps its old records where they are, so two partitions may hold a key since, and a compaction of one
of them leaves both. Counting says how many survivors that may concern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from winnow.engine.survivors import build_survivors_sql
from winnow.engine.winners import KeyShare, build_share_condition
from winnow.files.murmur import choose_partitions
from winnow.model import PartitionPlan

if TYPE_CHECKING:
    import duckdb

KEY_BATCH_ROWS = 65_536


def count_misplaced_keys(
    connection: duckdb.DuckDBPyConnection, plan: PartitionPlan, partitions: int, share: KeyShare | None = None
) -> int:
    """How many surviving keys of ``share`` Kafka's default partitioner would put elsewhere among ``partitions``.

    Reads key and offset of all segments once more. Says nothing of producers with a partitioner of their own.
    """
    if not plan.segments:
        return 0
    uris = [segment.path for segment in plan.segments]
    survivors = build_survivors_sql(connection, uris, plan.log_start_offset, plan.segments[-1].last_offset)
    relation = connection.sql(f"SELECT key {survivors} WHERE key IS NOT NULL{build_share_condition(share)}")
    found = 0
    for batch in relation.to_arrow_reader(KEY_BATCH_ROWS):
        if batch.num_rows:
            found += int(np.count_nonzero(choose_partitions(batch.column("key"), partitions) != plan.partition))
    return found
