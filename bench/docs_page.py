"""Writes the tables of docs/performance.md from stored results.

The text around them is written by hand. A test generates the page again and compares, so that the two stay equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.growth_curves import group_by_curve
from bench.phase_times import PHASES
from bench.process_measurement import ROOT
from bench.results import Results
from bench.tables import (
    AIRFLOW_COLUMNS,
    CURVE_COLUMNS,
    RATIO_COLUMNS,
    RUN_COLUMNS,
    build_airflow_rows,
    build_curve_rows,
    build_phase_rows,
    build_run_rows,
    build_target_rows,
    list_missed_targets,
)
from bench.workloads import WORKLOADS

PAGE = ROOT / "docs" / "performance.md"
STORED_RESULTS = ROOT / "docs" / "performance.json"
"""Results of `make bench` for the page, large runs and control plane included."""
STORED_CURVES = ROOT / "docs" / "performance-curves.json"
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill_tables(page: str, results: Results, curves: Results) -> str:
    """Fill the tables of ``page`` with these results.

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
    marks = {None: "not measured", True: "met", False: "**missed**"}
    rows = [(what, how, goal, f"**{shown}**", marks[met]) for what, how, goal, shown, met in build_target_rows(results)]
    table = _markdown(RATIO_COLUMNS, rows, left=2)
    return "\n\n".join([table, *(f"**Missed: {name}.** {why}" for name, why in list_missed_targets(results))])


def _runs(size: str) -> Callable[[Results, Results], str]:
    return lambda results, curves: _markdown(RUN_COLUMNS, build_run_rows(results, size), left=2)


def _phases(results: Results, curves: Results) -> str:
    return _markdown(["workload", "competitor", *PHASES], build_phase_rows(results, "12m"), left=2)


def _workloads(results: Results, curves: Results) -> str:
    used = dict.fromkeys(run.workload for run in results.runs)
    return _markdown(["workload", "what it is"], [(name, WORKLOADS[name].meaning) for name in used], left=2)


def _airflow(results: Results, curves: Results) -> str:
    return _markdown(AIRFLOW_COLUMNS, build_airflow_rows(results))


def _curves(results: Results, curves: Results) -> str:
    return _markdown(CURVE_COLUMNS, build_curve_rows(group_by_curve(curves)))


TABLES: dict[str, Callable[[Results, Results], str]] = {
    "machine": _machine,
    "ratios": _ratios,
    "runs": _runs("12m"),
    "runs-large": _runs("large"),
    "phases": _phases,
    "workloads": _workloads,
    "airflow": _airflow,
    "curves": _curves,
}


def update_docs_page(results: Path, curves: Path) -> None:
    """Store these results beside the docs and write the page again."""
    for found, kept in ((Results.load(results), STORED_RESULTS), (Results.load(curves), STORED_CURVES)):
        if found.runs:
            found.path = kept
            found.save()
    write_page()


def write_page() -> None:
    """Write the tables of docs/performance.md from the stored results."""
    PAGE.write_text(fill_tables(PAGE.read_text(), Results.load(STORED_RESULTS), Results.load(STORED_CURVES)))
