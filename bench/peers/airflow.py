"""Runs DAGs in a real Airflow and counts what each run costs: ``python -m bench.peers.airflow REQUEST``.

REQUEST is a JSON file: ``home`` (WINNOW_HOME) and ``runs``, a list of ``dag_id`` and ``conf``. The runs follow one
another. It prints one JSON line: a list with the figures of each run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.airflow_api import AirflowApi, open_airflow
from bench.airflow_processes import adopt_orphans, count_cpu_at_rest
from bench.peers.timing import PREFIX


def main(request_file: str) -> int:
    """Run what the request names; print the figures."""
    from winnow.config.settings import load_settings

    request = json.loads(Path(request_file).read_text())
    settings = load_settings(cwd=Path(request["home"]).parent, env=os.environ)
    adopt_orphans()
    with open_airflow(settings, os.environ) as airflow:
        airflow.wait_for_dags(*dict.fromkeys(run["dag_id"] for run in request["runs"]))
        found = [_measure_run(airflow, run["dag_id"], run["conf"]) for run in request["runs"]]
    sys.stdout.write(f"{PREFIX}{json.dumps(found)}\n")
    return 0


def _measure_run(airflow: AirflowApi, dag_id: str, conf: dict[str, Any]) -> dict[str, Any]:
    before = count_cpu_at_rest(airflow.process_ids)
    run = airflow.run(dag_id, **conf)
    cpu = count_cpu_at_rest(airflow.process_ids).since(before)
    return {
        "state": run.state,
        "seconds": run.seconds,
        "cpu": cpu,
        "processes": run.processes,
        "instances": run.instances,
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
