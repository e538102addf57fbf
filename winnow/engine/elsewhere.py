"""Keys that sit in another partition than Kafka's default partitioner would choose now.

A topic that grew keeps its old records where they are, so two partitions may hold a key since, and a compaction of one
of them leaves both. Counting says how many survivors that may concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from winnow.files.duck import file_list
from winnow.files.murmur import partitions_for_keys
from winnow.model import Segment

if TYPE_CHECKING:
    import duckdb

BATCH_ROWS = 65_536


def count_elsewhere(
    connection: duckdb.DuckDBPyConnection, segments: Sequence[Segment], partition: int, partitions: int
) -> int:
    """How many keys of the table ``survivors`` Kafka's default partitioner would put elsewhere among ``partitions``.

    Reads key and offset of ``segments`` once more. Says nothing of producers with a partitioner of their own.
    """
    if not segments:
        return 0
    relation = connection.sql(
        f"""
        SELECT key FROM read_parquet({file_list(segment.path for segment in segments)})
        WHERE "offset" IN (SELECT "offset" FROM survivors)
        """
    )
    found = 0
    for batch in relation.to_arrow_reader(BATCH_ROWS):
        if batch.num_rows:
            found += int(np.count_nonzero(partitions_for_keys(batch.column("key"), partitions) != partition))
    return found
