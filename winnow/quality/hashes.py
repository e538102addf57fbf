"""64-bit hashes of records as NumPy arrays, and fingerprints added up from them.

Fingerprints must be those of the rewrite, so the hash is the same function of the same library
(:mod:`winnow.files.fingerprint`). What is made of the hashes is not: the rewrite aggregates and joins in SQL over files
that DuckDB reads; here Arrow has read the records, DuckDB sees one batch at a time and hashes it, and NumPy does the
rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    import duckdb

Hashes = npt.NDArray[np.uint64]

KEY_HASH = "hash(key)"
"""Tells keys apart but for collisions: whoever finds something by it looks again at the key bytes."""
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def hash_records(connection: duckdb.DuckDBPyConnection, batch: pa.RecordBatch, *expressions: str) -> list[Hashes]:
    """One array a hash expression, in the order of the records; ``batch`` has the columns that they name."""
    if batch.num_rows == 0:
        return [np.empty(0, dtype=np.uint64) for _ in expressions]
    columns = ", ".join(f"{expression} AS h{number}" for number, expression in enumerate(expressions))
    connection.register("records", batch)
    try:
        found = connection.execute(f"SELECT {columns} FROM records").fetchnumpy()
    finally:
        connection.unregister("records")
    return [found[f"h{number}"] for number in range(len(expressions))]


class HashFingerprint:
    """The running ``count:sum:xor`` of :mod:`winnow.files.fingerprint`; batches may be cut anywhere."""

    def __init__(self) -> None:
        self._count = 0
        self._total = 0
        self._xor = np.uint64(0)

    def add(self, hashes: Hashes) -> None:
        """Take in the hashes of further records, fewer than 2**32."""
        self._count += len(hashes)
        # The halves of 2**32 numbers cannot overflow 64 bits.
        self._total += (int((hashes >> _HALF).sum()) << 32) + int((hashes & _LOW).sum())
        self._xor ^= np.bitwise_xor.reduce(hashes)

    def __str__(self) -> str:
        return f"{self._count}:{self._total}:{int(self._xor)}"
