"""How the demo tells the tasks of a DAG run apart in Airflow's log."""

from __future__ import annotations

from demo.dag_runs import TaskEnd, split_log

LOG = """\
Created dag run.
2026-01-01 [info] [DAG TEST] starting task_id=list_files map_index=-1 [airflow]
two files
2026-01-01 [info] [DAG TEST] end task task_id=list_files map_index=-1 [airflow]
2026-01-01 [info] [DAG TEST] starting task_id=ingest map_index=0 [airflow]
appended
2026-01-01 [info] [DAG TEST] starting task_id=ingest map_index=1 [airflow]
refused
"""


def test_each_task_has_the_lines_from_its_start_to_the_next_start() -> None:
    """Tasks keep the order in which they started; mapped ones are told apart by their index."""
    parts = split_log(LOG)

    assert list(parts) == [("list_files", -1), ("ingest", 0), ("ingest", 1)]
    assert parts["list_files", -1].splitlines()[1] == "two files"
    assert "appended" in parts["ingest", 0]
    assert "refused" not in parts["ingest", 0]
    assert parts["ingest", 1].endswith("refused\n")


def test_log_without_tasks_has_no_parts() -> None:
    """A run that ended before its first task has nothing to show per task."""
    assert split_log("Created dag run.\n") == {}


def test_mapped_task_is_named_with_its_index() -> None:
    """People see which of several it was."""
    assert TaskEnd("ingest", 1, "failed", 1).name == "ingest[1]"
    assert TaskEnd("plan", -1, "success", 1).name == "plan"
