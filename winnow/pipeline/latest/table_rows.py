"""Reads a few rows of a topic's typed table of the latest state: by their place in a partition, or that of a key.

Only what the topic's present rules show is read: a table that was made by other rules is none until its next update.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import RunAgainError
from winnow.files.typed_files import OFFSET_COLUMN, read_typed_rows
from winnow.log.typed_schema import build_arrow_schema, is_typed, read_columns
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoders import compute_shape
from winnow.schemas.row_types import find_side
from winnow.values.model import Segment
from winnow.values.typed_columns import Side, SystemColumn

_HIDDEN: Final = (SystemColumn.RAW, SystemColumn.RAW_KEY, SystemColumn.HEADERS)
"""Columns that are not read: what could not be decoded is shown beside the log's records."""
_ROWS_PER_BATCH: Final = 16
_OFFSETS_PER_BATCH: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class LatestRows:
    """The rows of one snapshot of a typed table.

    ``schema``: of what is read, columns of the key first. ``columns``: those of the topic, with their former names.
    ``reflected_ms``: the time of the log's snapshot that they show. ``files``: those of each partition, in the order in
    which their rows are counted.
    """

    topic: str
    schema: pa.Schema
    columns: pa.StructType
    reflected_ms: int
    files: dict[int, tuple[Segment, ...]]

    def count(self, partition: int) -> int:
        """Return how many rows a partition has."""
        return sum(file.records for file in self.files.get(partition, ()))

    def read(self, partition: int, start: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition`` from number ``start`` on, in small batches.

        Raises:
            DamagedSegmentError: a file is damaged.
            RunAgainError: a file was deleted meanwhile.
        """
        for file in self.files.get(partition, ()):
            if start >= file.records:
                start -= file.records
                continue
            yield from self._read_file(file, self.schema, _ROWS_PER_BATCH, start)
            start = 0

    def find(self, partition: int, offsets: Collection[int]) -> pa.RecordBatch | None:
        """Return the row of a record at one of ``offsets``, None if there is none; raises as :meth:`read`."""
        wanted = pa.array(sorted(offsets), pa.int64())
        column = pa.schema([self.schema.field(OFFSET_COLUMN)])
        for file in self.files.get(partition, ()):
            if not any(file.first_offset <= offset <= file.last_offset for offset in offsets):
                continue
            row = 0
            for batch in self._read_file(file, column, _OFFSETS_PER_BATCH):
                places = _find_places(batch, wanted)
                if places:
                    return next(islice(self._read_file(file, self.schema, 1, row + places[0]), 1))
                row += batch.num_rows
        return None

    def _read_file(
        self, file: Segment, schema: pa.Schema, rows_per_batch: int, start: int = 0
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_typed_rows(file.path, schema, rows_per_batch, start)
        except FileNotFoundError as problem:
            raise RunAgainError(
                f"A file of the table of {self.topic} was deleted while it was being read.",
                next="Ask again: the newest snapshot is read then.",
            ) from problem


def _find_places(batch: pa.RecordBatch, wanted: pa.Array) -> Sequence[int]:
    places: list[int] = pc.indices_nonzero(pc.is_in(batch.column(OFFSET_COLUMN), value_set=wanted)).to_pylist()
    return places


def open_latest_rows(installation: Installation, topic: str) -> LatestRows | str:
    """Open the rows of the topic's typed table; if there are none to show, return a sentence that says why.

    Raises:
        UnknownTopicError, ForeignTableError, DamagedMetadataError, ServiceError: topic or table cannot be read.
        ConfigurationError: there is no secret for masked fields.
    """
    topic_log = installation.log.open(topic)
    shape = topic_log.config(topic_log.head()).row_shape
    if not shape.is_typed:
        return (
            f"Keys and values of topic {topic} are bytes, so its latest state has no columns. Say what they are: "
            f"winnow topics alter {topic} --config winnow.value.format=json"
        )
    latest_table = installation.log.latest_table(topic)
    present = latest_table.load()
    update = f"winnow latest-table update {topic}"
    if present is None or present.reflected is None or not is_typed(present.table.schema()):
        return f"The table of the latest state of topic {topic} is not written yet: {update}"
    if present.reflected.shape != compute_shape(installation, topic, shape):
        return (
            f"The configuration of topic {topic} says since the table's last update what else its rows show: {update}"
        )
    schema = present.table.schema()
    columns = read_columns(schema)
    from_key = {field.name for field in columns if find_side(field) is Side.KEY}
    fields = sorted(build_arrow_schema(schema), key=lambda field: field.name not in from_key)
    shown = pa.schema([field for field in fields if field.name not in _HIDDEN])
    return LatestRows(topic, shown, columns, present.reflected.committed_ms, latest_table.segments(present))
