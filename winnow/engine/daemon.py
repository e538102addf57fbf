"""The process that PySpark forks Python workers from, with the imports of every task done once.

PySpark starts it (``spark.python.daemon.module``) where everything runs on one machine; it is ``pyspark.daemon`` and
nothing else. What is imported here is imported once, and shared by the workers.
"""

from __future__ import annotations

import gc
from contextlib import suppress

from winnow.engine.spark_program import prefer_installed_pyspark


def main() -> None:
    """Import, then fork a worker whenever Spark asks for one, until Spark closes standard input."""
    # Imports make many objects and no garbage.
    gc.disable()
    prefer_installed_pyspark()
    from pyspark.daemon import manager

    # What cannot be imported here cannot be in the task, which then says so.
    with suppress(ImportError):
        import winnow.engine.spark  # noqa: F401
        from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow

        keep_pandas_out_of_pyarrow()
    # What is here already is never garbage: no worker has to look through it, and so copy its pages.
    gc.freeze()
    gc.enable()
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
