"""Compares the current compaction strategy with another one over a topic, without publishing anything.

Covers exactly the records of a compaction at the as-of: of each partition the log that retention leaves, below the
first uncleanable offset, even if the partition is idle. Winners are picked in Spark, as in a compaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from winnow.config.topic import TopicConfig
from winnow.engine.events import PlanFailure
from winnow.engine.job_notes import JobNote
from winnow.engine.strategy_diff import DiffPartition, DiffRequest, DiffResult, DiffSide, RecordCoordinates, RecordOrder
from winnow.errors import (
    ConfigurationError,
    DamagedSegmentError,
    RunAgainError,
    ServiceError,
    UsageError,
    WinnowError,
)
from winnow.pipeline.compaction.assess import assess_view
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.state import get_present_order
from winnow.pipeline.spark.plan_job import run_plan_job
from winnow.pipeline.spark.submit import Progress
from winnow.pipeline.topics.topic_view import TopicView, load_topic_view
from winnow.planning.cleanable import PartitionLog, Rules
from winnow.planning.eligibility import (
    apply_retention,
    find_covered_end,
    list_expired_ranges,
    make_tombstone_expiry,
    remove_retired,
)
from winnow.values.counts import format_count
from winnow.values.model import Assessment
from winnow.values.strategies import Strategy


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """The result of one order over everything compared. ``order`` is its text."""

    strategy: Strategy
    header: str | None
    order: str
    records_kept: int
    tombstones_expired: int
    estimated_bytes: int
    differing_tombstones: int


@dataclass(frozen=True, slots=True)
class DifferingKey:
    """One key with two winners: coordinates, no bytes."""

    partition: int
    present: RecordCoordinates
    other: RecordCoordinates


@dataclass(frozen=True, slots=True)
class PartitionComparison:
    """One compared partition: the records in [``log_start_offset``, ``first_uncleanable_offset``)."""

    partition: int
    log_start_offset: int
    first_uncleanable_offset: int
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    headers_missing: int
    headers_malformed: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both results for one topic. Partitions without cleanable records are left out.

    ``headers_*``: records without the header, and with a value that is not an 8-byte long; None if neither order uses a
    header.
    """

    topic: str
    as_of_ms: int
    sentence: str
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    present: ComparisonSide
    other: ComparisonSide
    headers_missing: int | None
    headers_malformed: int | None
    partitions_cleaned_before: int
    notices: tuple[str, ...]
    sample: tuple[DifferingKey, ...]
    partitions: tuple[PartitionComparison, ...]


def build_comparison(view: TopicView, request: DiffRequest, result: DiffResult) -> Comparison:
    """Build the answer to ``request`` for the topic of ``view``."""
    parts = result.partitions
    ranges = {partition.partition: partition for partition in request.partitions}
    sample = sorted(
        (DifferingKey(part.partition, key.present, key.other) for part in parts for key in part.sample),
        key=lambda key: (key.present.offset, key.partition),
    )
    keys, differing = sum(part.keys for part in parts), sum(part.keys_differing for part in parts)
    uses_header = request.header is not None
    cleaned = sum(log.state.strategy is not None or bool(log.state.history) for log in view.partitions)
    return Comparison(
        topic=request.topic,
        as_of_ms=request.as_of_ms,
        sentence=_format_sentence(request, keys, differing),
        records=sum(part.records for part in parts),
        records_keyless=sum(part.records_keyless for part in parts),
        keys=keys,
        keys_differing=differing,
        present=_build_side(request.present, [part.present for part in parts]),
        other=_build_side(request.other, [part.other for part in parts]),
        headers_missing=sum(part.headers_missing for part in parts) if uses_header else None,
        headers_malformed=sum(part.headers_malformed for part in parts) if uses_header else None,
        partitions_cleaned_before=cleaned,
        notices=tuple(_build_notices(view, cleaned)),
        sample=tuple(sample[: request.sample]),
        partitions=tuple(
            PartitionComparison(
                partition=part.partition,
                log_start_offset=ranges[part.partition].start_offset,
                first_uncleanable_offset=ranges[part.partition].end_offset,
                records=part.records,
                records_keyless=part.records_keyless,
                keys=part.keys,
                keys_differing=part.keys_differing,
                headers_missing=part.headers_missing,
                headers_malformed=part.headers_malformed,
            )
            for part in parts
        ),
    )


def _build_side(order: RecordOrder, sides: Sequence[DiffSide]) -> ComparisonSide:
    def total(name: str) -> int:
        return sum(int(getattr(side, name)) for side in sides)

    return ComparisonSide(
        strategy=order.strategy,
        header=order.header,
        order=order.words,
        records_kept=total("records_kept"),
        tombstones_expired=total("tombstones_expired"),
        estimated_bytes=total("estimated_bytes"),
        differing_tombstones=total("differing_tombstones"),
    )


def _format_sentence(request: DiffRequest, keys: int, differing: int) -> str:
    if not request.partitions:
        return f"Nothing of {request.topic} is cleanable at this as-of, so there is nothing to compare."
    if request.other == request.present:
        return f"{request.topic} has this strategy already: none of its {keys:,} keys would have another winner."
    return (
        f"Under {_format_order(request.other)} instead of {_format_order(request.present)}, {differing:,} of {keys:,} "
        f"keys of {request.topic} would have another winner."
    )


def _format_order(order: RecordOrder) -> str:
    return f"strategy {order.strategy.value}" + (f" ({order.header})" if order.header is not None else "")


