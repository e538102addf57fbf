"""``compact_topics`` run whole: real spark-submit, real validation, real commits, in the order of the scheduler."""

from __future__ import annotations

import http.server
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.dags.conftest import RunDag
from tests.support.dag_topics import (
    DAY_MS,
    build_group_states,
    build_old_lines,
    lose_a_record,
    make_topic,
    read_first_dirty_offsets,
    read_topic,
)
from tests.support.world import FakeClock, World
from winnow.config.settings import Settings
from winnow.files import storage
from winnow.files.segments import ARROW_SCHEMA
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.open_runs import reopen_run
from winnow.pipeline.installation import Installation, open_installation
from winnow.planning.plans import PlanReference
from winnow.store import Run, RunState
from winnow_airflow.tasks import compaction_steps, eligibility_steps
from winnow_airflow.tasks.operators import list_pending_plans
from winnow_airflow.xcom_values import BatchRow, PlanRow

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

WEEK_MS = 7 * DAY_MS


def batch_of(run: Run) -> BatchRow:
    """The batch that travelled between the tasks of a run."""
    row = PlanRow(topic=run.topic, plan_id=run.plan_id, uri=run.plan_uri, partitions=1, size_bytes=0, deadline_ms=None)
    return BatchRow(label=run.topic, attempt=run.attempt.rpartition("-")[0], plans=[row], error=None)


def airflow_rows(airflow: Settings, query: str) -> list[tuple[Any, ...]]:
    """What Airflow's own database says."""
    with sqlite3.connect(airflow.airflow_home / "airflow.db") as database:
        return database.execute(query).fetchall()


def started_tasks(airflow: Settings) -> set[str]:
    """The tasks of the newest run for which a process was started."""
    query = (
        "SELECT DISTINCT task_id FROM task_instance WHERE pid IS NOT NULL "
        "AND run_id = (SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1)"
    )
    return {str(row[0]) for row in airflow_rows(airflow, query)}


def test_a_run_compacts_two_topics_in_one_application_and_the_next_finds_nothing(
    installation: Installation, run_dag: RunDag, tmp_path: Path, airflow_home: Settings
) -> None:
    """Winners stay, checkpoints move, assets tell offsets; publishing again changes nothing; an idle run is green."""
    for topic in ("orders", "clicks"):
        make_topic(installation, tmp_path, topic, [build_old_lines(100, 10)])

    states = run_dag("compact_topics")

    assert states["run", -1] == "success"
    assert build_group_states(states) == ["success"] * 4
    assert states["outcome", -1] == "skipped"
    for topic in ("orders", "clicks"):
        assert [record["offset"] for record in read_topic(installation, topic)] == list(range(90, 100))
        assert read_first_dirty_offsets(installation, topic) == {0: 100}
        assert installation.store.leases.find(topic) is None
    events = [json.loads(row[0]) for row in airflow_rows(airflow_home, "SELECT extra FROM asset_event")]
    travelled = str(airflow_rows(airflow_home, "SELECT value FROM xcom"))
    assert "orders" in travelled
    assert "value-" not in travelled
    run = installation.store.runs.list_runs("orders")[0]
    assert [event["offsets"] for event in events if event["plan_id"] == run.plan_id] == [{"0": 100}]

    before = installation.log.open("orders").head().snapshot_id
    receipt = installation.store.projection.find_receipt(run.plan_id)
    assert compaction_steps.publish_batch(installation, batch_of(run)) == [run.plan_id]
    assert installation.store.projection.find_receipt(run.plan_id) == receipt
    assert installation.log.open("orders").head().snapshot_id == before
    assert list_pending_plans(installation, batch_of(run)) == []

    idle = run_dag("compact_topics")
    assert idle["run", -1] == "success"
    assert build_group_states(idle, -1) == ["skipped"] * 4
    assert idle["outcome", -1] == "skipped"
    assert started_tasks(airflow_home) == {"check_eligibility", "watch"}


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """A webhook that takes alerts; gives what arrived."""
    arrived: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is Python's
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        monkeypatch.setenv("WINNOW_ALERT__WEBHOOK", f"http://127.0.0.1:{server.server_port}/alerts")
        yield arrived
        server.shutdown()
        thread.join()


def test_a_failed_validation_alerts_once_and_stops_no_other_topic(
    webhook: list[dict[str, Any]],
    installation: Installation,
    run_dag: RunDag,
    runnable: DagBag,
    tmp_path: Path,
    airflow_home: Settings,
) -> None:
    """The sibling in the same batch is published; the run ends failed without a second try."""
    for topic in ("orders", "clicks"):
        make_topic(installation, tmp_path, topic, [build_old_lines(100, 10)])
    compact = runnable.dags["compact_topics"].task_dict["compact_batch.compact"]
    compact.on_success_callback = [lambda context: lose_a_record(installation, "orders")]
    validate = runnable.dags["compact_topics"].task_dict["compact_batch.validate"]
    validate.retries = 3

    states = run_dag("compact_topics")

    assert states["run", -1] == "failed"
    assert build_group_states(states) == ["success", "failed", "success", "success"]
    assert states["outcome", -1] == "failed"
    tries = "SELECT try_number FROM task_instance WHERE task_id = 'compact_batch.validate' AND state = 'failed'"
    assert airflow_rows(airflow_home, tries) == [(1,)]
    assert len(read_topic(installation, "orders")) == 100
    assert len(read_topic(installation, "clicks")) == 10
    assert installation.store.runs.list_runs("orders")[0].status is RunState.INVALID
    assert [installation.store.leases.find(topic) for topic in ("orders", "clicks")] == [None, None]
    assert [(alert["kind"], alert["topic"], alert["partitions"]) for alert in webhook] == [
        ("validation_failed", "orders", [0])
    ]
    assert "Nothing was published" in webhook[0]["safe"]
    assert [a.reason.value for a in assess_topics(installation, ["orders"], as_of_ms=installation.now_ms())] == [
        "uncleanable"
    ]


