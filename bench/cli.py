"""Commands of the benchmark: run, prepare, control, airflow, archives, typed, kafka, curves, report, and more."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lake import get_lake, prepare
from bench.process_measurement import ROOT
from bench.results import Results
from bench.suites import SUITES, run_suite, select_steps
from bench.workloads import SIZES, SMALL, WORKLOADS

if TYPE_CHECKING:
    from bench.progress import ProgressPrinter

HELP = """\
Winnow beside what a user would pick instead, on the same segment files, in one run on this machine.

  python -m bench                        what `make bench` does: 12 M records, every ratio; resumes what was cut short
  python -m bench run small              every workload against the oracle, record for record; seconds each
  python -m bench run large              48 M records in 8 topic partitions, about 6 GB of segments
  python -m bench run 12m --only winnow,duckdb --workloads uniform --rounds 1 --json /tmp/mine.json --fresh
  python -m bench control                ten thousand partitions, a thousand topics, two hundred compactions
  python -m bench airflow                what the DAGs cost in a real Airflow: idle ticks, small topics and files
  python -m bench archives 12m           10 M records as sinks leave them: in one process, on Spark, plain Spark
  python -m bench typed 12m              3 M keys of Avro values as a typed table: in process, on Spark, plain Spark
  python -m bench kafka 12m              12 M records of a broker: ingest beside Spark's copy, the broker's cleaner
  python -m bench curves                 cost against records, keys, partitions and dirty share
  python -m bench report --plot docs/img/performance.svg
  python -m bench document               docs/performance.md and docs/compare.md from what was measured
  python -m bench list                   workloads and competitors

Data is generated once below WINNOW_HOME (.winnow) in bench/ and ingested by Winnow; runs start from a pristine copy.
Every run is added to the JSON file as it ends, so that a benchmark cut short goes on where it was. A ratio that is
missed is marked; results that are not equal end with exit code 1.
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="python -m bench", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    run = commands.add_parser("run", help="measure, compare, print the tables (the default)")
    ready = commands.add_parser("prepare", help="generate and ingest only")
    for each in (run, ready):
        each.add_argument("size", nargs="?", default="12m", choices=sorted(SIZES), help="default: 12m")
        each.add_argument("--workloads", default="", metavar="A,B", help="only these; see list")
    run.add_argument("--only", default="", metavar="A,B", help="only these competitors; see list")
    run.add_argument("--rounds", type=int, metavar="N", help="runs of each; default: what the suite says")
    run.add_argument("--no-control", action="store_true", help="leave out what `control` and `airflow` measure")
    run.add_argument("--plot", nargs="?", type=Path, const=DEFAULT_PLOT, metavar="SVG", help="and draw the plot")
    control = commands.add_parser("control", help="the control plane: assess, topics, commits")
    control.add_argument(
        "--parts",
        default="",
        metavar="A,B",
        help="only these: assess, topics, commits, incremental-bytes, keyed-losses",
    )
    airflow = commands.add_parser("airflow", help="what the DAGs cost in a real Airflow")
    airflow.add_argument(
        "--parts", default="", metavar="A,B", help="only these: tick, tick-uncompiled, tick-many, small-topics"
    )
    airflow.add_argument(
        "--size", default="full", choices=("full", "small"), help="small: 20 topics, nothing is kept; default: full"
    )
    archives = commands.add_parser("archives", help="how archives of sinks go in, beside a plain Spark job")
    archives.add_argument("size", nargs="?", default="12m", choices=sorted(SIZES), help="default: 12m")
    archives.add_argument("--records", type=int, metavar="N", help="records of each archive; default: by size")
    typed = commands.add_parser("typed", help="how a table of Avro values is built, beside a plain Spark job")
    typed.add_argument("size", nargs="?", default="12m", choices=sorted(SIZES), help="default: 12m")
    typed.add_argument("--keys", type=int, metavar="N", help="keys of the topic; default: by size")
    typed.add_argument("--partitions", type=int, default=2, metavar="N", help="partitions of the topic; default: 2")
    typed.add_argument("--ways", default="", metavar="A;B", help="only these, separated by semicolons")
    kafka = commands.add_parser("kafka", help="how a Kafka topic goes in, beside Spark's own copy of it")
    kafka.add_argument("size", nargs="?", default="12m", choices=sorted(SIZES), help="default: 12m")
    kafka.add_argument("--records", type=int, metavar="N", help="records of the topic; default: by size")
    kafka.add_argument("--rounds", type=int, default=2, metavar="N", help="runs of each; default: 2")
    kafka.add_argument(
        "--parts", default="", metavar="A,B", help="only these: ingest, costs, following, cleaner, restore, delay"
    )
    curves = commands.add_parser("curves", help="cost against records, keys, partitions, dirty share")
    curves.add_argument("--plot", nargs="?", type=Path, const=DEFAULT_CURVES, metavar="SVG", help="and draw them")
    report = commands.add_parser("report", help="print the tables of what was measured, or draw the plot")
    report.add_argument("--plot", nargs="?", type=Path, const=DEFAULT_PLOT, metavar="SVG")
    page = commands.add_parser(
        "document", help="keep the results beside the docs; docs/performance.md, docs/compare.md and the plots anew"
    )
    page.add_argument("--add", action="store_true", help="replace only what FILE holds; the other results stay")
    commands.add_parser("list", help="workloads and competitors")
    commands.add_parser("clean", help="remove generated data and lakes")
    for each in (run, control, airflow, curves, report, page):
        each.add_argument("--json", type=Path, metavar="FILE", help="default: results.json beside the data")
    for each in (run, control, airflow, curves):
        each.add_argument("--fresh", action="store_true", help="forget what FILE holds")
    return top


