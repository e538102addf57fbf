"""Leaves out topics of which nothing can be due: the log, the rules and the clock give the answer of the last check.

A check that finds a topic idle records the head that it looked at, and the first instant at which the clock alone
changes the answer. Until then the topic costs the next checks its share of one question to the catalog. Whatever is
committed meanwhile gives the topic another head, and it is looked at again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from winnow import __version__
from winnow.clock import MAXIMUM_CLOCK_SKEW_MS
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.leases import find_topics_held_by_others
from winnow.pipeline.topics.topic_view import TopicView
from winnow.planning.eligibility import Decision
from winnow.planning.next_change import find_next_change_ms
from winnow.store.idle_topics import IdleTopic
from winnow.values import documents

MAXIMUM_PRESENT_DISTANCE_MS = 3_600_000
"""Maximum distance (ms) of an as-of from the present for its answer to be recorded: a backfill's is of no use later."""

_DECISION_VERSION = 1
"""Rises when the same log, rules and clock give another decision than before."""


def make_idle_topic(
    view: TopicView, decisions: Sequence[Decision], *, as_of_ms: int, rules_digest: str
) -> IdleTopic | None:
    """Make what later checks may rely on; None if something of the topic is due, or the as-of is not the present.

    Args:
        view: the topic as it was decided about.
        decisions: of its partitions, in their order, made as if no other run held it.
        as_of_ms: the instant they were made for.
        rules_digest: :func:`compute_rules_digest`.
    """
    from_ms, latest_ms = min(as_of_ms, view.now_ms), max(as_of_ms, view.now_ms)
    is_present = as_of_ms - view.now_ms <= MAXIMUM_CLOCK_SKEW_MS and latest_ms - from_ms <= MAXIMUM_PRESENT_DISTANCE_MS
    if not is_present or any(decision.assessment.eligible for decision in decisions):
        return None
    changes_ms = [
        find_next_change_ms(log, view.rules, decision, decided_ms=from_ms)
        for log, decision in zip(view.partitions, decisions, strict=True)
    ]
    reasons = Counter(decision.assessment.reason.value for decision in decisions)
    return IdleTopic(
        topic=view.log.topic,
        metadata_location=view.head.table.metadata_location,
        rules_digest=rules_digest,
        from_ms=from_ms,
        until_ms=min((each for each in changes_ms if each is not None), default=None),
        reasons=json.dumps(reasons, sort_keys=True),
    )


def find_idle_topics(
    installation: Installation, topics: Sequence[str], *, as_of_ms: int
) -> dict[str, Mapping[str, int]]:
    """Find those of ``topics`` that an earlier check found idle and that cannot have anything due since.

    A topic that another run holds, or of which a run is open, is none of them. Records that the others were found
    unchanged.

    Returns:
        The number of partitions per reason, by topic.

    Raises:
        ServiceError: metadata store or catalog cannot be reached.
    """
    now_ms = installation.now_ms()
    digest = compute_rules_digest(installation)
    known = {
        topic: idle
        for topic, idle in installation.store.idle_topics.find_many(topics).items()
        if idle.rules_digest == digest and idle.covers(min(as_of_ms, now_ms), max(as_of_ms, now_ms))
    }
    if not known:
        return {}
    heads = installation.log.find_metadata_locations(list(known))
    unchanged = [topic for topic, idle in known.items() if heads.get(topic) == idle.metadata_location]
    left = find_topics_held_by_others(installation, unchanged) | installation.store.runs.list_open_topics()
    found = [topic for topic in unchanged if topic not in left]
    # As of the instant before the catalog was asked: an overview that is recorded after a later commit is newer.
    installation.store.idle_topics.confirm(found, now_ms)
    return {topic: json.loads(known[topic].reasons) for topic in found}


def compute_rules_digest(installation: Installation) -> str:
    """Compute a digest of what decides beside the log and the clock; a topic's own settings are in its head."""
    return documents.compute_digest((_DECISION_VERSION, __version__, installation.settings.topic_defaults))
