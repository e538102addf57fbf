"""Counts the CPU seconds of a running Airflow by component, from the kernel's own counters.

Linux keeps for each process the CPU time that it used and the time of the children that it has waited for, theirs
included. The sum of both over all processes that exist now is therefore exact, also for processes that ended between
two counts, provided that someone waits for them. LocalExecutor's workers wait for the supervisors and task processes
that they fork, and this process becomes the parent of orphans (subreaper), so nothing is lost except the Python workers
of a Spark application, which Spark does not wait for.

Two counts while no task runs, one before and one after a DAG run, give what the run cost:

tasks          the executor's workers and everything below them: supervisors, task processes, Spark
scheduler      the scheduler's own process, without its children
others         dag-processor, api-server, triggerer and database, each with its children
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

TASKS = "tasks"
SCHEDULER = "scheduler"
DATABASE = "database"
SETTLE_SECONDS = 30.0
"""Maximum wait (s) for the processes of a DAG run that Airflow reports as ended."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant, so that its CPU time can still be read. Linux only.

    To be called before the database is started: PostgreSQL's server is an orphan by design.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class CpuCount:
    """CPU seconds by component since each process began; ``tasks_running``: processes below the executor's workers."""

    seconds: Mapping[str, float]
    tasks_running: int = 0

    def since(self, before: CpuCount) -> dict[str, float]:
        """Return the CPU seconds per component between ``before`` and this count."""
        return {name: round(used - before.seconds.get(name, 0.0), 2) for name, used in self.seconds.items()}


@dataclass(slots=True)
class _Process:
    pid: int
    parent: int
    name: str
    own: float
    children: float
    component: str = field(default="")


def count_cpu(components: Mapping[str, int]) -> CpuCount:
    """Count the CPU seconds of ``components`` (name and process id; one is the scheduler) and of the database."""
    found = _list_processes()
    roots = {pid: name for name, pid in components.items()}
    seconds = dict.fromkeys([TASKS, *components], 0.0)
    running = 0
    for process in found.values():
        component = _find_component(process, found, roots)
        if component is None:
            continue
        if process.pid == components[SCHEDULER]:
            seconds[SCHEDULER] += process.own
            seconds[TASKS] += process.children
            continue
        if component == SCHEDULER:
            component = TASKS
            # The workers themselves stay as long as the scheduler.
            running += process.parent != components[SCHEDULER]
        seconds[component] = seconds.get(component, 0.0) + process.own + process.children
    return CpuCount(seconds, running)


def count_cpu_at_rest(components: Mapping[str, int]) -> CpuCount:
    """Count as soon as no task process is left, since a run has ended a moment before its last process."""
    until = time.monotonic() + SETTLE_SECONDS
    while (count := count_cpu(components)).tasks_running and time.monotonic() < until:
        time.sleep(0.2)
    return count


def _list_processes() -> dict[int, _Process]:
    import psutil  # type: ignore[import-untyped]

    found = {}
    for each in psutil.process_iter(["ppid", "name", "cpu_times"]):
        times = each.info["cpu_times"]
        if times is not None:
            children = times.children_user + times.children_system
            found[each.pid] = _Process(
                each.pid, each.info["ppid"], each.info["name"], times.user + times.system, children
            )
    return found


def _find_component(process: _Process, found: Mapping[int, _Process], roots: Mapping[int, str]) -> str | None:
    """Find the component above ``process``; an orphan that this process adopted is the tasks', or the database.

    None: the process has nothing to do with this Airflow.
    """
    each: _Process | None = process
    is_database = False
    while each is not None and each.pid > 1:
        is_database = is_database or each.name == "postgres"
        if each.pid in roots or each.parent == os.getpid():
            return DATABASE if is_database else roots.get(each.pid, TASKS)
        each = found.get(each.parent)
    return None
