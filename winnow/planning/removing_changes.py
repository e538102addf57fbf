"""Whether a change of a topic's configuration can make runs remove records for good. Pure."""

from __future__ import annotations

from math import inf

from winnow.config.topic import TopicConfig
from winnow.values.strategies import name_total_order


def can_remove_records(before: TopicConfig, after: TopicConfig) -> bool:
    """Check whether runs with ``after`` remove other records, or more, or sooner, than with ``before``."""
    changes_winners = after.compacts and _name_order(before) != _name_order(after)
    return changes_winners or removes_more(before, after)


def _name_order(config: TopicConfig) -> str:
    return name_total_order(config.compaction_strategy, config.compaction_strategy_header or None)


def removes_more(before: TopicConfig, after: TopicConfig) -> bool:
    """Check whether ``after`` removes records that ``before`` would keep, or keep for longer.

    Keys that only say how soon superseded records go (ratio, max.compaction.lag.ms, segments) do not count.
    """
    if after.compacts and not before.compacts:
        return True
    if after.compacts and (
        after.delete_retention_ms < before.delete_retention_ms
        or after.min_compaction_lag_ms < before.min_compaction_lag_ms
    ):
        return True
    return any(new < old for new, old in zip(_list_limits(after), _list_limits(before), strict=True))


def _list_limits(config: TopicConfig) -> tuple[float, float]:
    """Return the age (ms) and size (bytes) beyond which retention removes records for good."""
    if not config.deletes or (config.compacts and config.retention_protect_latest):
        return inf, inf
    return (
        config.retention_ms if config.retention_ms >= 0 else inf,
        config.retention_bytes if config.retention_bytes >= 0 else inf,
    )
