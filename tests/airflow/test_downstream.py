"""What only a real scheduler shows: a consumer that a compaction starts, and its undo; a run without its pools."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from tests.support.dag_topics import build_old_lines, make_topic
from tests.support.embedded_airflow import EmbeddedAirflow
from winnow.embedded.airflow_home import POOLS
from winnow.pipeline.installation import Installation
from winnow.pipeline.undo.listing import list_undoable
from winnow_airflow.assets import topic_asset
from winnow_airflow.pool_checks import MISSING_POOLS_KEY

CONSUMER, TOPIC = "example_consumer", "aircraft"


def test_a_compaction_and_its_undo_each_start_a_consumer_which_reads_offsets_and_watermark(
    real_airflow: EmbeddedAirflow, lake: Installation, tmp_path: Path
) -> None:
    """One run of the consumer each; its sentence has the snapshot, the offsets, the time, and every record again."""
    make_topic(lake, tmp_path, TOPIC, [build_old_lines(100, 10)])
    real_airflow.unpause(CONSUMER, "compact_topics", "change_topics")
    assert list_consuming_tasks(real_airflow) == {(CONSUMER, "count_records")}
    try:
        run = real_airflow.trigger("compact_topics", topics=[TOPIC])
        assert real_airflow.wait("compact_topics", run) == "success", real_airflow.failures("compact_topics", run)
        said = read_consumer(real_airflow, 1)
        snapshot = lake.log.open(TOPIC).head().snapshot_id
        assert f"{TOPIC} holds 10 records. Snapshot {snapshot} is clean up to offsets {{'0': 100}}, through 20" in said
        plan_id = list_undoable(lake, TOPIC).changes[0].change_id
        run = real_airflow.trigger("change_topics", action="undo", topic=TOPIC, change_id=plan_id, reason="a test")
        assert real_airflow.wait("change_topics", run) == "success", real_airflow.failures("change_topics", run)
        said = read_consumer(real_airflow, 2)
    finally:
        real_airflow.pause(CONSUMER)
    snapshot = lake.log.open(TOPIC).head().snapshot_id
    assert f"{TOPIC} holds 100 records. Snapshot {snapshot} is clean up to offsets {{'0': 0}}, through 20" in said


def list_consuming_tasks(real_airflow: EmbeddedAirflow) -> set[tuple[str, str]]:
    """The tasks that Airflow lists at the topic's asset as its consumers."""
    answer = real_airflow.call("GET", f"/assets?uri_pattern={quote(topic_asset(TOPIC).uri)}")
    return {(task["dag_id"], task["task_id"]) for asset in answer["assets"] for task in asset["consuming_tasks"]}


def read_consumer(real_airflow: EmbeddedAirflow, runs: int) -> str:
    """What the newest run of the consumer said, once there were ``runs``, and no more."""
    started = real_airflow.until(
        lambda: found if len(found := real_airflow.runs(CONSUMER)) >= runs else None, f"{CONSUMER} was started"
    )
    assert len(started) == runs
    consumer = max(started, key=lambda each: str(each["run_after"]))["dag_run_id"]
    assert real_airflow.wait(CONSUMER, consumer) == "success", real_airflow.failures(CONSUMER, consumer)
    path = f"/dags/{CONSUMER}/dagRuns/{quote(consumer)}/taskInstances/count_records/xcomEntries/return_value"
    return str(real_airflow.call("GET", path)["value"])


def test_a_run_without_its_pools_fails_at_once_and_succeeds_when_it_is_cleared_after_they_are_made(
    real_airflow: EmbeddedAirflow,
) -> None:
    """Without the listener in the scheduler its tasks would wait for ever; the log of the first says what to do."""
    real_airflow.call("DELETE", "/pools/winnow_commit")
    try:
        real_airflow.unpause("sweep_topics")
        run = real_airflow.trigger("sweep_topics")
        assert real_airflow.wait("sweep_topics", run) == "failed"
        assert real_airflow.tasks("sweep_topics", run)["list_topics", -1] == "failed"
        assert real_airflow.tries("sweep_topics", run) <= {0, 1}
        assert "airflow pools set winnow_commit 4" in real_airflow.failures("sweep_topics", run)
    finally:
        pool = {"name": "winnow_commit", "include_deferred": False, **POOLS["winnow_commit"]}
        real_airflow.call("POST", "/pools", pool)
    real_airflow.call("POST", f"/dags/sweep_topics/dagRuns/{quote(run)}/clear", {"dry_run": False})
    assert real_airflow.wait("sweep_topics", run) == "success", real_airflow.failures("sweep_topics", run)
    (found,) = [each for each in real_airflow.runs("sweep_topics") if each["dag_run_id"] == run]
    assert MISSING_POOLS_KEY not in (found["conf"] or {})
