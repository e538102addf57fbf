"""Which topics one restore is about, and the Kafka topic of each."""

from __future__ import annotations

import re
from collections.abc import Iterable

from winnow.config.names import validate_topic_name
from winnow.errors import UnknownTopicError, UsageError
from winnow.pipeline.installation import Installation


def map_topics(
    names: Iterable[str], pattern: str, *, prefix: str | None = None, template: str | None = None
) -> dict[str, str]:
    r"""Choose the topics of ``names`` that ``pattern`` matches as a whole, and return the Kafka topic of each.

    ``prefix``: goes before the name. ``template``: what the name becomes, with the pattern's groups as ``\1`` or
    ``\g<name>``, and ``\g<0>`` for the whole name. Neither: the name stays.

    Raises:
        UsageError: the pattern or the template is not valid, or two topics would become one.
        UnknownTopicError: no topic matches.
        ConfigurationError: a name that is none of a topic would come about.
    """
    try:
        matching = re.compile(pattern)
    except re.error as problem:
        raise UsageError(
            f"--topics-regex is not a regular expression: {problem}.",
            left="Nothing was restored.",
        ) from None
    matches = [match for match in map(matching.fullmatch, sorted(names)) if match is not None]
    if not matches:
        raise UnknownTopicError(
            "No topic matches --topics-regex.",
            left="Nothing was restored.",
            next="All topics: winnow topics list",
        )
    try:
        targets = {
            match[0]: f"{prefix or ''}{match[0] if template is None else match.expand(template)}" for match in matches
        }
    except (re.error, IndexError) as problem:
        raise UsageError(
            f"--target-topic cannot be filled in: {problem}.",
            left="Nothing was restored.",
        ) from None
    topics_of: dict[str, str] = {}
    for topic, target in targets.items():
        validate_topic_name(target)
        other = topics_of.setdefault(target, topic)
        if other != topic:
            raise UsageError(
                f"Topics {other} and {topic} would both be restored into topic {target}.",
                "Nothing was restored.",
                r"Let --target-topic keep what differs, like '\g<0>.restored', or say --target-prefix.",
            )
    return targets


def measure_logs(installation: Installation, topics: Iterable[str]) -> dict[str, int]:
    """Return the bytes of the live segments of each topic; 0 for one that cannot be opened, whose restore says why."""
    sizes: dict[str, int] = {}
    for topic in topics:
        try:
            log = installation.log.open(topic)
            partitions = log.segments(log.head()).values()
        except Exception:  # a topic's failure stops no other; its restore meets it again
            sizes[topic] = 0
            continue
        sizes[topic] = sum(segment.size_bytes for segments in partitions for segment in segments)
    return sizes
