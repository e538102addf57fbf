r"""Spark job of winnow compact: carries out plans, writes unpublished files, exits with the worst exit code.

    spark-submit jobs/compact.py --attempt NAME --memory BYTES [--spill FOLDER] [--tasks N] [--bytes-per-second RATE] \
        [--giant-bytes BYTES] PLAN [PLAN ...]

It sees the plans and the object store, nothing else: no catalog, no metadata store. Running it twice is harmless.
PLAN is the URI of a plan and the digest that its bytes must have, URI#sha256=DIGEST; without a digest the plan must at
least have the id of its content.
"""

from __future__ import annotations

import sys

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, run the plans, report each; return the worst exit code of the plans."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("plans", nargs="+", metavar="PLAN", help="plans to carry out: URI#sha256=DIGEST, or URI alone")
    parser.add_argument("--attempt", required=True, help="name of this attempt; new files rest below it")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.engine.compaction_job import run_plans
    from winnow.engine.task_resources import TaskBudget

    return spark_program.run_and_report(
        lambda: run_plans(
            options.plans,
            attempt=options.attempt,
            budget=TaskBudget(options.memory, options.threads, options.spill, options.bytes_per_second),
            maximum_tasks=options.tasks,
            giant_bytes=options.giant_bytes,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
