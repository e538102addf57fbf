"""``winnow assess``: decisions without side effects, and the forecast of deadlines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.command_errors import exit_with, run_for_each_topic
from winnow.cli.options import AsOf, IncludeActiveSegment, Json, Topics, choose_topics, open_for_command, resolve_as_of
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    format_short_time,
    print_heading,
    print_lines,
    print_table,
    write_json,
)
from winnow.clock import format_ms
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.monitor.metrics import TopicsForecast
    from winnow.report.forecast import DeadlineForecast
    from winnow.values.model import Assessment, Reason

_OUTLOOK_WORDS = {
    "overdue": "the deadline has passed",
    "blocked": "it is paused or uncleanable, so no run compacts it",
    "not_ingested": "records of Kafka that are due then are not in the log yet",
    "late": "it is compacted too late, even if everything runs from now on without a pause",
    "in_time": "it is compacted in time if everything runs from now on without a pause",
    "unknown": "no run was measured yet, so the pace is unknown",
}


def show_forecast(topics: list[str] | None, as_of_ms: int | None, *, as_json: bool) -> None:
    """Print the outlook of every partition that has a deadline."""
    with open_for_command() as installation:
        from winnow.pipeline.monitor.metrics import compute_forecast, load_deadlines

        as_of_ms = resolve_as_of(installation, as_of_ms)
        at_ms = as_of_ms
        outcome = run_for_each_topic(
            choose_topics(installation, topics), lambda topic: load_deadlines(installation, topic, as_of_ms=at_ms)
        )
        found = compute_forecast(installation, outcome.results, as_of_ms=as_of_ms)
    if as_json:
        if not outcome.all_failed:
            write_json(_make_forecast_document(found))
    elif outcome.results:
        _show_forecast_table(found)
    exit_with(outcome.exit_code)


def _make_document(assessment: Assessment) -> dict[str, Any]:
    """Return the fields that the document has; when the active segment closes is for people alone."""
    return {name: value for name, value in asdict(assessment).items() if name != "active_closes_ms"}


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
        print_lines("The pace is unknown: no recent run of these topics was measured. The next compaction measures it.")
    else:
        print_lines(
            f"Pace of recent runs: {format_bytes(found.bytes_per_second)} per second and task, "
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


ForecastFlag = Annotated[
    bool,
    typer.Option(
        "--forecast", help="Show instead which partitions will miss their deadline at the pace of recent runs."
    ),
]


def assess(
    topics: Topics = None,
    as_of: AsOf = None,
    include_active_segment: IncludeActiveSegment = False,
    as_json: Json = False,
    forecast: ForecastFlag = False,
) -> None:
    """Show why each topic partition would be compacted now, or not.

    If several reasons apply, the first is shown. Reads the table's manifests, no data file; starts no Spark. With more
    than fifty partitions a summary and the most urgent ones are shown; --json has them all.

    Example: winnow assess orders --as-of 2026-01-31T18:00:00Z
    """
    if forecast:
        show_forecast(topics, as_of, as_json=as_json)
        return
    with open_for_command() as installation:
        from winnow.pipeline.compaction.assess import open_assessor

        as_of_ms = resolve_as_of(installation, as_of)
        names = choose_topics(installation, topics)
        with open_assessor(installation, names, as_of_ms=as_of_ms, closes_active=include_active_segment) as look:
            outcome = run_for_each_topic(names, look)
    found = [assessment for per_topic in outcome.results for assessment in per_topic]
    if as_json:
        if not outcome.all_failed:
            write_json([_make_document(assessment) for assessment in found])
    elif found:
        _show(found, as_of_ms)
    exit_with(outcome.exit_code)


def make_urgency_key(assessment: Assessment) -> tuple[bool, bool, int, float, str, int]:
    """Sorts the most urgent first: eligible ones, by deadline (none comes last), then by dirty ratio."""
    deadline_ms = assessment.deadline_ms
    return (
        not assessment.eligible,
        deadline_ms is None,
        deadline_ms or 0,
        -assessment.dirty_ratio,
        assessment.topic,
        assessment.partition,
    )


def _show(found: Sequence[Assessment], as_of_ms: int) -> None:
    print_lines(f"As of {format_ms(as_of_ms)}")
    shown = found
    if len(found) > MAXIMUM_ROWS:
        _show_summary(found)
        shown = sorted(found, key=make_urgency_key)[:MAXIMUM_ROWS]
        print_heading(f"The {MAXIMUM_ROWS} most urgent of {format_count(len(found), 'partition')}; --json lists all")
    rows = [
        [
            f"{a.topic}-{a.partition}",
            format_decision(a.reason, eligible=a.eligible),
            f"{a.dirty_ratio:.2f}",
            format_bytes(a.cleanable_bytes),
            f"{a.first_dirty_offset:,}",
            f"{a.first_uncleanable_offset:,}",
            f"{a.log_end_offset:,}",
            format_short_time(a.deadline_ms),
        ]
        for a in shown
    ]
    header = ["partition", "decision", "ratio", "cleanable", "first dirty", "uncleanable", "log end", "deadline"]
    print_table(header, rows, right=(2, 3, 4, 5, 6))
    format_legend(a.reason for a in shown)
    eligible = list(dict.fromkeys(a.topic for a in found if a.eligible))
    _show_closing_times(shown)
    if eligible:
        print_lines(f"Next: winnow compact {eligible[0] if len(eligible) == 1 else ''}".rstrip())
    else:
        print_lines("Nothing is eligible: winnow compact would leave everything as it is.")


def format_decision(reason: Reason, *, eligible: bool) -> str:
    """Format eligibility and its reason in the words of --json."""
    return f"{'eligible' if eligible else 'idle'}: {reason.value}"


def format_legend(reasons: Iterable[Reason]) -> None:
    """Explain the reasons in a table, in the order in which they are checked."""
    from winnow.report.receipts import explain_reason
    from winnow.values.model import Reason

    used = set(reasons)
    print_lines("\n".join(f"{reason.value}: {explain_reason(reason)}" for reason in Reason if reason in used))


def _show_closing_times(shown: Sequence[Assessment]) -> None:
    from winnow.values.model import Reason

    waiting = [a for a in shown if a.reason is Reason.NO_CLOSED_SEGMENT and a.active_closes_ms is not None]
    if not waiting:
        return
    first = min(waiting, key=lambda a: a.active_closes_ms or 0)
    others = f" (the first of {len(waiting)})" if len(waiting) > 1 else ""
    print_lines(
        f"The active segment of {first.topic}-{first.partition} closes by its age at "
        f"{format_ms(first.active_closes_ms or 0)}{others}. To count it as closed now: "
        f"winnow compact {first.topic} --include-active-segment"
    )


def _show_summary(found: Sequence[Assessment]) -> None:
    rows = []
    for topic in dict.fromkeys(a.topic for a in found):
        mine = [a for a in found if a.topic == topic]
        deadlines = [a.deadline_ms for a in mine if a.deadline_ms is not None]
        rows.append(
            [
                topic,
                f"{len(mine):,}",
                f"{sum(a.eligible for a in mine):,}",
                f"{sum(a.max_compaction_delay_ms > 0 for a in mine):,}",
                format_bytes(sum(a.cleanable_bytes for a in mine if a.eligible)),
                format_bytes(sum(a.clean_bytes + a.cleanable_bytes for a in mine)),
                format_short_time(min(deadlines, default=None)),
            ]
        )
    header = [
        "topic",
        "partitions",
        "eligible",
        "overdue",
        "eligible and cleanable",
        "cleanable and clean",
        "first deadline",
    ]
    print_table(header, rows, right=(1, 2, 3, 4, 5))
