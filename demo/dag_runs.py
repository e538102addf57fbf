"""Starts DAG runs of the demo and follows their tasks in the log.

The runs are in Airflow's metadata database. Each task's part of the log is put where Airflow's UI looks for it.
"""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from winnow.embedded.bundle import find_bundled_folder
from winnow.errors import WinnowError

DAG_IDS = ("ingest_topics", "compact_topics", "sweep_topics")
MAXIMUM_TAIL_LINES = 30
_POLL_S = 0.25
_STOP_S = 15
_STARTING = re.compile(r"\[DAG TEST\] starting task_id=(\S+) map_index=(-?\d+)")

Progress = Callable[[str], None]
"""Called with the id of each task as it starts."""


class DagRunFailedError(WinnowError):
    """A task of the demo's DAG run failed; the message ends with the tail of that task's log."""


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """Result of one task instance. ``map_index`` -1: not mapped."""

    task_id: str
    map_index: int
    state: str
    try_number: int

    @property
    def name(self) -> str:
        """Name shown to people."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"


class DagRuns:
    """The process that runs the DAGs one after another."""

    def __init__(self, process: subprocess.Popen[str], log: Path, airflow_logs: Path) -> None:
        self._process = process
        self._log = log
        self._airflow_logs = airflow_logs

    def run(self, dag_id: str, conf: Mapping[str, Any], progress: Progress) -> list[TaskEnd]:
        """Run ``dag_id`` with ``conf`` and wait for its end.

        Raises:
            DagRunFailedError: a task failed, or the process ended.
        """
        begins_at = self._log.stat().st_size
        self._ask({"dag_id": dag_id, "conf": conf})
        answer = self._follow(begins_at, progress)
        text = self._text(begins_at)
        if answer is None:
            raise self._failure(f"The process of the DAG run {dag_id} ended before the run did", text)
        if "error" in answer:
            raise self._failure(f"The DAG run {dag_id} could not be carried out: {answer['error']}", text)
        tasks = [TaskEnd(*task) for task in answer["tasks"]]
        logs = split_log(text)
        self._keep_logs(dag_id, answer["run_id"], tasks, logs)
        failed = {(task.task_id, task.map_index): task for task in tasks if task.state == "failed"}
        # The first failed task is the cause; a task that only summarises failures starts last.
        for place, task_log in logs.items():
            if place in failed:
                raise self._failure(f"Task {failed[place].name} of the DAG run {dag_id} failed", task_log)
        if answer["state"] != "success":
            raise self._failure(f"The DAG run {dag_id} ended as {answer['state']}", text)
        return tasks

    def _ask(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # the missing answer shows that the process has ended

    def _follow(self, begins_at: int, progress: Progress) -> dict[str, Any] | None:
        """Follow the log until the answer; None when the process has ended instead."""
        assert self._process.stdout is not None
        reported = 0
        while not _format_log_line(self._process.stdout):
            started = _STARTING.findall(self._text(begins_at))
            if len(started) > reported:
                reported = len(started)
                progress(started[-1][0])
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def _text(self, begins_at: int) -> str:
        with self._log.open("rb") as stream:
            stream.seek(begins_at)
            return stream.read().decode("utf-8", errors="replace")

    def _failure(self, what: str, text: str) -> DagRunFailedError:
        tail = "\n".join(f"  {line}" for line in text.rstrip().splitlines()[-MAXIMUM_TAIL_LINES:])
        return DagRunFailedError(
            f"{what}. The topics are as the last published step left them; the whole log is in {self._log}. Fix the "
            f"cause and run the demo again; it starts from the beginning. The last lines of the log:\n{tail}"
        )

    def _keep_logs(self, dag_id: str, run_id: str, tasks: list[TaskEnd], logs: dict[tuple[str, int], str]) -> None:
        for task in tasks:
            text = logs.get((task.task_id, task.map_index))
            if text is None:
                continue
            # Airflow's default for [logging] log_filename_template.
            folder = self._airflow_logs / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task.task_id}"
            folder = folder if task.map_index < 0 else folder / f"map_index={task.map_index}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"attempt={task.try_number}.log").write_text(text, encoding="utf-8")


@contextmanager
def start_dag_runs(environment: Mapping[str, str], folder: Path) -> Iterator[DagRuns]:
    """Start the process in the embedded Airflow's ``environment``; its log is ``airflow.log`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "airflow.log"
    log.touch()
    command = [
        sys.executable,
        "-m",
        "demo.dag_process",
        str(find_bundled_folder("dags")),
        str(find_bundled_folder("plugins")),
        str(log),
        *DAG_IDS,
    ]
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True
        )
    try:
        yield DagRuns(process, log, Path(environment["AIRFLOW_HOME"]) / "logs")
    finally:
        _parse_end(process)


def _parse_end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _format_log_line(stream: IO[str]) -> bool:
    return bool(select.select([stream], [], [], _POLL_S)[0])


def split_log(text: str) -> dict[tuple[str, int], str]:
    """Split the log of a run by task id and map index, in the order in which the tasks started."""
    found: dict[tuple[str, int], str] = {}
    starts = list(_STARTING.finditer(text))
    for number, start in enumerate(starts):
        begin = text.rfind("\n", 0, start.start()) + 1
        end = text.rfind("\n", 0, starts[number + 1].start()) + 1 if number + 1 < len(starts) else len(text)
        found[(start[1], int(start[2]))] = text[begin:end]
    return found
