"""``winnow compare``: what another strategy would choose, before anybody switches to it. Publishes nothing.

Covers exactly what a compaction at the as-of would: of each partition the log that retention leaves, below the first
uncleanable offset, also where the partition is idle. The choice runs in Spark, as a compaction does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from winnow import documents
from winnow.config.topic import TopicConfig
from winnow.eligibility import (
    PartitionLog,
    Rules,
    apply_retention,
    find_covered_end,
    list_expired_ranges,
    make_tombstone_expiry,
    remove_retired,
)
from winnow.engine import shadow_request
from winnow.engine.events import PlanFailure
from winnow.engine.shadow_request import DiffPartition, DiffRequest, DiffResult, RecordOrder
from winnow.errors import (
    ConfigurationError,
    DamagedSegmentError,
    RunAgainError,
    ServiceError,
    UsageError,
    WinnowError,
)
from winnow.files import storage
from winnow.model import Assessment, Strategy
from winnow.pipeline.assess import TopicView, assess_view, load_topic_view
from winnow.pipeline.comparison import Comparison, build_comparison
from winnow.pipeline.context import Context
from winnow.pipeline.spark_process import Progress, build_engine_arguments, find_job_file, run_job
from winnow.planning import PlanReference

CompareRunner = Callable[[Context, DiffRequest, Progress | None], DiffResult]


def compare_strategies(
    ctx: Context,
    topic: str,
    *,
    strategy: Strategy,
    header: str | None,
    as_of_ms: int,
    sample: int,
    progress: Progress | None = None,
    run: CompareRunner | None = None,
) -> Comparison:
    """Choose in shadow under ``strategy`` and under the one in force, and tell where the winners differ.

    Writes nothing in table or metadata store; request and result rest in the staging area while it runs.

    Args:
        ctx: where.
        topic: an existing topic.
        strategy: the other strategy.
        header: the header of strategy ``header``; the topic's own when left out.
        as_of_ms: the instant that decides what a compaction would cover.
        sample: how many differing keys are told with coordinates, those whose present winners come first.
        progress: told each event of the Spark application.
        run: who makes the choice; a Spark application when left out.

    Raises:
        UsageError: a header without strategy ``header``, or no such topic.
        ConfigurationError: strategy ``header`` without a header's name.
        DamagedSegmentError, ServiceError, WinnowError: it could not be carried out; nothing was changed.
    """
    view = load_topic_view(ctx, topic)
    present = RecordOrder(view.rules.strategy, _get_header(view.rules.strategy, view.config))
    request = DiffRequest(
        comparison_id=uuid.uuid4().hex,
        topic=topic,
        as_of_ms=as_of_ms,
        present=present,
        other=_build_other_order(strategy, header, view.config),
        sample=sample,
        partitions=(),
    )
    covered = build_compared_partitions(ctx, view, request, as_of_ms=as_of_ms)
    request = replace(request, partitions=tuple(covered))
    result = DiffResult(request.comparison_id, topic, ())
    if covered:
        result = (run or compare_in_spark)(ctx, request, progress)
    return build_comparison(view, request, result)


def _get_header(strategy: Strategy, config: TopicConfig) -> str | None:
    return config.compaction_strategy_header or None if strategy is Strategy.HEADER else None


def _build_other_order(strategy: Strategy, header: str | None, config: TopicConfig) -> RecordOrder:
    if strategy is not Strategy.HEADER:
        if header is not None:
            raise UsageError(f"--header goes with --strategy header, not with {strategy.value}. Nothing was compared.")
        return RecordOrder(strategy)
    name = header or config.compaction_strategy_header
    if not name:
        raise ConfigurationError(
            "compaction.strategy.header must be specified. Name the header that holds the version: --header NAME"
        )
    return RecordOrder(strategy, name)


def build_compared_partitions(
    ctx: Context, view: TopicView, request: DiffRequest, *, as_of_ms: int
) -> list[DiffPartition]:
    """What a compaction of each partition would cover, eligible or not; those with nothing to cover are left out."""
    others = replace(view.rules, strategy=request.other.strategy, strategy_header=request.other.header)
    found = [
        _build_compared_partition(ctx, log, view.rules, others, assessment, as_of_ms)
        for log, assessment in zip(view.partitions, assess_view(ctx, view, as_of_ms=as_of_ms), strict=True)
    ]
    return [partition for partition in found if partition.segments]


def _build_compared_partition(
    ctx: Context, log: PartitionLog, rules: Rules, others: Rules, assessment: Assessment, as_of_ms: int
) -> DiffPartition:
    left = remove_retired(log, apply_retention(log, rules, as_of_ms=as_of_ms, now_ms=ctx.now_ms()))
    start, end = left.state.log_start_offset, assessment.first_uncleanable_offset
    clock_ms = ctx.cleaning_time_ms(as_of_ms)
    return DiffPartition(
        partition=log.partition,
        start_offset=start,
        end_offset=end,
        segments=tuple(s for s in left.segments if s.first_offset < end and s.last_offset >= start),
        expired_present=list_expired_ranges(left.state.history, make_tombstone_expiry(left, rules, end, clock_ms)),
        expired_other=list_expired_ranges(left.state.history, make_tombstone_expiry(left, others, end, clock_ms)),
        covered_end_present=find_covered_end(left.state.history, rules, end),
        covered_end_other=find_covered_end(left.state.history, others, end),
    )


def compare_in_spark(ctx: Context, request: DiffRequest, progress: Progress | None = None) -> DiffResult:
    """Carry out ``request`` in one Spark application. Request and result leave the staging area afterwards.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        DamagedSegmentError, ServiceError, WinnowError: it could not be carried out.
    """
    uri = shadow_request.build_request_uri(ctx.settings.staging, request.topic, request.comparison_id)
    job = [find_job_file("compare"), *build_engine_arguments(ctx.settings), uri]
    size_bytes = sum(partition.size_bytes for partition in request.partitions)
    reference = PlanReference(request.topic, request.comparison_id, uri, len(request.partitions), size_bytes, None)
    try:
        storage.write_bytes(uri, documents.dump_json(request))
        name = f"winnow compare {request.topic}"
        done = run_job(ctx.settings, job, name=name, plans=[reference], progress=progress)
        failure = done.failures.get(request.comparison_id)
        if failure is not None:
            raise _build_error(request.topic, failure)
        return documents.load_json(DiffResult, storage.read_bytes(shadow_request.build_result_uri(uri)))
    finally:
        for document in (uri, shadow_request.build_result_uri(uri)):
            storage.delete(document)


def _build_error(topic: str, failure: PlanFailure) -> WinnowError:
    kinds: dict[int, type[WinnowError]] = {
        kind.exit_code: kind for kind in (UsageError, DamagedSegmentError, RunAgainError, ServiceError)
    }
    kind = kinds.get(failure.exit_code, WinnowError)
    return kind(f"Topic {topic} was not compared: {failure.error}. Nothing was changed; compare it again.")
