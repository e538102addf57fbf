"""Leaves out arriving records of erased keys: those that are old copies of what was erased.

An arriving record of an erased key is an old copy if its offset lies below the log end at the erasure, or its timestamp
is not later than the erasure, whatever the epoch and the strategy. What came later is a new record of that key. Where
the log end was lowered since (an undone ingest, an end that a Kafka topic had lost), offsets from there on were given
away again: the time alone tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from winnow.sources.input_errors import RecordFault, make_record_error
from winnow.values.erasures import ErasureDocument, KeyDigester, decode_digests


@dataclass
class ErasedRecords:
    """What is left out of the input of one topic, for one reading of it.

    ``digester``: of the topic's life. ``erasures``: by digest of the key, the erasure that counts.
    ``lifted``: digests of keys that may come again; what was left out of them before is missing in the log.
    ``needs_timestamps``: offsets of the log alone do not tell what is old, since a Kafka topic may have several lives.
    ``lowered_ends``: by the id of an erasure and by partition, the lowest log end since.
    """

    digester: KeyDigester
    erasures: Mapping[bytes, ErasureDocument]
    lifted: frozenset[bytes] = frozenset()
    needs_timestamps: bool = False
    lowered_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    counts: Counter[int | None] = field(default_factory=Counter)
    """Records left out, by partition; None: the record named none."""

    @property
    def total(self) -> int:
        """Number of records left out."""
        return self.counts.total()

    def restart(self) -> None:
        """Count anew: the input is read again."""
        self.counts.clear()

    def ignore_offsets(self) -> ErasedRecords:
        """Return this for a topic whose offsets are not those of the log: there the time alone tells what is old."""
        moved: dict[str, ErasureDocument] = {}
        for each in self.erasures.values():
            if each.erasure_id not in moved:
                moved[each.erasure_id] = replace(each, ends={})
        by_digest = {digest: moved[each.erasure_id] for digest, each in self.erasures.items()}
        return ErasedRecords(self.digester, by_digest, needs_timestamps=True)

    def is_lifted(self, key: bytes) -> bool:
        """Check whether ``key`` was erased once and may come again."""
        return self.digester.compute(key) in self.lifted

    def remove(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """Return ``batch``, of :data:`winnow.files.record_batch.RECORD_SCHEMA`, without old copies, and count them.

        Raises:
            BadInputError: whether a record of an erased key is old cannot be told.
        """
        found = self.find_erasures(batch.column("key"))
        if not found:
            return batch
        old = np.zeros(batch.num_rows, np.bool_)
        for at, erasure in found.items():
            if self._is_old(batch, at, erasure, path):
                old[at] = True
                self.counts[batch.column("partition")[at].as_py()] += 1
        return batch.filter(pa.array(~old))

    def find_erasures(self, keys: pa.Array) -> dict[int, ErasureDocument]:
        """Find the rows of erased keys, in their order, each with the erasure that counts."""
        encoded = keys.dictionary_encode()
        known = [self.erasures.get(self.digester.compute(key)) for key in encoded.dictionary.to_pylist()]
        if not any(known):
            return {}
        numbers = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
        is_known = np.array([erasure is not None for erasure in [*known, None]], np.bool_)
        rows = ((int(at), known[numbers[at]]) for at in np.flatnonzero(is_known[numbers]))
        return {at: erasure for at, erasure in rows if erasure is not None}

    def _is_old(self, batch: pa.RecordBatch, at: int, erasure: ErasureDocument, path: str) -> bool:
        partition, offset = batch.column("partition")[at].as_py(), batch.column("offset")[at].as_py()
        timestamp = batch.column("timestamp")[at].as_py()
        end = erasure.ends.get(partition, 0)
        lowered = self.lowered_ends.get(erasure.erasure_id, {}).get(partition, end)
        if offset is not None and offset < min(lowered, end):
            return True
        if timestamp is not None:
            return bool(timestamp <= erasure.at_ms)
        if offset is not None and offset >= end and not self.needs_timestamps:
            return False
        fault = RecordFault(
            "this record is of an erased key and has no timestamp, so nobody can tell whether it is an old copy",
            "leave it out of the input, or lift the erasure of its key with winnow erase --allow",
            partition,
            offset,
        )
        raise make_record_error(path, "row", batch.column("row")[at].as_py(), fault)


def select_counting_erasures(erasures: Iterable[ErasureDocument]) -> dict[bytes, ErasureDocument]:
    """Return by digest of each erased key the erasure that counts: the newest, unless a later call lifted it.

    ``erasures``: of one topic, oldest first.
    """
    found: dict[bytes, ErasureDocument] = {}
    for each in erasures:
        for digest in decode_digests(each.hashes):
            if each.lifts:
                found.pop(digest, None)
            else:
                found[digest] = each
    return found


def list_lifted_keys(erasures: Iterable[ErasureDocument]) -> frozenset[bytes]:
    """List the digests of keys whose erasure was lifted and does not count any more; ``erasures``: oldest first."""
    found: set[bytes] = set()
    for each in erasures:
        digests = decode_digests(each.hashes)
        if each.lifts:
            found.update(digests)
        else:
            found.difference_update(digests)
    return frozenset(found)
