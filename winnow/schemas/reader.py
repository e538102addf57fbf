"""Reads the datums of one schema: each by itself, together as an array of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.schemas.columns import Positions, Record, build_rows


class DatumError(Exception):
    """A datum that is not what its schema says; its one argument is a sentence that quotes no byte of it."""


Mask = npt.NDArray[np.bool_]
BatchReader = Callable[[pa.Array], tuple[pa.StructArray, Mask]]
"""Makes rows of datums, and says of which of them the row is certain; the others' mean nothing."""


@dataclass(frozen=True, slots=True)
class DatumReader:
    """Reads datums of one schema.

    ``parse`` makes the fields of ``record`` of a datum; it raises DatumError, never anything else. ``read_batch``
    reads many of them faster, those that are like most; None: there is no such reader.
    """

    record: Record
    parse: Callable[[bytes], dict[str, Any]]
    read_batch: BatchReader | None = None


def read_datums(
    reader: DatumReader, datums: pa.Array, positions: Positions
) -> tuple[Positions, pa.StructArray, dict[int, str]]:
    """Read ``datums``, which stand at ``positions``: positions and rows of those that are right, errors by position."""
    if reader.read_batch is None:
        return _read_each(reader, datums.to_pylist(), positions)
    rows, is_certain = reader.read_batch(datums)
    doubtful = np.flatnonzero(~is_certain)
    if not doubtful.size:
        return positions, rows, {}
    kept, others, errors = _read_each(reader, datums.take(pa.array(doubtful)).to_pylist(), positions[doubtful])
    places = np.concatenate((positions[is_certain], kept))
    order = np.argsort(places)
    return places[order], pa.concat_arrays([rows.filter(pa.array(is_certain)), others]).take(pa.array(order)), errors


def _read_each(
    reader: DatumReader, datums: Sequence[bytes], positions: Positions
) -> tuple[Positions, pa.StructArray, dict[int, str]]:
    errors: dict[int, str] = {}
    values = []
    parsed_at = []
    parse = reader.parse
    for position, datum in zip(positions.tolist(), datums, strict=True):
        try:
            values.append(parse(datum))
        except DatumError as error:
            errors[position] = str(error)
        else:
            parsed_at.append(position)
    rows, problems = build_rows(reader.record, values)
    kept = np.array(parsed_at, np.int64)
    if problems:
        for row, path in problems.items():
            errors[parsed_at[row]] = (
                f"The value of {f'the field {path}' if path else 'the datum'} does not fit its type."
            )
        intact = np.ones(len(values), np.bool_)
        intact[list(problems)] = False
        rows, kept = rows.filter(pa.array(intact)), kept[intact]
    return kept, rows, errors
