"""More topics than there may be tasks: shares, caps, and what is carried to the next run."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest

from tests.dags.conftest import RunDag
from tests.dags.test_concurrent_runs import as_run
from tests.support.dag_topics import DAY_MS, build_group_states, build_old_lines, make_topic, read_topic
from winnow.pipeline.compaction import plan as planning
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import create_topic
from winnow.store import RunState
from winnow_airflow.tasks import compaction_steps, eligibility_steps
from winnow_airflow.xcom_values import MAXIMUM_FAILED_TASKS, TopicCheck

TOPICS = 1_200


def name_many(installation: Installation) -> list[str]:
    """A catalog that names many topics. They share one table, which is enough for being listed."""
    create_topic(installation, "t0000", 1, {})
    names = [f"t{number:04d}" for number in range(TOPICS)]
    with sqlite3.connect(installation.settings.catalog["uri"].removeprefix("sqlite:///")) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(iceberg_tables)")]
        values = ", ".join("?" if column == "table_name" else column for column in columns)
        database.executemany(
            f"INSERT INTO iceberg_tables SELECT {values} FROM iceberg_tables WHERE table_name = 't0000'",
            [(name,) for name in names[1:]],
        )
    return names


def test_thousands_of_topics_are_a_few_shares_of_which_the_first_task_takes_one(installation: Installation) -> None:
    """Each topic is in exactly one share, in order; the shares are about equal."""
    names = name_many(installation)
    shares = eligibility_steps.split_topics(installation, names, as_of_ms=installation.now_ms(), looks_at_all=False)
    assert [topic for share in shares for topic in share] == names
    assert [len(share) for share in shares] == [400, 400, 400]


def test_what_is_due_in_any_share_is_compacted(
    installation: Installation, run_dag: RunDag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five topics, two to a task: a task for each further share.

    They are due by retention alone, which needs no Spark.
    """
    for number in range(5):
        name, at_ms = f"t{number}", installation.now_ms() if number % 2 else 1_700_000_000_000
        lines = build_old_lines(10, 10, at_ms=at_ms)
        make_topic(
            installation,
            tmp_path,
            name,
            [lines],
            cleanup_policy="delete",
            retention_ms=str(DAY_MS),
            segment_ms="3600000",
        )
    monkeypatch.setattr(eligibility_steps, "MAXIMUM_TOPICS_PER_TASK", 2)

    states = run_dag("compact_topics")

    assert states["run", -1] == "success"
    assert {number for task, number in states if task == "check_further_topics"} == {0, 1}
    assert build_group_states(states) == ["success"] * 4
    assert [len(read_topic(installation, f"t{number}")) for number in range(5)] == [0, 10, 0, 10, 0]


def test_what_is_too_much_for_one_run_is_given_back_for_the_next(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches at most: the two most overdue topics are planned, the others wait, free, with a sentence."""
    now_ms = installation.now_ms()
    for number, topic in enumerate(("late", "later", "latest", "never")):
        lag = {} if topic == "never" else {"max_compaction_lag_ms": str(DAY_MS)}
        make_topic(
            installation, tmp_path, topic, [build_old_lines(20, 5, at_ms=now_ms - (10 + number) * DAY_MS)], **lag
        )
    monkeypatch.setattr(compaction_steps, "MAXIMUM_MAPPED_TASKS", 2)
    monkeypatch.setattr(planning, "pack_batches", partial(planning.pack_batches, batch_bytes=1))
    run = as_run(installation, "airflow:compact_topics:first")
    checks = [eligibility_steps.check_topic(run, topic, as_of_ms=now_ms) for topic in installation.log.names()]

    rows = compaction_steps.plan_topics(run, checks, as_of_ms=now_ms)

    assert [row["label"] for row in rows] == ["latest", "later"]
    assert {topic: installation.store.leases.find(topic) is None for topic in installation.log.names()} == {
        "late": True,
        "later": False,
        "latest": False,
        "never": True,
    }
    (given_back,) = installation.store.runs.list_runs("late")
    assert given_back.status is RunState.VOID
    assert given_back.message.endswith("Nothing of it was done; the next run takes it.")
    for row in rows:
        compaction_steps.report_batch(run, row)
    following = as_run(installation, "airflow:compact_topics:second")
    checks = [eligibility_steps.check_topic(following, topic, as_of_ms=now_ms) for topic in ("late", "never")]
    assert [row["label"] for row in compaction_steps.plan_topics(following, checks, as_of_ms=now_ms)] == [
        "late",
        "never",
    ]


def test_many_topics_that_cannot_be_planned_share_a_few_tasks_that_say_why(installation: Installation) -> None:
    """Every one of them is named in one of these tasks, and room is left for those that can be planned."""
    names = [f"gone-{number:03d}" for number in range(50)]
    checks = [TopicCheck(topic=name, eligible=True, reasons={}, would=None) for name in names]
    rows = compaction_steps.plan_topics(installation, checks, as_of_ms=installation.now_ms())
    assert len(rows) == MAXIMUM_FAILED_TASKS
    assert rows[0]["label"] == "gone-000 … gone-001 (2 topics)"
    said = "\n".join(row["error"] or "" for row in rows)
    assert [name for name in names if f"Topic {name} could not be planned" not in said] == []
