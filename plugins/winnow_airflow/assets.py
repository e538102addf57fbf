"""The asset of a topic: other DAGs run when it was compacted, and its events say up to which offsets it is clean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from winnow.model import Receipt

COMPACTED = AssetAlias("winnow_compacted", group="winnow")
"""Stands for the assets of all topics, which nobody knows when the DAG is parsed."""

MAX_OFFSETS = 1_000
"""Partitions in one event; a larger vector is left out, and read from the snapshot that the event names."""


def topic_asset(topic: str) -> Asset:
    """The asset of ``topic``, for ``schedule=[topic_asset("orders")]`` and for its events."""
    uri = f"winnow://topic/{topic}"
    return Asset(name=uri, uri=uri, group="winnow")


def event_of(receipt: Receipt) -> dict[str, Any]:
    """What an event says of a publish: topic, plan, snapshot, and the first dirty offset of each partition."""
    offsets = {str(part.partition): part.next_first_dirty_offset for part in receipt.partitions}
    return {
        "topic": receipt.topic,
        "plan_id": receipt.plan_id,
        "snapshot_id": str(receipt.snapshot_id),
        "offsets": offsets if len(offsets) <= MAX_OFFSETS else None,
    }
