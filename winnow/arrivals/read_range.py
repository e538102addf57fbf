"""Reads the objects of one range of a distributed ingest: the records in the range, and what the objects hold.

Each object is accounted for by one task (:class:`winnow.values.ingest_plans.IngestRange`): that task notes its digests,
offsets and number of records. From objects of other ranges only the records in the range are taken.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.arrivals.erased_records import ErasedRecords
from winnow.arrivals.plan import count_evidence, open_planned_input
from winnow.engine.task_resources import Throttle
from winnow.sources.archive import ArchiveInput, ArchivePass
from winnow.sources.formats.encoding import Reading
from winnow.sources.formats.parquet import read_footer_offsets
from winnow.sources.record_input import ReadAgainError
from winnow.sources.slice_digests import SliceDigests
from winnow.sources.topic_filter import TopicFilter
from winnow.values.ingest_plans import IngestPlan, IngestRange, ObjectFacts, OffsetExtent, PlannedObject, TaskFindings
from winnow.values.model import OffsetRange


class LackingOffsetError(Exception):
    """A record has no offset: only one process can give it the next one."""


class MisreadFieldError(Exception):
    """A field is text for certain that the plan reads as base64. Its argument is the name of the field."""


class ObjectReader:
    """Reads objects of a plan one after another and notes what they hold. A context manager.

    Args:
        plan: the plan.
        objects: the planned objects by number.
        own: numbers of those that are accounted for here.
        throttle: waits for the bytes of each object.
        hashes: whether digests are computed.
    """

    def __init__(
        self,
        plan: IngestPlan,
        objects: Mapping[int, PlannedObject],
        own: Sequence[int],
        throttle: Throttle,
        *,
        hashes: bool = True,
    ) -> None:
        self._plan = plan
        self._objects = objects
        self._own = frozenset(own)
        self._throttle = throttle
        self._hashes = hashes
        self._hashing = OrderedWorker()
        self._sources: dict[bool, tuple[ArchiveInput, ArchivePass]] = {}
        self._places: dict[int, int] = {}
        for is_own in (True, False):
            chosen = [planned for number, planned in sorted(objects.items()) if (number in self._own) is is_own]
            source = open_planned_input(plan, chosen)
            self._sources[is_own] = source, source.open_pass(plan.partition_count)
            self._places |= {planned.number: place for place, planned in enumerate(chosen)}
        self._facts: dict[int, ObjectFacts] = {}
        self.current = min(objects, default=0)

    def __enter__(self) -> Self:
        self._hashing.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hashing.__exit__(kind, error, trace)

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the selected records of an object, whatever their range.

        Raises:
            BadInputError: as :meth:`winnow.sources.record_input.InputPass.read`.
            LackingOffsetError: a record has no offset.
            MisreadFieldError: the plan reads a field otherwise than it has to be.
        """
        self.current = number
        is_own = number in self._own
        source, opened = self._sources[is_own]
        self._throttle.take(self._objects[number].size_bytes)
        digests = SliceDigests()
        extents: dict[int, OffsetExtent] = {}
        records = 0
        try:
            for batch in opened.read(self._places[number]):
                if batch.column("offset").null_count or batch.column("partition").null_count:
                    raise LackingOffsetError
                if is_own:
                    records += batch.num_rows
                    _note_extents(extents, batch)
                    if self._hashes:
                        self._hashing.put(digests.update, batch)
                yield batch
        except ReadAgainError:
            raise MisreadFieldError(_find_misread_field(self._plan, source)) from None
        if is_own:
            self._hashing.settle()
            slices = {part: digest for part, digest in digests.digests().items() if part is not None}
            self._facts[number] = ObjectFacts(
                number, records, extents, slices, digests.file_digest() if self._hashes else ""
            )

    def survey_footer(self, number: int) -> bool:
        """Note the offsets of an object's records if its footer tells them; return whether it does.

        They may include those of records that are not selected.
        """
        planned = self._objects[number]
        value = planned.parts.get("value")
        if value is None:
            return False
        told = read_footer_offsets(value.uri, planned.partition, self._plan.partition_count)
        if told is None:
            return False
        extents = {partition: OffsetExtent(first, last) for partition, (first, last) in told.items()}
        self._facts[number] = ObjectFacts(number, 0, extents)
        return True

    def collect_findings(self) -> TaskFindings:
        """Return what the objects hold that are accounted for here, once all of them are read."""
        findings = self._sources[True][1].get_findings()
        return TaskFindings(
            objects=tuple(self._facts[number] for number in sorted(self._own)),
            evidence=count_evidence(findings.evidence),
            empty_values=findings.empty_values,
            deletions=findings.deletions,
            left_out=findings.left_out,
            rendered=tuple(sorted(findings.rendered)),
        )


