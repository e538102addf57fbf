"""Spark job of winnow ingest files: reads an archive into unpublished segment files, as one plan says.

    spark-submit jobs/ingest.py --memory BYTES [--spill FOLDER] [--tasks N] [--bytes-per-second RATE] PLAN

It sees the plan, the archive and the object store, nothing else: no catalog, no metadata store. Running it twice is
harmless. PLAN is the URI of an ingest plan and the digest that its bytes must have, URI#sha256=DIGEST. Here the runner
(:mod:`winnow.engine`) meets the layouts of archives (:mod:`winnow.sources`), which know nothing of each other.
"""

from __future__ import annotations

import sys

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, carry out the plan, report its result; return the exit code."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("plan", metavar="PLAN", help="plan to carry out: URI#sha256=DIGEST")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.engine.ingest import run_ingest_plan
    from winnow.engine.task_resources import TaskBudget
    from winnow.pipeline.ingest.range_work import carry_out_part

    return spark_program.run_and_report(
        lambda: run_ingest_plan(
            options.plan,
            carry_out=carry_out_part,
            budget=TaskBudget(options.memory, options.threads, options.spill, options.bytes_per_second),
            maximum_tasks=options.tasks,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
