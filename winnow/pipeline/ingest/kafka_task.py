"""The work of one task of an ingest from Kafka: the records of one range of offsets into segment files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from winnow.engine.task_resources import Throttle
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.ingest.range_task import RangeWriter
from winnow.pipeline.ingest.stream import OrderedWorker
from winnow.sources.slice_digests import SliceDigests
from winnow.values.ingest_plans import IngestPlan, ObjectFacts, OffsetExtent, RangeResult, TaskFindings

BROKERS_CHOICE = "bootstrap-servers"
"""The name of the brokers among the choices of a plan and of a ledger."""


def find_broker_range(plan: IngestPlan) -> BrokerRange:
    """Return what the only range of ``plan`` is at the brokers."""
    mine = plan.ranges[0]
    planned = next(each for each in plan.objects if each.number == mine.objects[0])
    assert planned.first_offset is not None
    base = mine.offsets.start - planned.first_offset
    topic = plan.source_topic or plan.topic
    return BrokerRange(topic, mine.partition, planned.first_offset, mine.offsets.end - base, base, mine.after)


def copy_broker_range(
    plan: IngestPlan,
    number: int,
    folder: str,
    throttle: Throttle,
    client_properties: Mapping[str, str],
    *,
    follow: Callable[[int], None] | None = None,
) -> RangeResult:
    """Write the committed records of the only range of ``plan`` below ``folder``; nothing refers to the files.

    ``number``: that of the range in the whole plan. ``follow``: called with the records that were read so far.

    Raises:
        TruncatedRangeError: the brokers deleted records of the range meanwhile.
        ServiceError: they cannot be reached.
    """
    mine = plan.ranges[0]
    own = mine.objects[0]
    writer = RangeWriter(plan, mine, folder)
    digests = SliceDigests()
    settings = ClientSettings(plan.choices[BROKERS_CHOICE], client_properties)
    extents: dict[int, OffsetExtent] = {}
    records = 0
    try:
        # Digests and Parquet are computed without Python's lock, beside the reading.
        with RangeReader(settings) as reader, OrderedWorker() as hashing, OrderedWorker() as writing:
            for batch in reader.read(find_broker_range(plan)):
                hashing.put(digests.update, batch)
                writing.put(writer.write, np.full(batch.num_rows, own), batch)
                first, last = batch.column("offset")[0].as_py(), batch.column("offset")[-1].as_py()
                extents[mine.partition] = OffsetExtent(extents.get(mine.partition, OffsetExtent(first, 0)).first, last)
                throttle.take(batch.nbytes)
                records += batch.num_rows
                if follow is not None:
                    follow(records)
            leader_epochs = reader.leader_epochs
            hashing.settle()
            writing.settle()
        segments = writer.finish()
    except BaseException:
        writer.abandon()
        raise
    slices = {partition: digest for partition, digest in digests.digests().items() if partition is not None}
    facts = ObjectFacts(own, writer.records, extents, slices, digests.file_digest())
    return RangeResult(
        number,
        TaskFindings((facts,), {}),
        records=writer.records,
        segments=segments,
        appended_objects=tuple(sorted(writer.numbers)),
        keyless=writer.keyless,
        leader_epochs=leader_epochs,
    )
