"""Reads the latest state of a topic: of each key the winning record, unless it is a tombstone.

The winner is the greatest by the topic's present strategy over clean section and dirty head, so the answer is that of a
compaction of everything up to the log end. Keys meet within one topic partition only, as in Kafka.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa

from winnow.engine.latest_records import read_latest_records
from winnow.engine.read_plans import ReadKind, ReadPart, ReadPlan
from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import UsageError
from winnow.log.namespaces import CATALOG_NAME
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.pipeline.latest.sql import LatestQuery
from winnow.pipeline.latest.state import build_partition_plan, explain_scan_errors, get_present_order
from winnow.pipeline.latest.value_columns import ValueColumn, ValueReader
from winnow.pipeline.read.key_scan import KeyScan, find_segment
from winnow.pipeline.read.records import read_log_segment
from winnow.pipeline.topics.topic_view import TopicView, load_topic_view
from winnow.planning.cleanable import PartitionLog


def read_latest_batches(
    installation: Installation,
    topic: str,
    *,
    partition: int | None = None,
    key: bytes | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the latest records of ``topic``, in offset order per partition, in batches of the segments' schema.

    ``key``: only of this one, in each partition that holds it. ``limit`` counts records over all partitions.

    Raises:
        UsageError: the topic has no such partition.
        DamagedSegmentError: a segment is missing or cannot be read.
        RunAgainError: a segment was swept meanwhile.
        ServiceError: the object store does not answer, or disk or memory are exhausted.
    """
    view = load_topic_view(installation, topic)
    order = get_present_order(view.rules)
    remaining = limit
    for log in choose_partition_logs(view, partition):
        if remaining == 0:
            return
        batches = read_partition_latest(installation, view.log, log, order, key)
        for batch in batches:
            part = batch if remaining is None else batch.slice(0, remaining)
            yield part
            if remaining is not None:
                remaining -= part.num_rows
                if remaining == 0:
                    return


def plan_latest(view: TopicView, partition: int | None = None, columns: Sequence[str] = ()) -> ReadPlan:
    """Plan the reading of the latest records of all partitions, or of one, each by itself.

    ``columns``: those of records that are written; none: all.

    Raises:
        UsageError: the topic has no such partition.
    """
    parts = [
        ReadPart(number, build_partition_plan(log), sum(segment.size_bytes for segment in log.segments))
        for number, log in enumerate(choose_partition_logs(view, partition))
    ]
    order = get_present_order(view.rules)
    topic = view.log.topic
    return ReadPlan(uuid.uuid4().hex, topic, ReadKind.LATEST, tuple(parts), order=order, columns=tuple(columns))


def choose_partition_logs(view: TopicView, partition: int | None) -> tuple[PartitionLog, ...]:
    """Return the logs of all partitions, or of one.

    Raises:
        UsageError: there is no such partition.
    """
    last = len(view.partitions) - 1
    if partition is None:
        return view.partitions
    if not 0 <= partition <= last:
        raise UsageError(f"Topic {view.log.topic} has partitions 0 to {last}; there is no partition {partition}.")
    return (view.partitions[partition],)


def read_partition_latest(
    installation: Installation, topic_log: TopicLog, log: PartitionLog, order: RecordOrder, key: bytes | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the latest records of one partition, or that of ``key``. Raises as :func:`read_latest_batches`."""
    if not log.segments:
        return
    with explain_scan_errors(topic_log, log):
        if key is None:
            yield from read_latest_records(build_partition_plan(log), order, installation.budget)
            return
        with KeyScan(log, [] if order.header is None else [order.header], installation.budget) as scan:
            scan.find(key, lambda _: None)
            offset = scan.find_winner(order, log.state.log_end_offset)
        segment = None if offset is None else find_segment(log.segments, offset)
        if segment is None or offset is None:
            return
        for batch in read_log_segment(topic_log, segment, offset, 1):
            winner = batch.slice(0, 1)
            if not winner.column("value").null_count:
                yield winner
            return


def make_state_schema(values: ValueReader | None) -> pa.Schema:
    """Make the schema of the batches of :func:`select_state`."""
    given = [pa.field("value", pa.binary())] if values is None else list(values.fields)
    return pa.schema(
        [
            pa.field("partition", pa.int32()),
            pa.field("key", pa.binary()),
            *given,
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        ]
    )


def select_state(batches: Iterator[pa.RecordBatch], values: ValueReader | None) -> Iterator[pa.RecordBatch]:
    """Yield partition, key, value (with ``values``: its typed columns), offset and timestamp of the latest records."""
    schema = make_state_schema(values)
    for batch in batches:
        given = [batch.column("value")] if values is None else values.read(batch.column("value"))
        columns = [batch.column("partition"), batch.column("key"), *given, batch.column("offset")]
        yield pa.RecordBatch.from_arrays([*columns, batch.column("timestamp")], schema=schema)


def choose_table(engine: SqlEngine, namespace: str, topic: str) -> tuple[str, ...]:
    """Return the name of a topic's table where the settings are those of :mod:`winnow.pipeline.connect.connect`."""
    return {SqlEngine.DUCKDB: (topic,), SqlEngine.CLICKHOUSE: (namespace, topic)}.get(
        engine, (CATALOG_NAME, namespace, topic)
    )


def build_query(view: TopicView, table: tuple[str, ...], columns: Sequence[ValueColumn] = ()) -> LatestQuery:
    """Build the query for the latest state of the topic of ``view``, whose table the engine knows as ``table``.

    It holds the log starts of partitions whose oldest segment begins below them, as after ``topics delete-records``.
    """
    starts = {
        log.partition: log.state.log_start_offset
        for log in view.partitions
        if log.segments and log.segments[0].first_offset < log.state.log_start_offset
    }
    return LatestQuery(table, get_present_order(view.rules), starts, columns)