def _note_extents(extents: dict[int, OffsetExtent], batch: pa.RecordBatch) -> None:
    partitions = batch.column("partition").to_numpy()
    offsets = batch.column("offset").to_numpy()
    for partition in np.unique(partitions).tolist():
        placed = offsets[partitions == partition]
        known = extents.get(partition, OffsetExtent(int(placed[0]), int(placed[0])))
        extents[partition] = OffsetExtent(min(known.first, int(placed.min())), max(known.last, int(placed.max())))


def _find_misread_field(plan: IngestPlan, source: ArchiveInput) -> str:
    return next(
        name
        for name, reading in plan.readings.items()
        if reading == Reading.BASE64.value and source.readings.get(name) is Reading.TEXT
    )


class RangeReader:
    """Reads the records of one range from its objects, without old copies of erased keys.

    Args:
        plan: the plan, which has that range alone.
        reader: reads its objects.
        erased: what is left out; None: no key was erased.
    """

    def __init__(self, plan: IngestPlan, reader: ObjectReader, erased: ErasedRecords | None) -> None:
        self._range = plan.ranges[0]
        self._paths = {planned.number: planned.uri for planned in plan.objects}
        self._reader = reader
        self._erased = erased
        self.left_out: Counter[int] = Counter()

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of an object in the range; :attr:`left_out` counts the others of the range by object.

        Raises:
            BadInputError: as :meth:`ObjectReader.read`, or whether a record of an erased key is old cannot be told.
            LackingOffsetError, MisreadFieldError: as :meth:`ObjectReader.read`.
        """
        for batch in self._reader.read(number):
            selected = select_range(batch, self._range.partition, self._range.offsets)
            if self._erased is not None and selected.num_rows:
                kept = self._erased.remove(selected, self._paths[number])
                self.left_out[number] += selected.num_rows - kept.num_rows
                selected = kept
            if selected.num_rows:
                yield selected


def select_range(batch: pa.RecordBatch, partition: int, offsets: OffsetRange) -> pa.RecordBatch:
    """Return the records of ``batch`` that are of ``partition`` and within ``offsets``."""
    column = batch.column("offset")
    inside = pc.and_(
        pc.equal(batch.column("partition"), partition),
        pc.and_(pc.greater_equal(column, offsets.start), pc.less(column, offsets.end)),
    )
    return batch if pc.all(inside).as_py() else batch.filter(inside)


class RangeInput:
    """The records in a range as the input of a spool, object by object; its file numbers are places in ``numbers``."""

    is_ordered = False

    def __init__(self, plan: IngestPlan, planned: IngestRange, reading: RangeReader) -> None:
        self._reading = reading
        self.records_of = TopicFilter(plan.topic, plan.source_topic)
        self.numbers = sorted({*planned.objects, *planned.reaching})
        paths = {obj.number: obj.uri for obj in plan.objects}
        self.names = [paths[number] for number in self.numbers]

    def measure(self, number: int) -> int:
        """Return 0: nobody follows the progress."""
        return number * 0

    def open_pass(self, _partitions: int) -> RangeInput:
        """Begin to read; once only."""
        return self

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of an object that are in the range."""
        return self._reading.read(self.numbers[number])

    def finish(self) -> None:
        """Check nothing: the application is asked as a whole."""


MAXIMUM_WAITING_CALLS = 3
"""Maximum calls that a worker queues, each with a batch in memory."""


class OrderedWorker:
    """One thread for calls that release Python's lock: hashing, compressing, writing. A context manager.

    An exception of a call is raised by a later :meth:`put` or by :meth:`settle`; calls after it may have run. Leaving
    the block waits for the running call and cancels the others.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[Any]] = deque()

    def __enter__(self) -> OrderedWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def put(self, call: Callable[..., object], *arguments: object) -> None:
        """Queue ``call``; waits while :data:`MAXIMUM_WAITING_CALLS` calls are pending."""
        while len(self._waiting) >= MAXIMUM_WAITING_CALLS:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(call, *arguments))

    def settle(self) -> None:
        """Wait until all queued calls are done."""
        while self._waiting:
            self._waiting.popleft().result()
