"""Decodes the keys and values of records into rows of what the rules of their topic show.

The table of the latest state and every reading that shows decoded records go through this, so what rules hide is
hidden in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.schemas.column_names import name_rows
from winnow.schemas.debezium import unwrap_payload, unwrap_rows
from winnow.schemas.decoder import DecodedBatch, DecodedGroup, Decoder
from winnow.schemas.framing import FramedDecoder
from winnow.schemas.header_ids import find_header_ids
from winnow.schemas.masks import list_shown_fields, mask_row_type, mask_rows
from winnow.schemas.row_types import merge_row_types
from winnow.values.latest_fields import FieldRules
from winnow.values.row_shape import Envelope
from winnow.values.typed_columns import Side

_NO_CHANGE: Final = "It is no change of a row in Debezium's envelope."

Mask = npt.NDArray[np.bool_]
RowTypes = tuple[tuple[Side, pa.StructType], ...]
"""The types of the rows in a batch, with the datum that they are of: none is masked yet, columns are named."""


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """Keys or values of one row type, as the rules show them.

    ``positions``: int64, where in the batch they stand. ``rows``: named as columns of a table. ``names``: of the same
    fields, as they were written; ``""`` where the datum is no record of fields.
    """

    positions: pa.Array
    rows: pa.StructArray
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """A decoded batch. ``errors``: sentences by position, without any byte of the record.

    ``deleted``: which records say that their row was deleted.
    """

    groups: Mapping[Side, Sequence[ShownGroup]]
    errors: Mapping[Side, Mapping[int, str]]
    deleted: Mask

    def list_errors(self) -> list[str | None]:
        """List what is wrong with each record: with its key, else with its value; None: nothing."""
        errors: list[str | None] = [None] * len(self.deleted)
        for side in (Side.KEY, Side.VALUE):
            for position, sentence in self.errors[side].items():
                errors[position] = f"{side.value}: {sentence}" if errors[position] is None else errors[position]
        return errors


class RecordDecoder:
    """Decodes records of one topic.

    ``key``, ``value``: decode them. ``known``: all fields of the topic that are known, or the columns that its table
    has. ``rules``: which fields are shown, and how, with ``secret``. ``envelope``: what is around the row in a value;
    ``event_fields``: what of it the rows have, too.
    """

    def __init__(
        self,
        key: Decoder,
        value: Decoder,
        *,
        known: pa.StructType,
        rules: FieldRules,
        secret: bytes | None,
        envelope: Envelope = Envelope.NONE,
        event_fields: Sequence[str] = (),
    ) -> None:
        self._decoders = {Side.KEY: key, Side.VALUE: value}
        self._fields = known
        self._rules = rules
        self._secret = secret
        self._envelope = envelope
        self._event_fields = event_fields

    @property
    def fields(self) -> pa.StructType:
        """All fields of the topic that are known so far, not masked."""
        return self._fields

    @property
    def hides(self) -> bool:
        """Whether there are fields that must not be seen; then bytes and headers must not be seen either."""
        return self._rules.hides

    @property
    def drops_rows(self) -> bool:
        """Whether a record can be no row: one that says that its row was deleted."""
        return self._envelope is not Envelope.NONE

    def decode(self, records: pa.RecordBatch) -> DecodedRecords:
        """Decode the columns ``key`` and ``value`` of ``records``; what is null there is in no group.

        The column ``headers`` is only looked at where it may name schemas.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
        decoded, deleted = self._decode(records)
        groups = {side: self._show_groups(decoded[side].groups, side) for side in (Side.VALUE, Side.KEY)}
        return DecodedRecords(groups, {side: decoded[side].errors for side in Side}, deleted)

    def read_types(self, records: pa.RecordBatch) -> RowTypes:
        """Decode ``records``, and return the types of what would be rows: :meth:`note_types` takes them.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
        decoded, _ = self._decode(records)
        return tuple(
            (side, name_rows(group.rows, side).type)
            for side in (Side.VALUE, Side.KEY)
            for group in decoded[side].groups
        )

    def note_types(self, types: Iterable[pa.StructType]) -> None:
        """Take note of fields that there are: by a rule's other names one that was renamed is hidden, too."""
        if self._rules.hides:
            for row_type in types:
                self._fields = merge_row_types(self._fields, row_type)

    def mask_type(self, row_type: pa.StructType) -> pa.StructType:
        """Return the type of rows of ``row_type`` as the rules show them."""
        return mask_row_type(row_type, self._rules, self._fields)

    def _decode(self, records: pa.RecordBatch) -> tuple[dict[Side, DecodedBatch], Mask]:
        decoded = {side: _decode_present(self._decoders[side], records, side) for side in Side}
        deleted = np.zeros(records.num_rows, np.bool_)
        if self.drops_rows:
            decoded = {
                Side.KEY: _unwrap_keys(decoded[Side.KEY]),
                Side.VALUE: _unwrap_values(decoded[Side.VALUE], deleted, self._event_fields),
            }
        return decoded, deleted

    def _show_groups(self, groups: Sequence[DecodedGroup], side: Side) -> list[ShownGroup]:
        named = [(group, name_rows(group.rows, side)) for group in groups]
        self.note_types(rows.type for _, rows in named)
        return [
            ShownGroup(
                group.positions,
                self._mask(rows),
                tuple(
                    group.rows.type.field(number).name
                    for number in list_shown_fields(rows.type, self._rules, self._fields)
                ),
            )
            for group, rows in named
        ]

    def _mask(self, rows: pa.StructArray) -> pa.StructArray:
        return mask_rows(rows, self._rules, self._secret, self._fields)


def _decode_present(decoder: Decoder, records: pa.RecordBatch, side: Side) -> DecodedBatch:
    datums = records.column(side.value)
    headers = records.column("headers")
    if not datums.null_count:
        return _decode_datums(decoder, datums, headers, side)
    is_present = datums.is_valid()
    present = np.flatnonzero(is_present.to_numpy(zero_copy_only=False))
    decoded = _decode_datums(decoder, datums.drop_null(), headers.filter(is_present), side)
    places = pa.array(present, pa.int64())
    groups = [DecodedGroup(places.take(group.positions), group.rows) for group in decoded.groups]
    return DecodedBatch(groups, {int(present[position]): text for position, text in decoded.errors.items()})


def _decode_datums(decoder: Decoder, datums: pa.Array, headers: pa.Array, side: Side) -> DecodedBatch:
    if isinstance(decoder, FramedDecoder):
        return decoder.decode(datums, find_header_ids(headers, side))
    return decoder.decode(datums)


def _unwrap_keys(batch: DecodedBatch) -> DecodedBatch:
    groups = [DecodedGroup(group.positions, unwrap_payload(group.rows)) for group in batch.groups]
    return DecodedBatch(groups, batch.errors)


def _unwrap_values(batch: DecodedBatch, deleted: Mask, event_fields: Sequence[str]) -> DecodedBatch:
    """Take rows out of their envelopes, and note in ``deleted`` what deletes one."""
    groups, errors = [], dict(batch.errors)
    for group in batch.groups:
        unwrapped = unwrap_rows(group.rows, event_fields)
        deleted[group.positions.take(unwrapped.deleted).to_numpy()] = True
        errors.update(dict.fromkeys(group.positions.take(unwrapped.others).to_pylist(), _NO_CHANGE))
        if len(unwrapped.rows):
            groups.append(DecodedGroup(group.positions.take(unwrapped.positions), unwrapped.rows))
    return DecodedBatch(groups, errors)
