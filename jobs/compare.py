"""What spark-submit starts for ``winnow compare``: chooses in shadow, writes one document, ends with an exit code.

    spark-submit jobs/compare.py --memory BYTES [--spill FOLDER] [--tasks N] [--bytes-per-second RATE] REQUEST_URI

It sees the request and the object store, nothing else: no catalog, no metadata store. No segment is written.
"""

from __future__ import annotations

import sys

from winnow.engine import program


def main(arguments: list[str] | None = None) -> int:
    """Parse arguments, run the comparison, report how it ended."""
    parser = program.build_parser(__doc__)
    parser.add_argument("request", metavar="REQUEST_URI", help="the comparison to carry out")
    options = parser.parse_args(arguments)
    program.prepare_imports()
    from winnow.engine.rewrite import TaskBudget
    from winnow.engine.shadow_spark import run_comparison

    budget = TaskBudget(options.memory, options.threads, options.spill, options.bytes_per_second)
    return program.run_and_report(lambda: [run_comparison(options.request, budget=budget, most_tasks=options.tasks)])


if __name__ == "__main__":
    sys.exit(main())
