"""Ranges of offsets at the brokers: read as an input in this process, or by a task into segment files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from winnow.arrivals.erased_records import ErasedRecords
from winnow.arrivals.read_range import OrderedWorker
from winnow.arrivals.write_range import RangeWriter
from winnow.engine.task_resources import Throttle
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.sources.slice_digests import SliceDigests
from winnow.sources.topic_filter import TopicFilter
from winnow.values.epochs import LeaderEpoch
from winnow.values.ingest_plans import IngestPlan, ObjectFacts, OffsetExtent, RangeResult, TaskFindings

BROKERS_CHOICE = "bootstrap-servers"
"""The name of the brokers among the choices of a plan and of a ledger."""


def find_broker_range(plan: IngestPlan) -> BrokerRange:
    """Return what the only range of ``plan`` is at the brokers."""
    whole = plan.ranges[0]
    planned = next(obj for obj in plan.objects if obj.number == whole.objects[0])
    assert planned.first_offset is not None
    base = whole.offsets.start - planned.first_offset
    topic = plan.source_topic or plan.topic
    return BrokerRange(topic, whole.partition, planned.first_offset, whole.offsets.end - base, base, whole.after)


def copy_broker_range(
    plan: IngestPlan,
    number: int,
    folder: str,
    throttle: Throttle,
    client_properties: Mapping[str, str],
    *,
    follow: Callable[[int], None] | None = None,
    erased: ErasedRecords | None = None,
) -> RangeResult:
    """Write the committed records of the only range of ``plan`` below ``folder``; nothing refers to the files.

    ``number``: that of the range in the whole plan. ``follow``: called with the records that were read so far.
    ``erased``: what is left out of them; None: no key was erased.

    Raises:
        BadInputError: whether a record of an erased key is old cannot be told.
        TruncatedRangeError: the brokers deleted records of the range meanwhile.
        ServiceError: they cannot be reached.
    """
    planned = plan.ranges[0]
    place = planned.objects[0]
    name = next(obj.uri for obj in plan.objects if obj.number == place)
    writer = RangeWriter(plan, planned, folder)
    digests = SliceDigests()
    settings = ClientSettings(plan.choices[BROKERS_CHOICE], client_properties)
    extents: dict[int, OffsetExtent] = {}
    records = 0
    try:
        # Digests and Parquet are computed without Python's lock, beside the reading.
        with RangeReader(settings) as reader, OrderedWorker() as hashing, OrderedWorker() as writing:
            for batch in reader.read(find_broker_range(plan)):
                hashing.put(digests.update, batch)
                kept = batch if erased is None else erased.remove(batch, name)
                if kept.num_rows:
                    writing.put(writer.write, np.full(kept.num_rows, place), kept)
                first, last = batch.column("offset")[0].as_py(), batch.column("offset")[-1].as_py()
                extents[planned.partition] = OffsetExtent(
                    extents.get(planned.partition, OffsetExtent(first, 0)).first, last
                )
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
    facts = ObjectFacts(place, records, extents, slices, digests.file_digest())
    return RangeResult(
        number,
        TaskFindings((facts,), {}),
        records=writer.records,
        segments=segments,
        appended_objects=tuple(sorted(writer.numbers)),
        keyless=writer.keyless,
        leader_epochs=leader_epochs,
        erased={} if erased is None else {place: erased.total},
    )


class KafkaInput:
    """The ranges of one call, one after another. ``check``: raises if they are not of the planned topic any more.

    ``leader_epochs``: of the records that were read, per range by its place.
    """

    is_ordered = True

    def __init__(
        self, settings: ClientSettings, topic: str, ranges: Sequence[BrokerRange], check: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.topic = topic
        self.ranges = ranges
        self.check = check
        self.leader_epochs: dict[int, tuple[LeaderEpoch, ...]] = {}
        self.names = [f"Kafka's {part}" for part in ranges]

    def measure(self, number: int) -> int:
        """Return the number of offsets of a range: brokers do not tell bytes."""
        return self.ranges[number].end - self.ranges[number].start

    def list_leader_epochs(self) -> dict[int, tuple[LeaderEpoch, ...]]:
        """List the leader epochs of the records that were read, per partition."""
        return {self.ranges[number].partition: observed for number, observed in self.leader_epochs.items()}

    def open_pass(self, partitions: int) -> KafkaPass:
        """Begin to read the ranges."""
        assert all(part.partition < partitions for part in self.ranges)
        return KafkaPass(self)


class KafkaPass:
    """One reading of the ranges."""

    def __init__(self, source: KafkaInput) -> None:
        self._source = source
        self.records_of = TopicFilter(source.topic)

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the committed records of a range.

        Raises:
            TruncatedRangeError: the brokers deleted records of it meanwhile.
            ServiceError: they cannot be reached.
        """
        with RangeReader(self._source.settings) as reader:
            yield from reader.read(self._source.ranges[number])
            self._source.leader_epochs[number] = reader.leader_epochs

    def finish(self) -> None:
        """Check that the records were of the planned topic: it may have been created again meanwhile."""
        self._source.check()
