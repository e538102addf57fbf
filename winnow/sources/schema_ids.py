"""Finds keys that begin with the id of a schema, as serializers of a schema registry write them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MAGIC = b"\x00"
_PREFIX_BYTES = 5
"""A zero byte and the id in four bytes."""
MAXIMUM_KEYS = 2_000_000
"""Beyond these, logical keys with several ids are no longer counted."""


class SchemaIds:
    """The schema ids in front of the keys of one topic partition."""

    def __init__(self) -> None:
        self.ids: set[bytes] = set()
        self.has_other = False
        self._id_of_key: dict[int, bytes] = {}
        self._shared: set[int] = set()

    @property
    def has_all(self) -> bool:
        """Whether every key seen begins with an id."""
        return bool(self.ids) and not self.has_other

    def add(self, keys: Any) -> None:
        """Add the binary column ``keys``; null and empty keys do not count."""
        if self.has_other:
            return
        keys = keys.drop_null()
        keys = keys.filter(pc.greater(pc.binary_length(keys), 0))
        if not len(keys):
            return
        starts = pc.binary_slice(keys, 0, 1)
        long_enough = pc.greater(pc.binary_length(keys), _PREFIX_BYTES)
        if not pc.all(pc.and_(pc.equal(starts, pa.scalar(_MAGIC, pa.binary())), long_enough)).as_py():
            self.has_other = True
            self._id_of_key.clear()
            return
        for key in pc.unique(keys).to_pylist():
            prefix, rest = key[:_PREFIX_BYTES], hash(key[_PREFIX_BYTES:])
            self.ids.add(prefix)
            if len(self._id_of_key) < MAXIMUM_KEYS and self._id_of_key.setdefault(rest, prefix) != prefix:
                self._shared.add(rest)

    def count_shared(self) -> int | None:
        """Return how many logical keys were seen with several ids, None if there were too many keys to count."""
        return None if len(self._id_of_key) >= MAXIMUM_KEYS else len(self._shared)
