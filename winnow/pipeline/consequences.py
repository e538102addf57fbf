"""What a topic's configuration will do at the next run, said before it does it. Reads manifests and state only."""

from __future__ import annotations

from collections.abc import Iterator

from winnow import eligibility
from winnow.config.topic import TopicConfig
from winnow.eligibility import PartitionLog
from winnow.pipeline.assess import rules_of

NOT_COMING_BACK = "Records that earlier compactions removed cannot return"


def consequences(
    partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig, *, now_ms: int
) -> tuple[str, ...]:
    """Sentences about what changes when ``before`` becomes ``after``; none when nothing of weight does."""
    return (
        *_retention(partitions, before, after, now_ms),
        *_strategy(partitions, before, after),
        *_keyless(partitions, before, after),
    )


def _retention(
    partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig, now_ms: int
) -> Iterator[str]:
    if not after.deletes or _retains_as(before) == _retains_as(after):
        return
    if after.retention_ms < 0 and after.retention_bytes < 0:
        yield (
            "cleanup.policy includes delete, but neither retention.ms nor retention.bytes sets a limit, so nothing is "
            "removed. Winnow's default of retention.ms is -1, because an archive may be the only copy."
        )
        return
    rules = rules_of(after)
    taken = [
        (log, found)
        for log in partitions
        if (found := eligibility.retention(log, rules, as_of_ms=now_ms, now_ms=now_ms)).retired
    ]
    if not taken:
        yield "Retention would remove nothing at the next run."
        return
    records = sum(segment.records for _, found in taken for segment in found.retired)
    size_bytes = sum(segment.size_bytes for _, found in taken for segment in found.retired)
    log, found = max(taken, key=lambda each: sum(segment.records for segment in each[1].retired))
    yield (
        f"Retention would remove {records:,} records ({size_bytes:,} bytes) of {len(taken)} partition(s) at the next "
        f"run, most of them of {log.topic}-{log.partition}, whose log would begin at offset {found.log_start_offset}. "
        "They cannot be brought back. See it partition by partition with: winnow explain " + log.topic
    )


def _retains_as(config: TopicConfig) -> tuple[object, ...]:
    return (
        config.deletes,
        config.compacts,
        config.retention_ms,
        config.retention_bytes,
        config.retention_protect_latest,
    )


def _strategy(partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig) -> Iterator[str]:
    if not after.compacts or rules_of(before).order == rules_of(after).order:
        return
    dirty = [log for log in partitions if eligibility.whole_log_dirty(log, rules_of(after))]
    if dirty:
        yield (
            f"The strategy changed: the whole log of {len(dirty)} partition(s) is dirty now and is compacted anew by "
            f"{rules_of(after).order}. {NOT_COMING_BACK}: of a key that was compacted already only the record that won "
            "then takes part."
        )


def _keyless(partitions: tuple[PartitionLog, ...], before: TopicConfig, after: TopicConfig) -> Iterator[str]:
    if not after.compacts or before.compacts:
        return
    keyless = sum(segment.keyless for log in partitions for segment in log.segments)
    if keyless:
        yield (
            f"{keyless:,} records of this topic have no key. Compaction cannot keep them in the log: the compaction "
            "that covers them moves them to the quarantine (counted as records_keyless) and drops none."
        )
