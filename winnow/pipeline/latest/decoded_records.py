"""Shows records decoded: keys and values as JSON, with what the rules of their topic show of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from winnow.errors import UsageError
from winnow.log.typed_schema import read_columns
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoders import compute_shape, open_record_decoder
from winnow.schemas.json_rows import MaskBytes, write_json_rows
from winnow.schemas.record_decoder import RecordDecoder
from winnow.values.typed_columns import Side

DECODED_COLUMNS: Final = {Side.KEY: "decoded_key", Side.VALUE: "decoded_value"}
ERROR_COLUMN: Final = "error"
_BYTES: Final = ("key", "value", "headers")
"""The columns that show what rules hide."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A record as JSON.

    ``key``, ``value``: None where the datum is null, hidden or not decoded, and where its row was deleted. ``error``:
    why one of both could not be decoded, without any byte of it.
    """

    key: bytes | None
    value: bytes | None
    error: str | None


class DecodedReading:
    """Decodes the records of one topic, batch by batch."""

    def __init__(self, decoder: RecordDecoder) -> None:
        self._decoder = decoder

    @property
    def hides(self) -> bool:
        """Whether there are fields that must not be seen; then no bytes of a record may be shown beside it."""
        return self._decoder.hides

    def write(self, records: pa.RecordBatch, mask: MaskBytes | None = None) -> list[DecodedText]:
        """Write ``records`` as JSON, each by its columns ``key`` and ``value``.

        ``mask`` is applied to all texts and bytes in them.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
        decoded = self._decoder.decode(records)
        texts: dict[Side, list[bytes | None]] = {side: [None] * records.num_rows for side in Side}
        for side, groups in decoded.groups.items():
            for group in groups:
                if self.hides and not group.names:
                    continue
                documents = write_json_rows(group.rows, group.names, mask)
                for position, document in zip(group.positions.to_pylist(), documents, strict=True):
                    texts[side][position] = document
        return list(map(DecodedText, texts[Side.KEY], texts[Side.VALUE], decoded.list_errors()))

    def add_columns(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield ``batches`` with columns of JSON behind their own, and without bytes if any field is hidden.

        Raises:
            ServiceError: as :meth:`write`.
        """
        for batch in batches:
            texts = self.write(batch)
            shown = [name for name in batch.schema.names if not (self.hides and name in _BYTES)]
            columns = [
                *map(batch.column, shown),
                _make_json_column(text.key for text in texts),
                _make_json_column(text.value for text in texts),
                pa.array([text.error for text in texts], pa.string()),
            ]
            yield pa.RecordBatch.from_arrays(columns, [*shown, *DECODED_COLUMNS.values(), ERROR_COLUMN])


def _make_json_column(documents: Iterable[bytes | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(documents, pa.string()))


def open_decoded_reading(installation: Installation, topic: str) -> DecodedReading:
    """Open what decodes the records of ``topic``, as for the table of its latest state.

    Raises:
        UsageError: keys and values of the topic are bytes.
        ConfigurationError: a schema cannot be had, or there is no secret for masked fields.
        UnknownTopicError, ForeignTableError, ServiceError: the topic, its table or a schema cannot be read.
    """
    topic_log = installation.log.open(topic)
    shape = topic_log.config(topic_log.head()).row_shape
    if not shape.is_typed:
        raise UsageError(
            f"Keys and values of topic {topic} are bytes: nothing says how they are decoded.",
            next=f"Say what they are: winnow topics alter {topic} --config winnow.value.format=json",
        )
    present = installation.log.latest_table(topic).load()
    reflected = None if present is None else present.reflected
    columns = pa.struct([])
    if present is not None and reflected is not None and reflected.shape == compute_shape(installation, topic, shape):
        columns = read_columns(present.table.schema())
    return DecodedReading(open_record_decoder(installation, topic, shape, columns))
