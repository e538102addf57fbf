"""``winnow topics follow`` and ``unfollow``: whether a log follows the Kafka topic of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.cli.options import Reason, Topic, open_for_command
from winnow.cli.output import format_short_time, print_lines

if TYPE_CHECKING:
    from winnow.store.source_states import SourceState


def unfollow(topic: Topic, reason: Reason = None) -> None:
    """Keep a topic from being followed although the settings name it.

    The DAG ingest_topics (with your prefix) passes over it, and its alerts about Kafka are closed. It stands in the
    topic's configuration (winnow.follow), so it outlives the metadata store.
    `winnow ingest kafka TOPIC` still reads it.

    Example: winnow topics unfollow orders --reason "deleted in Kafka on purpose"
    """
    _set_following(topic, reason, follows=False)


def follow(topic: Topic, reason: Reason = None) -> None:
    """Take back `winnow topics unfollow`: the topic is followed again if the settings name it.

    The next run goes on at the end of the log. What the brokers deleted meanwhile is a gap, and refused.

    Example: winnow topics follow orders
    """
    _set_following(topic, reason, follows=True)


def _set_following(topic: str, reason: str | None, *, follows: bool) -> None:
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.monitor.missing_records import is_followed
        from winnow.pipeline.topics.sources import set_following

        is_named = is_followed(installation.settings, topic)
        changed = set_following(installation, topic, follows=follows)
    if follows:
        print_lines(f"Topic {topic} {'is followed again' if changed else 'was not unfollowed; nothing was changed'}.")
        if not is_named:
            print_lines("The settings do not name it: see source.topics_regex in: winnow settings")
        return
    print_lines(f"Topic {topic} {'is not followed any more' if changed else 'is not followed already'}.")
    print_lines(f"To take that back: winnow topics follow {topic}")


def format_source(state: SourceState | None) -> str | None:
    """Say what became of a log's Kafka topic; None: nothing is known to have."""
    from winnow.store.source_states import SourceKind

    if state is None or state.kind is SourceKind.ABSENT:
        return None
    if state.kind is SourceKind.GONE:
        return (
            f"Kafka topic: gone at Kafka since {format_short_time(state.since_ms)}. If that is on purpose: "
            f"winnow topics unfollow {state.topic}"
        )
    return f"Kafka topic: not followed. To follow it again: winnow topics follow {state.topic}"
