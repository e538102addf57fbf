"""Topic routes: the list of topics, one topic and its partitions."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query

from winnow.report.receipts import explain_reason
from winnow.store.rows import PartitionView, TopicSort, TopicSummary
from winnow.values.model import OverviewState, Reason
from winnow_airflow.holders import find_holder
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep, TopicFilterDep, WindowDep
from winnow_airflow.page.responses import Document, describe, describe_page

WEEK_MS = 7 * 86_400_000
router = APIRouter(prefix="/api/topics", dependencies=[may_view])
labels = APIRouter(prefix="/api/labels", dependencies=[may_view])
State = Annotated[OverviewState | None, Query()]


@router.get("")
def list_topics(
    installation: InstallationDep,
    now_ms: NowDep,
    window: WindowDep,
    only: TopicFilterDep,
    sort: TopicSort = TopicSort.STATE,
    order: Literal["asc", "desc"] = "asc",
) -> Document:
    """Return a page of topics, and ``counts``: the topics that match the search by state, regardless of ``state``."""
    seen = installation.store.overview.list_topics(now_ms, window, only=only, sort=sort, descending=order == "desc")
    page = describe_page("topics", seen.listed, window, _describe_topic)
    return {"now_ms": now_ms, "counts": seen.counts, **page}


@labels.get("")
def list_labels(installation: InstallationDep) -> Document:
    """Return the owners and the tags that topics have."""
    return describe(installation.store.overview.list_labels())


@router.get("/{topic}")
def topic(installation: InstallationDep, now_ms: NowDep, topic: str) -> Document:
    """Return one topic with everything except its partitions.

    ``scrub`` None: no file of it was ever checked. ``ingest_lag`` None: it was not ingested from Kafka's brokers.
    ``latest_table`` None: it keeps none; its ``missing_since_ms`` None: it shows everything.
    ``held_by`` None: nobody is at work on it.
    ``source`` None: as far as is known its Kafka topic is there and followed, or never was.
    """
    seen = installation.store.overview.find_topic(topic, now_ms)
    if seen is None:
        raise _build_not_found(topic)
    checks = installation.store.segment_checks.summarize(topic)
    lag = installation.store.ingest_lags.summarize(topic)
    source = installation.store.source_states.find(topic)
    latest = installation.store.latest_tables.find(topic)
    holder = find_holder(installation.store, topic, now_ms=now_ms)
    return {
        **_describe_topic(seen),
        "table": {"name": seen.overview.table_name, "location": seen.overview.location},
        "configuration": json.loads(seen.overview.configuration),
        "failing_expectations_7d": installation.store.run_history.list_failing_expectations(topic, now_ms - WEEK_MS),
        "scrub": None if checks is None else describe(checks),
        "ingest_lag": None if lag is None else describe(lag, without=("partitions",)),
        "latest_table": None
        if latest is None
        else {name: getattr(latest, name) for name in ("missing_since_ms", "updated_at_ms", "deadline_ms")},
        "held_by": None if holder is None else describe(holder),
        "source": None if source is None else {"state": source.kind, "since_ms": source.since_ms},
    }


@router.get("/{topic}/partitions")
def list_partitions(
    installation: InstallationDep, now_ms: NowDep, window: WindowDep, topic: str, state: State = None
) -> Document:
    """Return a page of a topic's partitions, ordered by partition."""
    recorded = installation.store.overview.find_recorded(topic)
    if recorded is None:
        raise _build_not_found(topic)
    listed = installation.store.overview.list_partitions(topic, now_ms, window, state=state)
    threshold = recorded.threshold
    page = describe_page("partitions", listed, window, lambda row: _describe_partition(row, threshold))
    return {"now_ms": now_ms, **page}


def _build_not_found(topic: str) -> HTTPException:
    return HTTPException(
        404,
        f"Topic {topic} does not exist, or was never assessed. Assess it with: winnow assess {topic}",
    )


_NOT_LISTED = (
    *("eligible", "recorded_at_ms", "configuration", "table_name", "location"),
    *("clean_bytes", "cleanable_bytes", "end_offsets"),
)


def _describe_topic(seen: TopicSummary) -> Document:
    overview, run = seen.overview, seen.last_run
    last = None if run is None else {name: getattr(run, name) for name in ("plan_id", "status", "updated_at_ms")}
    return {
        **describe(overview, without=(*_NOT_LISTED, "tags")),
        **describe(seen, without=("overview", "states")),
        "tags": overview.tags.split(",") if overview.tags else [],
        "assessed_at_ms": overview.recorded_at_ms,
        "partition_states": seen.states,
        "last_run": last,
    }


def _describe_partition(seen: PartitionView, threshold: float) -> Document:
    mark = seen.uncleanable
    return {
        **describe(seen.overview, without=("topic",)),
        **describe(seen, without=("overview",)),
        "reason_text": explain_reason(Reason(seen.overview.reason)),
        "threshold": threshold,
        "uncleanable": None if mark is None else describe(mark, without=("topic", "partition")),
    }
