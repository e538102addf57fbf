"""What spark-submit starts to recompute the facts of large attempts: reads, writes one document a plan, ends.

    spark-submit jobs/facts.py --attempt NAME --memory BYTES [--spill FOLDER] [--tasks N] PLAN [PLAN ...]

It sees plans, staging manifests and the object store, nothing else: no catalog, no metadata store. No segment is
written, so a rate (``--bytes-per-second``) is not heeded. Here the runner (:mod:`winnow.engine`) meets the
recomputation (:mod:`winnow.quality`), which know nothing of each other.
"""

from __future__ import annotations

import sys

from winnow.engine import program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, recompute, report each plan; the worst exit code of its plans is the job's."""
    parser = program.build_parser(__doc__)
    parser.add_argument(
        "plans", nargs="+", metavar="PLAN", help="plans whose attempt is recomputed: URI#sha256=DIGEST, or URI alone"
    )
    parser.add_argument("--attempt", required=True, help="name of the attempt")
    options = parser.parse_args(arguments)
    program.prepare_imports()
    from winnow.engine.facts_spark import recompute_facts
    from winnow.engine.rewrite import TaskBudget
    from winnow.quality.facts import pair_partitions
    from winnow.quality.remote import compute_figures

    return program.run_and_report(
        lambda: recompute_facts(
            options.plans,
            attempt=options.attempt,
            budget=TaskBudget(options.memory, options.threads, options.spill),
            pairs=pair_partitions,
            recompute=compute_figures,
            most_tasks=options.tasks,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
