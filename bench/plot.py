"""Draws the plots of docs/performance.md.

The plots have a light background of their own, so that they are readable on dark pages too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.phase_times import PHASES
from bench.results import CompetitorRun, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {
    "start": "#bdbdbd",
    "plan": "#969696",
    "spark start": "#d9d9d9",
    "winners": "#08519c",
    "rewrite": "#3182bd",
    "spark": "#9ecae1",
    "facts": "#e6550d",
    "gx import": "#fdd0a2",
    "validate": "#fdae6b",
    "publish": "#31a354",
    "rest": "#e8e8e8",
    "work": "#756bb1",
}
STYLE: Any = {
    "svg.hashsalt": "winnow",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "#ffffff",
    "savefig.facecolor": "#ffffff",
}
SIDE_BY_SIDE = (
    ("winnow", "Winnow"),
    ("duckdb", "DuckDB alone"),
    ("spark-copy", "plain Spark copy"),
    ("spark-semi-join", "Spark semi join"),
    ("spark-window", "naive Spark window"),
)
Bars = Sequence[tuple[str, Mapping[str, float]]]


def draw(results: Results, path: Path) -> None:
    """Plot the runs of median work at size 12m.

    Raises:
        ValueError: nothing was measured at that size.
    """
    beside = [
        (label, _parts(run))
        for competitor, label in SIDE_BY_SIDE
        if (run := results.typical("12m", "uniform", competitor)) is not None
    ]
    names = dict.fromkeys(run.workload for run in results.runs if run.size == "12m")
    within = [
        (name, run.phases)
        for name in names
        if (run := results.typical("12m", name, "winnow")) is not None and run.phases
    ]
    if not beside or not within:
        raise ValueError("There is nothing to draw yet. Run: python -m bench run 12m")
    figure, (top, bottom) = _figure(len(beside), len(within))
    _bars(top, beside, "12 M records, 10 % survive: seconds of the whole process")
    _bars(bottom, within, "winnow compact by workload: seconds by phase")
    named = {
        part: handle for axes in (top, bottom) for handle, part in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=6, frameon=False)
    _save(figure, path)


def _parts(run: CompetitorRun) -> Mapping[str, float]:
    return run.phases or {"spark start": run.start_seconds, "work": run.work_seconds or 0.0}


def _figure(upper: int, lower: int) -> tuple[Any, tuple[Axes, Axes]]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 2.6 + 0.3 * (upper + lower)), layout="constrained")
        top, bottom = figure.subplots(2, 1, gridspec_kw={"height_ratios": [upper + 1, lower + 1]})
    return figure, (top, bottom)


def _bars(axes: Axes, bars: Bars, title: str) -> None:
    """Draw one bar per name, its parts in sequence, with the total at its end."""
    labels = [label for label, _ in bars][::-1]
    parts = [phase for phase in (*PHASES, "work") if any(each.get(phase) for _, each in bars)]
    ends = [0.0] * len(bars)
    for part in parts:
        widths = [each.get(part, 0.0) for _, each in bars][::-1]
        axes.barh(labels, widths, left=ends, color=COLORS[part], label=part, height=0.7)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for number, end in enumerate(ends):
        axes.text(end, number, f" {end:.1f} s", va="center")
    axes.set_title(title, loc="left")
    axes.set_xlim(0, max(ends) * 1.12)


def _save(figure: Any, path: Path) -> None:
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def draw_curves(curves: Mapping[str, Sequence[tuple[float, Mapping[str, float]]]], path: Path) -> None:
    """Draw one small plot per curve: work by phase against what varies. ``curves``: label to (x, seconds by phase)."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 6.0), layout="constrained")
        for axes, (label, points) in zip(figure.subplots(2, 2).flat, curves.items(), strict=False):
            xs = [x for x, _ in points]
            for phase in ("winners", "rewrite", "spark", "facts"):
                axes.plot(
                    xs, [seconds.get(phase, 0.0) for _, seconds in points], "o-", color=COLORS[phase], label=phase
                )
            total = [sum(seconds.get(phase, 0.0) for phase in ("winners", "rewrite", "spark")) for _, seconds in points]
            axes.plot(xs, total, "o--", color="#252525", label="work")
            axes.set_title(label, loc="left")
            axes.set_ylabel("seconds")
            axes.set_ylim(bottom=0)
            if min(xs) > 0 and max(xs) / min(xs) > 20:  # noqa: PLR2004 - a linear axis would squeeze the lower half
                axes.set_xscale("log")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    _save(figure, path)
