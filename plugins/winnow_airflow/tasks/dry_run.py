"""Dry run and strategy comparison: the steps of compact_topics that change nothing.

They report numbers, offsets and reasons; never a key. They write nothing that a reader, another run or the next run
would see.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from winnow.values.counts import format_count
from winnow_airflow.tasks.topic_results import TaskResults
from winnow_airflow.xcom_values import TopicCheck

if TYPE_CHECKING:
    from winnow.pipeline.explain.compare import Comparison
    from winnow.pipeline.explain.explain import Explanation, PartitionExplanation
    from winnow.pipeline.installation import Installation
    from winnow.values.strategies import Strategy

log = logging.getLogger("airflow.task")

MAXIMUM_SAMPLE_KEYS = 3
"""Maximum differing keys in a sentence, named by the offsets of their winners."""


@contextmanager
def open_previews(
    installation: Installation, topics: Sequence[str], *, as_of_ms: int
) -> Iterator[Callable[[str], TopicCheck]]:
    """Open the checks for a dry run, in place of :func:`winnow_airflow.tasks.eligibility_steps.open_checks`."""
    yield lambda topic: preview_compaction(installation, topic, as_of_ms=as_of_ms)


def preview_compaction(installation: Installation, topic: str, *, as_of_ms: int) -> TopicCheck:
    """Return what compacting ``topic`` now would do. Leaves no plan, row, lease or assessment behind."""
    from winnow.pipeline.explain.explain import explain_compaction

    found = explain_compaction(installation, topic, as_of_ms=as_of_ms)
    reasons = Counter(each.reason.value for each in found.partitions)
    text = _describe_preview(found, reasons)
    log.info("%s", text)
    return TopicCheck(topic=topic, eligible=found.plan_id is not None, reasons=dict(reasons), would=text)


def log_preview(checks: Sequence[TopicCheck]) -> None:
    """Log a summary of what a run would do, over all topics."""
    due = [check for check in checks if check["eligible"]]
    for check in due:
        log.info("%s", check["would"])
    log.info(
        "Dry run: %d of %s due. Nothing was planned, compacted or held.", len(due), format_count(len(checks), "topic")
    )


def _describe_preview(found: Explanation, reasons: Counter[str]) -> str:
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    due = [each for each in found.partitions if each.eligible]
    if not due:
        return f"{found.topic}: nothing is due ({why})."
    parts = [_describe_reads(due), _describe_writes(due), _describe_removals(due)]
    quarantined = sum(each.records_to_quarantine for each in due)
    if quarantined:
        parts.append(f"move {quarantined:,} records without a key to the quarantine")
    retired = sum(each.records_retired for each in due)
    if retired:
        files = sum(each.segments_retired for each in due)
        parts.append(f"retire {retired:,} records in {format_count(files, 'segment')} by retention")
    return (
        f"{found.topic}: {len(due)} of {format_count(len(found.partitions), 'partition')} due ({why}). It would "
        f"{', '.join(parts)}."
    )


def _describe_reads(due: Sequence[PartitionExplanation]) -> str:
    from winnow.report.receipts import format_human_bytes

    records, segments = sum(each.records for each in due), sum(each.segments for each in due)
    size_bytes = sum(each.bytes_to_read for each in due)
    return f"read {records:,} records in {format_count(segments, 'segment')}, {format_human_bytes(size_bytes)}"


def _describe_writes(due: Sequence[PartitionExplanation]) -> str:
    from winnow.report.receipts import format_human_bytes

    most = format_human_bytes(sum(each.at_most_bytes_to_write for each in due))
    expected = [each.expected_bytes_out for each in due]
    known = [size for size in expected if size is not None]
    return f"write at most {most}" + (
        f" (about {format_human_bytes(sum(known))})" if known and len(known) == len(due) else ""
    )


def _describe_removals(due: Sequence[PartitionExplanation]) -> str:
    records = sum(each.records - each.records_to_quarantine for each in due)
    least = records - sum(each.at_most_records_kept for each in due)
    most = records - sum(each.at_least_records_kept for each in due)
    expected = [each.expected_records_kept for each in due]
    known = [kept for kept in expected if kept is not None]
    about = f" (about {records - sum(known):,})" if known and len(known) == len(due) else ""
    return f"remove {max(least, 0):,} to {max(most, 0):,} records{about}"


def compare_strategies(installation: Installation, topics: Sequence[str], strategy: str, *, as_of_ms: int) -> list[str]:
    """Compare ``strategy`` with each topic's own: return a sentence per topic about what it would keep instead.

    Runs one Spark application per topic that has cleanable records and another strategy.
    """
    from winnow.values.strategies import Strategy

    done: list[str] = []
    results = TaskResults(installation)
    for topic in topics:
        with results.collect(topic):
            text = _compare_one_topic(installation, topic, Strategy(strategy), as_of_ms)
            log.info("%s", text)
            done.append(text)
    results.raise_errors()
    return done


def _compare_one_topic(installation: Installation, topic: str, strategy: Strategy, as_of_ms: int) -> str:
    from winnow.pipeline.explain.compare import compare_strategies as compare_topic
    from winnow.pipeline.topics.topic_view import load_topic_view
    from winnow.values.strategies import Strategy as All

    view = load_topic_view(installation, topic)
    if not view.config.compacts:
        return f"{topic} was not compared: its policy has no compact, so no strategy chooses between its records."
    if view.rules.strategy is strategy:
        return f"{topic} has strategy {strategy.value} already; there is nothing to compare."
    if strategy is All.HEADER and not view.config.compaction_strategy_header:
        return (
            f"{topic} was not compared: it names no header that holds the version. Set compaction.strategy.header, or "
            f"try one with: winnow compare {topic} --strategy header --header NAME"
        )
    found = compare_topic(
        installation,
        topic,
        strategy=strategy,
        header=None,
        as_of_ms=as_of_ms,
        sample=MAXIMUM_SAMPLE_KEYS,
        progress=_log_progress,
    )
    return _describe_comparison(found)


def _log_progress(event: dict[str, Any]) -> None:
    log.debug("%s", event.get("event"))


def _describe_comparison(found: Comparison) -> str:
    from winnow.report.receipts import format_human_bytes

    if not found.partitions:
        return found.sentence
    now, instead = found.present, found.other
    kept = (
        f"It would keep {instead.records_kept:,} of {found.records:,} records, about "
        f"{format_human_bytes(instead.estimated_bytes)}, instead of {now.records_kept:,}, about "
        f"{format_human_bytes(now.estimated_bytes)}."
    )
    parts = [found.sentence, kept]
    if found.sample:
        winners = [
            f"{found.topic}-{key.partition} offset {key.other.offset} instead of {key.present.offset}"
            for key in found.sample
        ]
        parts.append(f"For example {'; '.join(winners)}.")
    if found.headers_missing or found.headers_malformed:
        missing, malformed = found.headers_missing or 0, found.headers_malformed or 0
        parts.append(f"{missing:,} records have no such header, {malformed:,} have one that is not an 8-byte long.")
    return " ".join([*parts, *found.notices, "Nothing was changed."])
