"""Files of typed rows that are distributed by the values of further columns than the topic partition.

How many are open at a time, and what they hold, is limited, however many places there are; each is in offset order, or
in the order in which sorted rows come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from winnow.files.typed_files import TypedFileWriter
from winnow.values.model import Segment

MAXIMUM_OPEN_FILES: Final = 256
"""Maximum open files of a writer; before another one is opened, the one that waits longest for rows is closed."""
MAXIMUM_HELD_BYTES: Final = 64 << 20
"""Maximum Arrow bytes of rows that wait to be written; above it the largest share is written."""

PlaceValues = tuple[Any, ...]
"""The values of a table's partition fields behind the topic partition, the same for all rows of a file."""
Bounds = Mapping[int, tuple[Any, Any]]
"""Minimum and maximum of columns by field id; not of those that are null throughout."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """What a manifest says of a file beyond a segment's figures. Of user's data, so it belongs into no log.

    ``is_sorted``: rows are in the order that the table declares, not in that of offsets.
    """

    values: PlaceValues = field(repr=False)
    bounds: Bounds = field(default_factory=dict, repr=False)
    is_sorted: bool = False


class RowPlacement(Protocol):
    """Tells which rows go into one file. ``places``: of files by their path."""

    @property
    def places(self) -> dict[str, FilePlace]:
        """The place of each file that is there or was written."""

    @property
    def is_sorted(self) -> bool:
        """Whether rows come in another order than that of offsets."""

    def split(self, rows: pa.RecordBatch) -> Iterable[tuple[PlaceValues, pa.RecordBatch]]:
        """Split ``rows`` by their place; each part is in the order of before."""

    def measure(self, rows: pa.RecordBatch) -> Bounds:
        """Measure the bounds of the columns that decide."""

    def list_columns(self, schema: pa.Schema) -> list[str]:
        """List the columns of ``schema`` that decide, as Parquet names them."""

    def require_few_files(self, partition: int, files: int) -> None:
        """Raise an error if that many files are too many for one topic partition."""


class PlacedFileWriter:
    """Writes rows of one topic partition, in the order in which they come, into files of one place each.

    A file has about ``file_bytes`` or less. The places of its files are added to those of ``placement``.
    """

    def __init__(
        self, placement: RowPlacement, *, partition: int, file_bytes: int, name: Callable[[], str], below: str
    ) -> None:
        self._placement = placement
        self._partition = partition
        self._file_bytes = file_bytes
        self._name = name
        self._below = below
        self._writers: dict[PlaceValues, TypedFileWriter] = {}
        """The one that got rows last is last."""
        self._finished: list[Segment] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, whose offsets are above all written before, unless they are sorted in another way.

        Raises:
            ValueError: they are not.
            ConfigurationError: there are too many files.
        """
        for values, rows in self._placement.split(batch):
            writer = self._writers.pop(values, None) or self._open(values)
            self._writers[values] = writer
            writer.write(rows)
        self._release()
        self._placement.require_few_files(self._partition, len(self._finished) + len(self._writers))

    def finish(self) -> tuple[Segment, ...]:
        """Close the open files and return all by their first offset; they are complete, but not synced yet."""
        for values in list(self._writers):
            self._close(values)
        return tuple(sorted(self._finished, key=lambda segment: segment.first_offset))

    def abandon(self) -> list[str]:
        """Close the open files early and return the URIs of everything written, for the caller to remove."""
        uris = [segment.path for segment in self._finished]
        for writer in self._writers.values():
            uris += writer.abandon()
        return uris

    def _open(self, values: PlaceValues) -> TypedFileWriter:
        return TypedFileWriter(
            partition=self._partition,
            file_bytes=self._file_bytes,
            name=self._name,
            below=self._below,
            list_columns=self._placement.list_columns,
            measure=self._placement.measure,
            note=lambda uri, bounds: self._placement.places.update(
                {uri: FilePlace(values, bounds, self._placement.is_sorted)}
            ),
            is_sorted=self._placement.is_sorted,
        )

    def _close(self, values: PlaceValues) -> None:
        # It stays among the open ones until it is closed, so that what it wrote is removed if that fails.
        self._finished += self._writers[values].finish()
        del self._writers[values]

    def _release(self) -> None:
        held = {values: writer.held_bytes for values, writer in self._writers.items()}
        total_bytes = sum(held.values())
        for values in sorted(held, key=lambda values: -held[values]):
            if total_bytes <= MAXIMUM_HELD_BYTES:
                break
            self._writers[values].flush()
            total_bytes -= held[values]
        opened = [values for values, writer in self._writers.items() if writer.has_open_file]
        for values in opened[: max(0, len(opened) - MAXIMUM_OPEN_FILES)]:
            self._close(values)
