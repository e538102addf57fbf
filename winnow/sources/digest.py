"""The identity of what a file brings: one digest per topic partition, whatever the format and however it was cut up.

Several streams per partition are hashed side by side, each in record order: the numbers of every record with the
lengths of its bytes, the bytes of all keys, those of all values, and the same for headers. Records that are cut up
elsewhere make the same streams, so it changes nothing; lengths and counts make the whole decodable, so different
records never do.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SLICE = b"winnow slice 1\n"
_FILE = b"winnow file 1\n"
_NULL = -1
"""Stands for null among numbers and lengths, which are all from 0 on."""
_RECORD = np.dtype([(name, "<i8") for name in ("offset", "timestamp", "kind", "key", "value", "headers")])
_HEADER = np.dtype([(name, "<i8") for name in ("key", "value")])
_STREAMS = ("records", "keys", "values", "headers", "header keys", "header values")


class SliceDigests:
    """Running SHA-256 digests over batches of :data:`winnow.sources.arriving.ARRIVING`, per topic partition.

    Row numbers do not count, and neither does how records of different partitions lie between one another.
    """

    def __init__(self) -> None:
        self._slices: dict[int | None, _Slice] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the next records of the file."""
        if not batch.num_rows:
            return
        partitions = batch.column("partition").fill_null(_NULL).to_numpy(zero_copy_only=False)
        if (np.diff(partitions) < 0).any():
            order = np.argsort(partitions, kind="stable")
            batch, partitions = batch.take(pa.array(order)), partitions[order]
        cuts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(cuts):
            number = int(partitions[start])
            mine = self._slices.setdefault(None if number == _NULL else number, _Slice())
            mine.update(batch.slice(start, end - start))

    def digests(self) -> dict[int | None, str]:
        """SHA-256 (hex) of every partition's records so far; None: keyless records that name no partition."""
        return {partition: mine.digest().hex() for partition, mine in self._sorted()}

    def file_digest(self) -> str:
        """SHA-256 (hex) over all partitions: equal exactly when every partition's records are."""
        whole = hashlib.sha256(_FILE)
        for partition, mine in self._sorted():
            number = _NULL if partition is None else partition
            whole.update(np.array([number, mine.records], "<i8").tobytes() + mine.digest())
        return whole.hexdigest()

    def _sorted(self) -> list[tuple[int | None, _Slice]]:
        return sorted(self._slices.items(), key=lambda item: _NULL if item[0] is None else item[0])


class _Slice:
    """The streams of one topic partition."""

    __slots__ = ("_streams", "records")

    def __init__(self) -> None:
        self.records = 0
        self._streams = {name: hashlib.sha256() for name in _STREAMS}

    def update(self, batch: pa.RecordBatch) -> None:
        numbers = np.empty(batch.num_rows, _RECORD)
        numbers["offset"] = _integers(batch.column("offset"))
        numbers["timestamp"] = _integers(batch.column("timestamp"))
        numbers["kind"] = _integers(batch.column("timestampType"))
        numbers["key"] = self._bytes("keys", batch.column("key"))
        numbers["value"] = self._bytes("values", batch.column("value"))
        headers = batch.column("headers")
        numbers["headers"] = _integers(pc.list_value_length(headers))
        self._streams["records"].update(numbers.view(np.uint8).data)
        self.records += batch.num_rows
        flat = headers.flatten()
        if len(flat):
            lengths = np.empty(len(flat), _HEADER)
            lengths["key"] = self._bytes("header keys", flat.field("key"))
            lengths["value"] = self._bytes("header values", flat.field("value"))
            self._streams["headers"].update(lengths.view(np.uint8).data)

    def _bytes(self, stream: str, column: Any) -> npt.NDArray[np.int64]:
        """Feed the bytes of ``column`` to ``stream``; their lengths, with null told from empty."""
        lengths = _integers(pc.binary_length(column))
        if column.null_count:
            # The place of a null may hold bytes that are nobody's.
            column = column.drop_null()
        if len(column):
            ends = np.frombuffer(column.buffers()[1], np.int32)
            start, end = int(ends[column.offset]), int(ends[column.offset + len(column)])
            if end > start:
                self._streams[stream].update(memoryview(column.buffers()[2])[start:end])
        return lengths

    def digest(self) -> bytes:
        whole = hashlib.sha256(_SLICE + np.array([self.records], "<i8").tobytes())
        for name in _STREAMS:
            whole.update(self._streams[name].digest())
        return whole.digest()


def _integers(column: Any) -> npt.NDArray[np.int64]:
    return np.asarray(column.fill_null(_NULL).to_numpy(zero_copy_only=False), np.int64)
