"""Restoring the metadata store from table and state: checkpoints, marks, retired files, receipts, pictures."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.pipeline.context import Context
from winnow.pipeline.overview import refresh_overview


def rebuild_store(ctx: Context, topics: Sequence[str] = ()) -> list[str]:
    """Rebuild the projection of ``topics`` (none = all); assessments, runs and verdicts are history and stay.

    Returns:
        The topics that were rebuilt.
    """
    rebuilt = list(topics) or ctx.log.names()
    for topic in rebuilt:
        log = ctx.log.open(topic)
        head = log.head()
        state = head.state
        ctx.store.projection.replace(topic, state.partitions, log.receipts(head), state.waiting_files, ctx.now_ms())
        refresh_overview(ctx, topic)
    return rebuilt
