"""Creating, describing and changing topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.config.names import collides
from winnow.config.topic import ConfigEntry, TopicConfig, entries, is_topic_key, not_built, unknown_key
from winnow.errors import ConfigurationError
from winnow.log.topic_log import overrides_of
from winnow.model import PartitionState
from winnow.pipeline.context import Context


@dataclass(frozen=True)
class TopicDescription:
    """A topic for people: configuration with sources, and size and state per partition."""

    name: str
    partitions: int
    location: str
    config: tuple[ConfigEntry, ...]
    notices: tuple[str, ...]
    states: dict[int, PartitionState]
    bytes: dict[int, int]
    records: dict[int, int]


def list_topics(ctx: Context) -> list[str]:
    """All topics, sorted by name."""
    return ctx.log.names()


def create_topic(ctx: Context, name: str, partitions: int, overrides: Mapping[str, str]) -> TopicDescription:
    """Create a topic; raises ConfigurationError as :meth:`winnow.log.topics.TopicLogs.create`."""
    notices = tuple(
        f"Topic {name} collides with {other} in metric names: '.' and '_' are the same there."
        for other in ctx.log.names()
        if other != name and collides(name, other)
    )
    ctx.log.create(name, partitions, overrides)
    return describe_topic(ctx, name, notices=notices)


def describe_topic(ctx: Context, name: str, *, notices: Sequence[str] = ()) -> TopicDescription:
    """Configuration with source and sentence, and per partition offsets, bytes and records."""
    log = ctx.log.open(name)
    head = log.head()
    config = log.config(head)
    segments = log.segments(head)
    refusal = not_built(config)
    return TopicDescription(
        name=name,
        partitions=log.partitions(head),
        location=head.location,
        config=tuple(entries(config)),
        notices=(*notices, *([refusal] if refusal else [])),
        states=dict(head.state.partitions),
        bytes={p: sum(s.size_bytes for s in found) for p, found in segments.items()},
        records={p: sum(s.records for s in found) for p, found in segments.items()},
    )


def alter_topic(ctx: Context, name: str, changes: Mapping[str, str], deletions: Sequence[str]) -> TopicDescription:
    """Change topic configuration. The result as a whole is checked before anything is written.

    Raises:
        ConfigurationError: a key or value is not valid, or a key is both set and deleted.
    """
    both = sorted(set(changes) & set(deletions))
    if both:
        raise ConfigurationError(f"Topic {name} was not changed: {', '.join(both)} is both set and deleted.")
    for key in deletions:
        if not is_topic_key(key):
            raise unknown_key(key)
    log = ctx.log.open(name)
    current = overrides_of(dict(log.head().table.properties))
    wanted = {key: value for key, value in {**current, **changes}.items() if key not in deletions}
    TopicConfig.parse(wanted)
    log.set_config(dict(changes), list(deletions))
    return describe_topic(ctx, name)
