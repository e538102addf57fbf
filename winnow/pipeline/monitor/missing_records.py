"""Deadlines of records that are still at the brokers: max.compaction.lag.ms counts from Kafka's timestamps.

A record that is not in the log cannot be compacted, so an ingest that lags can make a deadline impossible although
nothing in the log is due. What is missing, and since when, was recorded at the last look at the brokers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from winnow.clock import format_ms
from winnow.config.settings import Settings
from winnow.pipeline.installation import Installation
from winnow.planning.cleanable import MAXIMUM_LONG, Rules
from winnow.store.ingest_lag import IngestLag
from winnow.store.source_states import SourceKind, SourceState


def is_followed(settings: Settings, topic: str) -> bool:
    """Check whether the settings say that the DAG ``ingest_topics`` follows ``topic``."""
    source = settings.source
    if not source.bootstrap_servers or source.topics_regex is None:
        return False
    return re.fullmatch(source.topics_regex, topic) is not None


def find_missing_deadlines(
    installation: Installation, topic: str, rules: Rules, *, unseen_by_ms: int | None = None
) -> dict[int, IngestLag]:
    """Find the partitions of ``topic`` with a deadline of records that are not in its log.

    Records were missing at the last look. With ``unseen_by_ms``, also where only records can be that came since, of a
    topic that is followed, if their deadline is at or before it.
    """
    if not rules.compacts or rules.max_compaction_lag_ms >= MAXIMUM_LONG:
        return {}
    unseen_ms = unseen_by_ms if is_followed(installation.settings, topic) else None
    late = {
        number: lag
        for number, lag in installation.store.ingest_lags.find(topic).items()
        if lag.is_missing or (unseen_ms is not None and compute_deadline_ms(lag, rules) <= unseen_ms)
    }
    # Of a topic that is gone nothing can come, and of one that is not followed nothing is promised.
    return late if late and not _is_cut_off(installation.store.source_states.find(topic)) else {}


def _is_cut_off(state: SourceState | None) -> bool:
    return state is not None and state.kind is not SourceKind.ABSENT


def compute_deadline_ms(lag: IngestLag, rules: Rules) -> int:
    """Compute the earliest deadline of a missing record."""
    return lag.complete_until_ms + rules.max_compaction_lag_ms


def describe_missing(lag: IngestLag) -> str:
    """Say what is missing, as of which look."""
    looked = format_ms(lag.looked_at_ms)
    if lag.is_missing:
        held = f" and {lag.records_uncommitted:,} held by an open transaction" if lag.records_uncommitted else ""
        return (
            f"offsets of the Kafka topic that are not in the log: {lag.records_behind:,}{held}, the first of "
            f"{format_ms(lag.complete_until_ms)}, as of {looked}"
        )
    return f"nothing was ingested from Kafka since {looked}, so what came to the topic since is not in the log"


def list_topics_to_watch(installation: Installation, by_ms: int) -> set[str]:
    """List topics that may have a deadline of missing records at or before ``by_ms``."""
    due: Mapping[str, bool] = installation.store.ingest_lags.list_topics_due_by(by_ms)
    states = installation.store.source_states.list_all() if due else {}
    return {
        topic
        for topic, is_missing in due.items()
        if (is_missing or is_followed(installation.settings, topic)) and not _is_cut_off(states.get(topic))
    }
