"""The tables of docs/metrics.md and docs/logs.md, from the lists that the program itself reads.

python -m winnow.report.reference
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from winnow.report.counters import COUNTERS, PHASE, PHASES
from winnow.report.events import EVENTS
from winnow.report.metrics import METRICS


def render_metrics_table() -> str:
    """Everything that is sent: a line per metric."""
    rows = [
        (f"`{metric.name}`", "gauge", "total only" if metric.total_only else "`topic`, total", metric.meaning)
        for metric in METRICS
    ]
    for counter in COUNTERS:
        values = ", ".join(counter.labels)
        label = "" if counter.label is None else f", `{counter.label}`" + (f" ({values})" if values else "")
        rows.append((f"`{counter.name}`", "counter", f"`topic`{label}", counter.meaning))
    labels = f"`topic`, `{PHASE}` ({', '.join(PHASES)})"
    rows.append((f"`{PHASE}`", "timer", labels, "Milliseconds that one step of one topic took, well or not"))
    return _render_table(("name", "kind", "labels", "meaning"), rows)


def render_events_table() -> str:
    """Every event: a line each, with its fields."""
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
