"""Sets of keys that files are searched for: keys that are given, or such of which only the keyed digests are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from winnow.values.erasures import KeyDigester

MAXIMUM_ARROW_KEYS: Final = 100_000
"""Arrow makes a table of all keys again for each batch in which it looks for them; for more, a dictionary is faster."""


class KeySet(Protocol):
    """A set of keys, each of which has a number from 0."""

    def number(self, keys: pa.Array) -> pa.Array:
        """Return the number of each of ``keys``, a binary array, as int32; null where it is not in the set."""


class GivenKeys:
    """Keys that are compared byte for byte. ``keys``: the sorted array, in which numbers are places."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.keys = pa.array(sorted(set(keys)), pa.binary())
        self._numbers: dict[bytes, int] | None = None

    def number(self, keys: pa.Array) -> pa.Array:
        """Return the number of each of ``keys``; null where it is not in the set."""
        if len(self.keys) <= MAXIMUM_ARROW_KEYS:
            return pc.index_in(keys, value_set=self.keys)
        if self._numbers is None:
            self._numbers = {key: number for number, key in enumerate(self.keys.to_pylist())}
        return _number_distinct(keys, self._numbers.get)

    def compute_digests(self, digester: KeyDigester) -> list[bytes]:
        """Compute the digest of each key, by its number."""
        return [digester.compute(key) for key in self.keys.to_pylist()]


class DigestedKeys:
    """Keys whose digests are ``digests``, none twice; numbers are places in it."""

    def __init__(self, digester: KeyDigester, digests: Sequence[bytes]) -> None:
        self._digester = digester
        self._numbers = {digest: number for number, digest in enumerate(digests)}

    def number(self, keys: pa.Array) -> pa.Array:
        """Return the number of each of ``keys``; null where it is not in the set."""
        return _number_distinct(keys, lambda key: self._numbers.get(self._digester.compute(key)))


def _number_distinct(keys: pa.Array, find: Callable[[bytes], int | None]) -> pa.Array:
    encoded = keys.dictionary_encode()
    return pa.array(map(find, encoded.dictionary.to_pylist()), pa.int32()).take(encoded.indices)
