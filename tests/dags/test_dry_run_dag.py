"""``compact_topics`` with the Params that change nothing: a dry run, and a comparison with another strategy."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import RunDag
from tests.support.dag_topics import DAY_MS, Line, build_group_states, build_old_lines, make_topic, read_topic
from winnow.config.settings import Settings
from winnow.files import storage
from winnow.pipeline.installation import Installation
from winnow_airflow.tasks import dry_run

AT_MS = 1_700_000_000_000


def returned(airflow: Settings, task_id: str, *, key: str = "return_value") -> list[object]:
    """What the task gave back in its newest run, one entry per mapped instance."""
    query = (
        "SELECT value FROM xcom WHERE task_id = ? AND key = ? "
        "AND dag_run_id = (SELECT max(id) FROM dag_run) ORDER BY map_index"
    )
    with sqlite3.connect(airflow.airflow_home / "airflow.db") as database:
        found = [json.loads(row[0]) for row in database.execute(query, (task_id, key))]
    return [json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value for value in found]


def started(airflow: Settings, task_id: str) -> bool:
    """Whether a process was started for the task in its newest run."""
    query = (
        "SELECT count(pid) FROM task_instance WHERE task_id = ? "
        "AND run_id = (SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1)"
    )
    with sqlite3.connect(airflow.airflow_home / "airflow.db") as database:
        return bool(database.execute(query, (task_id,)).fetchone()[0])


def late_lines(records: int, keys: int) -> list[Line]:
    """Records whose timestamps run backwards, so that offset and timestamp choose other winners."""
    return [Line(offset, f"key-{offset % keys}", f"value-{offset}", AT_MS - offset) for offset in range(records)]


def everything(installation: Installation) -> dict[str, int]:
    """Every file below the lake's warehouse and staging area, with its size."""
    folders = (installation.settings.warehouse, installation.settings.staging)
    return {entry.uri: entry.size_bytes for folder in folders for entry in storage.list_files(folder)}


def test_a_dry_run_says_what_would_happen_and_a_shadow_what_else_could(
    installation: Installation, run_dag: RunDag, tmp_path: Path, airflow_home: Settings
) -> None:
    """Green; sentences in the return values; no plan, run, lease, file or snapshot is left; keys are nowhere."""
    make_topic(installation, tmp_path, "orders", [late_lines(100, 10)], min_cleanable_dirty_ratio="0")
    make_topic(installation, tmp_path, "idle", [build_old_lines(10, 10, at_ms=installation.now_ms())])
    before, head = everything(installation), installation.log.open("orders").head().snapshot_id

    states = run_dag("compact_topics", dry_run=True, shadow_strategy="timestamp")

    assert states["run", -1] == "success"
    assert build_group_states(states, -1) == ["skipped"] * 4
    assert (states["plan", -1], states["compare_strategy", 0]) == ("success", "success")
    checks: Any = returned(airflow_home, "check_eligibility", key="checks")
    ((idle, orders),) = checks
    assert (idle["eligible"], orders["eligible"]) == (False, True)
    assert idle["would"] == "idle: nothing is due (1 no_closed_segment)."
    assert orders["would"].startswith(
        "orders: 1 of 1 partition due (1 dirty_ratio). It would read 100 records in 1 segment, "
    )
    assert "write at most" in orders["would"]
    assert "remove 0 to 99 records" in orders["would"]
    assert returned(airflow_home, "plan") == [[]]
    idle_said, said = [share[0] for share in returned(airflow_home, "compare_strategy")]  # type: ignore[index]
    assert idle_said == "Nothing of idle is cleanable at this as-of, so there is nothing to compare."
    assert said.startswith(
        "Under strategy timestamp instead of strategy offset, 10 of 10 keys of orders would have another winner. "
        "It would keep 10 of 100 records"
    )
    assert "For example orders-0 offset 0 instead of 90" in said
    assert "key-" not in said
    assert "value-" not in said

    assert installation.store.runs.list_runs() == []
    assert installation.store.assessments.list_latest() == []
    assert [installation.store.leases.find(topic) for topic in ("orders", "idle")] == [None, None]
    assert everything(installation) == before
    assert installation.log.open("orders").head().snapshot_id == head


