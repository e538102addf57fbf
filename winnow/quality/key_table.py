"""Which record of the survivors has the key with this hash: a table in memory that NumPy looks up a batch at a time.

A slot for every leading part of a hash names one record; records that found their slot taken rest in a sorted list.
With four slots a record one in eight does, so nearly every lookup is one step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from winnow.quality.hashes import Hashes

Numbers = npt.NDArray[np.int32]
MAXIMUM_RECORDS = 2**31 - 1
_SLOTS_PER_RECORD = 4
_NO_RECORD = np.int32(-1)


class KeyTable:
    """Records numbered from 0, by the hashes of their keys. At most :data:`MOST_RECORDS`."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        bits = max(1, (len(hashes) * _SLOTS_PER_RECORD - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._slots = np.full(1 << bits, _NO_RECORD, dtype=np.int32)
        slots = self._slot(hashes)
        numbers = np.arange(len(hashes), dtype=np.int32)
        self._slots[slots] = numbers
        holders = self._slots[slots]
        crowded = np.flatnonzero(holders != numbers)
        holds_the_same = hashes[holders[crowded]] == hashes[crowded]
        self._rest = crowded[np.argsort(hashes[crowded])].astype(np.int32)
        self._rest_hashes = hashes[self._rest]
        self.has_duplicates = bool(holds_the_same.any() or (self._rest_hashes[1:] == self._rest_hashes[:-1]).any())

    def find(self, hashes: Hashes) -> Numbers:
        """The number of the record with each hash, -1 where there is none; any of them where there are several."""
        if len(self._hashes) == 0:
            return np.full(len(hashes), _NO_RECORD, dtype=np.int32)
        found: Numbers = self._slots[self._slot(hashes)]
        # An empty slot says -1 and so the last record, whose hash differs: it would have filled that slot.
        others = np.flatnonzero(self._hashes[found] != hashes)
        if len(self._rest) == 0:
            found[others] = _NO_RECORD
            return found
        wanted = hashes[others]
        places = np.minimum(np.searchsorted(self._rest_hashes, wanted), len(self._rest) - 1)
        found[others] = np.where(self._rest_hashes[places] == wanted, self._rest[places], _NO_RECORD)
        return found

    def _slot(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        slots: npt.NDArray[np.int64] = (hashes >> self._shift).view(np.int64)
        return slots
