"""The tables that people read: what was measured, and the ratios with their marks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.phases import PHASES, WORK
from bench.ratios import RATIOS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bench.results import Results, Run

MIB = 1 << 20


def show(results: Results, console: Console) -> None:
    """Everything there is."""
    for size in dict.fromkeys(run.size for run in results.runs):
        console.print(runs_table(results, size))
        console.print(phases_table(results, size))
    console.print(ratios_table(results))
    for name, why in missed(results):
        console.print(f"[red]missed[/] {name}: {why}", highlight=False)


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < 2 else "right", overflow="fold")  # noqa: PLR2004
    return table


def groups(results: Results, size: str) -> dict[tuple[str, str], list[Run]]:
    """The runs at one size by workload and competitor, in the order in which they came."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in results.runs:
        if run.size == size:
            found.setdefault((run.workload, run.competitor), []).append(run)
    return found


def runs_table(results: Results, size: str) -> Table:
    """One line per workload and competitor: medians and spread over its runs."""
    table = _table(
        f"{size}: seconds, median (lowest to highest)",
        "workload", "competitor", "runs", "whole", "work", "CPU", "peak MiB", "read MiB", "written MiB",
    )  # fmt: skip
    for (workload, competitor), runs in groups(results, size).items():
        ended = [run for run in runs if run.ended]
        if not ended:
            table.add_row(workload, competitor, "0", f"did not end in {runs[-1].seconds:.0f} s")
            continue
        table.add_row(
            workload,
            competitor,
            str(len(ended)),
            spread([run.seconds for run in ended]),
            spread([run.work_seconds for run in ended if run.work_seconds is not None]),
            f"{statistics.median(run.cpu_seconds for run in ended):.1f}",
            f"{statistics.median(run.peak_bytes for run in ended) / MIB:,.0f}",
            f"{statistics.median(run.read_bytes for run in ended) / MIB:,.0f}",
            f"{statistics.median(run.written_bytes for run in ended) / MIB:,.0f}",
        )
    return table


def spread(seconds: list[float]) -> str:
    """The median, and the lowest and the highest of several."""
    if not seconds:
        return "-"
    if len(seconds) == 1:
        return f"{seconds[0]:.2f}"
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def phases_table(results: Results, size: str) -> Table:
    """Where the time of Winnow went, the run of median work of each workload."""
    table = _table(f"{size}: seconds of winnow compact by phase", "workload", "competitor", *PHASES)
    for workload, competitor in groups(results, size):
        run = results.typical(size, workload, competitor)
        if run is not None and run.phases:
            table.add_row(workload, competitor, *(f"{run.phases[phase]:.2f}" for phase in PHASES))
    return table


def ratios_table(results: Results) -> Table:
    """Every target with what was measured and a mark."""
    table = _table("Ratios", "what", "how", "target", "measured", "")
    for ratio in RATIOS:
        value = ratio.value(results)
        if value is None:
            table.add_row(ratio.name, ratio.how, ratio.goal, "-", "not measured")
        else:
            met = ratio.met(value)
            table.add_row(
                ratio.name, ratio.how, ratio.goal, ratio.shown(value), "[green]met[/]" if met else "[red]missed[/]"
            )
    return table


def missed(results: Results) -> list[tuple[str, str]]:
    """The targets that were missed, with the reason and what was tried, where that is known."""
    measured = ((ratio, ratio.value(results)) for ratio in RATIOS)
    return [
        (ratio.name, ratio.why_missed or "Not looked into yet.")
        for ratio, value in measured
        if value is not None and not ratio.met(value)
    ]


def curves_table(curves: Mapping[str, Sequence[tuple[float, Mapping[str, float]]]]) -> Table:
    """Seconds of each point by phase."""
    shown = ("winners", "rewrite", "spark", "facts", "validate", "publish")
    table = _table("Curves: seconds of winnow compact", "against", "", "work", *shown)
    for label, points in curves.items():
        for x, phases in points:
            work = sum(phases.get(phase, 0.0) for phase in WORK)
            table.add_row(label, f"{x:,g}", f"{work:.2f}", *(f"{phases.get(phase, 0.0):.2f}" for phase in shown))
    return table
