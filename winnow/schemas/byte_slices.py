"""Parts of byte strings, cut out of a whole array of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.schemas.columns import Positions

Bytes = npt.NDArray[np.uint8]


def view_bytes(datums: pa.Array) -> tuple[Bytes, Positions]:
    """Return the bytes of ``datums`` (of the type binary, none null) one after another, and where each begins and ends.

    There is one place more than datums: the end of the last.
    """
    _, places, data = datums.buffers()
    offsets: npt.NDArray[Any] = np.zeros(1, np.int32)
    if len(datums):
        offsets = np.frombuffer(places, np.int32)[datums.offset : datums.offset + len(datums) + 1]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return held[offsets[0] : offsets[-1]], (offsets - offsets[0]).astype(np.int64)


def cut_slices(data: Bytes, starts: Positions, ends: Positions) -> pa.Array:
    """Return the bytes from each of ``starts`` to its end; each begins behind the end of the one before."""
    if not len(starts):
        return pa.array([], pa.binary())
    # They and what lies between them are one array of Arrow's, of which every second element is wanted.
    offsets = np.column_stack((starts, ends)).astype(np.int32).ravel()
    pieces = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pieces.take(pa.array(np.arange(0, len(offsets), 2)))


def cut_heads(datums: pa.Array, lengths: Positions) -> pa.Array:
    """Return what follows the first ``lengths`` bytes of ``datums``, each of which has as many."""
    data, offsets = view_bytes(datums.cast(pa.binary()))
    return cut_slices(data, offsets[:-1] + lengths, offsets[1:])
