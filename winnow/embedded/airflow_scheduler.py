"""Airflow's scheduler, with what tasks import imported once: LocalExecutor forks them from it.

    python -m winnow.embedded.airflow_scheduler scheduler [OPTION ...]

Each task begins some two seconds of the processor sooner, and one that validates some five more. It sees the code as it
was when the scheduler started.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Final

PRELOADED: Final = (
    "duckdb",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "winnow.pipeline.admin.sweep",
    "winnow.pipeline.compaction.assess",
    "winnow.pipeline.compaction.plan",
    "winnow.pipeline.compaction.publish",
    "winnow.pipeline.compaction.stage",
    "winnow.pipeline.monitor.watch",
    "winnow_airflow.tasks.compaction_steps",
    "winnow_airflow.tasks.eligibility_steps",
    "winnow_airflow.tasks.monitoring",
    "winnow_airflow.tasks.operators",
    "winnow_airflow.tasks.sweep_steps",
)
"""What the tasks of a compaction and of a sweep import; by name, since plugins and pipeline stand above this module."""


def preload_modules() -> None:
    """Import :data:`PRELOADED` and Great Expectations, as a task does.

    Airflow must be imported already: it finds the folder of plugins.
    """
    import_module("winnow.files.pyarrow_without_pandas").keep_pandas_out_of_pyarrow()
    with suppress(ImportError):
        import_module("winnow.quality.gx_runtime").import_great_expectations()  # without its telemetry
    for name in PRELOADED:
        # A task whose imports fail reports that itself.
        with suppress(ImportError):
            import_module(name)


def main() -> None:
    """Run Airflow's command line with the arguments of this process."""
    run_airflow = import_module("airflow.__main__").main
    preload_modules()
    run_airflow()


if __name__ == "__main__":
    main()
