"""Spark job that brings the table of a topic's latest state up to date: writes and judges files that nobody reads yet.

    spark-submit jobs/latest.py --memory BYTES [--spill FOLDER] [--tasks N] [--secrets FILE] PLAN

It sees the plan, the object store and, where a topic's schemas are kept in one, a schema registry: no catalog, no
metadata store. Running it twice is harmless. PLAN is the URI of an update's plan and the digest that its bytes must
have, URI#sha256=DIGEST. A rate (``--bytes-per-second``) is not heeded. Here the runner (:mod:`winnow.engine`) meets
what makes rows (:mod:`winnow.schemas`) and what judges them (:mod:`winnow.quality`), which know nothing of each other.
"""

from __future__ import annotations

import sys
from functools import partial

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, carry out the plan, report its result; return the exit code."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("--secrets", metavar="FILE", help="the key of masked fields, and a registry's credentials")
    parser.add_argument("plan", metavar="PLAN", help="the plan to carry out: URI#sha256=DIGEST")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.engine.latest_job import run_update_plan
    from winnow.engine.task_resources import TaskBudget
    from winnow.quality.latest_facts import LatestJudge
    from winnow.schemas.row_task import TaskRows, load_secrets

    return spark_program.run_and_report(
        lambda: [
            run_update_plan(
                options.plan,
                open_rows=partial(TaskRows, secrets=load_secrets(options.secrets)),
                judge=LatestJudge(),
                budget=TaskBudget(options.memory, options.threads, options.spill),
                maximum_tasks=options.tasks,
                giant_bytes=options.giant_bytes,
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
