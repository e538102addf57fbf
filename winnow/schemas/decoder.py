"""What every format of keys and values does: bytes in, rows of typed columns out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DecodedGroup:
    """Datums of one batch that have one row type: those of one schema.

    ``positions``: int64, where in the batch they stand. ``rows``: their rows in that order, none of them null. A datum
    that is no record of fields is a row with the single field ``""``.
    """

    positions: pa.Array
    rows: pa.StructArray


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A decoded batch: every position is in one group, or in ``errors`` with a sentence that quotes no byte of it."""

    groups: Sequence[DecodedGroup]
    errors: Mapping[int, str] = field(default_factory=dict)


class Decoder(Protocol):
    """Decodes the datums of one format."""

    def decode(self, datums: pa.Array) -> DecodedBatch:
        """Decode ``datums``, bytes without nulls.

        A field's metadata in the groups' types may have ``aliases``: its former names, separated by commas.

        Raises:
            ServiceError: a registry that is needed does not answer.
        """
