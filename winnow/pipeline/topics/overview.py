"""The overview of topics that the web page shows: built from a topic's view and recorded in the store.

An overview shows the present, regardless of the run's as-of: a backfill over last month, or a simulated month, must
not appear as due today. It does not say whether a run is at work; runs have rows of their own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.config.topic import list_entries
from winnow.errors import WinnowError
from winnow.log.head import Head
from winnow.log.recorded_configuration import read_kafka_record
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.latest_progress import build_log_state
from winnow.pipeline.topics.table_health import build_table_health
from winnow.pipeline.topics.topic_view import EarlierRuns, load_topic_view
from winnow.planning import eligibility
from winnow.planning.cleanable import PartitionLog
from winnow.planning.eligibility import Decision
from winnow.planning.estimates import estimate_plan
from winnow.planning.plans import plan_partition
from winnow.store.assessments import AssessedTopic
from winnow.store.latest_progress import LogState
from winnow.store.rows import AppendedRecords, PartitionOverview, TopicOverview
from winnow.store.samples import MAXIMUM_BIGINT
from winnow.values.model import Segment

if TYPE_CHECKING:
    from winnow.pipeline.topics.topic_view import TopicView

log = logging.getLogger("winnow")

MAXIMUM_REFRESHED_SEGMENTS = 1_000
"""Maximum segments of a log whose manifests are read after an ingest only to record its overview."""


def record_overview(installation: Installation, view: TopicView, earlier: EarlierRuns | None = None) -> None:
    """Record the overview of the topic in ``view`` in one transaction for all partitions.

    ``earlier``: earlier runs, if they were read already.

    Raises:
        ServiceError: the metadata store cannot be reached.
    """
    installation.store.overview.record_topic(build_overview(installation, view, earlier))


def build_overview(
    installation: Installation,
    view: TopicView,
    earlier: EarlierRuns | None = None,
    decisions: Sequence[Decision] | None = None,
) -> AssessedTopic:
    """Build the overview of the topic in ``view``, to be recorded.

    Args:
        installation: the installation.
        view: the topic.
        earlier: earlier runs, if they were read already.
        decisions: of its partitions, if they were made for the view's present and no run holds the topic.
    """
    made = decide_for_present(view) if decisions is None else decisions
    found = build_partition_overviews(view, made, earlier or EarlierRuns(installation, view.log.topic))
    now_ms = installation.now_ms()
    picture = build_topic_overview(view, found, recorded_at_ms=now_ms)
    health = build_table_health(view, recorded_at_ms=now_ms)
    return AssessedTopic(
        picture=picture,
        partitions=found,
        health=health,
        latest=build_log_state(view.head, view.config, view.partitions, view.now_ms),
        table_uuid=view.head.table_uuid,
    )


def record_assessed_topics(installation: Installation, topics: Sequence[AssessedTopic], *, as_of_ms: int) -> None:
    """Record decisions and overviews in one transaction; only the decisions if an overview cannot be written.

    Raises:
        ServiceError: the metadata store cannot be reached.
    """
    try:
        installation.store.overview.record_many(as_of_ms, installation.now_ms(), topics)
    except WinnowError:
        found = [assessment for topic in topics for assessment in topic.assessments]
        installation.store.assessments.record(as_of_ms, installation.now_ms(), found)
        for topic in topics:
            if topic.picture is not None:
                with suppress_overview_errors(topic.picture.topic):
                    installation.store.overview.record_many(
                        as_of_ms, installation.now_ms(), [replace(topic, assessments=())]
                    )


def decide_for_present(view: TopicView) -> list[Decision]:
    """Decide about every partition of ``view`` now, even if a run holds the topic."""
    now_ms = view.now_ms
    return [
        eligibility.decide_eligibility(log, view.rules, as_of_ms=now_ms, cleaning_time_ms=now_ms)
        for log in view.partitions
    ]


@contextmanager
def suppress_overview_errors(topic: str) -> Iterator[list[str]]:
    """Suppress errors of building overviews: the page shows the previous one until the next assessment.

    Yields a list in which the block notes the overviews that it recorded.
    """
    done: list[str] = []
    try:
        yield done
    except Exception as problem:  # no error here may affect a decision or a recorded outcome
        # A library's message may quote data.
        said = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
        log.warning("The page shows topic %s as it was before; the next check looks again. %s", topic, said)


def build_partition_overviews(
    view: TopicView, decisions: Sequence[Decision], earlier: EarlierRuns
) -> list[PartitionOverview]:
    """Build the present overview of every partition of ``view``, in their order."""
    return [
        _build_partition_overview(view, log, decision, earlier)
        for log, decision in zip(view.partitions, decisions, strict=True)
    ]


def build_topic_overview(view: TopicView, partitions: list[PartitionOverview], *, recorded_at_ms: int) -> TopicOverview:
    """Build the overview of the topic of ``view``, summed up over its partitions."""
    config = view.config
    reclaimable = [each.reclaimable_bytes for each in partitions if each.reclaimable_bytes is not None]
    return TopicOverview(
        topic=view.log.topic,
        as_of_ms=view.now_ms,
        recorded_at_ms=recorded_at_ms,
        partitions=len(partitions),
        eligible=sum(each.eligible for each in partitions),
        dirty_ratio=max((each.dirty_ratio for each in partitions), default=0.0),
        threshold=config.min_cleanable_dirty_ratio,
        compacts=config.compacts,
        policy=",".join(sorted(config.cleanup_policy)),
        strategy=config.compaction_strategy.value,
        deadline_ms=min((each.deadline_ms for each in partitions if each.deadline_ms is not None), default=None),
        size_bytes=sum(each.size_bytes for each in partitions),
        # Where it is not known of some partitions it is at least this much, of which 0 would tell nothing.
        reclaimable_bytes=sum(reclaimable) or (0 if len(reclaimable) == len(partitions) else None),
        retired_bytes=sum(file.size_bytes for file in view.head.state.waiting_files),
        configuration=_format_configuration(view),
        table_name=".".join(view.head.table.name()),
        location=view.head.location,
        owner=config.owner,
        tags=",".join(config.tags),
        records=sum(each.records for each in partitions),
        files=sum(each.files for each in partitions),
        clean_bytes=sum(each.clean_bytes for each in partitions),
        cleanable_bytes=sum(each.cleanable_bytes for each in partitions),
        end_offsets=min(MAXIMUM_BIGINT, sum(each.log_end_offset for each in partitions)),
    )


def _build_partition_overview(
    view: TopicView, log: PartitionLog, decision: Decision, earlier: EarlierRuns
) -> PartitionOverview:
    rules, found, span = view.rules, decision.assessment, decision.span
    return PartitionOverview(
        topic=log.topic,
        partition=log.partition,
        eligible=found.eligible,
        reason=found.reason.value,
        log_start_offset=found.log_start_offset,
        first_dirty_offset=found.first_dirty_offset,
        first_uncleanable_offset=found.first_uncleanable_offset,
        active_offset=None if span.active_offset >= found.log_end_offset else span.active_offset,
        log_end_offset=found.log_end_offset,
        dirty_ratio=found.dirty_ratio if rules.compacts else 0.0,
        clean_bytes=found.clean_bytes,
        cleanable_bytes=found.cleanable_bytes,
        size_bytes=sum(segment.size_bytes for segment in log.segments),
        max_compaction_delay_ms=found.max_compaction_delay_ms if rules.compacts else 0,
        # A topic that is never compacted cannot be late.
        deadline_ms=found.deadline_ms if rules.compacts else None,
        reclaimable_bytes=_estimate_reclaimable_bytes(view, log, decision, earlier),
        records=sum(segment.records for segment in log.segments),
        files=len(log.segments),
    )


def _estimate_reclaimable_bytes(
    view: TopicView, log: PartitionLog, decision: Decision, earlier: EarlierRuns
) -> int | None:
    """Estimate the bytes that a run now would free, even if none is due; None if no earlier run allows an estimate."""
    found, now_ms = decision.assessment, view.now_ms
    cleans = view.rules.compacts and found.cleanable_bytes > 0
    if not cleans and not found.eligible:
        return 0
    plan = plan_partition(log, view.rules, found, as_of_ms=now_ms, now_ms=now_ms, taken=decision.taken)
    retired_bytes = sum(segment.size_bytes for segment in plan.retired)
    if not view.rules.compacts or not plan.segments:
        return retired_bytes
    expected_bytes = estimate_plan(plan, log.state.history, earlier.shares).expected_bytes_out
    return None if expected_bytes is None else retired_bytes + max(0, plan.size_bytes - expected_bytes)


def _format_configuration(view: TopicView) -> str:
    """Format the entries. ``held``: the value at Kafka that waits for acceptance; None: none does."""
    record = read_kafka_record(view.head.table.properties)
    held = {name: each.value for name, each in record.items() if each.held}
    rows = [
        {
            "name": each.name,
            "value": each.value,
            "source": each.source,
            "is_default": each.name not in view.config.overrides,
            "sentence": each.sentence,
            "kafka": each.kafka,
            "held": held.get(each.name),
        }
        for each in list_entries(view.config, record)
    ]
    return json.dumps(rows, ensure_ascii=False)


def refresh_overview(
    installation: Installation,
    topic: str,
    head: Head | None = None,
    live: Mapping[int, tuple[Segment, ...]] | None = None,
) -> bool:
    """Record the present overview of ``topic``. Loads the head and segments that are not given.

    An overview that cannot be built never fails the finished work: the page shows the previous one
    until the next assessment.

    Returns:
        Whether the overview was recorded.
    """
    with suppress_overview_errors(topic) as taken:
        record_overview(installation, load_topic_view(installation, topic, head, live))
        taken.append(topic)
    return bool(taken)


def refresh_after_append(
    installation: Installation, topic: str, head: Head, appended: Sequence[AppendedRecords], latest: LogState
) -> None:
    """Record what an ingest changed in the overview of ``topic``, whose newest commit ``head`` is.

    ``latest``: what its table of the latest state has to show besides.

    A small log is looked at again. The overview of a large one grows by what was appended, and the next check decides
    about it anew: reading the manifests would take longer than the ingest.
    """
    if latest.limits is not None:
        with suppress_overview_errors(topic):
            installation.store.latest_tables.record_log(latest)
    live = head.state.live
    if live is not None and live.segments <= MAXIMUM_REFRESHED_SEGMENTS:
        refresh_overview(installation, topic, head)
        return
    with suppress_overview_errors(topic):
        installation.store.overview.add_appended(topic, appended)
