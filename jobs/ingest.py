"""Spark job of winnow ingest: reads an archive, or Kafka topics, into unpublished segment files, as plans say.

    spark-submit jobs/ingest.py --memory BYTES [--spill FOLDER] [--tasks N] [--bytes-per-second RATE]
                 [--client-properties FILE] [--erase-secret FILE] PLAN...

It sees the plans, the archive or the brokers, and the object store: no catalog, no metadata store. Running it twice
is harmless. PLAN is the URI of an ingest plan and the digest that its bytes must have, URI#sha256=DIGEST. Here the
runner (:mod:`winnow.engine`) meets the layouts of archives (:mod:`winnow.sources`) and the brokers
(:mod:`winnow.kafka`), which know nothing of each other.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from winnow.engine import spark_program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, carry out the plan, report its result; return the exit code."""
    parser = spark_program.build_parser(__doc__)
    parser.add_argument("--client-properties", metavar="FILE", help="properties of Kafka clients")
    parser.add_argument("--erase-secret", type=Path, metavar="FILE", help="the secret that tells erased keys")
    parser.add_argument("plans", nargs="+", metavar="PLAN", help="plans to carry out: URI#sha256=DIGEST")
    options = parser.parse_args(arguments)
    spark_program.prefer_installed_pyspark()
    from winnow.arrivals.run_task import read_task_secret, run_ingest_task
    from winnow.engine.ingest import run_ingest_plans
    from winnow.engine.task_resources import TaskBudget
    from winnow.kafka.client_settings import read_client_properties

    return spark_program.run_and_report(
        lambda: run_ingest_plans(
            options.plans,
            carry_out=partial(
                run_ingest_task,
                client_properties=read_client_properties(options.client_properties),
                erase_secret=read_task_secret(options.erase_secret),
            ),
            budget=TaskBudget(options.memory, options.threads, options.spill, options.bytes_per_second),
            maximum_tasks=options.tasks,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
