"""What the programs that spark-submit starts have in common: their arguments, how they begin and how they end."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from winnow.engine.events import PlanOutcome, emit_event, emit_outcomes, find_worst_exit_code
from winnow.engine.installed import prefer_installed_pyspark
from winnow.errors import WinnowError


def prepare_imports() -> None:
    """To be called before anything imports PySpark."""
    prefer_installed_pyspark()


def build_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows what every program is told: what its tasks may use."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="cap of one task's engine")
    made.add_argument("--threads", type=int, default=1, help="threads of one task's engine")
    made.add_argument("--spill", metavar="FOLDER", help="where the engine spills; else in Spark's local folders")
    made.add_argument("--tasks", type=int, metavar="N", help="at most so many partitions at once; else all cores")
    made.add_argument(
        "--bytes-per-second", type=float, metavar="RATE", help="what all tasks read and write together; else no limit"
    )
    return made


def run_and_report(run: Callable[[], Sequence[PlanOutcome]]) -> int:
    """Run, report each plan; the worst exit code of its plans is the program's."""
    try:
        outcomes = run()
    except WinnowError as problem:
        emit_event({"event": "failed", "error": str(problem), "exit_code": problem.exit_code})
        return problem.exit_code
    emit_outcomes(outcomes)
    return find_worst_exit_code([outcome.exit_code for outcome in outcomes])