def test_a_topic_that_cannot_be_reported_costs_no_other_topic_its_event(
    installation: Installation, run_dag: RunDag, runnable: DagBag, tmp_path: Path, airflow_home: Settings
) -> None:
    """Published all three, then one is dropped, of one the receipt is lost: the consumers of the third are told."""
    for topic in ("orders", "clicks", "views"):
        make_topic(installation, tmp_path, topic, [build_old_lines(100, 10)])

    def stage(context: object) -> None:
        world = World(installation, FakeClock(installation.now_ms()), tmp_path)
        for run in installation.store.runs.list_runs():
            world.stage(PlanReference(**batch_of(run)["plans"][0]), f"{run.attempt}-1")

    def spoil(context: object) -> None:
        installation.log.catalog.drop_table(("winnow", "orders"))
        head = installation.log.open("clicks").head()
        (receipt,) = head.state.receipts
        for place in head.documents.list_places(receipt.path):
            storage.write_bytes(place, b"another file")

    tasks = runnable.dags["compact_topics"].task_dict
    tasks["plan"].on_success_callback = [stage]
    tasks["compact_batch.publish"].on_success_callback = [spoil]
    states = run_dag("compact_topics")

    assert build_group_states(states) == ["success"] * 4
    plan_ids = {run.plan_id: run.topic for run in installation.store.runs.list_runs()}
    events = [json.loads(row[0]) for row in airflow_rows(airflow_home, "SELECT extra FROM asset_event")]
    assert [event["topic"] for event in events if event.get("plan_id") in plan_ids] == ["views"]


def test_an_as_of_in_the_future_ends_the_run_before_anything_is_done(
    installation: Installation, run_dag: RunDag, airflow_home: Settings
) -> None:
    """The first task refuses it, nothing downstream runs, and the run is red."""
    states = run_dag("compact_topics", as_of=str(installation.now_ms() + WEEK_MS))
    assert states["run", -1] == "failed"
    assert (states["check_eligibility", -1], states["outcome", -1]) == ("failed", "failed")
    assert started_tasks(airflow_home) == {"check_eligibility", "outcome"}


def test_a_topic_that_cannot_be_checked_stops_no_other_but_fails_the_run(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """A table that somebody else committed to beside an idle topic: one red check, nothing to compact, a red run."""
    make_topic(installation, tmp_path, "idle", [build_old_lines(10, 10, at_ms=installation.now_ms())])
    make_topic(installation, tmp_path, "foreign", [build_old_lines(10, 10)])
    installation.log.open("foreign").head().table.append(ARROW_SCHEMA.empty_table())
    states = run_dag("compact_topics")
    assert (states["check_eligibility", -1], states["plan", -1]) == ("failed", "skipped")
    assert build_group_states(states, -1) == ["skipped"] * 4
    assert states["outcome", -1] == "failed"
    assert states["run", -1] == "failed"


def test_a_topic_held_by_another_run_is_left_to_it(installation: Installation, run_dag: RunDag, tmp_path: Path) -> None:
    """A backfill beside the schedule finds the topic in progress and does nothing."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    with open_installation(holder="airflow:compact_topics:another") as other:
        other.store.leases.acquire("orders", other.holder, other.now_ms(), 60_000)
    states = run_dag("compact_topics")
    assert states["run", -1] == "success"
    assert build_group_states(states, -1) == ["skipped"] * 4
    lease = installation.store.leases.find("orders")
    assert lease is not None
    assert lease.holder == "airflow:compact_topics:another"
    assert installation.store.runs.list_runs("orders") == []


def test_clearing_a_spark_task_of_a_closed_run_opens_it_again(installation: Installation, tmp_path: Path) -> None:
    """A batch whose Spark died is reported as void; its plan may still be carried out: the commit checks the log."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    batch = compaction_steps.plan_topics(
        installation,
        [eligibility_steps.check_topic(installation, "orders", as_of_ms=installation.now_ms())],
        as_of_ms=installation.now_ms(),
    )[0]
    paragraphs, receipts = compaction_steps.report_batch(installation, batch)
    assert receipts == []
    assert "was not compacted" in paragraphs[0]
    assert installation.store.runs.list_runs("orders")[0].status is RunState.VOID
    assert installation.store.leases.find("orders") is None

    (plan,) = list_pending_plans(installation, batch)
    reopen_run(installation, plan, f"{batch['attempt']}-2")
    run = installation.store.runs.list_runs("orders")[0]
    assert (run.status, run.attempt) == (RunState.PLANNED, f"{batch['attempt']}-2")
