"""A run while it runs: its time line, its Spark application, what it waits for, and Cancel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from playwright.sync_api import expect
from sqlalchemy import delete

from tests.browser.airflow_servers import Server
from tests.browser.browser_page import BrowserPage
from tests.browser.conftest import Open
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.store import Store, run_progress, tables
from winnow.store.database import Database
from winnow.store.run_progress import PlanProgress, SparkJob

RUN_ID = "manual__progress"
HOLDER = f"airflow:compact_now:{RUN_ID}"
TOPICS = ("orders", "payments", "devices")
MIB = 1 << 20


@dataclass
class RunningRuns:
    """Runs in the lake "small" that a DAG run carries out; gone after the test."""

    store: Store
    now_ms: int

    def open(self, plan_id: str, topic: str, *, ago_s: int, holder: str = HOLDER, begins: bool = True) -> None:
        """A run that was planned some seconds ago."""
        begun_ms = self.now_ms - ago_s * 1_000
        self.store.runs.open(
            plan_id, topic, attempt="a-progress", as_of_ms=begun_ms, plan_uri=f"/{plan_id}", now_ms=begun_ms,
            holder=holder, planning_since_ms=begun_ms - 800,
        )  # fmt: skip
        if begins:
            self.store.runs.begin_attempt(plan_id, "a-progress-1", begun_ms + 9_000)

    def job(self, **changed: Any) -> None:
        """The Spark application of all runs."""
        plans = [PlanProgress(f"progress-{name}", name, 3, 400 * MIB, 1, 0, 120 * MIB, 30 * MIB) for name in TOPICS]
        job = SparkJob(
            "job-progress", "a-progress-1", HOLDER, self.now_ms - 100_000, self.now_ms - 2_000, 9, 1_200 * MIB,
            dag_id="compact_now", run_id=RUN_ID, task_id="compact_batch.compact", map_index=0, try_number=1,
            started_at_ms=self.now_ms - 92_000, application_id="app-20261123081500-0007",
            ui_url="http://driver.example:4040", event_log="s3a://logs/spark/eventlog_v2_app-20261123081500-0007",
            partitions_done=3, bytes_read=360 * MIB, bytes_written=90 * MIB,
        )  # fmt: skip
        self.store.job_progress.record(replace(job, **changed), plans)


@pytest.fixture
def running(servers: dict[str, Server]) -> Iterator[RunningRuns]:
    """Room for runs in progress; Airflow has the DAG run that carries them out."""
    settings = load_settings(env={"WINNOW_HOME": str(servers["small"].lake)})
    with Store.open(settings.store_url) as store:
        yield RunningRuns(store, read_wall_clock_ms())
    database = Database(settings.store_url)
    with database.writing() as session:
        for model in (tables.RunTable, tables.Attempt, run_progress.RunTransition, run_progress.SparkJobPlan):
            session.execute(delete(model).where(model.plan_id.startswith("progress-")))
        session.execute(delete(run_progress.SparkJobTable).where(run_progress.SparkJobTable.attempt != ""))
    database.close()


def begin_dag_run(seen: BrowserPage) -> None:
    """Let Airflow have the DAG run; nothing is scheduled here, so it stays queued."""
    url = f"{seen.server.url}/api/v2/dags/compact_now/dagRuns"
    seen.page.request.post(url, data={"dag_run_id": RUN_ID, "logical_date": None, "conf": {}})


def test_running_run_shows_stages_progress_and_links(look: Open, running: RunningRuns) -> None:
    """Partitions done, bytes per second and time left, and where to look further."""
    for name in TOPICS:
        running.open(f"progress-{name}", name, ago_s=110)
    running.job()
    seen = look("small")
    begin_dag_run(seen)
    page = seen.at("#/runs/progress-orders")
    section = page.get_by_role("region", name="Progress")
    states = {stage: page.locator(f'[data-stage="{stage}"]') for stage in ("plan", "wait", "spark", "validate")}
    for stage, state in (("plan", "done"), ("wait", "done"), ("spark", "running"), ("validate", "pending")):
        expect(states[stage]).to_have_attribute("data-state", state)
    expect(states["wait"]).to_contain_text("9")
    expect(section.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "30")
    figures = section.locator(".figures")
    for text in ("3 of 9", "of this topic 1 of 3", "4.00", "MiB/s", "3 min"):
        expect(figures).to_contain_text(text)
    expect(section).to_contain_text("One Spark application compacts 3 topics")
    task = section.get_by_role("link", name="compact_batch.compact [0]")
    expect(task).to_have_attribute("href", re.compile(r"/dags/compact_now/runs/manual__progress/tasks/.+/mapped/0$"))
    expect(section.get_by_role("link", name="http://driver.example:4040")).to_be_visible()
    expect(section).to_contain_text("eventlog_v2_app-20261123081500-0007")
    expect(section).to_contain_text("Waiting for other runs of this DAG to end")
    seen.picture("run-progress")


@pytest.mark.parametrize(("theme", "width"), [("dark", 1440), ("light", 1000), ("light", 2560)])
def test_running_run_is_readable_at_every_width_and_at_night(
    look: Open, running: RunningRuns, theme: str, width: int
) -> None:
    """Nothing is cut off and nothing scrolls sideways."""
    running.open("progress-orders", "orders", ago_s=110)
    running.job()
    seen = look("small", theme=theme, width=width)
    begin_dag_run(seen)
    page = seen.at("#/runs/progress-orders")
    expect(page.locator(".stages > li")).to_have_count(5)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    seen.picture(f"run-progress-{theme}-{width}")


def test_cancel_names_every_topic_that_ends_with_it_and_fails_the_airflow_task(
    look: Open, running: RunningRuns
) -> None:
    """Airflow is asked for exactly that task, as the user; what is left behind is said before."""
    for name in TOPICS:
        running.open(f"progress-{name}", name, ago_s=110)
    running.job()
    seen = look("small")
    begin_dag_run(seen)
    page = seen.at("#/runs/progress-orders")
    page.get_by_role("button", name="Cancel the compaction of orders").click()
    dialog = page.get_by_role("dialog", name="Cancel the compaction of 3 topics?")
    expect(dialog.get_by_role("listitem")).to_have_text(["devices", "orders", "payments"])
    expect(dialog).to_contain_text("the next sweep deletes it")
    dialog.get_by_label("Reason").fill("needs the cluster")
    seen.picture("run-cancel", whole=False)
    sent: list[tuple[str, Any]] = []

    def answer(route: Any) -> None:
        sent.append((route.request.method, route.request.post_data_json))
        route.fulfill(json={})

    page.route("**/taskInstances/compact_batch.compact/0", answer)
    dialog.get_by_role("button", name="Cancel the compaction").click()
    expect(dialog).to_have_count(0)
    assert sent == [
        ("PATCH", {"new_state": "failed", "note": "Cancelled on Winnow's page: needs the cluster"}),
    ]


def test_run_of_a_shell_is_not_cancelled_here_and_says_how(look: Open, running: RunningRuns) -> None:
    """The button stays, switched off, with the process to stop."""
    running.open("progress-orders", "orders", ago_s=30, holder="host-7:4711:abc@x.1.2")
    running.job(dag_id=None, run_id=None, task_id=None, map_index=None, holder="host-7:4711:abc@x.1.2")
    page = look("small").at("#/runs/progress-orders")
    button = page.get_by_role("button", name="Cancel the compaction of orders")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("data-tip", re.compile(r"press Ctrl\+C there\. It is process 4711 on host-7\."))


def test_viewer_may_not_cancel_and_reads_why(look: Open, running: RunningRuns) -> None:
    """By Airflow's right to change tasks of the DAG."""
    running.open("progress-orders", "orders", ago_s=30)
    running.job()
    begin_dag_run(look("small"))
    page = look("small", user="vera").at("#/runs/progress-orders")
    button = page.get_by_role("button", name="Cancel the compaction of orders")
    expect(button).to_have_attribute("data-tip", re.compile("may not change tasks of compact_now"))


