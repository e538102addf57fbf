"""Computes the latest state of a log, and what changed between two states, record by record.

The latest state is what a table of the topic would hold: for each key of each partition its greatest record by the
strategy's total order, unless that is a tombstone. Keyless records have no place in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oracle.surviving_records import compute_version
from winnow.values.model import Record
from winnow.values.strategies import Strategy

Key = tuple[int, bytes]
"""Partition and key."""


def compute_latest_state(records: Iterable[Record], strategy: Strategy, header: str | None) -> dict[Key, Record]:
    """Compute the latest record of each key with a value, from ``records`` of any partitions."""
    winners: dict[Key, Record] = {}
    for record in records:
        if record.key is None:
            continue
        place = (record.partition, record.key)
        winner = winners.get(place)
        if winner is None or compute_version(record, strategy, header) > compute_version(winner, strategy, header):
            winners[place] = record
    return {place: record for place, record in winners.items() if record.value is not None}


def compute_changes(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> dict[Key, str]:
    """Compute which keys were ``inserted``, ``deleted`` or ``updated``: an update is another record, not another value.

    Offsets are never given twice, so two records of one key are the same if their offsets are.
    """
    changes = dict.fromkeys(after.keys() - before.keys(), "inserted")
    changes |= dict.fromkeys(before.keys() - after.keys(), "deleted")
    changes |= {
        place: "updated" for place in before.keys() & after.keys() if before[place].offset != after[place].offset
    }
    return changes
