"""The tables of docs/metrics.md and docs/logs.md, from the lists that the program itself reads.

python -m winnow.report.reference
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from winnow.report.counters import COUNTERS, PHASE, PHASES
from winnow.report.events import EVENTS
from winnow.report.metrics import METRICS


def metrics_table() -> str:
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
    return _table(("name", "kind", "labels", "meaning"), rows)


def events_table() -> str:
    """Every event: a line each, with its fields."""
    rows = [
        (f"`{event.name}`", event.meaning, ", ".join(f"`{field}`" for field in ("topic", *event.fields)))
        for event in EVENTS
    ]
    return _table(("event", "when", "fields"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(f"{metrics_table()}\n{events_table()}")
