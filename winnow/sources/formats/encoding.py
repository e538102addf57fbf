"""Text or base64: decided for a field over a whole call, never for a value or an object.

A field (key, value, headers) that an archive holds as text may be the text of the topic or base64 of its bytes. Base64
is taken only if every value of the field in the call is canonical base64 and at least one shows it: it is padded, or is
not UTF-8 when decoded. If none shows it both readings are possible, and the user decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.files.record_batch import make_headers
from winnow.sources.input_errors import RecordFault, make_record_error
from winnow.sources.objects import ArchiveObject, FieldForm, RecordChunk

FIELDS = ("key", "value", "headers")


class Reading(StrEnum):
    """How the text of a field is to be read."""

    TEXT = "text"
    BASE64 = "base64"
    EITHER = "either"
    """Both are possible; the user decides with ``--encoding``."""


_PAD = 64
_INVALID = 255
_QUAD = 4
_ALL_PLAIN = 0x01010101
"""Four bytes that are true."""


def _make_table() -> npt.NDArray[np.uint8]:
    table = np.full(256, _INVALID, np.uint8)
    table[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = range(64)
    table[ord("=")] = _PAD
    return table


_TABLE = _make_table()

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """A text column read as base64. ``decoded``: where a value is not ``canonical``, its bytes are meaningless."""

    decoded: Any
    canonical: Mask
    padded: Mask


def decode_base64(column: Any) -> DecodedColumn:
    """Decode a binary column of base64 text, null for null.

    Canonical means: standard alphabet, padding as it must be, and zeros in the bits left over.
    """
    column = column.cast(pa.binary()) if column.null_count == 0 else column.cast(pa.binary()).fill_null(b"")
    ends, data = _get_buffers(column)
    lengths = np.diff(ends)
    # A value of another length is decoded as empty, so that the quads of the others stay aligned.
    whole = lengths % _QUAD == 0
    if not whole.all():
        data = data[np.repeat(whole, lengths)]
    lengths = np.where(whole, lengths, 0)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    codes = _TABLE[data]
    quads = codes.reshape(-1, _QUAD)
    filled = lengths > 0
    last = ends[1:][filled] // _QUAD - 1
    pads = np.zeros(len(lengths), np.int64)
    third, fourth = quads[last, 2] == _PAD, quads[last, 3] == _PAD
    pads[filled] = np.where(fourth, 1 + third, 0)
    canonical = whole & ~_find_invalid(quads, ends, filled, last, pads)
    decoded = _decode_quads(quads, last, pads[filled])
    sizes = lengths // _QUAD * 3 - pads
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    array = pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(decoded)])
    return DecodedColumn(array, canonical, pads > 0)


def _get_buffers(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where values begin and end, and their bytes."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    first = int(ends[0])
    size = int(ends[-1]) - first
    content = np.frombuffer(data, np.uint8, size, first) if size else np.empty(0, np.uint8)
    return ends - first, content


def _find_invalid(
    quads: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], filled: Mask, last: npt.NDArray[np.int64], pads: Any
) -> Mask:
    """Mark the values that hold another character, padding elsewhere than at their end, or bits left over."""
    plain: Any = quads < _PAD
    plain[last, 3] |= pads[filled] > 0
    plain[last, 2] |= pads[filled] > 1
    # Four flags at a time: reducing along an axis of four is much slower.
    bad_quads = np.ascontiguousarray(plain).view(np.uint32).reshape(-1) != _ALL_PLAIN
    left_over = np.where(pads[filled] == 2, quads[last, 1] & 0b1111, quads[last, 2] & 0b11)  # noqa: PLR2004
    bad_quads[last] |= (pads[filled] > 0) & (left_over != 0)
    invalid = np.zeros(len(filled), np.bool_)
    if bad_quads.any():
        owners = np.searchsorted(ends // _QUAD, np.flatnonzero(bad_quads), side="right") - 1
        invalid[owners] = True
    return invalid


def _decode_quads(
    quads: npt.NDArray[np.uint8], last: npt.NDArray[np.int64], pads: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    six = quads & 0x3F
    three = np.empty((len(quads), 3), np.uint8)
    three[:, 0] = (six[:, 0] << 2) | (six[:, 1] >> 4)
    three[:, 1] = (six[:, 1] << 4) | (six[:, 2] >> 2)
    three[:, 2] = (six[:, 2] << 6) | six[:, 3]
    if not pads.any():
        return three.reshape(-1)
    kept = np.ones((len(quads), 3), np.bool_)
    kept[last, 2] = pads == 0
    kept[last, 1] = pads < 2  # noqa: PLR2004
    return three[kept]


@dataclass(slots=True)
class FieldEvidence:
    """What a call's values of one field look like so far. Those of parts of a call can be added up.

    Neither null nor empty values count: they read the same both ways.
    """

    values: int = 0
    canonical: int = 0
    showing: int = 0
    structured: bool = False

    def add_column(self, column: Any) -> DecodedColumn | None:
        """Count the values of a binary column; return it read as base64, None if it is text for certain."""
        filled = np.asarray(pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)) > 0
        was_text = self.structured or self.canonical < self.values
        count = int(filled.sum())
        self.values += count
        if was_text or self.structured:
            return None
        read = decode_base64(column)
        canonical = int((read.canonical & filled).sum())
        self.canonical += canonical
        showing = int((read.canonical & read.padded).sum())
        if not showing and canonical == count and not self.showing and not _is_utf8(read.decoded):
            showing = 1
        self.showing += showing
        return read

    def add(self, other: FieldEvidence) -> None:
        """Add what was found elsewhere in the call."""
        self.values += other.values
        self.canonical += other.canonical
        self.showing += other.showing
        self.structured |= other.structured

    def decide(self) -> Reading:
        """Return how the field is to be read."""
        if self.structured or self.canonical < self.values:
            return Reading.TEXT
        if self.showing:
            return Reading.BASE64
        return Reading.EITHER if self.values else Reading.TEXT


def _is_utf8(column: Any) -> bool:
    """Check whether each value of a binary column is UTF-8."""
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


@dataclass(slots=True)
class EncodingEvidence:
    """The evidence for the fields of a call."""

    fields: dict[str, FieldEvidence] = field(default_factory=lambda: {name: FieldEvidence() for name in FIELDS})

    def add_chunk(self, archive: ArchiveObject, chunk: RecordChunk) -> dict[str, DecodedColumn | None]:
        """Collect from ``chunk`` what the fields of ``archive`` that may be text or base64 look like.

        Return these fields read as base64, None for those that are text for certain.
        """
        decoded: dict[str, DecodedColumn | None] = {}
        for name, form in archive.forms.items():
            if form is FieldForm.TEXT_OR_BASE64:
                found = self.fields[name]
                found.structured |= name in chunk.structured
                decoded[name] = found.add_column(get_values(chunk, name))
        return decoded

    def add(self, other: EncodingEvidence) -> None:
        """Add what was found elsewhere in the call."""
        for name, found in other.fields.items():
            self.fields[name].add(found)

    def decide(self) -> dict[str, Reading]:
        """Return how each field is to be read."""
        return {name: found.decide() for name, found in self.fields.items()}


def get_values(chunk: RecordChunk, name: str) -> Any:
    """Return the values of a field of ``chunk``: of ``headers`` those of all headers, without their records."""
    column = chunk.records.column(name)
    return column.flatten().field("value") if name == "headers" else column


def decode_fields(
    archive: ArchiveObject,
    chunk: RecordChunk,
    readings: dict[str, Reading],
    known: Mapping[str, DecodedColumn | None] | None = None,
) -> RecordChunk:
    """Return ``chunk`` with the fields decoded that are base64 by ``readings``; ``archive`` says which are text at all.

    ``known``: fields that are decoded already.

    Raises:
        BadInputError: a value is no canonical base64, though the user said that the field is.
    """
    records = chunk.records
    for name, form in archive.forms.items():
        if form is not FieldForm.TEXT_OR_BASE64 or readings.get(name) is not Reading.BASE64:
            continue
        if name in chunk.structured:
            raise _make_encoding_error(archive, chunk, name, 0)
        read = (known or {}).get(name) or decode_base64(get_values(chunk, name))
        decode = _decode_headers if name == "headers" else _decode_field
        decoded = decode(archive, chunk, name, read)
        records = records.set_column(records.schema.get_field_index(name), records.schema.field(name), decoded)
    return replace(chunk, records=records)


def _decode_field(archive: ArchiveObject, chunk: RecordChunk, name: str, read: DecodedColumn) -> Any:
    column = chunk.records.column(name)
    if not read.canonical.all():
        raise _make_encoding_error(archive, chunk, name, int(np.argmin(read.canonical)))
    return _restore_nulls(read.decoded, column)


def _decode_headers(archive: ArchiveObject, chunk: RecordChunk, _: str, read: DecodedColumn) -> Any:
    headers = chunk.records.column("headers")
    flat = headers.flatten()
    values = flat.field("value")
    counts = np.asarray(headers.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    if not read.canonical.all():
        owners = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
        raise _make_encoding_error(archive, chunk, "headers", int(owners[np.argmin(read.canonical)]))
    return make_headers(counts, flat.field("key"), _restore_nulls(read.decoded, values))


def _restore_nulls(decoded: Any, column: Any) -> Any:
    if not column.null_count:
        return decoded
    return pc.if_else(column.is_valid(), decoded, pa.scalar(None, pa.binary()))


def _make_encoding_error(archive: ArchiveObject, chunk: RecordChunk, name: str, index: int) -> Exception:
    records = chunk.records
    fault = RecordFault(
        f"{'a value of its headers' if name == 'headers' else 'its ' + name} is not base64",
        f"read the field as it is with --encoding {name}=text",
        partition=records.column("partition")[index].as_py(),
        offset=records.column("offset")[index].as_py(),
    )
    return make_record_error(archive.uri, "record", records.column("row")[index].as_py(), fault)
