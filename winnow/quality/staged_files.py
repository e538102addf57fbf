"""Reading the staged files of one topic partition once, in full, and noting everything that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from winnow.errors import BadInputError
from winnow.files.segment_figures import FileFigures, Offsets
from winnow.model import Segment
from winnow.quality import reading


@dataclass(slots=True)
class StagedFigures:
    """What the staged files of one topic partition turned out to be."""

    unreadable_files: int = 0
    mismatched_files: int = 0
    wrong_partition: int = 0
    order_violations: int = 0
    bytes_read: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Lowest and highest offset of each file that held a record."""

    def add(self, other: StagedFigures) -> None:
        """Take in the figures of further files."""
        self.unreadable_files += other.unreadable_files
        self.mismatched_files += other.mismatched_files
        self.wrong_partition += other.wrong_partition
        self.order_violations += other.order_violations
        self.bytes_read += other.bytes_read
        self.spans += other.spans


def read_staged_files(
    segments: Iterable[Segment],
    partition: int,
    *,
    threads: int,
    each: Callable[[Segment, pa.RecordBatch, Offsets], None],
) -> StagedFigures:
    """Read every staged file to its end, calling ``each`` with every batch.

    A file that is missing, damaged or unlike its manifest entry is counted, not raised.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    found = StagedFigures()
    for segment in segments:
        figures = FileFigures()
        try:
            for batch in reading.read_batches(segment.path, threads=threads):
                each(segment, batch, figures.add(batch, partition))
        except BadInputError:
            found.unreadable_files += 1
        else:
            size_bytes = reading.read_size_bytes(segment.path)
            found.bytes_read += size_bytes or 0
            if size_bytes != segment.size_bytes or segment.partition != partition or not figures.agrees_with(segment):
                found.mismatched_files += 1
        found.wrong_partition += figures.wrong_partition
        found.order_violations += figures.order_violations
        if figures.lowest_offset is not None and figures.highest_offset is not None:
            found.spans.append((figures.lowest_offset, figures.highest_offset))
    return found
