"""Spark job of winnow compare: chooses with another strategy and writes one document.

    spark-submit jobs/compare.py --memory BYTES [--spill FOLDER] [--tasks N] [--bytes-per-second RATE] REQUEST

It sees the request and the object store, nothing else: no catalog, no metadata store. No segment is written.
"""

from __future__ import annotations

import sys

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, run the comparison, report how it ended."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("request", metavar="REQUEST", help="the comparison to carry out: URI#sha256=DIGEST")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.engine.strategy_diff_spark import run_comparison
    from winnow.engine.task_resources import TaskBudget

    budget = TaskBudget(options.memory, options.threads, options.spill, options.bytes_per_second)
    return spark_program.run_and_report(
        lambda: [run_comparison(options.request, budget=budget, maximum_tasks=options.tasks)]
    )


if __name__ == "__main__":
    sys.exit(main())
