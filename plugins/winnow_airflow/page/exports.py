"""Lists as CSV files, with the filters of the page and without its pages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from winnow.clock import format_ms
from winnow.store.rows import RunView, TopicSummary
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep, RunFilterDep, TopicFilterDep

_FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\t", "\r")
router = APIRouter(prefix="/api", dependencies=[may_view])

TOPIC_COLUMNS: Final = (
    "topic",
    "state",
    "owner",
    "tags",
    "partitions",
    "records",
    "size_bytes",
    "reclaimable_bytes",
    "retired_bytes",
    "dirty_ratio",
    "threshold",
    "deadline",
    "policy",
    "strategy",
    "last_published",
    "assessed",
)
RUN_COLUMNS: Final = (
    "plan_id",
    "topic",
    "status",
    "opened",
    "updated",
    "records_in",
    "records_kept",
    "bytes_in",
    "bytes_out",
    "task_seconds",
    "snapshot_id",
    "holder",
)


@router.get("/topics.csv")
def export_topics(installation: InstallationDep, now_ms: NowDep, only: TopicFilterDep) -> StreamingResponse:
    """Return all topics that match, one line each, by name."""
    found = installation.store.overview.stream_topics(now_ms, only=only)
    return _respond("topics.csv", TOPIC_COLUMNS, map(_list_topic_values, found))


@router.get("/runs.csv")
def export_runs(installation: InstallationDep, only: RunFilterDep) -> StreamingResponse:
    """Return all runs that match, one line each, the one planned last first."""
    return _respond("runs.csv", RUN_COLUMNS, map(_list_run_values, installation.store.run_history.stream_runs(**only)))


def _respond(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingResponse:
    return StreamingResponse(
        write_csv(columns, rows),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="winnow-{name}"'},
    )


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Write a CSV file line by line; a text that a spreadsheet would take for a formula begins with an apostrophe.

    Half of a surrogate pair, which UTF-8 cannot encode, is written as its escape.
    """
    for row in chain([columns], rows):
        buffer = io.StringIO()
        csv.writer(buffer).writerow([_escape_formula(each) for each in row])
        yield buffer.getvalue().encode(errors="backslashreplace")


def _escape_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_SIGNS) else value


def _format_time(ms: int | None) -> str:
    return "" if ms is None else format_ms(ms)


def _list_topic_values(seen: TopicSummary) -> tuple[Any, ...]:
    each = seen.overview
    return (
        each.topic,
        seen.state.value,
        each.owner,
        each.tags,
        each.partitions,
        each.records,
        each.size_bytes,
        each.reclaimable_bytes,
        each.retired_bytes,
        each.dirty_ratio,
        each.threshold,
        _format_time(seen.deadline_ms),
        each.policy,
        each.strategy,
        _format_time(seen.last_published_ms),
        _format_time(each.recorded_at_ms),
    )


def _list_run_values(seen: RunView) -> tuple[Any, ...]:
    run, parts = seen.run, () if seen.receipt is None else seen.receipt.partitions

    def total(name: str) -> Any:
        return sum(getattr(part, name) for part in parts) if seen.receipt is not None else None

    return (
        run.plan_id,
        run.topic,
        run.status.value,
        _format_time(run.opened_at_ms),
        _format_time(run.updated_at_ms),
        total("records_in"),
        total("records_kept"),
        total("bytes_in"),
        total("bytes_out"),
        total("seconds"),
        run.snapshot_id,
        run.holder,
    )
