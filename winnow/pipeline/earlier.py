"""What earlier runs of a topic say about the next one: read from the metadata store once, and only where asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from winnow.estimates import MAXIMUM_EARLIER_RUNS, NewKeyEstimator
from winnow.pipeline.context import Context


@dataclass(frozen=True)
class EarlierRuns:
    """The newest receipts of ``topic``, summed up when first needed."""

    ctx: Context
    topic: str

    @cached_property
    def shares(self) -> NewKeyEstimator:
        """How many records that came since a cleaning brought a key of their own."""
        return NewKeyEstimator.of(self.ctx.store.projection.list_receipts(self.topic, limit=MAXIMUM_EARLIER_RUNS))
