"""Spark job of winnow read, latest and changes: writes what a plan reads as Parquet files, which nobody reads yet.

    spark-submit jobs/read.py --memory BYTES [--spill FOLDER] [--tasks N] PLAN

It sees the plan and the object store, nothing else: no catalog, no metadata store. Running it twice is harmless. PLAN
is the URI of the plan and the digest that its bytes must have, URI#sha256=DIGEST. A rate (``--bytes-per-second``) is
not heeded.
"""

from __future__ import annotations

import sys

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, write the files, report how it ended; return the exit code."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("plan", metavar="PLAN", help="what to read: URI#sha256=DIGEST")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.engine.read_job import run_read_plan
    from winnow.engine.task_resources import TaskBudget

    budget = TaskBudget(options.memory, options.threads, options.spill)
    return spark_program.run_and_report(
        lambda: [
            run_read_plan(options.plan, budget=budget, maximum_tasks=options.tasks, giant_bytes=options.giant_bytes)
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
