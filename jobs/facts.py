"""Spark job that recomputes the facts of large attempts and writes one document per plan.

    spark-submit jobs/facts.py --attempt NAME --memory BYTES [--spill FOLDER] [--tasks N] PLAN [PLAN ...]

It sees plans, staging manifests and the object store, nothing else: no catalog, no metadata store. No segment is
written, so a rate (``--bytes-per-second``) is not heeded. Here the runner (:mod:`winnow.engine`) meets the
recomputation (:mod:`winnow.quality`), which know nothing of each other.
"""

from __future__ import annotations

import sys

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, recompute, report each plan; return the worst exit code of the plans."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument(
        "plans", nargs="+", metavar="PLAN", help="plans whose attempt is recomputed: URI#sha256=DIGEST, or URI alone"
    )
    parser.add_argument("--attempt", required=True, help="name of the attempt")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.engine.facts import recompute_facts
    from winnow.engine.task_resources import TaskBudget
    from winnow.quality.fact_table import compute_figures, pair_partitions

    return spark_program.run_and_report(
        lambda: recompute_facts(
            options.plans,
            attempt=options.attempt,
            budget=TaskBudget(options.memory, options.threads, options.spill),
            pairs=pair_partitions,
            recompute=compute_figures,
            maximum_tasks=options.tasks,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
