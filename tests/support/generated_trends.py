"""Thirty days of samples, deadlines and figures for the topics of a generated store."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from winnow.store.deadlines import DeadlineTable
from winnow.store.receipt_figures import ReceiptFiguresTable, sum_receipt
from winnow.store.samples import ALL_TOPICS, HOURLY_MS, SampleTable
from winnow.store.table_health import TableHealthTable, TopicSweepTable
from winnow.values.results import Receipt

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
HISTORY_DAYS = 30

Add = Callable[..., None]


def add_samples(add: Add, overview: Mapping[str, Any], now_ms: int, *, hourly: bool) -> list[dict[str, Any]]:
    """Add samples that end in ``overview``: the log grows, and a run takes some of it every few days."""
    rng = random.Random(overview["topic"])
    every_ms, size, dirty = rng.randint(2, 6) * DAY_MS, rng.uniform(0.4, 0.9), rng.random() * 0.2
    sizes = []
    for at_ms in list_sample_times(now_ms, hourly=hourly):
        dirty = min(0.95, dirty + rng.random() * (0.01 if hourly else 0.12))
        size += rng.random() * (0.002 if hourly else 0.02)
        if at_ms % every_ms < (HOUR_MS if at_ms > now_ms - HOURLY_MS and hourly else DAY_MS):
            size, dirty = size * rng.uniform(0.6, 0.95), dirty * 0.1
        sizes.append((at_ms, size, dirty))
    found = [_make_sample(overview, at_ms, each / size, part, now_ms) for at_ms, each, part in sizes]
    found[-1] |= {name: overview[name] for name in ("records", "size_bytes", "dirty_ratio", "end_offsets")}
    for row in found:
        add(SampleTable, **row)
    return found


def list_sample_times(now_ms: int, *, hourly: bool) -> list[int]:
    """One a day, and one an hour of the last two weeks if ``hourly``."""
    first = (now_ms // DAY_MS - HISTORY_DAYS) * DAY_MS
    hours = range(first, now_ms, HOUR_MS)
    return [at for at in hours if at % DAY_MS == 23 * HOUR_MS or (hourly and at > now_ms - HOURLY_MS)] or [first]


def _make_sample(overview: Mapping[str, Any], at_ms: int, size: float, dirty: float, now_ms: int) -> dict[str, Any]:
    size_bytes = int(overview["size_bytes"] * size)
    age_days = (now_ms - at_ms) / DAY_MS
    return {
        "topic": overview["topic"],
        "at_ms": at_ms,
        "recorded_at_ms": at_ms + HOUR_MS - 1,
        "topics": 1,
        "partitions": overview["partitions"],
        "records": int(overview["records"] * size),
        "files": overview["files"],
        "size_bytes": size_bytes,
        "clean_bytes": int(size_bytes * (1 - dirty)),
        "cleanable_bytes": int(size_bytes * dirty),
        "dirty_ratio": dirty,
        "reclaimable_bytes": int(size_bytes * dirty * 0.6),
        "retired_bytes": overview["retired_bytes"],
        "end_offsets": max(0, int(overview["end_offsets"] * (1 - 0.01 * age_days))),
        "deadline_ms": overview["deadline_ms"],
    }


def add_totals(add: Add, samples: list[dict[str, Any]], now_ms: int) -> None:
    """Add the samples of all topics together, at the times at which all have ``samples``."""
    summed = (
        *("topics", "partitions", "records", "files", "size_bytes", "clean_bytes", "cleanable_bytes"),
        *("reclaimable_bytes", "retired_bytes", "end_offsets"),
    )
    by_time: dict[int, list[dict[str, Any]]] = {}
    for row in samples:
        by_time.setdefault(row["at_ms"], []).append(row)
    largest = max((len(rows) for rows in by_time.values()), default=0)
    for at_ms, rows in by_time.items():
        if len(rows) < largest:
            continue
        total = {name: sum(row[name] for row in rows) for name in summed}
        ratio = total["cleanable_bytes"] / max(1, total["cleanable_bytes"] + total["clean_bytes"])
        more = {"at_ms": at_ms, "recorded_at_ms": rows[0]["recorded_at_ms"], "dirty_ratio": ratio, "deadline_ms": None}
        add(SampleTable, topic=ALL_TOPICS, **total, **more)


def add_figures(add: Add, receipt: Receipt) -> None:
    """Add the figures of ``receipt``."""
    rng = random.Random(receipt.plan_id)
    row = ReceiptFiguresTable.make_row(sum_receipt(receipt))
    add(ReceiptFiguresTable, **{**row, "cpu_seconds": row["seconds"] * rng.uniform(0.6, 1.8)})


def add_deadlines(add: Add, topic: str, partitions: int, lag_ms: int, now_ms: int, *, overdue: bool) -> None:
    """Add a deadline per partition and ``lag_ms``, most of them kept."""
    rng = random.Random(f"deadlines of {topic}")
    for partition in range(partitions):
        for deadline_ms in range(now_ms - HISTORY_DAYS * DAY_MS, now_ms - DAY_MS, lag_ms):
            late_ms = rng.randint(HOUR_MS, DAY_MS) if rng.random() < 0.03 else -rng.randint(0, lag_ms // 2)
            settled_ms = deadline_ms + late_ms
            row = {"topic": topic, "partition": partition, "deadline_ms": deadline_ms}
            add(DeadlineTable, **row, settled_at_ms=settled_ms)
    if overdue:
        add(DeadlineTable, topic=topic, partition=0, deadline_ms=now_ms - 5 * HOUR_MS, settled_at_ms=None)


def add_health(add: Add, overview: Mapping[str, Any], segment_bytes: int, now_ms: int) -> None:
    """Add the health of the topic's table and its last sweep."""
    rng = random.Random(f"health of {overview['topic']}")
    size = overview["size_bytes"]
    small = [rng.randint(0, max(1, overview["files"] // 4)) for _ in range(3)]
    limits = [segment_bytes // 16, segment_bytes // 4, segment_bytes // 2]
    classes: list[list[int | None]] = [
        [limit, few, few * limit * 3 // 4] for limit, few in zip(limits, small, strict=True)
    ]
    full = max(1, (size - sum(row[2] or 0 for row in classes)) // (segment_bytes * 9 // 10))
    classes += [[segment_bytes, full, full * segment_bytes * 9 // 10], [None, 0, 0]]
    retired, orphaned = overview["retired_bytes"], rng.choice((0, 0, 0, 2))
    add(
        TableHealthTable,
        topic=overview["topic"],
        recorded_at_ms=overview["recorded_at_ms"],
        segment_bytes=segment_bytes,
        files=sum(row[1] or 0 for row in classes),
        size_bytes=size,
        small_files=sum(row[1] or 0 for row in classes[:3]),
        small_bytes=sum(row[2] or 0 for row in classes[:3]),
        largest_bytes=segment_bytes,
        file_sizes=json.dumps(classes),
        manifests=rng.randint(1, 40),
        snapshots=rng.randint(1, 60),
        oldest_snapshot_ms=now_ms - rng.randint(1, 7) * DAY_MS,
        metadata_files=rng.randint(1, 100),
        retired_files=3 if retired else 0,
        retired_bytes=retired,
        oldest_retired_ms=now_ms - 2 * DAY_MS if retired else None,
        condemned_files=0,
        condemned_bytes=0,
    )
    add(
        TopicSweepTable,
        topic=overview["topic"],
        swept_at_ms=now_ms - rng.randint(1, 20) * HOUR_MS,
        files_deleted=rng.randint(0, 40),
        bytes_deleted=rng.randint(0, 1 << 32),
        snapshots_expired=rng.randint(0, 9),
        orphaned_files=orphaned,
        orphaned_bytes=orphaned << 24,
    )
