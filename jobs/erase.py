"""Spark job of winnow erase: searches files for keys, writes segments again without them, or checks that.

    spark-submit jobs/erase.py --memory BYTES [--spill FOLDER] [--tasks N] --erase-secret FILE PLAN

It sees the plan, the secret and the object store, nothing else: no catalog, no metadata store. The plan has keyed
digests of the keys; nothing refers to what it writes. PLAN is the URI of the plan and the digest that its bytes must
have, URI#sha256=DIGEST. Here the runner (:mod:`winnow.engine`) meets the check (:mod:`winnow.quality`), which know
nothing of each other.
"""

from __future__ import annotations

import sys
from pathlib import Path

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, carry out the plan, report how it ended; return the exit code."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("--erase-secret", type=Path, required=True, metavar="FILE", help="the secret of the digests")
    parser.add_argument("plan", metavar="PLAN", help="what to do: URI#sha256=DIGEST")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.arrivals.run_task import read_task_secret
    from winnow.engine.erasure_job import run_erasure_plan
    from winnow.engine.task_resources import TaskBudget
    from winnow.quality.erasure_facts import compute_erasure_facts

    budget = TaskBudget(options.memory, options.threads, options.spill, options.bytes_per_second)
    return spark_program.run_and_report(
        lambda: [
            run_erasure_plan(
                options.plan,
                secret=read_task_secret(options.erase_secret),
                check=compute_erasure_facts,
                budget=budget,
                maximum_tasks=options.tasks,
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
