"""Why each topic partition would or would not be compacted now. Reads manifests and state; no data file, no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from winnow import eligibility
from winnow.config.topic import TopicConfig
from winnow.eligibility import PartitionLog, Rules
from winnow.log.topic_log import Head, TopicLog
from winnow.model import Assessment
from winnow.pipeline.context import Context
from winnow.pipeline.leases import held_by_another
from winnow.pipeline.pictures import harmless, record_picture
from winnow.report.events import tell


@dataclass(frozen=True)
class TopicView:
    """One topic at one head: what deciding looks at."""

    log: TopicLog
    head: Head
    config: TopicConfig
    rules: Rules
    partitions: tuple[PartitionLog, ...]
    now_ms: int
    """The present, taken once, so that assessing and planning decide by the same instant."""


def rules_of(config: TopicConfig) -> Rules:
    """The part of the configuration that decides eligibility."""
    return Rules(
        compacts=config.compacts,
        strategy=config.compaction_strategy,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        segment_bytes=config.segment_bytes,
        max_segment_ms=config.max_segment_ms,
        strategy_header=config.compaction_strategy_header or None,
        deletes=config.deletes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        late_arrival_ms=config.late_arrival_ms,
        protects_latest=config.retention_protect_latest,
    )


def view_topic(ctx: Context, topic: str) -> TopicView:
    """Head, configuration and segments of a topic.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    log = ctx.log.open(topic)
    head = log.head()
    config = log.config(head)
    return TopicView(log, head, config, rules_of(config), partition_logs(log, head), ctx.now_ms())


def partition_logs(log: TopicLog, head: Head) -> tuple[PartitionLog, ...]:
    """Every partition of a topic as manifests and state show it, in partition order."""
    segments = log.segments(head)
    return tuple(
        PartitionLog(log.topic, number, segments.get(number, ()), state)
        for number, state in sorted(head.state.partitions.items())
    )


def assess_view(ctx: Context, view: TopicView, *, as_of_ms: int) -> list[Assessment]:
    """Assess every partition of ``view``."""
    busy = held_by_another(ctx, view.log.topic)
    return [
        eligibility.assess(
            partition,
            view.rules,
            as_of_ms=as_of_ms,
            cleaning_time_ms=max(as_of_ms, view.now_ms),
            now_ms=view.now_ms,
            in_progress=busy,
        )
        for partition in view.partitions
    ]


def assess(ctx: Context, topics: Sequence[str], *, as_of_ms: int, record: bool = True) -> list[Assessment]:
    """Assess ``topics`` (none = all), and record each decision and picture in the metadata store."""
    found: list[Assessment] = []
    for topic in topics or ctx.log.names():
        started_ms = ctx.now_ms()
        view = view_topic(ctx, topic)
        assessed = assess_view(ctx, view, as_of_ms=as_of_ms)
        if record:
            with harmless(topic):
                record_picture(ctx, view)
            tell(
                "assessed",
                topic,
                partitions=len(assessed),
                eligible=sum(each.eligible for each in assessed),
                reasons=Counter(each.reason.value for each in assessed),
                as_of_ms=as_of_ms,
                duration_ms=ctx.now_ms() - started_ms,
            )
        found.extend(assessed)
    if record and found:
        ctx.store.record_assessments(as_of_ms, ctx.now_ms(), found)
    return found
