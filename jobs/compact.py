r"""What spark-submit starts: carries out compaction plans, writes files nobody reads yet, ends with an exit code.

    spark-submit jobs/compact.py --attempt NAME --memory BYTES --spill FOLDER [--tasks N] [--bytes-per-second RATE] \
        [--giant-bytes BYTES] PLAN_URI [PLAN_URI ...]

It sees the plans and the object store, nothing else: no catalog, no metadata store. Running it twice is harmless.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from winnow.engine.cutting import GIANT_BYTES
from winnow.engine.events import emit, emit_outcomes, worst
from winnow.engine.rewrite import Budget
from winnow.engine.spark import run
from winnow.errors import WinnowError


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, run the plans, report each; the worst exit code of its plans is the job's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", metavar="PLAN_URI", help="plan documents to carry out")
    parser.add_argument("--attempt", required=True, help="name of this attempt; new files rest below it")
    parser.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="cap of one task's engine")
    parser.add_argument("--threads", type=int, default=1, help="threads of one task's engine")
    parser.add_argument("--spill", default=tempfile.gettempdir(), metavar="FOLDER", help="where the engine spills")
    parser.add_argument("--tasks", type=int, metavar="N", help="at most so many partitions at once; else all cores")
    parser.add_argument(
        "--bytes-per-second", type=float, metavar="RATE", help="what all tasks read and write together; else no limit"
    )
    parser.add_argument(
        "--giant-bytes", type=int, default=GIANT_BYTES, metavar="BYTES", help="partitions from this size on may be cut"
    )
    options = parser.parse_args(arguments)
    try:
        outcomes = run(
            options.plans,
            attempt=options.attempt,
            budget=Budget(options.memory, options.threads, options.spill, options.bytes_per_second),
            most_tasks=options.tasks,
            giant_bytes=options.giant_bytes,
        )
    except WinnowError as problem:
        emit({"event": "failed", "error": str(problem), "exit_code": problem.exit_code})
        return problem.exit_code
    emit_outcomes(outcomes)
    return worst([outcome.exit_code for outcome in outcomes])


if __name__ == "__main__":
    sys.exit(main())
