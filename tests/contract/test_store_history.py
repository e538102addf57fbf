"""What a store removes of its history, and what stays whatever its age; on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from tests.support import store_fixtures
from tests.support.store_fixtures import (
    NOW_MS,
    assessment,
    collect_statements,
    marked_state,
    open_run,
    receipt,
    retired_file,
    verdict,
)
from winnow.store import RunState, Store, tables
from winnow.store.rows import AuditEntry, Window
from winnow.store.run_progress import PlanProgress, RunProgress, SparkJob
from winnow.values.results import OpenAlert

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

RETENTION_MS = 1_000_000
LATER_MS = NOW_MS + RETENTION_MS
"""What happened before NOW_MS is older than the retention then."""
LONG_AGO_MS = NOW_MS - 10


def pruned(store: Store, topic: str = "orders", **more: int) -> int:
    """Prune what is from before NOW_MS; how many rows went."""
    return sum(each.rows for each in store.history.prune(topic, LATER_MS - RETENTION_MS, **more))


def closed_run(
    store: Store, plan_id: str, *, state: RunState = RunState.VOID, at_ms: int = LONG_AGO_MS, swept: bool = True
) -> None:
    open_run(store, plan_id, now_ms=at_ms)
    run = store.runs.set_state(plan_id, state, at_ms, attempt="a-1")
    store.runs.note_empty(run, first_ms=at_ms, swept_ms=at_ms if swept else None)


def attempts(store: Store) -> int:
    with store._database.reading() as session:
        return session.scalar(select(func.count()).select_from(tables.Attempt)) or 0


def test_a_closed_swept_run_goes_with_its_attempts_and_verdicts(store: Store) -> None:
    closed_run(store, "plan-1")
    closed_run(store, "plan-2", at_ms=NOW_MS)
    page = "file:///docs/page.html"
    store.verdicts.record(replace(verdict("plan-1", checked_at_ms=NOW_MS + 5), data_docs=page))
    store.verdicts.record(verdict("plan-2"))
    found = list(store.history.prune("orders", NOW_MS))
    assert [each.pages for each in found] == [(page,)]
    assert [run.plan_id for run in store.runs.list_runs("orders")] == ["plan-2"]
    assert (store.verdicts.find("plan-1", "a-1"), attempts(store)) == (None, 1)
    assert store.verdicts.find("plan-2", "a-1") == verdict("plan-2")


@pytest.mark.parametrize("state", [RunState.PLANNED, RunState.COMPACTING, RunState.UNKNOWN])
def test_an_open_run_stays_with_its_verdicts_whatever_its_age(store: Store, state: RunState) -> None:
    closed_run(store, "plan-1", state=state)
    store.verdicts.record(verdict(checked_at_ms=LONG_AGO_MS))
    assert pruned(store) == 0
    assert store.runs.find("plan-1") is not None
    assert store.verdicts.find("plan-1", "a-1") is not None


def test_a_run_whose_folder_was_not_found_empty_twice_stays(store: Store) -> None:
    """Its row is what leads a sweep to its files."""
    closed_run(store, "plan-1", swept=False)
    assert pruned(store) == 0
    assert [run.plan_id for run in store.runs.list_to_sweep("orders", NOW_MS)] == ["plan-1"]
    assert store.runs.list_attempts("plan-1") == {"a-1"}


def test_a_run_that_was_opened_again_stays(store: Store) -> None:
    closed_run(store, "plan-1")
    open_run(store, "plan-1", now_ms=LONG_AGO_MS)
    assert pruned(store) == 0


def test_the_run_that_a_mark_names_stays_until_the_mark_is_gone(store: Store) -> None:
    closed_run(store, "plan-0", state=RunState.INVALID)
    store.projection.record_states("orders", {0: marked_state()}, NOW_MS)
    assert pruned(store) == 0
    store.projection.record_states("orders", {0: replace(marked_state(), uncleanable=None)}, NOW_MS)
    assert pruned(store) == 1


def test_an_old_verdict_of_a_closed_run_goes_before_its_run(store: Store) -> None:
    closed_run(store, "plan-1", at_ms=NOW_MS)
    store.verdicts.record(verdict(checked_at_ms=LONG_AGO_MS))
    assert pruned(store) == 1
    assert store.runs.find("plan-1") is not None
    assert store.verdicts.find("plan-1", "a-1") is None


def test_old_assessments_go_and_the_one_recorded_last_stays_however_old(store: Store) -> None:
    for at_ms in (1, 2, 3):
        store.assessments.record(at_ms, at_ms, [assessment(), assessment(partition=1)])
    store.assessments.record(NOW_MS, NOW_MS, [assessment(partition=1)])
    before = store.assessments.list_latest()
    assert pruned(store) == 5
    assert store.assessments.list_latest() == before == [assessment(), assessment(partition=1)]
    assert store.assessments.last_assessed_ms("orders") == NOW_MS
    assert pruned(store) == 0


def test_rows_of_deleted_files_go_and_those_of_files_that_wait_stay(store: Store) -> None:
    files = [retired_file(name, retired_at_ms=1) for name in ("gone", "new", "waits")]
    store.retired_files.record("orders", files, "data")
    store.retired_files.mark_deleted("orders", [files[0].path], LONG_AGO_MS)
    store.retired_files.mark_deleted("orders", [files[1].path], NOW_MS)
    assert pruned(store) == 1
    assert [row.path for row in store.retired_files.list_retired("orders", pending_only=False)] == [
        files[1].path,
        files[2].path,
    ]


def test_receipts_and_checkpoints_stay_when_their_run_is_gone(store: Store) -> None:
    closed_run(store, "plan-1", state=RunState.PUBLISHED)
    states = {0: marked_state()}
    store.projection.record_publication(receipt(finished_at_ms=LONG_AGO_MS), states, [], LONG_AGO_MS)
    checkpoints = store.projection.list_checkpoints()
    assert pruned(store) == 1
    assert store.projection.find_receipt("plan-1") is not None
    assert store.projection.list_checkpoints() == checkpoints != []


def test_other_topics_are_left_alone(store: Store) -> None:
    closed_run(store, "plan-1")
    store.assessments.record(1, 1, [assessment()])
    store.assessments.record(2, 2, [assessment()])
    assert pruned(store, "clicks") == 0
    assert pruned(store) == 2


def test_much_history_goes_in_short_transactions(store: Store) -> None:
    for at_ms in range(1, 8):
        store.assessments.record(at_ms, at_ms, [assessment()])
    assert [each.rows for each in store.history.prune("orders", NOW_MS, rows_at_once=2)] == [2, 2, 2]
    assert pruned(store) == 0


def test_a_topic_without_old_history_costs_one_question(store: Store) -> None:
    store.assessments.record(NOW_MS, NOW_MS, [assessment()])
    closed_run(store, "plan-1", at_ms=NOW_MS)
    with collect_statements() as sent:
        assert pruned(store) == 0
    assert len([each for each in sent if each.startswith("SELECT")]) == 1
    assert not any(each.startswith("DELETE") for each in sent)


def test_progress_of_a_removed_run_goes_with_it_and_an_application_with_the_last_of_its_runs(store: Store) -> None:
    """A batch's application is kept as long as one of its runs."""
    closed_run(store, "plan-0")
    store.runs.open("plan-1", "orders", attempt="a-1", as_of_ms=1, plan_uri="/plan-1", now_ms=LONG_AGO_MS)
    job = SparkJob("job-1", "a-1", "host", 1, 1, 2, 2)
    store.job_progress.record(job, [PlanProgress(f"plan-{number}", "orders", 1, 1) for number in (0, 1)])
    assert sum(each.rows for each in store.history.prune("orders", NOW_MS)) == 1
    assert store.job_progress.find("plan-0") == RunProgress((), None, None, ())
    assert store.job_progress.find("plan-1").job == job
    store.runs.set_state("plan-1", RunState.VOID, LONG_AGO_MS, attempt="a-1")
    closed = store.runs.find("plan-1")
    assert closed is not None
    store.runs.note_empty(closed, first_ms=LONG_AGO_MS, swept_ms=LONG_AGO_MS)
    assert sum(each.rows for each in store.history.prune("orders", NOW_MS)) == 1
    assert store.job_progress.find("plan-1").job is None


def test_audit_entries_and_events_of_alerts_go_by_age_also_those_of_deleted_topics(store: Store) -> None:
    """Who deleted a topic stays known for as long as anything else; nothing of it is kept for ever."""
    for at_ms, topic in ((LONG_AGO_MS, "gone"), (LONG_AGO_MS, ""), (NOW_MS, "gone")):
        store.audit.record(AuditEntry(at_ms, "anna@host", "delete", topic))
        store.alerts.remember_all([OpenAlert("sweep_stuck", topic, at_ms - LONG_AGO_MS, at_ms)], at_ms, lambda _: [])
    assert pruned(store) == 4
    assert [each.at_ms for each in store.audit.list_entries(Window()).rows] == [NOW_MS]
    assert [each.at_ms for each in store.alert_history.list_events(Window()).rows] == [NOW_MS]
    assert pruned(store) == 0
