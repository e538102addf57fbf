"""The formats without a schema that are one value: bytes as they are, and text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from winnow.schemas.decoder import DecodedBatch, DecodedGroup


class BytesDecoder:
    """Gives every datum as it is, in the field ``""``."""

    def decode(self, datums: pa.Array) -> DecodedBatch:
        """Decode datums; none is wrong."""
        return _make_batch(datums.cast(pa.binary()), {})


class TextDecoder:
    """Reads UTF-8, into the field ``""``."""

    def decode(self, datums: pa.Array) -> DecodedBatch:
        """Decode datums; those that are no UTF-8 are errors."""
        try:
            return _make_batch(datums.cast(pa.string()), {})
        except pa.ArrowInvalid:
            errors: dict[int, str] = {}
            texts = []
            for position, datum in enumerate(datums.to_pylist()):
                try:
                    texts.append(datum.decode())
                except UnicodeDecodeError:
                    errors[position] = "The datum is not UTF-8."
            return _make_batch(pa.array(texts, pa.string()), errors)


def _make_batch(values: pa.Array, errors: dict[int, str]) -> DecodedBatch:
    positions = np.delete(np.arange(len(values) + len(errors)), list(errors))
    rows = pa.StructArray.from_arrays([values], fields=[pa.field("", values.type)])
    return DecodedBatch([DecodedGroup(pa.array(positions, pa.int64()), rows)] if len(values) else [], errors)
