"""``winnow receipts`` and ``winnow checkpoints``: what the metadata store remembers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from winnow.cli.failures import each_topic, finish
from winnow.cli.options import Json, OneTopic
from winnow.cli.output import count, human_bytes, tell, write_json
from winnow.cli.tables import MOST_ROWS, show
from winnow.cli.world import world
from winnow.clock import format_ms
from winnow.model import Receipt


def document(receipt: Receipt) -> dict[str, Any]:
    """A receipt as ``compact --json`` and ``receipts --json`` show it: the interface's keys first."""
    return {
        "topic": receipt.topic,
        "plan_id": receipt.plan_id,
        "status": receipt.status.value,
        "snapshot_id": receipt.snapshot_id,
        "partitions": [asdict(part) for part in receipt.partitions],
        "message": receipt.message,
        "as_of_ms": receipt.as_of_ms,
        "finished_at_ms": receipt.finished_at_ms,
        "attempt": receipt.attempt,
        "data_docs": receipt.data_docs,
    }


def receipts(topic: OneTopic = None, as_json: Json = False) -> None:
    """Print what each run of a topic did, newest first.

    Example: winnow receipts orders
    """


def checkpoints(topic: OneTopic = None, as_json: Json = False) -> None:
    """Print how far each topic partition is clean, and since when.

    A tombstone goes in the first run after the delete horizon of the stretch it lies in.

    Example: winnow checkpoints orders
    """
