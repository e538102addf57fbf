"""``winnow assess --forecast``: which partitions will miss their deadline at the present pace."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from winnow.cli.failures import each_topic, finish
from winnow.cli.options import resolve_as_of
from winnow.cli.output import count, human_bytes, tell, write_json
from winnow.cli.tables import MOST_ROWS, short_time, show
from winnow.cli.world import named_or_all, world
from winnow.clock import format_ms

if TYPE_CHECKING:
    from winnow.pipeline.metrics import Forecast
    from winnow.report.forecast import Prospect

_WORDS = {
    "overdue": "the deadline has passed",
    "blocked": "it is paused or uncleanable, so nothing works towards its deadline",
    "late": "its deadline passes before it is done, even if everything runs from now on without a pause",
    "in_time": "it is done before its deadline if everything runs from now on without a pause",
    "unknown": "no run has told how fast work goes yet",
}


def show_forecast(topics: list[str] | None, as_of_ms: int | None, *, as_json: bool) -> None:
    """Print the outlook of every partition that has a deadline."""
    with world() as ctx:
        from winnow.pipeline.metrics import deadlines_of, forecast_of

        as_of_ms = resolve_as_of(ctx, as_of_ms)
        at_ms = as_of_ms
        outcome = each_topic(named_or_all(ctx, topics), lambda topic: deadlines_of(ctx, topic, as_of_ms=at_ms))
        found = forecast_of(ctx, outcome.results, as_of_ms=as_of_ms)
    if as_json:
        if not outcome.all_failed:
            write_json(_document(found))
    elif outcome.results:
        _show(found)
    finish(outcome.exit_code)


def _document(found: Forecast) -> dict[str, Any]:
    return {
        "as_of_ms": found.as_of_ms,
        "bytes_per_second": found.bytes_per_second,
        "parallelism": found.parallelism,
        "partitions": [{**asdict(p), "outlook": p.outlook.value, "late_by_ms": p.late_by_ms} for p in found.prospects],
    }


def _show(found: Forecast) -> None:
    tell(f"As of {format_ms(found.as_of_ms)}")
    if not found.prospects:
        tell("No partition has a deadline: max.compaction.lag.ms is not set, or nothing is dirty.")
        return
    order = list(_WORDS)
    shown = sorted(found.prospects, key=lambda p: (order.index(p.outlook.value), p.deadline_ms))[:MOST_ROWS]
    header = ["partition", "outlook", "deadline", "done at the earliest", "late by", "to read"]
    show(header, [_row(p) for p in shown], right=(4, 5))
    if len(found.prospects) > len(shown):
        tell(f"{count(len(found.prospects) - len(shown), 'more partition')}; --json lists all")
    outlooks = Counter(p.outlook.value for p in found.prospects)
    tell("\n".join(f"{word}: {_WORDS[word]} ({outlooks[word]:,})" for word in order if outlooks[word]))
    if found.bytes_per_second is None:
        tell("The pace is unknown: no recent run of these topics tells its time. The first compaction will.")
    else:
        tell(
            f"Pace of the recent runs: {human_bytes(found.bytes_per_second)} a second and task, "
            f"{count(found.parallelism, 'task')} at a time."
        )


def _row(prospect: Prospect) -> list[str]:
    late_by_ms = prospect.late_by_ms
    return [
        f"{prospect.topic}-{prospect.partition}",
        prospect.outlook.value,
        short_time(prospect.deadline_ms),
        short_time(prospect.done_at_ms),
        f"{late_by_ms / 3_600_000:,.1f} h" if late_by_ms else "",
        human_bytes(prospect.size_bytes),
    ]
