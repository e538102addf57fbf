"""Topic routes: the list of topics, one topic and its partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query

from winnow.model import OverviewState, Reason
from winnow.report.receipts import explain_reason
from winnow.store.values import MarkView, PartitionView, TopicSort, TopicSummary
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import LakeDep, NowDep, Search, WindowDep
from winnow_airflow.page.responses import (
    ConfigurationRow,
    LastRun,
    Mark,
    PartitionPage,
    PartitionRow,
    Pause,
    Scrubbed,
    States,
    Table,
    TopicDetail,
    TopicPage,
    TopicRow,
)

WEEK_MS = 7 * 86_400_000
router = APIRouter(prefix="/api/topics", dependencies=[may_view])
State = Annotated[OverviewState | None, Query()]


@router.get("")
def list_topics(
    lake: LakeDep,
    now_ms: NowDep,
    window: WindowDep,
    search: Search = "",
    state: State = None,
    sort: TopicSort = TopicSort.STATE,
    order: Literal["asc", "desc"] = "asc",
) -> TopicPage:
    """Return a page of topics."""
    seen = lake.store.overview.list_topics(
        now_ms, window, search=search, state=state, sort=sort, descending=order == "desc"
    )
    return TopicPage(
        now_ms=now_ms,
        total=seen.listed.total,
        page=window.number,
        size=window.size,
        counts=_build_states(seen.counts),
        topics=[_build_topic_row(each) for each in seen.listed.rows],
    )


@router.get("/{topic}")
def topic(lake: LakeDep, now_ms: NowDep, topic: str) -> TopicDetail:
    """Return one topic."""
    seen = lake.store.overview.find_topic(topic, now_ms)
    if seen is None:
        raise _build_not_found(topic)
    picture = seen.picture
    checks = lake.store.segment_checks.summarize(topic)
    return TopicDetail(
        **dict(_build_topic_row(seen)),
        table=Table(name=picture.table_name, location=picture.location),
        configuration=[ConfigurationRow(**entry) for entry in json.loads(picture.configuration)],
        failing_expectations_7d=lake.store.run_history.list_failing_expectations(topic, now_ms - WEEK_MS),
        scrub=None if checks is None else Scrubbed(**asdict(checks)),
    )


@router.get("/{topic}/partitions")
def list_partitions(lake: LakeDep, now_ms: NowDep, window: WindowDep, topic: str, state: State = None) -> PartitionPage:
    """Return a page of a topic's partitions, ordered by partition."""
    pictured = lake.store.overview.find_recorded(topic)
    if pictured is None:
        raise _build_not_found(topic)
    listed = lake.store.overview.list_partitions(topic, now_ms, window, state=state)
    return PartitionPage(
        now_ms=now_ms,
        total=listed.total,
        page=window.number,
        size=window.size,
        partitions=[_build_partition_row(each, pictured.threshold) for each in listed.rows],
    )


def _build_not_found(topic: str) -> HTTPException:
    return HTTPException(
        404,
        f"Nothing is known of topic {topic}: it does not exist, or nobody looked at it yet. Look at it with: "
        f"winnow assess {topic}",
    )


def _build_states(counts: Mapping[OverviewState, int]) -> States:
    return States(**{state.value: counts[state] for state in OverviewState})


def _build_topic_row(seen: TopicSummary) -> TopicRow:
    pictured = seen.picture
    run = seen.last_run
    last = None
    if run is not None:
        last = LastRun(plan_id=run.plan_id, status=run.status.value, updated_at_ms=run.updated_at_ms)
    return TopicRow(
        topic=pictured.topic,
        state=seen.state.value,
        partitions=pictured.partitions,
        partition_states=_build_states(seen.states),
        dirty_ratio=pictured.dirty_ratio,
        threshold=pictured.threshold,
        compacts=pictured.compacts,
        policy=pictured.policy,
        strategy=pictured.strategy,
        deadline_ms=seen.deadline_ms,
        size_bytes=pictured.size_bytes,
        reclaimable_bytes=pictured.reclaimable_bytes,
        retired_bytes=pictured.retired_bytes,
        assessed_at_ms=pictured.recorded_at_ms,
        as_of_ms=pictured.as_of_ms,
        last_run=last,
        last_published_ms=seen.last_published_ms,
    )


def _build_partition_row(seen: PartitionView, threshold: float) -> PartitionRow:
    pictured = seen.picture
    active = pictured.active_offset
    return PartitionRow(
        partition=pictured.partition,
        state=seen.state.value,
        eligible=pictured.eligible,
        reason=pictured.reason,
        reason_text=explain_reason(Reason(pictured.reason)),
        log_start_offset=str(pictured.log_start_offset),
        first_dirty_offset=str(pictured.first_dirty_offset),
        first_uncleanable_offset=str(pictured.first_uncleanable_offset),
        active_offset=None if active is None else str(active),
        log_end_offset=str(pictured.log_end_offset),
        dirty_ratio=pictured.dirty_ratio,
        threshold=threshold,
        clean_bytes=pictured.clean_bytes,
        cleanable_bytes=pictured.cleanable_bytes,
        size_bytes=pictured.size_bytes,
        reclaimable_bytes=pictured.reclaimable_bytes,
        deadline_ms=pictured.deadline_ms,
        max_compaction_delay_ms=pictured.max_compaction_delay_ms,
        paused=None if seen.paused is None else Pause(since_ms=seen.paused.since_ms, by=list(seen.paused.by)),
        uncleanable=None if seen.uncleanable is None else _build_mark(seen.uncleanable),
    )


def _build_mark(mark: MarkView) -> Mark:
    return Mark(
        reason=mark.reason,
        since_ms=mark.since_ms,
        attempts=mark.attempts,
        next_attempt_ms=mark.next_attempt_ms,
        plan_id=mark.plan_id,
    )
