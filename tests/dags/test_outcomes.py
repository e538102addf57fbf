"""What came of a DAG run that somebody triggered: a sentence per topic, left in Airflow for the page."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import RunDag
from tests.dags.test_dry_run_dag import returned
from tests.support.dag_topics import build_old_lines, lose_a_record, make_topic, write_lines
from winnow.config.settings import Settings
from winnow.errors import UsageError
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.leases import hold_lease
from winnow.store.rows import AuditEntry
from winnow_airflow.older_airflow import AirflowFailException, fail_without_retries
from winnow_airflow.outcomes import MAXIMUM_OUTCOMES, OUTCOME_KEY, TopicOutcome, push_failure, push_outcomes
from winnow_airflow.tasks.eligibility_steps import looks_at_all


def outcomes(airflow: Settings, task_id: str) -> list[dict[str, Any]]:
    """What the newest run of ``task_id`` left."""
    found: list[Any] = returned(airflow, task_id, key=OUTCOME_KEY)
    return [outcome for value in found for outcome in value["outcomes"]]


def test_compact_now_says_what_it_removed_and_then_why_nothing_was_due(
    installation: Installation, run_dag: RunDag, tmp_path: Path, airflow_home: Settings
) -> None:
    """The first run is named; the second looked at an unchanged topic all the same; the third tells both ratios."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)], min_cleanable_dirty_ratio="0.9")

    run_dag("compact_now", topics=["orders"])

    (run,) = installation.store.runs.list_runs("orders")
    (done,) = outcomes(airflow_home, "compact_batch.report")
    assert (done["topic"], done["kind"], done["plan_id"]) == ("orders", "done", run.plan_id)
    assert done["text"].startswith("90 records removed, ")

    states = run_dag("compact_now", topics=["orders"])

    assert states["run", -1] == "success"
    (idle,) = outcomes(airflow_home, "check_eligibility")
    assert (idle["topic"], idle["kind"]) == ("orders", "idle")
    assert idle["text"] == "Nothing was due: nothing was appended since its last compaction."

    more = build_old_lines(10, 10, start=100)
    ingest_files(installation, "orders", [write_lines(tmp_path / "more.jsonl", more)], as_of_ms=more[0].timestamp_ms)
    run_dag("compact_now", topics=["orders"])

    (idle,) = outcomes(airflow_home, "check_eligibility")
    assert re.fullmatch(r"Nothing was due: its dirty ratio is not above \S+ratio \(\d\d% of 90%\)\.", idle["text"])


def test_a_topic_of_somebody_elses_run_is_left_to_that_person_by_name(
    installation: Installation, run_dag: RunDag, tmp_path: Path, airflow_home: Settings
) -> None:
    """Two people press Compact now: the second learns whose run has the topic."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    theirs = dataclasses.replace(installation, holder="airflow:compact_now:manual__bob")
    entry = AuditEntry(installation.now_ms(), "bob", "compact", "orders", origin=theirs.holder)
    installation.store.audit.record(entry)

    with hold_lease(theirs, "orders"):
        states = run_dag("compact_now", topics=["orders"])

    assert states["run", -1] == "success"
    (left,) = outcomes(airflow_home, "check_eligibility")
    assert (left["kind"], left["text"]) == ("left", "Left to another run by bob.")


def test_a_pause_and_a_sweep_say_what_they_did_and_a_refusal_why(
    installation: Installation, run_dag: RunDag, tmp_path: Path, airflow_home: Settings
) -> None:
    """In the words of the tasks' own logs."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 10)])

    run_dag("change_partitions", action="pause", topic="orders", reason="maria")
    (paused,) = outcomes(airflow_home, "change")
    assert paused["text"].startswith("Paused by maria: orders-0.")

    run_dag("sweep_topics", topics=["orders"])
    (swept,) = outcomes(airflow_home, "sweep")
    assert (swept["topic"], swept["text"]) == ("orders", "0 files removed.")

    states = run_dag("change_partitions", action="pause", topic="orders", partitions=[7], reason="maria")
    assert states["run", -1] == "failed"
    (refused,) = outcomes(airflow_home, "change")
    assert refused["kind"] == "failed"
    assert "7" in refused["text"]


def test_a_failed_validation_is_told_as_a_failure(
    installation: Installation, run_dag: RunDag, tmp_path: Path, airflow_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as the success of a report."""
    from winnow_airflow.tasks import compaction_steps

    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    validate = compaction_steps.validate_batch

    def lose_and_validate(run: Installation, batch: Any) -> list[str]:
        lose_a_record(installation, "orders")
        return validate(run, batch)

    monkeypatch.setattr(compaction_steps, "validate_batch", lose_and_validate)
    assert run_dag("compact_now", topics=["orders"])["run", -1] == "failed"
    (failed,) = outcomes(airflow_home, "compact_batch.report")
    assert failed["kind"] == "failed"
    assert "orders" in failed["text"]


def test_a_topic_that_somebody_names_is_looked_at_although_it_was_idle() -> None:
    """The schedule leaves those out; who presses a button wants to know about the present."""
    assert looks_at_all({"dry_run": False, "topics": ["orders"]})
    assert looks_at_all({"dry_run": True, "topics": []})
    assert not looks_at_all({"dry_run": False, "topics": []})


class Run:
    """A DAG run."""

    run_type = "scheduled"


class Task:
    """A task; ``pushed``: what it left."""

    pushed: dict[str, Any] | None = None

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep what is left."""
        self.pushed = value


def test_an_error_in_whose_place_airflow_got_another_is_told_in_its_own_words() -> None:
    """Before Airflow 3.3, what no retry can mend becomes an exception of Airflow's."""
    run, task = Run(), Task()
    run.run_type = "manual"
    failing = push_failure({"dag_run": run, "ti": task})
    with pytest.raises(AirflowFailException), failing, fail_without_retries(has_policies=False):
        raise UsageError("There is no partition 7.")
    left: Any = task.pushed
    assert left["outcomes"][0]["text"].startswith("There is no partition 7.")


def test_a_run_of_the_schedule_leaves_nothing_and_a_large_one_counts_the_rest() -> None:
    """No press of a button waits for it; and an XCom stays small."""

    told = [TopicOutcome(topic=f"t-{n}", kind="done", text="x", plan_id=None) for n in range(MAXIMUM_OUTCOMES + 3)]
    run, task = Run(), Task()
    push_outcomes({"dag_run": run, "ti": task}, told)
    assert task.pushed is None
    run.run_type = "manual"
    push_outcomes({"dag_run": run, "ti": task}, told)
    left: Any = task.pushed
    assert (len(left["outcomes"]), left["further"]) == (MAXIMUM_OUTCOMES, 3)
