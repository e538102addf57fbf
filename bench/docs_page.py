"""Writes the tables of docs/performance.md and docs/compare.md from stored results.

The text around them is written by hand. A test generates the pages again and compares, so that they stay equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.growth_curves import group_by_curve
from bench.keyed_tables import WAYS as KEYED
from bench.phase_times import PHASES
from bench.process_measurement import ROOT
from bench.results import Results
from bench.suites import SUITES
from bench.tables import (
    AIRFLOW_COLUMNS,
    CURVE_COLUMNS,
    KEYED_COLUMNS,
    LOSS_TITLES,
    RATIO_COLUMNS,
    RUN_COLUMNS,
    build_airflow_rows,
    build_curve_rows,
    build_keyed_rows,
    build_keyed_work_rows,
    build_loss_rows,
    build_phase_rows,
    build_run_rows,
    build_target_rows,
    list_missed_targets,
)
from bench.workloads import WORKLOADS

PAGE = ROOT / "docs" / "performance.md"
PAGES = (PAGE, ROOT / "docs" / "compare.md")
"""Pages with tables of figures."""
STORED_RESULTS = ROOT / "docs" / "performance.json"
"""Results of `make bench` for the page, large runs and control plane included."""
STORED_CURVES = ROOT / "docs" / "performance-curves.json"
LATER = "measured later"
"""Key of the machine: what was measured on another day than the rest, and when."""
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
    later: dict[str, str] = machine.pop(LATER, {})
    rows = [(name, f"{value}") for name, value in machine.items()]
    rows += [
        (f"{LATER}, {when}", ", ".join(name for name, each in later.items() if each == when))
        for when in dict.fromkeys(later.values())
    ]
    return _markdown(["", ""], rows, left=2)


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


def _keyed(results: Results, curves: Results) -> str:
    return _markdown(KEYED_COLUMNS, build_keyed_rows(results), left=2)


def _keyed_work(results: Results, curves: Results) -> str:
    columns = ["seconds until visible, 12 million records", *(LOSS_TITLES[name] for name in ("winnow", *KEYED))]
    return _markdown(columns, build_keyed_work_rows(results))


def _losses(results: Results, curves: Results) -> str:
    return _markdown(["", *LOSS_TITLES.values()], build_loss_rows(results))


def _curves(results: Results, curves: Results) -> str:
    return _markdown(CURVE_COLUMNS, build_curve_rows(group_by_curve(curves)))


TABLES: dict[str, Callable[[Results, Results], str]] = {
    "machine": _machine,
    "ratios": _ratios,
    "runs": _runs("12m"),
    "runs-large": _runs("large"),
    "phases": _phases,
    "workloads": _workloads,
    "keyed": _keyed,
    "keyed-work": _keyed_work,
    "losses": _losses,
    "airflow": _airflow,
    "curves": _curves,
}


def update_docs_page(results: Path, curves: Path) -> None:
    """Store these results beside the docs and write the pages again."""
    for found, kept in ((Results.load(results), STORED_RESULTS), (Results.load(curves), STORED_CURVES)):
        if found.runs:
            found.path = kept
            found.save()
    write_pages()


def add_results(path: Path) -> None:
    """Put the results of ``path`` among those beside the docs and write the pages again.

    Runs of the same size, workload and competitor, and figures of the same name, are replaced; the table of the machine
    names them.

    Raises:
        ValueError: ``path`` has no results.
    """
    merged = merge_results(Results.load(STORED_RESULTS), Results.load(path))
    merged.save()
    write_pages()


def merge_results(stored: Results, new: Results) -> Results:
    """Return ``stored`` with the runs and figures of ``new`` in the place of its own, in the order of the suites.

    Raises:
        ValueError: there is nothing new.
    """
    if not (new.runs or new.control):
        raise ValueError(f"{new.path} has no results.")
    replaced = {(run.size, run.workload, run.competitor) for run in new.runs}
    runs = [run for run in stored.runs if (run.size, run.workload, run.competitor) not in replaced]
    steps = [(size, step.workload) for size, steps in SUITES.items() for step in steps]
    places = {place: number for number, place in reversed(list(enumerate(steps)))}
    runs = sorted([*runs, *new.runs], key=lambda run: places.get((run.size, run.workload), len(steps)))
    later = {
        **stored.machine.get(LATER, {}),
        **{f"{run.workload} {run.competitor}": _describe_time(new.machine) for run in new.runs},
        **{name: _describe_time({**new.machine, **figures}) for name, figures in new.control.items()},
    }
    return Results(stored.path, {**stored.machine, LATER: later}, runs, {**stored.control, **new.control})


def _describe_time(machine: Mapping[str, Any]) -> str:
    return f"{machine.get('day')}, commit {str(machine.get('commit'))[:12]}"


def write_pages() -> None:
    """Write the tables of the pages from the stored results."""
    stored, curves = Results.load(STORED_RESULTS), Results.load(STORED_CURVES)
    for page in PAGES:
        page.write_text(fill_tables(page.read_text(), stored, curves))
