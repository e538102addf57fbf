"""Rejects arriving records without a key, or writes them to the quarantine table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from winnow.config.topic import COMPACT
from winnow.errors import BadInputError
from winnow.files import duckdb_connection
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.log.head import Head
from winnow.log.quarantine import Quarantine
from winnow.log.recorded_configuration import read_kafka_record
from winnow.pipeline.ingest.append import (
    MAXIMUM_OFFSET,
    PreparedSegments,
    build_offset_overflow_error,
    build_order_error,
    convert_to_timestamps,
)
from winnow.pipeline.ingest.spool import Spool, SpooledFile, format_file_numbers
from winnow.values.model import TopicState

MAXIMUM_BATCH_ROWS = 8_192
MAXIMUM_ROWS_PER_APPEND = 50_000
_KEYLESS_CONDITION = "key IS NULL"


def require_keys(topic: str, spool: Spool, taken: Sequence[SpooledFile], head: Head) -> None:
    """Raise if the call has a new record without a key; ``head``: of the log of ``topic``.

    A record below the log end is not new: it is still in the log or was moved to the quarantine, from the time before
    the topic was compacted, and is compared like any other record.

    Raises:
        BadInputError: with file, row, partition and offset of the first, and their number.
    """
    log_ends = {number: partition.log_end_offset for number, partition in head.state.partitions.items()}
    found = spool.find_first_keyless([file.number for file in taken], log_ends)
    if found is None:
        return
    file, row, partition, offset, count = found
    raise build_keyless_error(head, topic, file.path, row, partition, offset, count)


def build_keyless_error(
    head: Head, topic: str, path: str, row: int, partition: int | None, offset: int | None, count: int
) -> BadInputError:
    """Make the error about ``count`` new records without a key; the others describe the first."""
    named = [("partition", partition), ("offset", offset)]
    where = ", ".join(f"{name} {value}" for name, value in named if value is not None)
    return BadInputError(
        f"{path}, row {row}{f' ({where})' if where else ''}: a record without a key; {count} in this call. Topic "
        f"{topic} is compacted, so every record needs a key.",
        left="Nothing of this call landed.",
        next=(
            f"{_describe_policy_at_kafka(head, topic)}To move such records to the quarantine: winnow topics alter "
            f"{topic} --config winnow.keyless=quarantine"
        ),
    )


def _describe_policy_at_kafka(head: Head, topic: str) -> str:
    """Say which policy the topic has at Kafka; empty if it does not come from there."""
    there = read_kafka_record(head.table.properties).get("cleanup.policy")
    if there is None:
        return ""
    text = f"At Kafka its cleanup.policy is {there.value or 'empty'} ({there.origin})"
    if COMPACT in there.value:
        return f"{text}. "
    return f"{text}, so it may have such records; to have that here too: winnow ingest kafka {topic} --sync-config. "


def require_partitions(topic: str, spool: Spool, taken: Sequence[SpooledFile]) -> None:
    """Raise for a record with neither key nor partition, if the topic has no quarantine.

    Raises:
        BadInputError: with file and row of the first.
    """
    row = duckdb_connection.fetch_one_row(
        spool.connection,
        f"""
        SELECT file, row FROM spool
        WHERE partition IS NULL AND file IN {format_file_numbers([file.number for file in taken])}
        ORDER BY "sequence" LIMIT 1
        """,
    )
    if row is not None:
        raise BadInputError(
            f"{spool.files[row[0]].path}, row {row[1]}: a record with neither key nor partition, so its partition in "
            f"topic {topic} is not known.",
            left="Nothing of this call landed.",
            next="Name the partition.",
        )


def check_order(spool: Spool, taken: Sequence[SpooledFile]) -> None:
    """Raise if offsets of keyed and keyless records together do not increase (keyed ones alone are checked on writing).

    Raises:
        BadInputError: with file, row, partition and offset of the first.
    """
    files = format_file_numbers([file.number for file in taken])
    row = duckdb_connection.fetch_one_row(
        spool.connection,
        f"""
        SELECT file, row, partition, "offset", previous FROM (
            SELECT *, lag("offset") OVER (PARTITION BY partition ORDER BY "sequence") AS previous FROM spool
            WHERE "offset" IS NOT NULL AND file IN {files}
              AND partition IN (SELECT partition FROM spool WHERE {_KEYLESS_CONDITION} AND file IN {files})
        ) WHERE "offset" <= previous ORDER BY "sequence" LIMIT 1
        """,
    )
    if row is not None:
        raise build_order_error(spool.files[row[0]].path, *row[1:])


class KeylessRecords:
    """The keyless records of one ingest call, until they are in the quarantine.

    A record's own offset counts as used: the log end moves beyond it, so that ingesting it again changes nothing.
    """

    def __init__(
        self, spool: Spool, state: TopicState, taken: Sequence[SpooledFile], prepared: PreparedSegments
    ) -> None:
        self._spool = spool
        self._state = state
        self._numbers = [file.number for file in taken]
        self._digests = {file.number: file.digest for file in taken}
        self._prepared = prepared

    def skip_known(self) -> None:
        """Move log ends beyond the offsets of quarantined records."""
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
            log_end = self._state.partitions[partition].log_end_offset
            if highest >= log_end:
                self._prepared.log_end[partition] = max(self._prepared.log_end[partition], highest + 1)
            if lowest >= log_end:
                self._prepared.lowest[partition] = min(lowest, self._prepared.lowest.get(partition, lowest))

    def count(self) -> None:
        """Count new and existing records per partition (None: the record names no partition)."""
        for batch in self._spool.stream(_KEYLESS_CONDITION, self._numbers, MAXIMUM_BATCH_ROWS):
            for partition, new in zip(batch.column("partition").to_pylist(), self._is_new(batch), strict=True):
                counted = self._prepared.quarantined if new else self._prepared.skipped
                counted[partition] = counted.get(partition, 0) + 1

    def write(self, quarantine: Quarantine) -> None:
        """Write the new records to the quarantine, invisible until the log's state names this ingest call."""
        rows: list[pa.RecordBatch] = []
        for batch in self._spool.stream(_KEYLESS_CONDITION, self._numbers, MAXIMUM_BATCH_ROWS):
            fresh = batch.filter(pa.array(self._is_new(batch), pa.bool_()))
            if fresh.num_rows:
                rows.append(self._build_rows(fresh))
            if sum(part.num_rows for part in rows) >= MAXIMUM_ROWS_PER_APPEND:
                quarantine.append(pa.Table.from_batches(rows, QUARANTINE_SCHEMA), self._prepared.ingest_id)
                rows = []
        if rows:
            quarantine.append(pa.Table.from_batches(rows, QUARANTINE_SCHEMA), self._prepared.ingest_id)

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
                pa.array([self._prepared.ingest_id] * batch.num_rows, pa.string()),
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
