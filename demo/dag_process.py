"""Runs the demo's DAGs with Airflow's own ``dag.test``, several in one process.

    python -m demo.dag_process DAGS_FOLDER PLUGINS_FOLDER LOG_FILE DAG_ID...

The DAGs are loaded at the start, which takes seconds. Each line of standard input asks for one run:
``{"dag_id": ..., "conf": {...}}``. Each line of standard output answers: ``{"run_id", "state", "tasks": [[task_id,
map_index, state, try_number], ...]}`` or ``{"error": ...}``. All output of tasks and Airflow goes to the log
file. The runs are ordinary rows of Airflow's metadata database.

This module does not import Airflow: the DAG files do, and it calls their DAGs' own methods.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def load_dag(folder: Path, dag_id: str) -> Any:
    """Return the DAG ``dag_id`` from the file of that name, changed so that a failed task fails its run at once."""
    spec = importlib.util.spec_from_file_location(f"winnow_demo_{dag_id}", folder / f"{dag_id}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from winnow_airflow.dag_ids import name_dag

    dag = next(found for found in vars(module).values() if getattr(found, "dag_id", None) == name_dag(dag_id))
    # dag.test waits out retry delays idly, and cannot handle deadlines.
    dag.deadline = None
    for task in dag.tasks:
        task.retries = 0
    return dag


def run_dag(dag: Any, conf: dict[str, Any]) -> dict[str, Any]:
    """Run ``dag`` once; return the answer of the protocol."""
    ended = dag.test(run_conf=conf)
    tasks = [[ti.task_id, ti.map_index, str(ti.state), ti.try_number] for ti in ended.get_task_instances()]
    return {"run_id": ended.run_id, "state": str(ended.state), "tasks": tasks}


def main() -> None:
    """Answer requests until standard input ends."""
    dags_folder, plugins_folder, log_file = (Path(argument) for argument in sys.argv[1:4])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.path.append(str(plugins_folder))
    dags = {dag_id: _get_loaded_dag(dags_folder, dag_id) for dag_id in sys.argv[4:]}
    for line in sys.stdin:
        request = json.loads(line)
        dag_id = request["dag_id"]
        try:
            answer = run_dag(dags[dag_id] or load_dag(dags_folder, dag_id), request["conf"])
        except Exception as problem:
            traceback.print_exc()
            answer = {"error": f"{type(problem).__name__} in DAG {dag_id}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _get_loaded_dag(folder: Path, dag_id: str) -> Any:
    try:
        return load_dag(folder, dag_id)
    except Exception:
        # Loaded again on request; the error is then reported to the caller.
        return None


if __name__ == "__main__":
    main()