def test_without_the_params_nothing_is_compared_and_nothing_foretold(
    installation: Installation, run_dag: RunDag, tmp_path: Path, airflow_home: Settings
) -> None:
    """The ordinary run skips the comparison, and its checks say reasons only."""
    make_topic(installation, tmp_path, "idle", [build_old_lines(10, 10, at_ms=installation.now_ms())])
    states = run_dag("compact_topics")
    assert states["run", -1] == "success"
    assert {number: state for (task, number), state in states.items() if task == "compare_strategy"} == {-1: "skipped"}
    assert [started(airflow_home, task) for task in ("plan", "list_compared", "compare_strategy")] == [False] * 3
    assert returned(airflow_home, "check_eligibility", key="checks") == [[]]


def test_a_comparison_that_fails_leaves_the_compaction_alone(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """A damaged segment of one topic: the comparison and so the run are red, the other topic is published all the same.

    The other topic is due by retention alone, which needs no Spark.
    """
    make_topic(installation, tmp_path, "damaged", [build_old_lines(50, 5)], min_cleanable_dirty_ratio="1")
    log = installation.log.open("damaged")
    path = storage.parse_local_path(log.segments(log.head())[0][0].path)
    path.write_bytes(path.read_bytes()[:-20])
    make_topic(
        installation,
        tmp_path,
        "old",
        [build_old_lines(50, 5)],
        cleanup_policy="delete",
        retention_ms=str(DAY_MS),
        segment_ms="3600000",
    )

    states = run_dag("compact_topics", shadow_strategy="timestamp")

    assert [states["compare_strategy", number] for number in (0, 1)] == ["failed", "success"]
    assert build_group_states(states) == ["success"] * 4
    assert (states["outcome", -1], states["run", -1]) == ("failed", "failed")
    assert read_topic(installation, "old") == []
    assert installation.store.projection.list_uncleanable(["damaged"]) == {}


@pytest.mark.parametrize(
    ("config", "strategy", "sentence"),
    [
        ({}, "offset", "orders has strategy offset already; there is nothing to compare."),
        ({}, "header", "names no header that holds the version"),
        ({"cleanup_policy": "delete"}, "timestamp", "its policy has no compact"),
    ],
)
def test_a_comparison_without_a_question_needs_no_spark(
    installation: Installation, tmp_path: Path, config: dict[str, str], strategy: str, sentence: str
) -> None:
    """A sentence, green, in a moment."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)], **config)
    (said,) = dry_run.compare_strategies(installation, ["orders"], strategy, as_of_ms=installation.now_ms())
    assert sentence in said


def test_a_dry_run_foretells_retention_beside_compaction(installation: Installation, tmp_path: Path) -> None:
    """What retention takes is said apart; what is held by another run is not due."""
    make_topic(
        installation,
        tmp_path,
        "orders",
        [
            build_old_lines(50, 5, at_ms=installation.now_ms() - 3 * DAY_MS),
            build_old_lines(50, 5, start=50, at_ms=installation.now_ms() - DAY_MS),
        ],
        cleanup_policy="compact,delete",
        retention_ms=str(2 * DAY_MS),
        segment_ms="3600000",
    )
    said = dry_run.preview_compaction(installation, "orders", as_of_ms=installation.now_ms())["would"]
    assert said is not None
    assert "retire 50 records in 1 segment by retention" in said
    installation.store.leases.acquire("orders", "airflow:compact_topics:other", installation.now_ms(), 60_000)
    found = dry_run.preview_compaction(installation, "orders", as_of_ms=installation.now_ms())
    assert found["would"] == "orders: nothing is due (1 in_progress)."
