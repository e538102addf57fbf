"""What spark-submit starts to recompute the facts of large attempts: reads, writes one document a plan, ends.

    spark-submit jobs/facts.py --attempt NAME --memory BYTES --spill FOLDER [--tasks N] PLAN_URI [PLAN_URI ...]

It sees plans, staging manifests and the object store, nothing else: no catalog, no metadata store. No segment is
written. Here the runner (:mod:`winnow.engine`) meets the recomputation (:mod:`winnow.quality`), which know nothing of
each other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from winnow.engine.events import emit, emit_outcomes, worst
from winnow.engine.facts_spark import run
from winnow.engine.rewrite import Budget
from winnow.errors import WinnowError
from winnow.quality.facts import pairs_of
from winnow.quality.remote import figures_of


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, recompute, report each plan; the worst exit code of its plans is the job's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", metavar="PLAN_URI", help="plans whose attempt is recomputed")
    parser.add_argument("--attempt", required=True, help="name of the attempt")
    parser.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="cap of one task")
    parser.add_argument("--threads", type=int, default=1, help="threads of one task")
    parser.add_argument("--spill", default=tempfile.gettempdir(), metavar="FOLDER", help="where a task spills")
    parser.add_argument("--tasks", type=int, metavar="N", help="at most so many partitions at once; else all cores")
    parser.add_argument("--bytes-per-second", type=float, metavar="RATE", help="not heeded: nothing is written")
    options = parser.parse_args(arguments)
    try:
        outcomes = run(
            options.plans,
            attempt=options.attempt,
            budget=Budget(options.memory, options.threads, options.spill),
            pairs=pairs_of,
            recompute=figures_of,
            most_tasks=options.tasks,
        )
    except WinnowError as problem:
        emit({"event": "failed", "error": str(problem), "exit_code": problem.exit_code})
        return problem.exit_code
    emit_outcomes(outcomes)
    return worst([outcome.exit_code for outcome in outcomes])


if __name__ == "__main__":
    sys.exit(main())
