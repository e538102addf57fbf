"""The figures in docs/performance.md: tables between markers, written from the results that are kept beside the docs.

The prose around them is written by hand. A test writes the page anew and compares, so that the two cannot drift apart.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.curves import curves_of
from bench.measure import ROOT
from bench.phases import PHASES, WORK
from bench.ratios import RATIOS
from bench.report import MIB, groups, missed, spread
from bench.results import Results
from bench.workloads import WORKLOADS

PAGE = ROOT / "docs" / "performance.md"
KEPT = ROOT / "docs" / "performance.json"
"""What `make bench` measured for the page, large runs and control plane included."""
KEPT_CURVES = ROOT / "docs" / "performance-curves.json"
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str, results: Results, curves: Results) -> str:
    """``page`` with the tables of these results.

    Raises:
        ValueError: a marker names no table.
    """

    def table(match: re.Match[str]) -> str:
        if match["name"] not in TABLES:
            raise ValueError(f"There is no table {match['name']}; there are {', '.join(TABLES)}.")
        return f"{match[1]}{TABLES[match['name']](results, curves)}\n{match[3]}"

    return _BLOCK.sub(table, page)


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    rule = ["---" if number < left else "---:" for number in range(len(columns))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, rule, *rows))


def _machine(results: Results, curves: Results) -> str:
    machine = dict(results.machine)
    if not machine:
        return ""
    machine["memory"] = f"{machine.pop('memory_bytes') / (1 << 30):.0f} GiB"
    machine["versions"] = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return _markdown(["", ""], [(name, f"{value}") for name, value in machine.items()], left=2)


def _ratios(results: Results, curves: Results) -> str:
    rows = []
    for ratio in RATIOS:
        value = ratio.value(results)
        told = "not measured" if value is None else f"**{ratio.shown(value)}**"
        mark = "" if value is None else "met" if ratio.met(value) else "**missed**"
        rows.append((ratio.name, ratio.how, ratio.goal, told, mark))
    table = _markdown(["what", "how", "target", "measured", ""], rows, left=2)
    return "\n\n".join([table, *(f"**Missed: {name}.** {why}" for name, why in missed(results))])


def _runs(size: str) -> Callable[[Results, Results], str]:
    def table(results: Results, curves: Results) -> str:
        rows = []
        for (workload, competitor), runs in groups(results, size).items():
            ended = [run for run in runs if run.ended]
            if not ended:
                rows.append((workload, competitor, f"not at its end after {runs[-1].seconds:.0f} s", *[""] * 4))
                continue
            peaks, read, wrote = (
                f"{statistics.median(figures) / MIB:,.0f}"
                for figures in zip(*((run.peak_bytes, run.read_bytes, run.written_bytes) for run in ended), strict=True)
            )
            whole = spread([run.seconds for run in ended])
            work = spread([run.work_seconds for run in ended if run.work_seconds is not None])
            rows.append((workload, competitor, whole, work, peaks, read, wrote))
        return _markdown(
            ["workload", "who", "whole, s", "work, s", "peak MiB", "read MiB", "written MiB"], rows, left=2
        )

    return table


def _phases(results: Results, curves: Results) -> str:
    rows = []
    for workload, competitor in groups(results, "12m"):
        run = results.typical("12m", workload, competitor)
        if run is not None and run.phases:
            name = workload if competitor == "winnow" else f"{workload}, {competitor}"
            rows.append((name, *(f"{run.phases[phase]:.2f}" for phase in PHASES)))
    return _markdown(["workload", *PHASES], rows)


def _workloads(results: Results, curves: Results) -> str:
    used = dict.fromkeys(run.workload for run in results.runs)
    return _markdown(["workload", "what it is"], [(name, WORKLOADS[name].meaning) for name in used], left=2)


def _curves(results: Results, curves: Results) -> str:
    shown = ("winners", "rewrite", "spark", "facts")
    rows = [
        (label, f"{x:,g}", f"{sum(phases[part] for part in WORK):.2f}", *(f"{phases[part]:.2f}" for part in shown))
        for label, points in curves_of(curves).items()
        for x, phases in points
    ]
    return _markdown(["against", "", "work, s", *shown], rows)


TABLES: dict[str, Callable[[Results, Results], str]] = {
    "machine": _machine,
    "ratios": _ratios,
    "runs": _runs("12m"),
    "runs-large": _runs("large"),
    "phases": _phases,
    "workloads": _workloads,
    "curves": _curves,
}


def document(results: Path, curves: Path) -> None:
    """Keep these results beside the docs and write the page anew."""
    for found, kept in ((Results.load(results), KEPT), (Results.load(curves), KEPT_CURVES)):
        if found.runs:
            found.path = kept
            found.save()
    write_page()


def write_page() -> None:
    """Write the tables of docs/performance.md from the results that are kept there."""
    PAGE.write_text(written(PAGE.read_text(), Results.load(KEPT), Results.load(KEPT_CURVES)))