def test_failure_of_spark_is_called_that_with_its_first_reason(look: Open, running: RunningRuns) -> None:
    """Not invalid: nothing was validated."""
    running.open("progress-orders", "orders", ago_s=60)
    running.job(error="the Spark application ended with exit code 137 before it finished")
    message = "Topic orders was not compacted: the Spark application ended with exit code 137 before it finished."
    running.store.runs.note_spark_failure("progress-orders", "a-progress-1", running.now_ms - 1_000, message)
    seen = look("small")
    begin_dag_run(seen)
    page = seen.at("#/runs/progress-orders")
    expect(page.locator("#main")).to_contain_text("Spark failed; Airflow may try it again.")
    expect(page.locator('[data-stage="spark"]')).to_have_attribute("data-state", "failed")
    from winnow.store import RunState

    running.store.runs.set_state(
        "progress-orders", RunState.SPARK_FAILED, running.now_ms, message=message, attempt="a-progress-1"
    )
    page = seen.at("#/runs/progress-orders")
    expect(page.get_by_role("heading", level=1)).to_contain_text("spark failed")
    expect(page.get_by_role("alert")).to_contain_text("Spark failed. Nothing was published.")
    expect(page.get_by_role("alert")).to_contain_text("exit code 137")
    seen.picture("run-spark-failed")