DEFAULT_PLOT = ROOT / "docs" / "img" / "performance.svg"
DEFAULT_CURVES = ROOT / "docs" / "img" / "performance-curves.svg"


def main(arguments: Sequence[str]) -> int:
    """Run one command; return 0 unless results differ or a competitor failed."""
    # The default command is `run`.
    given = build_parser().parse_args(arguments or ["run"])
    from bench.progress import ProgressPrinter

    shown = ProgressPrinter()
    try:
        return _COMMANDS[given.command or "run"](given, shown)
    except ValueError as problem:
        shown.say(f"error: {problem}")
        return 2


def get_bench_folder() -> Path:
    """Return the folder of data, lakes and results."""
    home = os.environ.get("WINNOW_HOME") or str(ROOT / ".winnow")
    return Path(home).absolute() / "bench"


def _results(given: argparse.Namespace) -> Results:
    path = given.json or get_bench_folder() / "results.json"
    if getattr(given, "fresh", False) and path.is_file():
        path.replace(path.with_suffix(".before.json"))
    return Results.load(path)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _run(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.competitors import COMPETITORS
    from bench.machine import describe_machine

    size = SIZES[given.size]
    workloads, competitors = _names(given.workloads), _names(given.only)
    _check(workloads, WORKLOADS, "workload")
    _check(competitors, COMPETITORS, "competitor")
    if size is SMALL:
        from bench.small_suite import run_small

        return run_small(get_bench_folder(), workloads or list(WORKLOADS), shown)
    results = _results(given)
    results.machine = describe_machine()
    steps = select_steps(size, workloads, competitors)
    with shown.over(sum(given.rounds or step.rounds for step in steps)):
        run_suite(steps, size, get_bench_folder(), results, rounds=given.rounds, report=shown.say, on_run=shown.on_run)
    if size.name in SUITES and not (workloads or competitors or given.no_control or size.name == "large"):
        from bench.airflow_cost import run_airflow
        from bench.control_plane import run_control

        run_control(get_bench_folder(), results, (), shown.say)
        run_airflow(get_bench_folder(), results, (), shown.say)
    return _finish(results, shown, given.plot)


def _finish(results: Results, shown: ProgressPrinter, plot: Path | None) -> int:
    from bench.result_checks import find_differences
    from bench.tables import print_tables

    print_tables(results, shown.out)
    if plot is not None:
        from bench.plot import draw

        draw(results, plot)
        shown.say(f"wrote {plot}")
    found = find_differences(results)
    failed = [f"{run.workload}: {run.competitor} failed: {run.note}" for run in results.runs if run.failed]
    for sentence in (*found, *failed):
        shown.say(f"error: {sentence}")
    shown.say(f"figures: {results.path} (measure again with --fresh)")
    return 1 if found or failed else 0


def _check(names: Sequence[str], known: object, what: str) -> None:
    for name in names:
        if name not in known:  # type: ignore[operator]
            raise ValueError(f"There is no {what} {name}. See: python -m bench list")


def _prepare(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    size = SIZES[given.size]
    suite = dict.fromkeys(step.workload for step in SUITES.get(size.name, ()))
    workloads = _names(given.workloads) or list(suite or WORKLOADS)
    _check(workloads, WORKLOADS, "workload")
    for name in workloads:
        prepare(get_lake(name, size, get_bench_folder()), shown.say)
    return 0


def _control(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.control_plane import run_control
    from bench.machine import describe_machine

    results = _results(given)
    results.machine = describe_machine()
    run_control(get_bench_folder(), results, _names(given.parts), shown.say)
    return _finish(results, shown, None)


def _airflow(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.airflow_cost import AIRFLOW_SIZES, FULL, run_airflow

    size = AIRFLOW_SIZES[given.size]
    if size is not FULL:
        # Its figures are not those of the targets.
        scratch = get_bench_folder() / "airflow" / "results.json"
        scratch.unlink(missing_ok=True)
        run_airflow(get_bench_folder(), Results(scratch), _names(given.parts), shown.say, size)
        return 0
    results = _results(given)
    run_airflow(get_bench_folder(), results, _names(given.parts), shown.say)
    return _finish(results, shown, None)


def _archives(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.archives import run_archives

    runs = run_archives(get_bench_folder(), given.size, given.records, shown.say)
    return 1 if any(run.note for run in runs) else 0


def _typed(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.typed_tables import KEYS, run_typed_tables

    ways = [way.strip() for way in given.ways.split(";") if way.strip()]
    keys = given.keys or KEYS[given.size]
    runs = run_typed_tables(get_bench_folder(), keys, given.partitions, ways, shown.say)
    return 1 if any(run.note for run in runs) else 0


def _kafka(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.kafka_cleaner import run_cleaners
    from bench.kafka_delay import MINUTES, describe_delays, run_delay
    from bench.kafka_following import run_following
    from bench.kafka_ingest import RECORDS, run_kafka, run_parts
    from bench.kafka_restore import run_restores

    parts = _names(given.parts) or ["ingest", "costs", "cleaner", "restore"]
    failed = False
    if "ingest" in parts:
        runs = run_kafka(get_bench_folder(), given.size, given.records, given.rounds, shown.say)
        failed = any(run.note for run in runs)
    if "costs" in parts:
        run_parts(get_bench_folder(), min(given.records or RECORDS[given.size], 1_000_000), given.rounds, shown.say)
    if "following" in parts:
        run_following(get_bench_folder(), given.records or 1_000, given.rounds, shown.say)
    if "delay" in parts:
        shown.say(describe_delays(run_delay(get_bench_folder(), MINUTES, shown.say)))
    if "cleaner" in parts:
        run_cleaners(get_bench_folder(), given.records or RECORDS[given.size], shown.say)
    if "restore" in parts:
        run_restores(get_bench_folder(), given.records or RECORDS[given.size], given.rounds, shown.say)
    return 1 if failed else 0


def _curves(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.growth_curves import run_curves

    return run_curves(get_bench_folder(), given.json, given.plot, shown, fresh=given.fresh)


def _report(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    return _finish(_results(given), shown, given.plot)


def _document(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.docs_page import PAGES, STORED_CURVES, STORED_RESULTS, add_results, update_docs_page
    from bench.growth_curves import group_by_curve
    from bench.plot import draw, draw_curves

    measured = given.json or get_bench_folder() / "results.json"
    if given.add:
        add_results(measured)
    else:
        update_docs_page(measured, get_bench_folder() / "curves.json")
    draw(Results.load(STORED_RESULTS), DEFAULT_PLOT)
    draw_curves(group_by_curve(Results.load(STORED_CURVES)), DEFAULT_CURVES)
    shown.say(f"wrote {', '.join(map(str, PAGES))}, {STORED_RESULTS}, {STORED_CURVES} and the plots")
    return 0


def _list(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    from bench.competitors import COMPETITORS

    shown.out.print("workloads")
    for workload in WORKLOADS.values():
        shown.out.print(f"  {workload.name:22}{workload.meaning}", highlight=False)
    shown.out.print("competitors")
    for competitor in COMPETITORS.values():
        shown.out.print(f"  {competitor.name:22}{competitor.meaning}", highlight=False)
    return 0


def _clean(given: argparse.Namespace, shown: ProgressPrinter) -> int:
    for folder in (
        *(get_bench_folder() / name for name in SIZES),
        get_bench_folder() / "control",
        get_bench_folder() / "airflow",
        get_bench_folder() / "archives",
        get_bench_folder() / "typed",
        get_bench_folder() / "kafka",
        get_bench_folder() / "kafka-cleaner",
        get_bench_folder() / "kafka-delay",
        get_bench_folder() / "kafka-restore",
        get_bench_folder() / "curves",
    ):
        shutil.rmtree(folder, ignore_errors=True)
    shown.say("removed generated data and lakes; results stay")
    return 0


_COMMANDS = {
    "run": _run,
    "prepare": _prepare,
    "control": _control,
    "airflow": _airflow,
    "archives": _archives,
    "typed": _typed,
    "kafka": _kafka,
    "curves": _curves,
    "report": _report,
    "document": _document,
    "list": _list,
    "clean": _clean,
}
