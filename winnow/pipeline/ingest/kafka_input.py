"""Ranges of offsets at the brokers as the input of an ingest call, read in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.sources.topic_filter import TopicFilter
from winnow.values.epochs import LeaderEpoch


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
        self.names = [f"Kafka's {each}" for each in ranges]

    def measure(self, number: int) -> int:
        """Return the number of offsets of a range: brokers do not tell bytes."""
        return self.ranges[number].end - self.ranges[number].start

    def list_leader_epochs(self) -> dict[int, tuple[LeaderEpoch, ...]]:
        """List the leader epochs of the records that were read, per partition."""
        return {self.ranges[number].partition: observed for number, observed in self.leader_epochs.items()}

    def open_pass(self, partitions: int) -> KafkaPass:
        """Begin to read the ranges."""
        assert all(each.partition < partitions for each in self.ranges)
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
