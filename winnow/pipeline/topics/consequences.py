"""Describes in sentences what a change of topic configuration does at the next run."""

from __future__ import annotations

from collections.abc import Iterator

from winnow.config.topic import TopicConfig
from winnow.pipeline.topics.topic_view import build_rules
from winnow.planning import cleanable, eligibility
from winnow.planning.cleanable import PartitionLog
from winnow.values.counts import format_count

RECORDS_STAY_REMOVED = "Records that earlier compactions removed cannot return"


def describe_consequences(
    partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig, *, now_ms: int
) -> tuple[str, ...]:
    """Describe in sentences what changes from ``before`` to ``after``; none if nothing important does."""
    return (
        *_describe_retention(partitions, before, after, now_ms),
        *_describe_strategy(partitions, before, after),
        *_describe_keyless(partitions, before, after),
    )


def _describe_retention(
    partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig, now_ms: int
) -> Iterator[str]:
    if not after.deletes or _get_retention_settings(before) == _get_retention_settings(after):
        return
    if after.retention_ms < 0 and after.retention_bytes < 0:
        yield (
            "cleanup.policy includes delete, but neither retention.ms nor retention.bytes sets a limit, so nothing is "
            "removed. Winnow's default of retention.ms is -1, because an archive may be the only copy."
        )
        return
    rules = build_rules(after)
    taken = [
        (log, found)
        for log in partitions
        if (found := eligibility.apply_retention(log, rules, as_of_ms=now_ms, now_ms=now_ms)).retired
    ]
    if not taken:
        yield "Retention would remove nothing at the next run."
        return
    records = sum(segment.records for _, found in taken for segment in found.retired)
    size_bytes = sum(segment.size_bytes for _, found in taken for segment in found.retired)
    log, found = max(taken, key=lambda each: sum(segment.records for segment in each[1].retired))
    yield (
        f"Retention would remove {records:,} records ({size_bytes:,} bytes) of {format_count(len(taken), 'partition')} "
        f"at the next run, most of them of {log.topic}-{log.partition}, whose log would begin at offset "
        f"{found.log_start_offset}. "
        "They cannot be brought back. See it partition by partition with: winnow explain " + log.topic
    )


def _get_retention_settings(config: TopicConfig) -> tuple[object, ...]:
    return (
        config.deletes,
        config.compacts,
        config.retention_ms,
        config.retention_bytes,
        config.retention_protect_latest,
    )


def _describe_strategy(partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig) -> Iterator[str]:
    if not after.compacts or build_rules(before).order == build_rules(after).order:
        return
    dirty = [log for log in partitions if cleanable.is_whole_log_dirty(log, build_rules(after))]
    if dirty:
        yield (
            f"The strategy changed: the whole log of {format_count(len(dirty), 'partition')} is dirty now and is "
            f"compacted anew by {build_rules(after).order}. {RECORDS_STAY_REMOVED}: of a key that was compacted "
            "before, only the record that won then takes part."
        )


def _describe_keyless(partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig) -> Iterator[str]:
    if not after.compacts or before.compacts:
        return
    keyless = sum(segment.keyless for log in partitions for segment in log.segments)
    if keyless:
        yield (
            f"{keyless:,} records of this topic have no key. Compaction cannot keep them in the log: the compaction "
            "that covers them moves them to the quarantine (counted as records_keyless) and drops none."
        )
