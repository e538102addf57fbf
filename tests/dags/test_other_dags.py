"""Winnow's operators and sensor for other people's DAGs, as far as no scheduler is needed."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from tests.dags.conftest import RunDag
from tests.docs.runbook import DOCS
from tests.support.dag_topics import build_old_lines, make_topic
from winnow.errors import UsageError
from winnow.pipeline.installation import Installation
from winnow_airflow.assets import topic_asset
from winnow_airflow.operators import WinnowCompactOperator, WinnowIngestOperator
from winnow_airflow.sensors import CheckpointTrigger, WinnowCheckpointSensor, has_reached, parse_offsets

PARSE = """
import json, runpy, sys
runpy.run_path(sys.argv[1])
heavy = {"pyspark", "pyiceberg", "great_expectations", "duckdb", "pyarrow", "pandas", "winnow.store", "winnow.pipeline"}
print(json.dumps(sorted(heavy & sys.modules.keys())))
"""


async def wait_for(trigger: CheckpointTrigger) -> Any:
    """The first event, within a minute."""
    events = trigger.run()
    event: TriggerEvent = await asyncio.wait_for(anext(events), 60)
    return event.payload


def test_dag_of_the_page_loads_nothing_heavy_while_it_is_parsed(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python dag\n(.*?)^```$", (DOCS / "airflow.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "report.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PARSE, str(tmp_path / "report.py")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_checkpoint_is_reached_by_every_partition_and_not_before(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """In the store; a topic and a partition that are not there have reached nothing."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    assert not has_reached("orders", {0: 1})
    run_dag("compact_now", topics=["orders"])
    assert has_reached("orders", {0: 100})
    assert not has_reached("orders", {0: 101})
    assert not has_reached("orders", {0: 100, 1: 1})
    assert not has_reached("payments", {0: 1})


def test_trigger_of_the_sensor_goes_through_json_and_fires_once_the_topic_is_compacted(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """As the triggerer gets it."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    run_dag("compact_now", topics=["orders"])
    name, arguments = CheckpointTrigger("orders", {0: 100}, 0.1).serialize()
    assert name == "winnow_airflow.sensors.CheckpointTrigger"
    trigger = CheckpointTrigger(**json.loads(json.dumps(arguments)))
    assert asyncio.run(wait_for(trigger)) == {"error": None}


def test_trigger_tells_an_error_that_no_waiting_mends(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting that is not valid fails the sensor; it does not wait for its timeout."""
    monkeypatch.setenv("WINNOW_STORE_URL", "nonsense://x")
    event = asyncio.run(wait_for(CheckpointTrigger("orders", {0: 1}, 0.1)))
    assert event["error"]
    sensor = WinnowCheckpointSensor(task_id="reached", topic="orders", offsets={0: 1})
    with pytest.raises(UsageError):
        sensor.execute_complete({}, event)


@pytest.mark.parametrize("offsets", [{}, {0: -1}, {-1: 0}, {"x": 1}, {0: None}, None, "none"])
def test_offsets_that_are_none_are_refused(offsets: Any) -> None:
    with pytest.raises(UsageError, match="whole numbers"):
        parse_offsets(offsets)


def test_offsets_may_come_from_json() -> None:
    assert parse_offsets({"0": "5", "1": 7}) == {0: 5, 1: 7}


@pytest.mark.parametrize(
    "arguments",
    [{}, {"topic": "orders"}, {"paths": ["/a"]}, {"topic": "orders", "paths": ["/a"], "kafka_topics": ["orders"]}],
)
def test_ingest_names_files_of_a_topic_or_kafka_topics(arguments: dict[str, Any]) -> None:
    """Neither means every followed topic, both means nothing that a run could do."""
    with pytest.raises(UsageError, match="either topic and paths, or kafka_topics"):
        WinnowIngestOperator(task_id="ingest", **arguments)


def test_compaction_of_no_topic_is_refused_where_it_would_mean_all() -> None:
    with pytest.raises(UsageError, match="names no topic"):
        WinnowCompactOperator(task_id="compact", topics=[])


def test_sensor_is_listed_at_the_asset_of_its_topic_unless_that_is_not_known_while_a_file_is_parsed() -> None:
    """By its inlets; a template has no asset, and inlets of the DAG's author are left as they are."""
    asked: dict[str, Any] = {"task_id": "reached", "offsets": {0: 1}}
    assert WinnowCheckpointSensor(topic="orders", **asked).inlets == [topic_asset("orders")]
    assert WinnowCheckpointSensor(topic="{{ params.topic }}", **asked).inlets == []
    clicks = [topic_asset("clicks")]
    assert WinnowCheckpointSensor(topic="orders", inlets=clicks, **asked).inlets == clicks
