"""Why a topic partition is eligible or idle, in words."""

from __future__ import annotations

from winnow.model import Reason

_EXPLANATIONS = {
    Reason.IN_PROGRESS: "another run holds the topic",
    Reason.UNCLEANABLE: "its last result did not pass validation; it is tried again later",
    Reason.PAUSED: "its compaction is paused",
    Reason.POLICY_DELETE_ONLY: "cleanup.policy does not include compact",
    Reason.EMPTY: "it holds no records",
    Reason.STRATEGY_CHANGED: "compaction.strategy changed, so the whole log is dirty",
    Reason.MAX_COMPACTION_LAG: "its oldest dirty record is older than max.compaction.lag.ms",
    Reason.DIRTY_RATIO: "its dirty ratio is above min.cleanable.dirty.ratio",
    Reason.TOMBSTONES_EXPIRED: "tombstones have passed their delete horizon, or were never given one",
    Reason.RETENTION: "segments are past retention",
    Reason.CLEAN: "nothing came since its last compaction",
    Reason.NO_CLOSED_SEGMENT: "what is dirty lies in the active segment, not closed by segment.bytes or segment.ms yet",
    Reason.INSIDE_MIN_LAG: "what is dirty is younger than min.compaction.lag.ms",
    Reason.NOT_DIRTY_ENOUGH: "its dirty ratio is not above min.cleanable.dirty.ratio",
}


def explain_reason(reason: Reason) -> str:
    """``reason`` as half a sentence."""
    return _EXPLANATIONS[reason]
