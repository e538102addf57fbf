"""``winnow assess --forecast``: which partitions will miss their deadline at the present pace."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from winnow.cli.failures import exit_with, run_for_each_topic
from winnow.cli.options import resolve_as_of
from winnow.cli.output import format_bytes, format_count, print_lines, write_json
from winnow.cli.tables import MAXIMUM_ROWS, format_short_time, print_table
from winnow.cli.world import choose_topics, open_installation
from winnow.clock import format_ms

if TYPE_CHECKING:
    from winnow.pipeline.metrics import TopicsForecast
    from winnow.report.forecast import DeadlineForecast

_OUTLOOK_WORDS = {
    "overdue": "the deadline has passed",
    "blocked": "it is paused or uncleanable, so nothing works towards its deadline",
    "late": "its deadline passes before it is done, even if everything runs from now on without a pause",
    "in_time": "it is done before its deadline if everything runs from now on without a pause",
    "unknown": "no run has told how fast work goes yet",
}


def show_forecast(topics: list[str] | None, as_of_ms: int | None, *, as_json: bool) -> None:
    """Print the outlook of every partition that has a deadline."""
    with open_installation() as ctx:
        from winnow.pipeline.metrics import compute_forecast, load_deadlines

        as_of_ms = resolve_as_of(ctx, as_of_ms)
        at_ms = as_of_ms
        outcome = run_for_each_topic(
            choose_topics(ctx, topics), lambda topic: load_deadlines(ctx, topic, as_of_ms=at_ms)
        )
        found = compute_forecast(ctx, outcome.results, as_of_ms=as_of_ms)
    if as_json:
        if not outcome.all_failed:
            write_json(_make_forecast_document(found))
    elif outcome.results:
        _show_forecast_table(found)
    exit_with(outcome.exit_code)


def _make_forecast_document(found: TopicsForecast) -> dict[str, Any]:
    return {
        "as_of_ms": found.as_of_ms,
        "bytes_per_second": found.bytes_per_second,
        "parallelism": found.parallelism,
        "partitions": [{**asdict(p), "outlook": p.outlook.value, "late_by_ms": p.late_by_ms} for p in found.prospects],
    }


def _show_forecast_table(found: TopicsForecast) -> None:
    print_lines(f"As of {format_ms(found.as_of_ms)}")
    if not found.prospects:
        print_lines("No partition has a deadline: max.compaction.lag.ms is not set, or nothing is dirty.")
        return
    order = list(_OUTLOOK_WORDS)
    shown = sorted(found.prospects, key=lambda p: (order.index(p.outlook.value), p.deadline_ms))[:MAXIMUM_ROWS]
    header = ["partition", "outlook", "deadline", "done at the earliest", "late by", "to read"]
    print_table(header, [_make_forecast_row(p) for p in shown], right=(4, 5))
    if len(found.prospects) > len(shown):
        print_lines(f"{format_count(len(found.prospects) - len(shown), 'more partition')}; --json lists all")
    outlooks = Counter(p.outlook.value for p in found.prospects)
    print_lines("\n".join(f"{word}: {_OUTLOOK_WORDS[word]} ({outlooks[word]:,})" for word in order if outlooks[word]))
    if found.bytes_per_second is None:
        print_lines("The pace is unknown: no recent run of these topics tells its time. The first compaction will.")
    else:
        print_lines(
            f"Pace of the recent runs: {format_bytes(found.bytes_per_second)} a second and task, "
            f"{format_count(found.parallelism, 'task')} at a time."
        )


def _make_forecast_row(prospect: DeadlineForecast) -> list[str]:
    late_by_ms = prospect.late_by_ms
    return [
        f"{prospect.topic}-{prospect.partition}",
        prospect.outlook.value,
        format_short_time(prospect.deadline_ms),
        format_short_time(prospect.done_at_ms),
        f"{late_by_ms / 3_600_000:,.1f} h" if late_by_ms else "",
        format_bytes(prospect.size_bytes),
    ]
