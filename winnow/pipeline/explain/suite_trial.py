"""Tries a content suite on records that are in the log, before it may block a run: reads a little, and decides nothing.

The newest records of each partition are judged as a run would judge them. Of a record only its offset is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from winnow.errors import UsageError
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.browse import BrowsedPartition, open_partition
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.quality.content_validation import Violations, judge_records, load_content_suite
from winnow.quality.suites import Expectation
from winnow.values.model import Severity

MAXIMUM_RECORDS: Final = 10_000
"""Records that one trial judges, divided among the partitions."""
MAXIMUM_BYTES: Final = 64 << 20
"""Bytes of records in memory that one trial reads, divided likewise; each may exceed its part by a batch."""


@dataclass(frozen=True, slots=True)
class TriedPartition:
    """How many records of a partition were judged; ``is_whole``: these are all of them."""

    partition: int
    records: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class PartitionViolations:
    """How many records of a partition violate an expectation, and the first offsets of them.

    None of both, if it is about a column as a whole.
    """

    partition: int
    records: int
    first_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TriedExpectation:
    """What became of an expectation; ``severity``: what a violation does to a run."""

    id: str
    sentence: str
    severity: Severity
    violations: tuple[PartitionViolations, ...]

    @property
    def is_held(self) -> bool:
        """Whether no record violates it."""
        return not self.violations


@dataclass(frozen=True, slots=True)
class SuiteTrial:
    """The outcome of a trial. ``is_in_force``: this is the suite that the topic names."""

    topic: str
    suite: str
    is_in_force: bool
    partitions: tuple[TriedPartition, ...]
    expectations: tuple[TriedExpectation, ...]

    @property
    def would_block(self) -> bool:
        """Whether a run that wrote these records would be refused."""
        return any(each.severity is Severity.FAIL and not each.is_held for each in self.expectations)


def try_suite(installation: Installation, topic: str, name: str) -> SuiteTrial:
    """Judge the newest records of ``topic`` by the suite ``name``; empty: by the one that the topic names.

    Raises:
        UsageError: neither is a suite named.
        ConfigurationError: there is no such suite, it is not valid, or not row-wise.
        ValidationBrokenError: a check raised instead of judging.
        DamagedSegmentError, RunAgainError: as :meth:`winnow.pipeline.read.browse.BrowsedPartition.read_from`.
    """
    view = load_topic_view(installation, topic)
    own_name = view.config.expectations
    if not (name or own_name):
        raise UsageError(f"The topic {topic} names no content suite.", next="Name the one to try.")
    suite = load_content_suite(name or own_name, installation.settings.expectations)
    count = max(1, len(view.partitions))
    newest = [
        _NewestRecords(open_partition(view, number), max(1, MAXIMUM_RECORDS // count), MAXIMUM_BYTES // count)
        for number in range(len(view.partitions))
    ]
    violations = judge_records(suite, {number: each.read() for number, each in enumerate(newest)})
    return SuiteTrial(
        topic=topic,
        suite=suite.name,
        is_in_force=suite.name == own_name,
        partitions=tuple(each.describe(number) for number, each in enumerate(newest)),
        expectations=tuple(_collect(expectation, violations) for expectation in suite.expectations),
    )


def _collect(expectation: Expectation, violations: dict[int, Violations]) -> TriedExpectation:
    return TriedExpectation(
        expectation.id,
        expectation.sentence,
        expectation.severity,
        tuple(
            PartitionViolations(partition, of.counts[expectation.id], tuple(of.first_offsets[expectation.id]))
            for partition, of in sorted(violations.items())
            if expectation.id in of.first_offsets
        ),
    )


@dataclass
class _NewestRecords:
    """The newest records of a partition, and how many of them were read."""

    browsed: BrowsedPartition
    maximum_records: int
    maximum_bytes: int
    records: int = 0

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield them in offset order until one of the limits is reached."""
        places = self.browsed.list_before(self.browsed.log_end_offset, self.maximum_records)
        if not places:
            return
        left_bytes = self.maximum_bytes
        for batch in self.browsed.read_from(places[0].offset, len(places)):
            if not batch.num_rows:
                continue
            self.records += batch.num_rows
            yield batch
            left_bytes -= batch.nbytes
            if left_bytes <= 0:
                return

    def describe(self, partition: int) -> TriedPartition:
        """Describe what was read."""
        in_log = sum(segment.records for segment in self.browsed.segments)
        return TriedPartition(partition, self.records, self.records >= in_log)
