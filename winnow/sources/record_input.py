"""What an ingest call reads: named parts in order, each a sequence of record batches, as often as needed.

An input may be read several times: once straight into segments, and once into a spool if that is not possible. Each
reading is a *pass*, with counters of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from winnow.files import storage
from winnow.sources.layouts.winnow.files import read_file
from winnow.sources.topic_filter import TopicFilter


class ReadAgainError(Exception):
    """What was assumed when the input was read does not hold: read it again. Never leaves the ingest."""


class InputPass(Protocol):
    """One reading of an input."""

    @property
    def records_of(self) -> TopicFilter:
        """Which records are selected, and how many of other topics were left out so far."""

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of part ``number``, of :data:`winnow.files.record_batch.RECORD_SCHEMA`.

        Raises:
            BadInputError: the part cannot be read or holds something that is not a record.
            ReadAgainError: the input has to be read again.
        """

    def finish(self) -> None:
        """Check what can only be known when all parts have been read.

        Raises:
            BadInputError: the input as a whole is not understood.
            ReadAgainError: the input has to be read again.
        """


class RecordInput(Protocol):
    """The input of one ingest call."""

    @property
    def names(self) -> Sequence[str]:
        """The parts by name, for messages."""

    @property
    def is_ordered(self) -> bool:
        """Whether offsets must increase in the order of the parts; else they are sorted and repeats are left out."""

    def measure(self, number: int) -> int:
        """Return the stored size of part ``number`` in bytes, 0 if it is not known."""

    def open_pass(self, partitions: int) -> InputPass:
        """Begin to read the parts for a topic of ``partitions`` partitions."""


class FilesInput:
    """Files of Winnow's own layout, in the order given."""

    is_ordered = True

    def __init__(self, topic: str, paths: Sequence[str], source_topic: str | None = None) -> None:
        self._topic = topic
        self._source_topic = source_topic
        self.names = paths

    def measure(self, number: int) -> int:
        """Return the size of a file."""
        return storage.read_size_bytes(self.names[number]) or 0

    def open_pass(self, partitions: int) -> FilesPass:
        """Begin to read the files."""
        return FilesPass(self.names, TopicFilter(self._topic, self._source_topic), partitions)


class FilesPass:
    """One reading of files."""

    def __init__(self, paths: Sequence[str], records_of: TopicFilter, partitions: int) -> None:
        self._paths = paths
        self.records_of = records_of
        self._partitions = partitions

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of a file."""
        return read_file(
            self._paths[number], topic=self.records_of.topic, partitions=self._partitions, records_of=self.records_of
        )

    def finish(self) -> None:
        """Check nothing: each file says all itself."""
