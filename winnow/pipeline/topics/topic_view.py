"""A topic at one head, as input of decisions: configuration, segments, state, and results of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from winnow.config.topic import TopicConfig
from winnow.log.head import Head
from winnow.log.head_checks import compute_segment_digest
from winnow.log.manifests import reduce_garbage_collection
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.planning.cleanable import PartitionLog, Rules
from winnow.planning.estimates import MAXIMUM_EARLIER_RUNS, NewKeyEstimator
from winnow.values.model import Segment


@dataclass(frozen=True)
class TopicView:
    """One topic at one head, the input of decisions."""

    log: TopicLog
    head: Head
    config: TopicConfig
    rules: Rules
    partitions: tuple[PartitionLog, ...]
    now_ms: int
    """The present, read once, so that assessing and planning decide for the same instant."""

    def close_active(self) -> TopicView:
        """Return the view with every active segment counted as closed."""
        return replace(self, partitions=tuple(replace(log, closes_active=True) for log in self.partitions))


def build_rules(config: TopicConfig) -> Rules:
    """Build the part of the configuration that decides eligibility."""
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


def load_topic_view(
    installation: Installation,
    topic: str,
    head: Head | None = None,
    live: Mapping[int, tuple[Segment, ...]] | None = None,
) -> TopicView:
    """Load head, configuration and segments of a topic.

    ``head``: None: the newest. ``live``: its segments, if known already: then no manifest is decoded,
    unless they differ from those that the head's state records.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    log = installation.log.open(topic)
    with reduce_garbage_collection():
        head = head or log.head()
        config = log.config(head)
        if live is not None and compute_segment_digest(chain.from_iterable(live.values())) != head.state.live:
            live = None  # another commit came after
        return TopicView(
            log, head, config, build_rules(config), load_partition_logs(log, head, live), installation.now_ms()
        )


def load_partition_logs(
    log: TopicLog, head: Head, live: Mapping[int, tuple[Segment, ...]] | None = None
) -> tuple[PartitionLog, ...]:
    """Load every partition of a topic from manifests and state, in partition order.

    ``live``: the segments, if known already.
    """
    segments = log.segments(head) if live is None else live
    return tuple(
        PartitionLog(log.topic, number, segments.get(number, ()), state)
        for number, state in sorted(head.state.partitions.items())
    )


@dataclass(frozen=True)
class EarlierRuns:
    """The newest receipts of ``topic``, summed up at first use."""

    installation: Installation
    topic: str

    @cached_property
    def shares(self) -> NewKeyEstimator:
        """Estimator of the share of new records that bring a new key."""
        return NewKeyEstimator.of(
            self.installation.store.projection.list_receipts(self.topic, limit=MAXIMUM_EARLIER_RUNS)
        )
