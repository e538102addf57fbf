"""What ``winnow doctor --spark`` submits: does Spark run tasks, with which Python, and do they reach the lake.

spark-submit jobs/doctor.py URI...
"""

from __future__ import annotations

import sys

from winnow.engine import program
from winnow.engine.events import emit_event


def main(arguments: list[str] | None = None) -> int:
    """Print one event with what the tasks saw."""
    program.prepare_imports()
    from winnow.engine.look_around import diagnose_spark_tasks

    emit_event({"event": "doctor", **diagnose_spark_tasks(sys.argv[1:] if arguments is None else arguments)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
