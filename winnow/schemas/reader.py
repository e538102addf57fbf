"""Reads the datums of one schema: each by itself, together as an array of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.schemas.columns import Positions, Record, build_rows


class DatumError(Exception):
    """A datum that is not what its schema says; its one argument is a sentence that quotes no byte of it."""


@dataclass(frozen=True, slots=True)
class DatumReader:
    """Reads datums of one schema.

    ``parse`` makes the fields of ``record`` of a datum; it raises DatumError, never anything else.
    """

    record: Record
    parse: Callable[[bytes], dict[str, Any]]


def read_datums(
    reader: DatumReader, datums: Sequence[bytes], positions: Positions
) -> tuple[Positions, pa.StructArray, dict[int, str]]:
    """Read ``datums``, which stand at ``positions``: positions and rows of those that are right, errors by position."""
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