def _build_notices(view: TopicView, cleaned: int) -> list[str]:
    found: list[str] = []
    if cleaned:
        found.append(
            f"{cleaned:,} of {format_count(len(view.partitions), 'partition')} of {view.log.topic} were cleaned "
            "before: records that earlier compactions removed cannot take part, and no strategy brings them back."
        )
    if not view.config.compacts:
        found.append(f"The policy of {view.log.topic} has no compact, so no run would choose between records now.")
    return found


CompareRunner = Callable[[Installation, DiffRequest, Progress | None], DiffResult]


def compare_strategies(
    installation: Installation,
    topic: str,
    *,
    strategy: Strategy,
    header: str | None,
    as_of_ms: int,
    sample: int,
    progress: Progress | None = None,
    run: CompareRunner | None = None,
) -> Comparison:
    """Pick winners under ``strategy`` and under the current one, and return where they differ.

    Writes nothing to table or metadata store; request and result are in the staging area while it runs.

    Args:
        installation: the installation.
        topic: an existing topic.
        strategy: the other strategy.
        header: the header of strategy ``header``; default: the topic's own.
        as_of_ms: the time that decides what a compaction would cover.
        sample: maximum differing keys with coordinates, those with the lowest present winners.
        progress: called with each event of the Spark application.
        run: picks the winners; default: a Spark application.

    Raises:
        UsageError: a header without strategy ``header``, or no such topic.
        ConfigurationError: strategy ``header`` without a header's name.
        DamagedSegmentError, ServiceError, WinnowError: it could not be carried out; nothing was changed.
    """
    view = load_topic_view(installation, topic)
    request = DiffRequest(
        plan_id=uuid.uuid4().hex,
        topic=topic,
        as_of_ms=as_of_ms,
        present=get_present_order(view.rules),
        other=_build_other_order(strategy, header, view.config),
        sample=sample,
        partitions=(),
    )
    covered = build_compared_partitions(installation, view, request, as_of_ms=as_of_ms)
    request = replace(request, partitions=tuple(covered))
    result = DiffResult(request.plan_id, topic, ())
    if covered:
        result = (run or compare_in_spark)(installation, request, progress)
    return build_comparison(view, request, result)


def _build_other_order(strategy: Strategy, header: str | None, config: TopicConfig) -> RecordOrder:
    if strategy is not Strategy.HEADER:
        if header is not None:
            raise UsageError(
                f"--header goes with --strategy header, not with {strategy.value}.",
                left="Nothing was compared.",
            )
        return RecordOrder(strategy)
    name = header or config.compaction_strategy_header
    if not name:
        raise ConfigurationError(
            "compaction.strategy.header must be specified.",
            next="Name the header that holds the version: --header NAME",
        )
    return RecordOrder(strategy, name)


def build_compared_partitions(
    installation: Installation, view: TopicView, request: DiffRequest, *, as_of_ms: int
) -> list[DiffPartition]:
    """Return the records that a compaction of each partition would cover, eligible or not; empty ones are left out."""
    others = replace(view.rules, strategy=request.other.strategy, strategy_header=request.other.header)
    found = [
        _build_compared_partition(installation, log, view.rules, others, assessment, as_of_ms)
        for log, assessment in zip(view.partitions, assess_view(installation, view, as_of_ms=as_of_ms), strict=True)
    ]
    return [partition for partition in found if partition.segments]


def _build_compared_partition(
    installation: Installation, log: PartitionLog, rules: Rules, others: Rules, assessment: Assessment, as_of_ms: int
) -> DiffPartition:
    remaining = remove_retired(log, apply_retention(log, rules, as_of_ms=as_of_ms, now_ms=installation.now_ms()))
    start, end = remaining.state.log_start_offset, assessment.first_uncleanable_offset
    clock_ms = installation.cleaning_time_ms(as_of_ms)
    return DiffPartition(
        partition=log.partition,
        start_offset=start,
        end_offset=end,
        segments=tuple(s for s in remaining.segments if s.first_offset < end and s.last_offset >= start),
        expired_present=list_expired_ranges(
            remaining.state.history, make_tombstone_expiry(remaining, rules, end, clock_ms)
        ),
        expired_other=list_expired_ranges(
            remaining.state.history, make_tombstone_expiry(remaining, others, end, clock_ms)
        ),
        covered_end_present=find_covered_end(remaining.state.history, rules, end),
        covered_end_other=find_covered_end(remaining.state.history, others, end),
    )


def compare_in_spark(installation: Installation, request: DiffRequest, progress: Progress | None = None) -> DiffResult:
    """Carry out ``request`` in one Spark application. Request and result are removed from the staging area afterwards.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        DamagedSegmentError, ServiceError, WinnowError: it could not be carried out.
    """
    result = run_plan_job(
        installation.settings,
        JobNote("compare", request.topic, request.plan_id, installation.now_ms()),
        request,
        DiffResult,
        title=f"winnow compare {request.topic}",
        units=len(request.partitions),
        size_bytes=sum(partition.size_bytes for partition in request.partitions),
        progress=progress,
    )
    if isinstance(result, PlanFailure):
        raise _build_error(request.topic, result)
    return result


def _build_error(topic: str, failure: PlanFailure) -> WinnowError:
    kinds: dict[int, type[WinnowError]] = {
        kind.exit_code: kind for kind in (UsageError, DamagedSegmentError, RunAgainError, ServiceError)
    }
    kind = kinds.get(failure.exit_code, WinnowError)
    return kind(f"Topic {topic} was not compared: {failure.error}. Nothing was changed; compare it again.")
