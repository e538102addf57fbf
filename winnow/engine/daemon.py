"""The process that PySpark forks Python workers from, with the imports of every task done once.

PySpark starts it (``spark.python.daemon.module``) where everything runs on one machine. It is ``pyspark.daemon`` with
imports done once, in memory that the workers share.
"""

from __future__ import annotations

import gc
from contextlib import suppress

from winnow.engine.spark_program import prefer_installed_pyspark


def main() -> None:
    """Import, then fork a worker for each request of Spark, until Spark closes standard input."""
    # Imports make many objects and no garbage.
    gc.disable()
    prefer_installed_pyspark()
    from pyspark.daemon import manager

    # A task whose imports fail reports that itself.
    with suppress(ImportError):
        import winnow.engine.compaction_job  # noqa: F401
        from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow

        keep_pandas_out_of_pyarrow()
    # These objects are never garbage: workers need not scan them, which would copy their memory pages.
    gc.freeze()
    gc.enable()
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
