"""Relays the events of a Spark application to the metadata store, so that others can see how far it is.

The job knows no store; the process that submitted it writes. It does so in a thread of its own, at most every few
seconds, and without ever failing or delaying the compaction: progress that cannot be written is left out.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from winnow.errors import WinnowError
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome
from winnow.planning.plans import PlanReference
from winnow.store.run_progress import PlanProgress, SparkJob

WRITE_INTERVAL_S: Final = 3.0
"""Seconds between two writes, while something moves."""
HEARTBEAT_INTERVAL_MS: Final = 30_000
"""Milliseconds after which a write says that the submitter lives although nothing moved."""
END_TIMEOUT_S: Final = 5.0
"""Seconds that a compaction waits for its last write at most."""

log = logging.getLogger("winnow")


@dataclass(frozen=True, slots=True)
class AirflowTask:
    """The try of an Airflow task. ``map_index`` -1: the task is not mapped."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int


class JobRecorder:
    """Keeps the progress of one Spark application, from its events, and writes what changed. Safe between threads."""

    def __init__(
        self, installation: Installation, plans: Sequence[PlanReference], attempt: str, task: AirflowTask | None
    ) -> None:
        self._installation = installation
        self._lock = threading.Lock()
        now_ms = installation.now_ms()
        self._plans = {
            plan.plan_id: PlanProgress(plan.plan_id, plan.topic, plan.partitions, plan.size_bytes) for plan in plans
        }
        self._moved = set(self._plans)
        self._job = SparkJob(
            job_id=uuid.uuid4().hex,
            attempt=attempt,
            holder=installation.holder,
            submitted_at_ms=now_ms,
            updated_at_ms=now_ms,
            partitions=sum(plan.partitions for plan in plans),
            bytes_total=sum(plan.size_bytes for plan in plans),
            **({} if task is None else {name: getattr(task, name) for name in AirflowTask.__slots__}),
        )
        self._is_changed = True

    def observe(self, event: Mapping[str, Any]) -> None:
        """Take in one event of the application. Never raises."""
        try:
            with self._lock:
                if event.get("event") == "started":
                    self._start(event)
                elif event.get("event") == "partition":
                    self._add_partition(event)
        except Exception as problem:  # an event of another version
            log.debug("An event of the Spark application is not understood (%s).", type(problem).__name__)

    def _start(self, event: Mapping[str, Any]) -> None:
        places = {name: event.get(name) for name in ("application_id", "ui_url", "event_log", "driver_log")}
        self._change_job(started_at_ms=self._installation.now_ms(), **places)

    def _add_partition(self, event: Mapping[str, Any]) -> None:
        has_failed = "error" in event
        done = {
            "partitions_failed" if has_failed else "partitions_done": 1,
            "bytes_read": int(event.get("bytes_in", 0)),
            "bytes_written": int(event.get("bytes_out", 0)),
        }
        plan_id = str(event.get("plan_id"))
        plan = self._plans.get(plan_id)
        if plan is not None:
            error = plan.error or (str(event["error"]) if has_failed else None)
            added = {name: getattr(plan, name) + value for name, value in done.items()}
            self._plans[plan_id] = replace(plan, error=error, **added)
            self._moved.add(plan_id)
        self._change_job(
            error=self._job.error or (str(event["error"]) if has_failed else None),
            **{name: getattr(self._job, name) + value for name, value in done.items()},
        )

    def end(self, outcome: JobOutcome) -> None:
        """Take in how the application ended, and the first reason of each plan that failed."""
        with self._lock:
            for plan_id, failure in outcome.failures.items():
                plan = self._plans.get(plan_id)
                if plan is not None and plan.error is None:
                    self._plans[plan_id] = replace(plan, error=failure.error)
                    self._moved.add(plan_id)
            first = next((failure.error for failure in outcome.failures.values()), None)
            self._change_job(ended_at_ms=self._installation.now_ms(), error=self._job.error or first)

    def fail(self, error: str) -> None:
        """Take in that the application could not be started."""
        with self._lock:
            self._change_job(ended_at_ms=self._installation.now_ms(), error=error)

    def _change_job(self, **changes: Any) -> None:
        self._job = replace(self._job, **changes)
        self._is_changed = True

    def write(self) -> None:
        """Write what changed since the last write; after a while without a change, that the submitter lives."""
        now_ms = self._installation.now_ms()
        with self._lock:
            if not self._is_changed and now_ms - self._job.updated_at_ms < HEARTBEAT_INTERVAL_MS:
                return
            self._is_changed = False
            self._job = replace(self._job, updated_at_ms=now_ms)
            job, moved = self._job, self._moved
            self._moved = set()
            plans = [self._plans[plan_id] for plan_id in sorted(moved)]
        try:
            self._installation.store.job_progress.record(job, plans)
        except Exception as problem:  # the page shows an older state
            log.debug("The progress of a Spark application was not recorded (%s).", type(problem).__name__)
            with self._lock:
                self._moved |= moved
                self._is_changed = True


@contextmanager
def record_progress(
    installation: Installation, plans: Sequence[PlanReference], attempt: str, task: AirflowTask | None = None
) -> Iterator[JobRecorder]:
    """Record the progress of the Spark application that the block runs. ``task``: the Airflow task that does."""
    recorder = JobRecorder(installation, plans, attempt, task)
    stop = threading.Event()

    def run() -> None:
        recorder.write()
        while not stop.wait(WRITE_INTERVAL_S):
            recorder.write()
        recorder.write()

    thread = threading.Thread(target=run, daemon=True, name="job-progress")
    thread.start()
    try:
        yield recorder
    except BaseException as problem:
        # A library's message may quote data.
        recorder.fail(str(problem) if isinstance(problem, WinnowError) else f"unexpected {type(problem).__name__}")
        raise
    finally:
        stop.set()
        thread.join(END_TIMEOUT_S)


def observe_too(recorder: JobRecorder, progress: Callable[[dict[str, Any]], None] | None) -> Callable[..., None]:
    """Return a function that passes each event to ``recorder``, and to ``progress`` if there is one."""

    def observe(event: dict[str, Any]) -> None:
        recorder.observe(event)
        if progress is not None:
            progress(event)

    return observe
