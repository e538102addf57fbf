"""``winnow compare``: what another strategy would choose, before anybody switches to it. Publishes nothing.

Covers exactly what a compaction at the as-of would: of each partition the log that retention leaves, below the first
uncleanable offset, also where the partition is idle. The choice runs in Spark, as a compaction does.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from winnow import documents
from winnow.bundle import bundled
from winnow.config.topic import TopicConfig
from winnow.eligibility import PartitionLog, Rules, after_retention, expired_ranges, outliving, retention
from winnow.engine import shadow
from winnow.engine.events import PlanFailure
from winnow.engine.shadow import Coordinates, Order, ShadowPartition, ShadowRequest, ShadowResult, ShadowSide
from winnow.errors import (
    ConfigurationError,
    DamagedSegmentError,
    RunAgainError,
    ServiceError,
    UsageError,
    WinnowError,
)
from winnow.files import storage
from winnow.java import check_spark_install, find_java, spark_environment
from winnow.model import Assessment, Strategy
from winnow.pipeline.assess import TopicView, assess_view, view_topic
from winnow.pipeline.compact import Progress, _follow, spark_conf
from winnow.pipeline.context import Context
from winnow.planning import PlanReference

Runner = Callable[[Context, ShadowRequest, Progress | None], ShadowResult]


@dataclass(frozen=True, slots=True)
class Side:
    """What one order would leave of everything compared. ``order`` says it in words."""

    strategy: Strategy
    header: str | None
    order: str
    records_kept: int
    tombstones_expired: int
    estimated_bytes: int
    differing_tombstones: int


@dataclass(frozen=True, slots=True)
class DifferingKey:
    """One key with two winners: coordinates, never bytes."""

    partition: int
    present: Coordinates
    other: Coordinates


@dataclass(frozen=True, slots=True)
class PartitionComparison:
    """One partition of the comparison: the records in [``log_start_offset``, ``first_uncleanable_offset``)."""

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
    """Both choices over one topic. Partitions in which nothing is cleanable are left out.

    ``headers_*``: records without the header, and with a value that is no 8-byte long; None where no order looks at
    one.
    """

    topic: str
    as_of_ms: int
    sentence: str
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    present: Side
    other: Side
    headers_missing: int | None
    headers_malformed: int | None
    partitions_cleaned_before: int
    notices: tuple[str, ...]
    sample: tuple[DifferingKey, ...]
    partitions: tuple[PartitionComparison, ...]


def compare(
    ctx: Context,
    topic: str,
    *,
    strategy: Strategy,
    header: str | None,
    as_of_ms: int,
    sample: int,
    progress: Progress | None = None,
    run: Runner | None = None,
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
    view = view_topic(ctx, topic)
    present = Order(view.rules.strategy, _header_of(view.rules.strategy, view.config))
    request = ShadowRequest(
        comparison_id=uuid.uuid4().hex,
        topic=topic,
        as_of_ms=as_of_ms,
        present=present,
        other=_other(strategy, header, view.config),
        sample=sample,
        partitions=(),
    )
    covered = covered_partitions(ctx, view, request, as_of_ms=as_of_ms)
    request = replace(request, partitions=tuple(covered))
    result = ShadowResult(request.comparison_id, topic, ())
    if covered:
        result = (run or in_spark)(ctx, request, progress)
    return _summary(view, request, result)


def _header_of(strategy: Strategy, config: TopicConfig) -> str | None:
    return config.compaction_strategy_header or None if strategy is Strategy.HEADER else None


def _other(strategy: Strategy, header: str | None, config: TopicConfig) -> Order:
    if strategy is not Strategy.HEADER:
        if header is not None:
            raise UsageError(f"--header goes with --strategy header, not with {strategy.value}. Nothing was compared.")
        return Order(strategy)
    name = header or config.compaction_strategy_header
    if not name:
        raise ConfigurationError(
            "compaction.strategy.header must be specified. Name the header that holds the version: --header NAME"
        )
    return Order(strategy, name)


def covered_partitions(
    ctx: Context, view: TopicView, request: ShadowRequest, *, as_of_ms: int
) -> list[ShadowPartition]:
    """What a compaction of each partition would cover, eligible or not; those with nothing to cover are left out."""
    others = replace(view.rules, strategy=request.other.strategy, strategy_header=request.other.header)
    found = [
        _covered(ctx, log, view.rules, others, assessment, as_of_ms)
        for log, assessment in zip(view.partitions, assess_view(ctx, view, as_of_ms=as_of_ms), strict=True)
    ]
    return [partition for partition in found if partition.segments]


def _covered(
    ctx: Context, log: PartitionLog, rules: Rules, others: Rules, assessment: Assessment, as_of_ms: int
) -> ShadowPartition:
    left = after_retention(log, retention(log, rules, as_of_ms=as_of_ms, now_ms=ctx.now_ms()))
    start, end = left.state.log_start_offset, assessment.first_uncleanable_offset
    clock_ms = ctx.cleaning_time_ms(as_of_ms)
    return ShadowPartition(
        partition=log.partition,
        start_offset=start,
        end_offset=end,
        segments=tuple(s for s in left.segments if s.first_offset < end and s.last_offset >= start),
        expired_present=expired_ranges(left.state.history, outliving(left, rules, end, clock_ms)),
        expired_other=expired_ranges(left.state.history, outliving(left, others, end, clock_ms)),
    )


def in_spark(ctx: Context, request: ShadowRequest, progress: Progress | None = None) -> ShadowResult:
    """Carry out ``request`` in one Spark application. Request and result leave the staging area afterwards.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        DamagedSegmentError, ServiceError, WinnowError: it could not be carried out.
    """
    settings = ctx.settings
    check_spark_install()
    environment = spark_environment(os.environ, find_java(os.environ, settings.home / "java"), settings.spark.master)
    uri = shadow.request_uri(settings.staging, request.topic, request.comparison_id)
    command = [
        "spark-submit",
        "--master",
        settings.spark.master,
        "--name",
        f"winnow compare {request.topic}",
        *[part for key, value in sorted(spark_conf(settings).items()) for part in ("--conf", f"{key}={value}")],
        str(bundled("jobs") / "compare.py"),
        "--memory",
        str(settings.engine.memory_bytes),
        "--threads",
        str(settings.engine.threads),
        "--spill",
        settings.engine.spill_folder,
        uri,
    ]
    size_bytes = sum(partition.size_bytes for partition in request.partitions)
    reference = PlanReference(request.topic, request.comparison_id, uri, len(request.partitions), size_bytes, None)
    try:
        storage.write_bytes(uri, documents.dump_json(request))
        failure = _follow(command, environment, progress, [reference]).failures.get(request.comparison_id)
        if failure is not None:
            raise _error(request.topic, failure)
        return documents.load_json(ShadowResult, storage.read_bytes(shadow.result_uri(uri)))
    finally:
        for document in (uri, shadow.result_uri(uri)):
            storage.delete(document)


def _error(topic: str, failure: PlanFailure) -> WinnowError:
    kinds: dict[int, type[WinnowError]] = {
        kind.exit_code: kind for kind in (UsageError, DamagedSegmentError, RunAgainError, ServiceError)
    }
    kind = kinds.get(failure.exit_code, WinnowError)
    return kind(f"Topic {topic} was not compared: {failure.error}. Nothing was changed; compare it again.")


def _summary(view: TopicView, request: ShadowRequest, result: ShadowResult) -> Comparison:
    parts = result.partitions
    ranges = {partition.partition: partition for partition in request.partitions}
    sample = sorted(
        (DifferingKey(part.partition, key.present, key.other) for part in parts for key in part.sample),
        key=lambda key: (key.present.offset, key.partition),
    )
    keys, differing = sum(part.keys for part in parts), sum(part.keys_differing for part in parts)
    looks_at_header = request.header is not None
    cleaned = sum(log.state.strategy is not None or bool(log.state.history) for log in view.partitions)
    return Comparison(
        topic=request.topic,
        as_of_ms=request.as_of_ms,
        sentence=_sentence(request, keys, differing),
        records=sum(part.records for part in parts),
        records_keyless=sum(part.records_keyless for part in parts),
        keys=keys,
        keys_differing=differing,
        present=_side(request.present, [part.present for part in parts]),
        other=_side(request.other, [part.other for part in parts]),
        headers_missing=sum(part.headers_missing for part in parts) if looks_at_header else None,
        headers_malformed=sum(part.headers_malformed for part in parts) if looks_at_header else None,
        partitions_cleaned_before=cleaned,
        notices=tuple(_notices(view, cleaned)),
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


def _side(order: Order, sides: Sequence[ShadowSide]) -> Side:
    def total(name: str) -> int:
        return sum(int(getattr(side, name)) for side in sides)

    return Side(
        strategy=order.strategy,
        header=order.header,
        order=order.words,
        records_kept=total("records_kept"),
        tombstones_expired=total("tombstones_expired"),
        estimated_bytes=total("estimated_bytes"),
        differing_tombstones=total("differing_tombstones"),
    )


def _sentence(request: ShadowRequest, keys: int, differing: int) -> str:
    if not request.partitions:
        return f"Nothing of {request.topic} is cleanable at this as-of, so there is nothing to compare."
    if request.other == request.present:
        return f"{request.topic} has this strategy already: none of its {keys:,} keys would have another winner."
    return (
        f"Under {_name(request.other)} instead of {_name(request.present)}, {differing:,} of {keys:,} keys of "
        f"{request.topic} would have another winner."
    )


def _name(order: Order) -> str:
    return f"strategy {order.strategy.value}" + (f" ({order.header})" if order.header is not None else "")


def _notices(view: TopicView, cleaned: int) -> list[str]:
    found: list[str] = []
    if cleaned:
        found.append(
            f"{cleaned:,} of {len(view.partitions):,} partition(s) of {view.log.topic} were cleaned before: records "
            "that earlier compactions removed cannot take part, and no strategy brings them back."
        )
    if not view.config.compacts:
        found.append(f"The policy of {view.log.topic} has no compact, so no run would choose between records now.")
    return found
