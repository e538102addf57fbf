"""More topics than there may be tasks: shares, caps, and what is carried to the next run."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dags.test_concurrent_runs import as_run
from tests.support.dag_topics import DAY_MS, build_old_lines, make_topic
from winnow.config.settings import Settings
from winnow.pipeline.admin.topics import create_topic
from winnow.pipeline.compaction import plan as planning
from winnow.pipeline.context import Context
from winnow.store import RunState
from winnow_airflow import compaction_steps, eligibility_steps
from winnow_airflow.xcom_values import MAXIMUM_FAILED_TASKS, MAXIMUM_MAPPED_TASKS, TopicCheck

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

TOPICS = 450


def name_many(ctx: Context) -> list[str]:
    """A catalog that names many topics. They share one table, which is enough for being listed."""
    create_topic(ctx, "t000", 1, {})
    names = [f"t{number:03d}" for number in range(TOPICS)]
    with sqlite3.connect(ctx.settings.catalog["uri"].removeprefix("sqlite:///")) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(iceberg_tables)")]
        values = ", ".join("?" if column == "table_name" else column for column in columns)
        database.executemany(
            f"INSERT INTO iceberg_tables SELECT {values} FROM iceberg_tables WHERE table_name = 't000'",
            [(name,) for name in names[1:]],
        )
    return names


def test_hundreds_of_topics_are_checked_once_each_by_two_hundred_tasks_at_most(
    ctx: Context, runnable: DagBag, airflow_home: Settings
) -> None:
    """The checks themselves are marked as done here: what counts is how many there are, and of what."""
    names = name_many(ctx)
    dag = runnable.dags["compact_topics"]
    ended = dag.test(mark_success_pattern="check_eligibility|watch")
    tasks = [ti for ti in ended.get_task_instances() if ti.task_id == "check_eligibility"]
    assert len(tasks) == MAXIMUM_MAPPED_TASKS == 200
    query = "SELECT value FROM xcom WHERE task_id = 'list_topics' AND run_id = ?"
    with sqlite3.connect(airflow_home.airflow_home / "airflow.db") as database:
        (value,) = database.execute(query, (ended.run_id,)).fetchone()
    shares = json.loads(value)
    shares = json.loads(shares) if isinstance(shares, str) else shares
    assert [topic for share in shares for topic in share] == names
    assert {len(share) for share in shares} == {2, 3}
    assert str(ended.state) == "success"


def test_what_is_too_much_for_one_run_is_given_back_for_the_next(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches at most: the two most overdue topics are planned, the others wait, free, with a sentence."""
    now_ms = ctx.now_ms()
    for number, topic in enumerate(("late", "later", "latest", "never")):
        lag = {} if topic == "never" else {"max_compaction_lag_ms": str(DAY_MS)}
        make_topic(ctx, tmp_path, topic, [build_old_lines(20, 5, at_ms=now_ms - (10 + number) * DAY_MS)], **lag)
    monkeypatch.setattr(compaction_steps, "MAXIMUM_MAPPED_TASKS", 2)
    monkeypatch.setattr(planning, "pack_batches", partial(planning.pack_batches, batch_bytes=1))
    run = as_run(ctx, "airflow:compact_topics:first")
    checks = [eligibility_steps.check_topic(run, topic, as_of_ms=now_ms) for topic in ctx.log.names()]

    rows = compaction_steps.plan_topics(run, checks, as_of_ms=now_ms)

    assert [row["label"] for row in rows] == ["latest", "later"]
    assert {topic: ctx.store.leases.find(topic) is None for topic in ctx.log.names()} == {
        "late": True,
        "later": False,
        "latest": False,
        "never": True,
    }
    (given_back,) = ctx.store.runs.list_runs("late")
    assert given_back.status is RunState.VOID
    assert given_back.message.endswith("Nothing of it was done; the next run takes it.")
    for row in rows:
        compaction_steps.report_batch(run, row)
    following = as_run(ctx, "airflow:compact_topics:second")
    checks = [eligibility_steps.check_topic(following, topic, as_of_ms=now_ms) for topic in ("late", "never")]
    assert [row["label"] for row in compaction_steps.plan_topics(following, checks, as_of_ms=now_ms)] == [
        "late",
        "never",
    ]


def test_many_topics_that_cannot_be_planned_share_a_few_tasks_that_say_why(ctx: Context) -> None:
    """Every one of them is named in one of these tasks, and room is left for those that can be planned."""
    names = [f"gone-{number:03d}" for number in range(50)]
    checks = [TopicCheck(topic=name, eligible=True, reasons={}, would=None) for name in names]
    rows = compaction_steps.plan_topics(ctx, checks, as_of_ms=ctx.now_ms())
    assert len(rows) == MAXIMUM_FAILED_TASKS
    assert rows[0]["label"] == "gone-000 … gone-001 (2 topics)"
    said = "\n".join(row["error"] or "" for row in rows)
    assert [name for name in names if f"Topic {name} could not be planned" not in said] == []
