"""Prints tables of runs, phases, targets and curves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.keyed_tables import WAYS as KEYED
from bench.phase_times import PHASES, WORK
from bench.targets import RATIOS, compute_until_visible
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bench.results import CompetitorRun, Results

MIB = 1 << 20
RUN_COLUMNS = ("workload", "competitor", "runs", "whole", "work", "CPU", "peak MiB", "read MiB", "written MiB")
RATIO_COLUMNS = ("what", "how", "target", "measured", "")
AIRFLOW_RUNS = (
    ("tick", "first", "2 topics: first look"),
    ("tick", "idle", "2 topics: idle tick"),
    ("tick-uncompiled", "idle", "2 topics: idle tick without bytecode"),
    ("tick-many", "first", "1,000 unchanged topics: first look"),
    ("tick-many", "idle", "1,000 unchanged topics: idle tick"),
    ("small-topics", "dag", "60 small topics: compact_topics"),
    ("small-topics", "ingest", "60 files into 60 topics: ingest_topics"),
    ("press", "first", "1 small topic, first press of Compact now"),
    ("press", "warm", "1 small topic, warm press of Compact now"),
    ("press", "empty", "7 tasks that do nothing, one after another"),
)
"""DAG runs of the benchmark of Airflow: part, name of its figures, what it is."""
AIRFLOW_COMPONENTS = ("scheduler", "dag-processor", "api-server", "triggerer", "database")
AIRFLOW_COLUMNS = ("run", "time", "processes", "tasks", *AIRFLOW_COMPONENTS)
KEYED_COLUMNS = (
    *("workload", "competitor", "runs", "whole", "until visible", "x Winnow", "CPU", "read MiB", "written MiB"),
    *("new files MiB", "data files", "deleted rows", "reading it before", "after"),
)
KEYED_WORKLOADS = ("uniform", "incremental-1", "incremental-1-spread", "incremental-10-spread")
LOSS_TITLES = {
    "winnow": "Winnow",
    "spark-merge-cow": "`MERGE`, copy-on-write",
    "spark-merge-mor": "`MERGE`, merge-on-read",
    "spark-merge-blind": "`MERGE` without comparing",
    "spark-overwrite": "`INSERT OVERWRITE`",
}
LOSSES: tuple[tuple[str, str], ...] = (
    ("data files whose records ascend by offset", "{files_in_order} of {files}"),
    ("deletes that an incremental reader sees", "{tombstones} of 15"),
    ("topic partitions whose end is known, so that a consumer can go on there", "{ends_known} of 2"),
    ("live records with their headers", "{headers} of {live}"),
    ("rows left of a topic partition of which every key was deleted", "{emptied_left} of 5"),
    ("keys that an older version, arriving late, took back", "{late_won} of 5"),
    ("deleted keys that an older version, arriving late, brought back", "{late_returned} of 5"),
    ("deleted keys that came back when an old file was delivered again", "{again_returned} of 10"),
)
"""Questions of :mod:`bench.peer_losses`, and how the answer is made of its figures."""
CURVE_PHASES = ("winners", "rewrite", "spark", "facts", "validate", "publish")
CURVE_COLUMNS = ("against", "", "work", *CURVE_PHASES)
Curves = Mapping[str, Sequence[tuple[float, Mapping[str, float]]]]
"""Per curve its points: x, and seconds by phase."""


def print_tables(results: Results, console: Console) -> None:
    """Print all tables."""
    for size in dict.fromkeys(run.size for run in results.runs):
        console.print(print_runs(results, size))
        console.print(print_phases(results, size))
    if any(name.startswith("airflow-") for name in results.control):
        console.print(print_airflow(results))
    console.print(print_targets(results))
    for name, why in list_missed_targets(results):
        console.print(f"[red]missed[/] {name}: {why}", highlight=False)


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < 2 else "right", overflow="fold")  # noqa: PLR2004
    return table


def group_runs(results: Results, size: str) -> dict[tuple[str, str], list[CompetitorRun]]:
    """Group the runs at one size by workload and competitor, in order of arrival."""
    found: dict[tuple[str, str], list[CompetitorRun]] = {}
    for run in results.runs:
        if run.size == size:
            found.setdefault((run.workload, run.competitor), []).append(run)
    return found


def build_run_rows(results: Results, size: str) -> list[tuple[str, ...]]:
    """Build a row per workload and competitor, as :data:`RUN_COLUMNS`: medians and spread over its runs."""
    rows: list[tuple[str, ...]] = []
    for (workload, competitor), runs in group_runs(results, size).items():
        ended = [run for run in runs if run.ended]
        if not ended:
            rows.append((workload, competitor, "0", f"did not end in {runs[-1].seconds:.0f} s", *[""] * 5))
            continue
        whole = format_spread([run.seconds for run in ended])
        work = format_spread([run.work_seconds for run in ended if run.work_seconds is not None])
        cpu = f"{statistics.median(run.cpu_seconds for run in ended):.1f}"
        figures = zip(*((run.peak_bytes, run.read_bytes, run.written_bytes) for run in ended), strict=True)
        sizes = (f"{statistics.median(each) / MIB:,.0f}" for each in figures)
        rows.append((workload, competitor, str(len(ended)), whole, work, cpu, *sizes))
    return rows


def print_runs(results: Results, size: str) -> Table:
    """Build the table of runs, one line per workload and competitor."""
    table = _table(f"{size}: seconds, median (lowest to highest)", *RUN_COLUMNS)
    for row in build_run_rows(results, size):
        table.add_row(*row)
    return table


def format_spread(seconds: list[float]) -> str:
    """Format the median, and the lowest and the highest of several."""
    if not seconds:
        return "-"
    if len(seconds) == 1:
        return f"{seconds[0]:.2f}"
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def build_keyed_rows(results: Results) -> list[tuple[str, ...]]:
    """Build a row per workload and keyed table at 12m, Winnow's first, as :data:`KEYED_COLUMNS`."""
    rows = []
    for workload in KEYED_WORKLOADS:
        winnow = results.median("12m", workload, "winnow", compute_until_visible)
        for row in build_run_rows(results, "12m"):
            competitor = row[1]
            if row[0] != workload or not (competitor == "winnow" or competitor in KEYED):
                continue
            runs = results.of("12m", workload, competitor)
            visible = results.median("12m", workload, competitor, compute_until_visible)
            ratio = f"{visible / winnow:.1f}" if visible and winnow else ""
            spread = format_spread([each for run in runs if (each := compute_until_visible(run)) is not None])
            after = max((run.after for run in runs), key=len, default={})
            rows.append((*row[:4], spread, ratio, row[5], *row[7:], *_format_after(after)))
    return rows


