"""Gives records of files the offsets that their epoch has in the log.

Offsets in files are those at the brokers, and files carry no topic id. If a log has several epochs, whoever ingests
says of which one the files are: guessed wrong, what is old would come back as newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError, UsageError
from winnow.files.record_batch import MAXIMUM_OFFSET
from winnow.sources.input_errors import NOTHING_INGESTED, RecordFault, make_record_error
from winnow.sources.record_input import InputPass, RecordInput
from winnow.sources.topic_filter import TopicFilter
from winnow.values.epochs import Epoch, find_epoch_end
from winnow.values.topic_state import TopicState

LOG_OFFSETS = "log"
"""Says that offsets in files are those of the log, as `winnow read` writes them."""


def choose_epoch(state: TopicState, wanted: str | None, topic_id: str | None) -> int | None:
    """Return the number of the epoch that files are of; None: their offsets are those of the log.

    ``wanted``: what the user said. ``topic_id``: what the files themselves tell, which only a log directory does.

    Raises:
        UsageError: there is no such epoch.
        BadInputError: the log has several epochs, and neither says which.
    """
    epochs = state.epochs
    count = max(1, len(epochs))
    if wanted is not None and wanted != LOG_OFFSETS:
        if not wanted.isdecimal() or not 1 <= int(wanted) <= count:
            numbers = "epoch 1 only" if count == 1 else f"epochs 1 to {count}"
            raise UsageError(f"--epoch takes a number or {LOG_OFFSETS}; topic {state.topic} has {numbers}.")
        return None if count == 1 else int(wanted)
    if wanted == LOG_OFFSETS or count == 1:
        return None
    # Where the brokers lost the end of a partition, two epochs have one id, and which of them it is nobody tells.
    known = [number for number, epoch in enumerate(epochs, 1) if topic_id is not None and epoch.topic_id == topic_id]
    if len(known) == 1:
        return known[0]
    listed = "; ".join(f"{number}: {_describe(each)}" for number, each in enumerate(epochs, 1))
    raise BadInputError(
        f"The log of topic {state.topic} has {count} epochs ({listed}), and files do not tell of which one their "
        "offsets are.",
        left=NOTHING_INGESTED,
        next=f"Say it: --epoch N; or --epoch {LOG_OFFSETS} for files that winnow read wrote.",
    )


def _describe(epoch: Epoch) -> str:
    if epoch.topic_id is None:
        return "from files"
    return f"topic id {epoch.topic_id}"


@dataclass(frozen=True)
class EpochInput:
    """``source`` with the offsets that epoch ``number`` of ``epochs`` has in the log."""

    source: RecordInput
    topic: str
    epochs: Sequence[Epoch]
    number: int

    @property
    def names(self) -> Sequence[str]:
        """The parts by name."""
        return self.source.names

    @property
    def is_ordered(self) -> bool:
        """Whether offsets must increase in the order of the parts."""
        return self.source.is_ordered

    def measure(self, number: int) -> int:
        """Return the stored size of a part in bytes, 0 if it is not known."""
        return self.source.measure(number)

    def open_pass(self, partitions: int) -> EpochPass:
        """Begin to read the parts."""
        epoch = self.epochs[self.number - 1]
        bases = {partition: epoch.get_base(partition) for partition in range(partitions)}
        begins = {partition: epoch.get_begin(partition) for partition in range(partitions)}
        ends = {partition: find_epoch_end(self.epochs, self.number, partition) for partition in range(partitions)}
        return EpochPass(self, self.source.open_pass(partitions), bases, begins, ends)


@dataclass(frozen=True)
class EpochPass:
    """One reading of the parts.

    ``begins``, ``ends``: per partition where the epoch begins and ends in the log, None: it has not ended.
    """

    source: EpochInput
    opened: InputPass
    bases: Mapping[int, int]
    begins: Mapping[int, int]
    ends: Mapping[int, int | None]

    @property
    def records_of(self) -> TopicFilter:
        """Which records are selected."""
        return self.opened.records_of

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of a part with the offsets of the log.

        Raises:
            BadInputError: a record has no offset, or lies outside of its epoch.
        """
        path = self.source.names[number]
        for batch in self.opened.read(number):
            yield self._move(path, batch)

    def finish(self) -> None:
        """Check what can only be known when all parts have been read."""
        self.opened.finish()

    def _move(self, path: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        offsets, partitions = batch.column("offset"), batch.column("partition")
        if offsets.null_count or partitions.null_count:
            raise BadInputError(
                f"{path} has records without an offset: the log of topic {self.source.topic} has epochs of a Kafka "
                "topic, in which they have no place.",
                left=NOTHING_INGESTED,
                next="Ingest them into another topic.",
            )
        numbers = partitions.to_numpy()
        found = np.unique(numbers).tolist()
        bases = np.zeros(max(found, default=0) + 1, np.int64)
        begins, ends = np.zeros(len(bases), np.int64), np.full(len(bases), MAXIMUM_OFFSET, np.int64)
        for partition in found:
            bases[partition], begins[partition] = self.bases.get(partition, 0), self.begins.get(partition, 0)
            end = self.ends.get(partition)
            ends[partition] = MAXIMUM_OFFSET if end is None else end
        moved = offsets.to_numpy() + bases[numbers]
        before = np.flatnonzero(moved < begins[numbers])
        if len(before):
            at = int(before[0])
            partition, offset = int(numbers[at]), offsets[at].as_py()
            fault = RecordFault(
                f"epoch {self.source.number} of topic {self.source.topic} begins at offset "
                f"{int(begins[partition] - bases[partition])} of this partition, where the brokers lost the end of the "
                f"one before: the record is of epoch {self.source.number - 1}",
                "check of which epoch the file is",
                partition,
                offset,
            )
            raise make_record_error(path, "row", batch.column("row")[at].as_py(), fault)
        beyond = np.flatnonzero(moved >= ends[numbers])
        if len(beyond):
            at = int(beyond[0])
            partition, offset = int(numbers[at]), offsets[at].as_py()
            fault = RecordFault(
                f"epoch {self.source.number} of topic {self.source.topic} ended at offset "
                f"{int(ends[partition] - bases[partition])} of this partition, so the record would come back as newest",
                "check of which epoch the file is",
                partition,
                offset,
            )
            raise make_record_error(path, "row", batch.column("row")[at].as_py(), fault)
        place = batch.schema.get_field_index("offset")
        return batch.set_column(place, batch.schema.field(place), pc.cast(pa.array(moved), pa.int64()))
