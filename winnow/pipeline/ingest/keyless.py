"""Writes arriving records without a key to the quarantine table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from winnow.arrivals.spool import Spool, SpooledFile, format_file_numbers
from winnow.arrivals.write_range import (
    MAXIMUM_OFFSET,
    NO_PARTITION,
    PartitionResult,
    build_offset_overflow_error,
    convert_to_timestamps,
)
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.log.quarantine import Quarantine
from winnow.pipeline.ingest.judge import _KEYLESS_CONDITION
from winnow.values.topic_state import TopicState

MAXIMUM_BATCH_ROWS = 8_192
MAXIMUM_ROWS_PER_APPEND = 50_000


class KeylessRecords:
    """The keyless records of one ingest call, until they are in the quarantine.

    A record's own offset counts as used: the log end moves beyond it, so that ingesting it again changes nothing.
    """

    def __init__(self, spool: Spool, state: TopicState, taken: Sequence[SpooledFile], ingest_id: str) -> None:
        self._spool = spool
        self._state = state
        self._numbers = [file.number for file in taken]
        self._digests = {file.number: file.digest for file in taken}
        self._ingest_id = ingest_id

    def add_to(self, results: dict[int, PartitionResult]) -> None:
        """Move log ends beyond the offsets of the records, and count new and existing ones."""
        self._move_ends(results)
        for batch in self._spool.stream(_KEYLESS_CONDITION, self._numbers, MAXIMUM_BATCH_ROWS):
            partitions = batch.column("partition").fill_null(NO_PARTITION).to_pylist()
            for (partition, is_new), count in Counter(zip(partitions, self._is_new(batch), strict=True)).items():
                result = results.get(partition, PartitionResult())
                quarantined, skipped = (count, 0) if is_new else (0, count)
                results[partition] = replace(
                    result, quarantined=result.quarantined + quarantined, skipped=result.skipped + skipped
                )

    def _move_ends(self, results: dict[int, PartitionResult]) -> None:
        files = format_file_numbers(self._numbers)
        rows = self._spool.connection.execute(
            f"""
            SELECT partition, min("offset"), max("offset"), arg_max(file, "offset"), arg_max(row, "offset") FROM spool
            WHERE {_KEYLESS_CONDITION} AND "offset" IS NOT NULL AND file IN {files} GROUP BY partition
            """
        ).fetchall()
        for partition, lowest, highest, file, row in rows:
            if highest > MAXIMUM_OFFSET:
                raise build_offset_overflow_error(self._spool.files[file].path, row, partition, highest)
            if highest >= self._state.partitions[partition].log_end_offset:
                results[partition] = results[partition].extend(lowest, highest + 1)

    def write(self, quarantine: Quarantine) -> None:
        """Write the new records to the quarantine, invisible until the log's state names this ingest call."""
        rows: list[pa.RecordBatch] = []
        for batch in self._spool.stream(_KEYLESS_CONDITION, self._numbers, MAXIMUM_BATCH_ROWS):
            fresh = batch.filter(pa.array(self._is_new(batch), pa.bool_()))
            if fresh.num_rows:
                rows.append(self._build_rows(fresh))
            if sum(part.num_rows for part in rows) >= MAXIMUM_ROWS_PER_APPEND:
                quarantine.append(pa.Table.from_batches(rows, QUARANTINE_SCHEMA), self._ingest_id)
                rows = []
        if rows:
            quarantine.append(pa.Table.from_batches(rows, QUARANTINE_SCHEMA), self._ingest_id)

    def _is_new(self, batch: pa.RecordBatch) -> list[bool]:
        """Return which records of ``batch`` are new: those below the log end were compared and exist already."""
        states = self._state.partitions
        coordinates = zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
        return [
            offset is None or partition is None or offset >= states[partition].log_end_offset
            for partition, offset in coordinates
        ]

    def _build_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                pa.array([self._ingest_id] * batch.num_rows, pa.string()),
                pa.array([self._digests[number] for number in batch.column("file").to_pylist()], pa.string()),
                batch.column("row"),
                batch.column("partition"),
                batch.column("offset"),
                convert_to_timestamps(batch.column("timestamp")),
                batch.column("timestampType"),
                batch.column("key"),
                batch.column("value"),
                batch.column("headers").cast(QUARANTINE_SCHEMA.field("headers").type),
            ],
            schema=QUARANTINE_SCHEMA,
        )