def _format_after(after: Mapping[str, float]) -> tuple[str, ...]:
    new_bytes = f"{after['new_bytes'] / MIB:,.0f}" if "new_bytes" in after else ""
    counts = (f"{after[name]:,.0f}" if name in after else "" for name in ("data_files", "deleted_rows"))
    names = ("read_before_seconds", "read_after_seconds")
    return (new_bytes, *counts, *(f"{after[name]:.2f}" if name in after else "" for name in names))


def build_keyed_work_rows(results: Results) -> list[tuple[str, ...]]:
    """Build a row per workload: seconds until visible of Winnow and of each keyed table, marked where of one run."""
    rows = []
    for workload in KEYED_WORKLOADS:
        known = WORKLOADS[workload]
        label = known.meaning if known.incremental else f"first load; {known.meaning}"
        rows.append((label, *(_format_until_visible(results, workload, name) for name in ("winnow", *KEYED))))
    return rows


def _format_until_visible(results: Results, workload: str, competitor: str) -> str:
    seconds = results.median("12m", workload, competitor, compute_until_visible)
    if seconds is None:
        return ""
    return f"{seconds:.1f}" + (" (once)" if len(results.of("12m", workload, competitor)) == 1 else "")


def build_loss_rows(results: Results) -> list[tuple[str, ...]]:
    """Build a row per question of :data:`LOSSES`: the answer of each in :data:`LOSS_TITLES`; none if not measured."""
    found = results.control.get("keyed-losses", {})
    if not found:
        return []
    return [(question, *(answer.format(**found[name]) for name in LOSS_TITLES)) for question, answer in LOSSES]


