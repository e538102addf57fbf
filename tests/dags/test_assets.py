"""What a downstream DAG is told, and what it may ask."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import RunDag
from tests.dags.test_concurrent_runs import A, as_run, planned, stage
from tests.support.dag_topics import build_old_lines, make_topic
from winnow.config.settings import Settings
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.table_files import drop_latest_table
from winnow.pipeline.monitor.watermark import Watermark
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.values.model import Status
from winnow.values.results import Receipt
from winnow_airflow.assets import (
    COMPACTED,
    MAXIMUM_EVENT_OFFSETS,
    build_event,
    compacted_past,
    compacted_through_ms,
    read_events,
    topic_asset,
)
from winnow_airflow.tasks import compaction_steps

T_MS = 1_700_000_000_000


def triggering(*extras: dict[str, Any]) -> Any:
    """``triggering_asset_events`` as a consumer gets them, made of what Airflow's interface sends."""
    from airflow.sdk.api.datamodels._generated import AssetEventDagRunReference, AssetReferenceAssetEventDagRun
    from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
    from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor

    events = []
    for extra in extras:
        asset = topic_asset(extra["topic"])
        event = AssetEventDagRunReference(
            asset=AssetReferenceAssetEventDagRun(name=asset.name, uri=asset.uri, extra={}),
            extra=extra,
            source_task_id="compact_batch.report",
            source_dag_id="compact_topics",
            source_run_id="r",
            source_map_index=0,
            source_aliases=[],
            timestamp=datetime(2024, 1, 1, tzinfo=UTC),
        )
        events.append(AssetEventDagRunReferenceResult.from_asset_event_dag_run_reference(event))
    return TriggeringAssetEventsAccessor.build(events)


def test_a_consumer_waits_until_its_topic_is_compacted_past_an_instant() -> None:
    """The latest of several events counts, of its topic alone; an unknown watermark is not past anything."""
    events = triggering(
        {"topic": "orders", "compacted_through_ms": T_MS},
        {"topic": "orders", "compacted_through_ms": T_MS + 10},
        {"topic": "clicks", "compacted_through_ms": T_MS + 99},
        {"topic": "views", "compacted_through_ms": None},
    )
    assert compacted_past(events, "orders", T_MS + 10)
    assert not compacted_past(events, "orders", T_MS + 11)
    assert not compacted_past(events, "views", 0)
    assert not compacted_past(events, "nobody", 0)
    assert [extra["compacted_through_ms"] for extra in read_events(events, "orders")] == [T_MS, T_MS + 10]
    assert COMPACTED.name == "winnow_compacted"


@pytest.mark.parametrize("operation", ["undo", "erase"])
def test_what_was_compacted_before_an_undo_or_an_erasure_is_compacted_no_more(operation: str) -> None:
    """Its event tells how far the log is clean afterwards; a compaction that came after it counts again."""
    told = [{"topic": "orders", "operation": "compact", "compacted_through_ms": T_MS}]
    told += [{"topic": "orders", "operation": operation, "compacted_through_ms": T_MS - 5}]
    assert not compacted_past(triggering(*told), "orders", T_MS)
    assert compacted_past(triggering(*told), "orders", T_MS - 5)
    assert compacted_past(triggering(*told, told[0]), "orders", T_MS)


def test_an_event_names_offsets_and_time_but_not_a_vector_of_thousands() -> None:
    """Small enough for Airflow's database; the snapshot has the rest."""
    receipt = Receipt("orders", "p1", Status.PUBLISHED, 7, (), "", T_MS, T_MS)
    few = build_event(receipt, Watermark("orders", 9, {1: 5, 0: 3}, T_MS))
    assert few == {
        "operation": "compact",
        "topic": "orders",
        "plan_id": "p1",
        "snapshot_id": "7",
        "partitions": 2,
        "offsets": {"0": 3, "1": 5},
        "compacted_through_ms": T_MS,
        "latest_snapshot_id": None,
    }
    many = build_event(receipt, Watermark("orders", 9, dict.fromkeys(range(MAXIMUM_EVENT_OFFSETS + 1), 0), None))
    assert (many["offsets"], many["partitions"], many["compacted_through_ms"]) == (
        None,
        MAXIMUM_EVENT_OFFSETS + 1,
        None,
    )


def test_a_report_tells_the_watermark_of_the_whole_topic(installation: Installation, tmp_path: Path) -> None:
    """Compacted to its end: through the present; with a fresh tail: up to just before it. Again, it tells the same."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    run = as_run(installation, A)
    batch = planned(run, "orders")
    stage(run, batch, tmp_path)
    compaction_steps.publish_batch(run, batch)
    before_ms = installation.now_ms()
    for _ in range(2):
        ((receipt, mark),) = compaction_steps.report_batch(run, batch)[1]
        assert receipt.plan_id == batch["plans"][0]["plan_id"]
        assert mark.first_dirty_offsets == {0: 100}
        assert mark.compacted_through_ms is not None
        assert before_ms <= mark.compacted_through_ms <= installation.now_ms()


def test_an_event_names_the_snapshot_of_the_table_of_the_latest_state_once_it_shows_the_publish(
    installation: Installation, tmp_path: Path
) -> None:
    """Of a table that is behind it names none: a consumer would read another state than was published."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    alter_topic(installation, "orders", {"winnow.latest.table": "true"}, [])
    run = as_run(installation, A)
    batch = planned(run, "orders")
    stage(run, batch, tmp_path)
    compaction_steps.publish_batch(run, batch)
    ((receipt, mark),) = compaction_steps.report_batch(run, batch)[1]
    table = installation.log.catalog.load_table(("winnow_latest", "orders"))
    assert build_event(receipt, mark)["latest_snapshot_id"] == str(table.metadata.current_snapshot_id)
    drop_latest_table(installation, "orders")
    ((_, behind),) = compaction_steps.report_batch(run, batch)[1]
    assert behind.latest_snapshot_id is None


def test_the_watermark_of_an_idle_topic_may_be_asked_for(installation: Installation, tmp_path: Path) -> None:
    """No event comes from a topic with nothing to compact, so a consumer that must know asks."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5, at_ms=T_MS)])
    assert compacted_through_ms("orders") == T_MS - 1
    create_topic(installation, "empty", 1, {})
    before_ms = installation.now_ms()
    through_ms = compacted_through_ms("empty")
    assert through_ms is not None
    assert through_ms >= before_ms


@pytest.mark.parametrize(
    ("past", "states"), [(None, ["success", "success"]), ("2024-01-01T00:00:00Z", ["skipped"] * 2)]
)
def test_the_example_started_by_hand_counts_records_or_waits(
    installation: Installation,
    run_dag: RunDag,
    tmp_path: Path,
    airflow_home: Settings,
    past: str | None,
    states: list[str],
) -> None:
    """Without an event there is nothing to wait for past an instant; without an instant it does its small work."""
    make_topic(installation, tmp_path, "aircraft", [build_old_lines(10, 5)])
    found = run_dag("example_consumer", past=past)
    assert [found["wait_for_watermark", -1], found["count_records", -1]] == states
    if past is None:
        with sqlite3.connect(airflow_home.airflow_home / "airflow.db") as database:
            (said,) = database.execute("SELECT value FROM xcom WHERE task_id = 'count_records'").fetchone()
        assert "aircraft holds 10 records" in json.loads(said)
