"""Sample topics, runs and verdicts for tests of the page."""

from __future__ import annotations

import json
from typing import Any

from winnow.store import RunState, Store
from winnow.store.rows import PartitionOverview, TopicOverview
from winnow.values.model import Reason, Severity, Status
from winnow.values.results import Failure, PartitionReceipt, Receipt, Verdict
from winnow.values.topic_state import PartitionState, Uncleanable

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BIG = 2**62 + 1
"""Does not survive JavaScript, nor 32 bits."""
CONFIGURATION = [
    {
        "name": "cleanup.policy",
        "value": "compact",
        "source": "default (Winnow)",
        "is_default": True,
        "sentence": "One.",
    },
    {"name": "segment.ms", "value": "1000", "source": "topic", "is_default": False, "sentence": "Two."},
]


def topic_picture(topic: str = "orders", **changed: Any) -> TopicOverview:
    """A topic of one partition, healthy."""
    return TopicOverview(
        **{
            "topic": topic,
            "as_of_ms": NOW_MS - 2,
            "recorded_at_ms": NOW_MS - 1,
            "partitions": 1,
            "eligible": 0,
            "dirty_ratio": 0.25,
            "threshold": 0.5,
            "compacts": True,
            "policy": "compact",
            "strategy": "offset",
            "deadline_ms": None,
            "size_bytes": 1_000,
            "reclaimable_bytes": 100,
            "retired_bytes": 7,
            "configuration": json.dumps(CONFIGURATION),
            "table_name": f"winnow.{topic}",
            "location": f"s3://lake/winnow/{topic}",
            "owner": "payments",
            "tags": "gold,pii",
            "records": 12,
            "files": 3,
            "clean_bytes": 600,
            "cleanable_bytes": 200,
            "end_offsets": BIG,
            **changed,
        }
    )


def partition_picture(topic: str = "orders", partition: int = 0, **changed: Any) -> PartitionOverview:
    """A healthy partition whose offsets need 64 bits."""
    return PartitionOverview(
        **{
            "topic": topic,
            "partition": partition,
            "eligible": False,
            "reason": Reason.NOT_DIRTY_ENOUGH.value,
            "log_start_offset": 3,
            "first_dirty_offset": BIG,
            "first_uncleanable_offset": BIG + 1,
            "active_offset": BIG + 2,
            "log_end_offset": BIG + 3,
            "dirty_ratio": 0.25,
            "clean_bytes": 600,
            "cleanable_bytes": 200,
            "size_bytes": 1_000,
            "max_compaction_delay_ms": 0,
            "deadline_ms": None,
            "reclaimable_bytes": 100,
            "records": 12,
            "files": 3,
            **changed,
        }
    )


def put(store: Store, topic: str = "orders", parts: list[dict[str, Any]] | None = None, **changed: Any) -> None:
    """Record a topic; ``parts``: what differs from a healthy partition, one entry each."""
    pictures = [partition_picture(topic, number, **each) for number, each in enumerate(parts or [{}])]
    store.overview.record(topic_picture(topic, partitions=len(pictures), **changed), pictures)


def put_marks(
    store: Store, topic: str, *, uncleanable: tuple[int, ...] = (), paused: tuple[int, ...] = (), count: int = 1
) -> None:
    """Mark and pause partitions of a topic of ``count`` partitions."""
    store.projection.record_states(
        topic,
        {
            number: PartitionState(
                log_end_offset=9,
                uncleanable=Uncleanable("keys twice", NOW_MS - HOUR_MS, "plan-u", 3, NOW_MS + HOUR_MS)
                if number in uncleanable
                else None,
                paused_since_ms=NOW_MS - DAY_MS if number in paused else None,
                paused_by=("zoe", "ops") if number in paused else (),
            )
            for number in range(count)
        },
        NOW_MS,
    )


def receipt(plan_id: str = "plan-1", topic: str = "orders", *, finished_at_ms: int = NOW_MS, kept: int = 40) -> Receipt:
    """A receipt over partitions 1 and 0; the first balances when ``kept`` is 40."""
    return Receipt(
        topic=topic,
        plan_id=plan_id,
        status=Status.PUBLISHED,
        snapshot_id=BIG,
        partitions=(
            PartitionReceipt(
                partition=1,
                first_dirty_offset=0,
                next_first_dirty_offset=BIG,
                records_in=100,
                records_kept=kept,
                records_superseded=57,
                tombstones_expired=1,
                records_keyless=2,
                records_retired=5,
                bytes_in=4_096,
                bytes_out=1_024,
                bytes_retired=11,
                seconds=1.5,
            ),
            PartitionReceipt(
                partition=0,
                first_dirty_offset=0,
                next_first_dirty_offset=50,
                records_in=10,
                records_kept=10,
                records_superseded=0,
                tombstones_expired=0,
                records_keyless=0,
                records_retired=0,
                bytes_in=64,
                bytes_out=64,
                reason=Reason.DIRTY_RATIO,
                expected_bytes_out=60,
            ),
        ),
        message="Compacted 2 partitions.",
        as_of_ms=NOW_MS - 1,
        finished_at_ms=finished_at_ms,
        attempt="a-1",
        data_docs="file:///elsewhere/data_docs/site/validations/winnow/a%20run/page.html",
    )


def put_run(
    store: Store,
    plan_id: str = "plan-1",
    topic: str = "orders",
    *,
    at_ms: int = NOW_MS,
    state: RunState = RunState.PLANNED,
    holder: str | None = "airflow:compact_topics:manual__2026-09-21T00:00:00+00:00",
    published: bool = False,
) -> None:
    """A run, with its receipt when it ``published``."""
    store.runs.open(
        plan_id, topic, attempt="a-1", as_of_ms=at_ms - 1, plan_uri=f"/{plan_id}", now_ms=at_ms, holder=holder
    )
    if published:
        store.projection.record_publication(receipt(plan_id, topic, finished_at_ms=at_ms), {}, [], at_ms)
        store.runs.set_state(plan_id, RunState.PUBLISHED, at_ms, message="Done.", snapshot_id=BIG, attempt="a-1")
    elif state is not RunState.PLANNED:
        store.runs.set_state(plan_id, state, at_ms, message=f"It is {state}.", attempt="a-1")


def put_verdict(
    store: Store,
    plan_id: str = "plan-1",
    topic: str = "orders",
    *,
    at_ms: int = NOW_MS,
    failures: tuple[tuple[str, Severity], ...] = (("keys_are_unique", Severity.FAIL),),
    broken: bool = False,
    attempt: str = "a-1",
) -> None:
    """A verdict; it passes when nothing of severity ``fail`` failed."""
    store.verdicts.record(
        Verdict(
            plan_id=plan_id,
            topic=topic,
            attempt=attempt,
            passed=not broken and all(severity is Severity.WARN for _, severity in failures),
            broken=broken,
            failures=tuple(Failure(0, name, severity, "2 of them") for name, severity in failures),
            checked_at_ms=at_ms,
            data_docs="file:///elsewhere/data_docs/site/validations/winnow/a%20run/verdict.html",
            expectations=8,
        )
    )