def build_phase_rows(results: Results, size: str) -> list[tuple[str, ...]]:
    """Build the rows of Winnow's phase times: workload, competitor and the phases of the run of median work."""
    typical = ((names, results.typical(size, *names)) for names in group_runs(results, size))
    return [
        (*names, *(f"{run.phases[phase]:.2f}" for phase in PHASES))
        for names, run in typical
        if run is not None and run.phases
    ]


def print_phases(results: Results, size: str) -> Table:
    """Build the table of phases, one line per workload that Winnow compacted."""
    table = _table(f"{size}: seconds of winnow compact by phase", "workload", "competitor", *PHASES)
    for row in build_phase_rows(results, size):
        table.add_row(*row)
    return table


def build_airflow_rows(results: Results) -> list[tuple[str, ...]]:
    """Build a row per DAG run that was measured, as :data:`AIRFLOW_COLUMNS`: seconds, and CPU seconds by component."""
    rows = []
    for part, name, what in AIRFLOW_RUNS:
        found = results.control.get(f"airflow-{part}")
        if found is None:
            continue
        others = found[f"{name}_other_cpu_seconds"]
        seconds = [found[f"{name}_cpu_seconds"], *(others.get(component, 0.0) for component in AIRFLOW_COMPONENTS)]
        processes = f"{found[f'{name}_processes']} of {found[f'{name}_instances']}"
        rows.append((what, f"{found[f'{name}_seconds']:.0f}", processes, *(f"{each:.1f}" for each in seconds)))
    return rows


def print_airflow(results: Results) -> Table:
    """Build the table of DAG runs in a real Airflow."""
    table = _table("Airflow: seconds of a run, and CPU seconds by component", *AIRFLOW_COLUMNS)
    for row in build_airflow_rows(results):
        table.add_row(*row)
    return table


def build_target_rows(results: Results) -> list[tuple[str, str, str, str, bool | None]]:
    """Build a row per target: figure, method, target, measured, whether it is met; None where it was not measured."""
    rows: list[tuple[str, str, str, str, bool | None]] = []
    for ratio in RATIOS:
        value = ratio.value(results)
        shown, met = ("-", None) if value is None else (ratio.shown(value), ratio.met(value))
        rows.append((ratio.name, ratio.how, ratio.goal, shown, met))
    return rows


def print_targets(results: Results) -> Table:
    """Build the table of targets with measured values and a mark."""
    table = _table("Ratios", *RATIO_COLUMNS)
    marks = {None: "not measured", True: "[green]met[/]", False: "[red]missed[/]"}
    for *cells, met in build_target_rows(results):
        table.add_row(*map(str, cells), marks[met])
    return table


def list_missed_targets(results: Results) -> list[tuple[str, str]]:
    """List the missed targets, with the reason and what was tried, where known."""
    measured = ((ratio, ratio.value(results)) for ratio in RATIOS)
    return [
        (ratio.name, ratio.why_missed or "Not looked into yet.")
        for ratio, value in measured
        if value is not None and not ratio.met(value)
    ]


def build_curve_rows(curves: Curves) -> list[tuple[str, ...]]:
    """Build a row per point, as :data:`CURVE_COLUMNS`."""
    return [
        (
            label,
            f"{x:,g}",
            f"{sum(phases.get(phase, 0.0) for phase in WORK):.2f}",
            *(f"{phases.get(phase, 0.0):.2f}" for phase in CURVE_PHASES),
        )
        for label, points in curves.items()
        for x, phases in points
    ]


def print_curves(curves: Curves) -> Table:
    """Build the table of the seconds of each point by phase."""
    table = _table("Curves: seconds of winnow compact", *CURVE_COLUMNS)
    for row in build_curve_rows(curves):
        table.add_row(*row)
    return table
