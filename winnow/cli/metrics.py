"""``winnow metrics``: Kafka's cleaner metrics for archives, as tables, as JSON, or for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.failures import each_topic, finish
from winnow.cli.options import AsOf, Json, Topics, resolve_as_of
from winnow.cli.output import count, human_bytes, tell, write, write_json
from winnow.cli.tables import MOST_ROWS, heading, show
from winnow.cli.world import named_or_all, world
from winnow.clock import format_ms
from winnow.errors import UsageError

if TYPE_CHECKING:
    from winnow.report.metrics import Measurement

PrometheusFlag = Annotated[
    bool,
    typer.Option("--prometheus", help="Print Prometheus's text format on standard output, and nothing else there."),
]


def metrics(
    topics: Topics = None, as_of: AsOf = None, as_json: Json = False, prometheus: PrometheusFlag = False
) -> None:
    """Print how the cleaning of each topic goes, under the names of Kafka's cleaner metrics.

    Delays, ratios and marks are those of now; "last run" is the last one that compacted something. Reads no data file
    and starts no Spark. What is not known is left out.

    Example: winnow metrics --prometheus
    """
    if as_json and prometheus:
        raise UsageError("--json and --prometheus are two formats for one standard output. Nothing was done; give one.")
    with world() as ctx:
        from winnow.pipeline.metrics import measure_topic

        as_of_ms = resolve_as_of(ctx, as_of)
        outcome = each_topic(named_or_all(ctx, topics), lambda topic: measure_topic(ctx, topic, as_of_ms=as_of_ms))
    found = outcome.results
    if outcome.all_failed:
        pass
    elif as_json:
        write_json(_document(found, as_of_ms))
    elif prometheus:
        from winnow.report.prometheus import exposition

        write(exposition(found))
    elif found:
        _show(found, as_of_ms)
    finish(outcome.exit_code)


def _document(found: Sequence[Measurement], as_of_ms: int) -> dict[str, Any]:
    from winnow.report.metrics import total, values

    return {
        "as_of_ms": as_of_ms,
        "topics": [{"topic": m.topic, "metrics": values(m)} for m in found],
        "total": values(total(found)),
    }


def _show(found: Sequence[Measurement], as_of_ms: int) -> None:
    from winnow.report.metrics import METRICS, total, values

    tell(f"As of {format_ms(as_of_ms)}")
    worst = sorted(found, key=lambda m: (-m.max_delay_ms, -m.uncleanable, -m.max_dirty_ratio, m.topic))
    header = [
        "topic", "overdue", "delay", "next deadline", "uncleanable", "paused", "dirty", "recopied", "to sweep",
    ]  # fmt: skip
    show(header, [_row(m) for m in worst[:MOST_ROWS]], right=range(1, len(header)))
    if len(found) > MOST_ROWS:
        tell(f"{count(len(found) - MOST_ROWS, 'more topic')}; --json lists all")
    heading("All of them" if len(found) > 1 else str(found[0].topic))
    together = values(total(found))
    known = [(metric, together[metric.name]) for metric in METRICS if together[metric.name] is not None]
    show(
        ["metric", "value", "meaning"],
        [[metric.name, f"{value:,}", metric.meaning] for metric, value in known],
        right=(1,),
        sentences=(2,),
    )


def _row(m: Measurement) -> list[str]:
    return [
        m.topic or "",
        f"{m.overdue:,}",
        _hours(m.max_delay_ms) if m.overdue else "",
        "" if m.next_deadline_ms is None else _hours(m.next_deadline_ms),
        f"{m.uncleanable:,}",
        f"{m.paused:,}",
        f"{100 * m.max_dirty_ratio:.0f} %",
        f"{100 * m.bytes_out / max(m.bytes_in, 1):.0f} %" if m.runs else "",
        human_bytes(m.retired_bytes),
    ]


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:,.1f} h"
