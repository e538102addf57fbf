"""Finds how far the table of a topic's latest state is behind its log, and records it for ticks and the page."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from winnow.errors import UsageError, WinnowError
from winnow.pipeline.topics.latest_progress import build_log_state, find_oldest_waiting_ms
from winnow.pipeline.topics.topic_view import load_partition_logs

if TYPE_CHECKING:
    from winnow.log.head import Head
    from winnow.log.latest_tables import LatestHead
    from winnow.log.topic_log import TopicLog
    from winnow.pipeline.installation import Installation
    from winnow.store.latest_progress import LatestProgress

log = logging.getLogger("winnow")

MAXIMUM_LOOKS: Final = 4
"""Maximum looks at a table to whose log others append meanwhile; what is recorded then is older, and says so."""


def measure_progress(
    installation: Installation, topic: str, *, updated_at_ms: int | None = None
) -> LatestProgress | None:
    """Record what the table of ``topic`` shows, and since when the oldest record waits that it does not show.

    ``updated_at_ms``: when it was brought up to date just now; None: it was looked at only.

    Returns:
        What was recorded; None: the topic keeps no such table.

    Raises:
        UnknownTopicError, DeletedTopicError, ForeignTableError, DamagedMetadataError, ServiceError: topic or table
            cannot be opened.
    """
    store = installation.store.latest_tables
    for _ in range(MAXIMUM_LOOKS):
        # Before the log, so that the log is not older than what the table reflects.
        present = installation.log.latest_table(topic).load()
        topic_log = installation.log.open(topic)
        head = topic_log.head()
        now_ms = installation.now_ms()
        state = build_log_state(head, topic_log.config(head), (), now_ms)
        if state.limits is None:
            store.record_log(state)
            return None
        shown = _find_shown(topic_log, head, present)
        sequence = 0 if shown is None or shown.snapshot is None else shown.snapshot.sequence_number or 0
        missing_since_ms = _find_missing_since_ms(topic_log, head, shown, now_ms)
        if store.record_shown(state, sequence, missing_since_ms, updated_at_ms=updated_at_ms):
            break
    return store.find(topic)


def record_update(installation: Installation, topic: str) -> None:
    """Record that the table of ``topic`` was brought up to date. A failure is a warning: the next tick looks again."""
    try:
        measure_progress(installation, topic, updated_at_ms=installation.now_ms())
    except WinnowError as problem:
        log.warning("How far the table of the latest state of topic %s is was not recorded. %s", topic, problem)


def _find_shown(topic_log: TopicLog, head: Head, present: LatestHead | None) -> Head | None:
    """Find the log's head that the table shows; None: none that the log still has."""
    reflected = None if present is None else present.reflected
    if reflected is None or reflected.table_uuid != head.table_uuid:
        return None
    if reflected.snapshot_id == head.snapshot_id:
        return head
    try:
        return topic_log.snapshot(reflected.snapshot_id)
    except UsageError:
        return None


def _find_missing_since_ms(topic_log: TopicLog, head: Head, shown: Head | None, now_ms: int) -> int | None:
    ends = _list_ends(shown)
    if all(end <= ends.get(number, 0) for number, end in _list_ends(head).items()):
        return None  # without opening a manifest
    return find_oldest_waiting_ms(load_partition_logs(topic_log, head), ends, now_ms)


def _list_ends(head: Head | None) -> Mapping[int, int]:
    return {} if head is None else {number: part.log_end_offset for number, part in head.state.partitions.items()}
