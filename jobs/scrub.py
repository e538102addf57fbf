"""Spark job of winnow scrub: reads files in full, as a plan says, and writes one document about what it found.

    spark-submit jobs/scrub.py --memory BYTES [--tasks N] [--bytes-per-second RATE] PLAN

It sees the plan and the object store, nothing else: no catalog, no metadata store. No other file is written. PLAN is
the URI of the plan and the digest that its bytes must have, URI#sha256=DIGEST.
"""

from __future__ import annotations

import sys

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, read the files, report how it ended; return the exit code."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("plan", metavar="PLAN", help="the files to read: URI#sha256=DIGEST")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.engine.scrub_job import run_scrub_plan
    from winnow.engine.task_resources import TaskBudget

    budget = TaskBudget(options.memory, options.threads, options.spill, options.bytes_per_second)
    return spark_program.run_and_report(
        lambda: [run_scrub_plan(options.plan, budget=budget, maximum_tasks=options.tasks)]
    )


if __name__ == "__main__":
    sys.exit(main())
