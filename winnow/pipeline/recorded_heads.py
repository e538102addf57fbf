"""Where the newest heads of topics are recorded besides the catalog: the metadata store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.clock import Clock
from winnow.store import Store
from winnow.values.topic_state import TopicHead


@dataclass(frozen=True, slots=True)
class RecordedHeads:
    """The metadata store as :class:`winnow.log.head_age.HeadRecords`. ``now_ms``: the clock of what is recorded."""

    store: Store
    now_ms: Clock

    def list_lives(self, topic: str) -> Sequence[TopicHead]:
        """List the heads recorded of a topic, one per life, the newest life last."""
        return self.store.topic_heads.list_lives(topic)

    def list_lives_of(self, topics: Sequence[str]) -> Mapping[str, Sequence[TopicHead]]:
        """List the heads recorded of ``topics``, as :meth:`list_lives`; with few queries."""
        return self.store.topic_heads.list_lives_of(topics)

    def record(self, head: TopicHead) -> None:
        """Record a head; one that is older than the recorded one changes nothing."""
        self.store.topic_heads.record(replace(head, recorded_at_ms=self.now_ms()))

    def list_published(self, topic: str) -> Mapping[str, int]:
        """List the plans of a topic that the store calls published, and when they were (ms)."""
        return self.store.topic_heads.list_published(topic)

    def list_log_ends(self, topic: str) -> Mapping[int, int]:
        """List the log ends of a topic's partitions as the store has them."""
        return self.store.topic_heads.list_log_ends(topic)

    def is_readable(self) -> bool:
        """Check whether the store has been made."""
        return self.store.exists
