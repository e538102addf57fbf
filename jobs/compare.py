"""What spark-submit starts for ``winnow compare``: chooses in shadow, writes one document, ends with an exit code.

    spark-submit jobs/compare.py --memory BYTES --spill FOLDER [--tasks N] [--bytes-per-second RATE] REQUEST_URI

It sees the request and the object store, nothing else: no catalog, no metadata store. No segment is written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from winnow.engine.events import emit, emit_outcomes
from winnow.engine.rewrite import Budget
from winnow.engine.shadow_spark import run
from winnow.errors import WinnowError


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, run the comparison, report how it ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("request", metavar="REQUEST_URI", help="the comparison to carry out")
    parser.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="cap of one task's engine")
    parser.add_argument("--threads", type=int, default=1, help="threads of one task's engine")
    parser.add_argument("--spill", default=tempfile.gettempdir(), metavar="FOLDER", help="where the engine spills")
    parser.add_argument("--tasks", type=int, metavar="N", help="at most so many partitions at once; else all cores")
    parser.add_argument("--bytes-per-second", type=float, metavar="RATE", help="what all tasks read; else no limit")
    options = parser.parse_args(arguments)
    try:
        outcome = run(
            options.request,
            budget=Budget(options.memory, options.threads, options.spill, options.bytes_per_second),
            most_tasks=options.tasks,
        )
    except WinnowError as problem:
        emit({"event": "failed", "error": str(problem), "exit_code": problem.exit_code})
        return problem.exit_code
    emit_outcomes([outcome])
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
