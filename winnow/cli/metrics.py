"""``winnow metrics``: Kafka's cleaner metrics for archives, as tables, as JSON, or for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.command_errors import exit_with, run_for_each_topic
from winnow.cli.options import AsOf, Json, Topics, choose_topics, open_for_command, resolve_as_of
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    print_heading,
    print_lines,
    print_table,
    write_json,
    write_text,
)
from winnow.clock import format_ms
from winnow.errors import UsageError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.report.metrics import Measurement

PrometheusFlag = Annotated[
    bool,
    typer.Option("--prometheus", help="Print Prometheus's text format on standard output, and nothing else there."),
]


def metrics(
    topics: Topics = None, as_of: AsOf = None, as_json: Json = False, prometheus: PrometheusFlag = False
) -> None:
    """Print metrics under the names of Kafka's log cleaner.

    Delays, ratios and marks are as of now; "last run" is the last one that compacted something. Reads no data file and
    starts no Spark. Unknown values are left out.

    Example: winnow metrics --prometheus
    """
    if as_json and prometheus:
        raise UsageError(
            "--json and --prometheus exclude each other.",
            left="Nothing was done.",
            next="Give one of them.",
        )
    with open_for_command() as installation:
        from winnow.pipeline.monitor.metrics import measure_topic

        as_of_ms = resolve_as_of(installation, as_of)
        outcome = run_for_each_topic(
            choose_topics(installation, topics), lambda topic: measure_topic(installation, topic, as_of_ms=as_of_ms)
        )
    found = outcome.results
    if outcome.all_failed:
        pass
    elif as_json:
        write_json(_build_document(found, as_of_ms))
    elif prometheus:
        from winnow.report.metric_formats import format_exposition

        write_text(format_exposition(found))
    elif found:
        _show(found, as_of_ms)
    exit_with(outcome.exit_code)


def _build_document(found: Sequence[Measurement], as_of_ms: int) -> dict[str, Any]:
    from winnow.report.metrics import list_metric_values, sum_measurements

    return {
        "as_of_ms": as_of_ms,
        "topics": [{"topic": m.topic, "metrics": list_metric_values(m)} for m in found],
        "total": list_metric_values(sum_measurements(found)),
    }


def _show(found: Sequence[Measurement], as_of_ms: int) -> None:
    from winnow.report.metrics import METRICS, list_metric_values, sum_measurements

    print_lines(f"As of {format_ms(as_of_ms)}")
    worst = sorted(found, key=lambda m: (-m.max_delay_ms, -m.uncleanable, -m.max_dirty_ratio, m.topic))
    header = [
        "topic", "overdue", "delay", "next deadline", "uncleanable", "paused", "dirty", "recopied", "to sweep",
    ]  # fmt: skip
    print_table(header, [_build_row(m) for m in worst[:MAXIMUM_ROWS]], right=range(1, len(header)))
    if len(found) > MAXIMUM_ROWS:
        print_lines(f"{format_count(len(found) - MAXIMUM_ROWS, 'more topic')}; --json lists all")
    print_heading("All of them" if len(found) > 1 else str(found[0].topic))
    together = list_metric_values(sum_measurements(found))
    known = [(metric, together[metric.name]) for metric in METRICS if together[metric.name] is not None]
    print_table(
        ["metric", "value", "meaning"],
        [[metric.name, f"{value:,}", metric.meaning] for metric, value in known],
        right=(1,),
        sentences=(2,),
    )


def _build_row(m: Measurement) -> list[str]:
    return [
        m.topic or "",
        f"{m.overdue:,}",
        _format_hours(m.max_delay_ms) if m.overdue else "",
        "" if m.next_deadline_ms is None else _format_hours(m.next_deadline_ms),
        f"{m.uncleanable:,}",
        f"{m.paused:,}",
        f"{100 * m.max_dirty_ratio:.0f} %",
        f"{100 * m.figures.bytes_out / max(m.figures.bytes_in, 1):.0f} %" if m.runs else "",
        format_bytes(m.retired_bytes),
    ]


def _format_hours(ms: int) -> str:
    return f"{ms / 3_600_000:,.1f} h"
