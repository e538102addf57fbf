"""Values that stand for a deletion though they are not null, as converters and change-data connectors write them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NULL_TEXT = "null-text"
DEBEZIUM = "debezium"


class _Change(msgspec.Struct, gc=False):
    op: str | None = None


class _Envelope(msgspec.Struct, gc=False):
    op: str | None = None
    payload: _Change | None = None


_decode = msgspec.json.Decoder(_Envelope).decode


class DeletedValues:
    """Turns values that stand for a deletion into null, and counts them.

    ``kind``: ``null-text`` for the four bytes ``null`` (JsonConverter without schemas writes them for an optional
    schema), ``debezium`` for change events with ``op`` = ``d``; None changes nothing.
    """

    def __init__(self, kind: str | None) -> None:
        self._kind = kind
        self.count = 0

    def remove(self, values: Any) -> Any:
        """Return the binary column ``values`` with null in place of deletions."""
        if self._kind == NULL_TEXT:
            deleted = pc.equal(values, pa.scalar(b"null", pa.binary())).fill_null(False)
        elif self._kind == DEBEZIUM:
            deleted = _find_delete_events(values)
        else:
            return values
        found = int(pc.sum(deleted).as_py() or 0)
        if not found:
            return values
        self.count += found
        return pc.if_else(deleted, pa.scalar(None, pa.binary()), values)


def _find_delete_events(values: Any) -> Any:
    """Return which values are change events of deleted rows."""
    deleted = np.zeros(len(values), np.bool_)
    candidates = pc.match_substring_regex(values, rb'"op"\s*:\s*"d"').fill_null(False)
    for index in np.flatnonzero(candidates.to_numpy(zero_copy_only=False)).tolist():
        try:
            event = _decode(values[index].as_py())
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
            continue
        deleted[index] = event.op == "d" or (event.payload is not None and event.payload.op == "d")
    return pa.array(deleted)
