"""Spark job of winnow doctor --spark: checks that Spark runs tasks, their Python version and access to the lake.

spark-submit jobs/doctor.py URI...
"""

from __future__ import annotations

import sys

from winnow.engine import spark_program
from winnow.engine.events import emit_event


def main(arguments: list[str] | None = None) -> int:
    """Print one event with what the tasks found."""
    spark_program.prefer_installed_pyspark()
    from winnow.engine.spark_application import diagnose_spark_tasks

    emit_event({"event": "doctor", **diagnose_spark_tasks(sys.argv[1:] if arguments is None else arguments)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
