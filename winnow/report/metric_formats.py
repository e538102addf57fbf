"""Formats metrics for Prometheus, and the metric and event tables of the documentation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from winnow.report.counters import COUNTERS, PHASE, PHASES
from winnow.report.events import EVENTS
from winnow.report.metrics import METRICS, Measurement, Value, list_metric_values, sum_measurements


def render_metrics_table() -> str:
    """Render the table of all metrics: a line per metric."""
    rows = [
        (f"`{metric.name}`", "gauge", "total only" if metric.total_only else "`topic`, total", metric.meaning)
        for metric in METRICS
    ]
    for counter in COUNTERS:
        values = ", ".join(counter.labels)
        label = "" if counter.label is None else f", `{counter.label}`" + (f" ({values})" if values else "")
        rows.append((f"`{counter.name}`", "counter", f"`topic`{label}", counter.meaning))
    labels = f"`topic`, `{PHASE}` ({', '.join(PHASES)})"
    rows.append((f"`{PHASE}`", "timer", labels, "Milliseconds that one step of one topic took, successful or not"))
    return _render_table(("name", "kind", "labels", "meaning"), rows)


def render_events_table() -> str:
    """Render the table of all events: a line each, with its fields."""
    rows = [
        (f"`{event.name}`", event.meaning, ", ".join(f"`{field}`" for field in ("topic", *event.fields)))
        for event in EVENTS
    ]
    return _render_table(("event", "when", "fields"), rows)


def _render_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(f"{render_metrics_table()}\n{render_events_table()}")

PER_TOPIC, ALL_TOPICS = "winnow_", "winnow_all_topics_"
"""The total has its own prefix: under the same name every sum over topics would count it twice."""


def format_exposition(measured: Sequence[Measurement]) -> str:
    """Format a page for a scrape or a textfile collector: a gauge per metric, labelled by topic, then the totals.

    Unknown metrics are left out completely. Every line ends with a line feed.
    """
    per_topic = [(m.topic or "", list_metric_values(m)) for m in measured]
    together = list_metric_values(sum_measurements(measured))
    lines: list[str] = []
    for metric in METRICS:
        lines += _format_family(
            f"{PER_TOPIC}{metric.name}",
            metric.meaning,
            [(_format_label(topic), found.get(metric.name)) for topic, found in per_topic],
        )
    for metric in METRICS:
        lines += _format_family(
            f"{ALL_TOPICS}{metric.name}", f"{metric.meaning}; all topics", [("", together[metric.name])]
        )
    return "".join(f"{line}\n" for line in lines)


def list_names() -> frozenset[str]:
    """List every name in Prometheus: of this page, and of StatsD through ``monitoring/statsd-exporter.yml``."""
    gauges = {f"{ALL_TOPICS}{metric.name}" for metric in METRICS}
    gauges |= {f"{PER_TOPIC}{metric.name}" for metric in METRICS if not metric.total_only}
    counters = {f"{PER_TOPIC}{counter.name}_total" for counter in COUNTERS}
    timer = {f"{PER_TOPIC}{PHASE}_seconds{part}" for part in ("", "_bucket", "_sum", "_count")}
    return frozenset(map(format_name, gauges | counters | timer))


def format_name(name: str) -> str:
    """Format ``max-dirty-percent`` as Prometheus spells it: ``max_dirty_percent``."""
    return name.replace("-", "_")


def _format_family(name: str, meaning: str, samples: Sequence[tuple[str, Value]]) -> list[str]:
    known = [(label, value) for label, value in samples if value is not None]
    if not known:
        return []
    name = format_name(name)
    described = meaning.replace("\\", r"\\").replace("\n", r"\n")
    return [
        f"# HELP {name} {described}",
        f"# TYPE {name} gauge",
        *(f"{name}{label} {value!r}" for label, value in known),
    ]


def _format_label(topic: str) -> str:
    escaped = topic.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{topic="{escaped}"}}'
