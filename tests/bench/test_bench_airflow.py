"""The benchmark of Airflow's cost: CPU seconds are counted in full, and for the right component."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import airflow_cost
from bench.airflow_cost import PARTS, AirflowSize, run_airflow
from bench.airflow_processes import CpuCount
from bench.process_measurement import ROOT
from bench.results import Results
from bench.tables import AIRFLOW_RUNS, build_airflow_rows

TREE = """
import json, os, subprocess, sys, time
from bench.airflow_processes import adopt_orphans, count_cpu

def burn(seconds):
    while time.process_time() < seconds: pass

def fork(work):
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    return pid

def task():
    burn(time.process_time() + 0.4)
    fork(orphan)  # nobody in this tree waits for it

def orphan():
    time.sleep(0.2)
    burn(time.process_time() + 0.3)

def worker(ready):
    wait_until_counted()
    os.waitpid(fork(task), 0)
    os.write(ready, b"x")
    time.sleep(600)

def scheduler(ready):
    fork(lambda: worker(ready))
    wait_until_counted()
    burn(time.process_time() + 0.2)
    time.sleep(600)

def processor(ready):
    wait_until_counted()
    os.waitpid(fork(lambda: burn(time.process_time() + 0.25)), 0)
    os.write(ready, b"x")
    time.sleep(600)

def wait_until_counted():
    os.close(counted)
    os.read(waiting, 1)  # its end: nobody holds the other side any more

adopt_orphans()
heard, ready = os.pipe()
waiting, counted = os.pipe()
roots = {"scheduler": fork(lambda: scheduler(ready)), "dag-processor": fork(lambda: processor(ready))}
first = count_cpu(roots)
os.close(counted)
for _ in roots:
    os.read(heard, 1)
found = count_cpu(roots).since(first)
for _ in range(300):  # the orphan, of which nobody hears, has as long as it needs
    if found["tasks"] > 0.65 and found["scheduler"] > 0.15: break
    time.sleep(0.1)
    found = count_cpu(roots).since(first)
print(json.dumps(found))
import psutil
for each in psutil.Process().children(recursive=True):
    each.kill()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts come from Linux's /proc")
def test_cpu_of_ended_and_orphaned_task_processes_is_counted_apart_from_the_scheduler(tmp_path: Path) -> None:
    """A task that has ended, the child that it left behind, and a parsing process each count where they belong."""
    program = tmp_path / "tree.py"
    program.write_text(TREE)
    ended = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["tasks"] == pytest.approx(0.7, abs=0.1)
    assert found["scheduler"] == pytest.approx(0.2, abs=0.08)
    assert found["dag-processor"] == pytest.approx(0.25, abs=0.08)


def test_component_that_was_not_there_before_counts_from_zero() -> None:
    """The first count may be before the database forked its first backend."""
    assert CpuCount({"tasks": 3.5, "database": 0.5}).since(CpuCount({"tasks": 1.0})) == {"tasks": 2.5, "database": 0.5}


def test_parts_are_measured_once_and_fill_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that was cut goes on with the parts that are missing; each part's runs are rows of the table."""
    run = {"state": "success", "seconds": 9.6, "processes": 2, "instances": 7, "cpu": {"tasks": 3.0, "scheduler": 1.25}}
    asked: list[str] = []

    def part(name: str) -> dict[str, object]:
        asked.append(name)
        found: dict[str, object] = {}
        for each, figures, _ in AIRFLOW_RUNS:
            if each == name:
                found |= airflow_cost._name_figures(figures, [run])
        return found

    parts = {name: (lambda place, size, report, name=name: part(name)) for name in PARTS}
    monkeypatch.setattr(airflow_cost, "PARTS", parts)
    results = Results(tmp_path / "results.json")
    run_airflow(tmp_path, results, ["tick"], lambda _: None)
    assert build_airflow_rows(results)[1] == (
        "2 topics: idle tick", "10", "2 of 7", "3.0", "1.2", "0.0", "0.0", "0.0", "0.0",
    )  # fmt: skip
    run_airflow(tmp_path, results, (), lambda _: None)
    assert asked == list(PARTS)
    assert len(build_airflow_rows(Results.load(tmp_path / "results.json"))) == len(AIRFLOW_RUNS)
    with pytest.raises(ValueError, match="there are tick"):
        run_airflow(tmp_path, results, ["nothing"], lambda _: None, AirflowSize("small", 1, 1, 1))
