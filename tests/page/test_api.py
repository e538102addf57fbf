"""The contract of the page's API: documents, filters, bounds and errors, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.page.conftest import ReadFrom, Visitor
from tests.page.sample_rows import BIG, DAY_MS, HOUR_MS, NOW_MS, put, put_marks, put_run, put_verdict
from winnow.clock import read_wall_clock_ms
from winnow.store import RunState, Store
from winnow.store.ingest_lag import IngestLag
from winnow.store.latest_progress import LatestLimits, LogState
from winnow.store.rows import AuditEntry
from winnow.store.segment_checks import FileCheck
from winnow.store.source_states import SourceKind, SourceState
from winnow.values.model import Severity
from winnow.values.results import NO_FIGURES, extract_figures

TOPIC_ROW = {
    "topic": "orders",
    "state": "healthy",
    "partitions": 1,
    "partition_states": {"healthy": 1, "due": 0, "overdue": 0, "uncleanable": 0, "paused": 0},
    "dirty_ratio": 0.25,
    "threshold": 0.5,
    "compacts": True,
    "policy": "compact",
    "strategy": "offset",
    "deadline_ms": None,
    "size_bytes": 1_000,
    "reclaimable_bytes": 100,
    "partitions_unestimated": 0,
    "retired_bytes": 7,
    "owner": "payments",
    "tags": ["gold", "pii"],
    "records": 12,
    "files": 3,
    "assessed_at_ms": NOW_MS - 1,
    "as_of_ms": NOW_MS - 2,
    "last_run": None,
    "last_published_ms": None,
}
TOTALS = {
    "records_in": 110,
    "records_kept": 50,
    "records_superseded": 57,
    "tombstones_expired": 1,
    "records_keyless": 2,
    "records_retired": 5,
    "bytes_in": 4_160,
    "bytes_out": 1_088,
    "bytes_retired": 11,
    "seconds": 1.5,
}
RUN_ROW = {
    "plan_id": "plan-1",
    "topic": "orders",
    "status": "published",
    "attempt": "a-1",
    "as_of_ms": NOW_MS - 1,
    "opened_at_ms": NOW_MS,
    "updated_at_ms": NOW_MS,
    "message": "Done.",
    "dag_run": {"dag_id": "compact_topics", "run_id": "manual__2026-09-21T00:00:00+00:00"},
    "holder": "airflow:compact_topics:manual__2026-09-21T00:00:00+00:00",
    "snapshot_id": str(BIG),
    "totals": TOTALS,
}
Query = dict[str, str | int]
VERDICT = {
    "plan_id": "plan-1",
    "attempt": "a-1",
    "topic": "orders",
    "passed": False,
    "broken": False,
    "checked_at_ms": NOW_MS,
    "expectations": 8,
    "data_docs": "validations/winnow/a%20run/verdict.html",
    "failures": [
        {"expectation": "keys_are_unique", "severity": "fail", "partition": 0, "detail": "2 of them", "suite": ""}
    ],
}


@pytest.fixture(autouse=True)
def present(airflow_client: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's present stands still."""
    from winnow_airflow.page.app import app

    monkeypatch.setitem(app.dependency_overrides, read_wall_clock_ms, lambda: NOW_MS)


def test_topics_are_rows_with_counts_and_a_page(viewer: Visitor, home_store: Store) -> None:
    """The document is exactly that of the contract."""
    put(home_store)
    states = {"healthy": 1, "due": 0, "overdue": 0, "uncleanable": 0, "paused": 0}
    assert viewer.json("api/topics") == {
        "now_ms": NOW_MS,
        "total": 1,
        "page": 1,
        "size": 50,
        "counts": states,
        "topics": [TOPIC_ROW],
    }


def test_topics_are_searched_filtered_sorted_and_paged(viewer: Visitor, home_store: Store) -> None:
    """Every parameter reaches the store."""
    for number, name in enumerate(("orders", "orders-2", "payments")):
        put(home_store, name, [{"eligible": name != "orders-2"}], size_bytes=number)

    def found(**asked: str | int) -> tuple[int, list[str]]:
        listed = viewer.json("api/topics", **asked)
        return listed["total"], [row["topic"] for row in listed["topics"]]

    assert found() == (3, ["orders", "payments", "orders-2"])
    assert found(search="ORD") == (2, ["orders", "orders-2"])
    assert found(search="%") == (0, [])
    assert found(state="due") == (2, ["orders", "payments"])
    assert found(sort="size", order="desc") == (3, ["payments", "orders-2", "orders"])
    assert found(sort="topic", order="asc", size=2) == (3, ["orders", "orders-2"])
    assert found(sort="topic", size=2, page=2) == (3, ["payments"])
    assert found(page=1_000_000, size=200) == (3, [])


@pytest.mark.parametrize(
    "query",
    [
        *("state=sick", "sort=name", "order=up", "page=0", "page=-1", "page=x", "page=1000001"),
        *("size=0", "size=201", "size=9999999999999999999", f"search={'a' * 250}"),
    ],
)
def test_values_that_mean_nothing_are_refused(viewer: Visitor, query: str) -> None:
    """422, with the parameter's name."""
    name, value = query.split("=")
    answer = viewer.ask("api/topics", {name: value})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["query", name]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("api/runs", {"status": "gone"}),
        ("api/runs", {"size": 201}),
        ("api/topics/orders/partitions", {"state": "sick"}),
        ("api/topics/orders/partitions", {"size": 0}),
        ("api/topics/orders/runs", {"page": 0}),
        ("api/topics/orders/verdicts", {"size": 201}),
        ("api/quality", {"days": 0}),
        ("api/quality", {"days": 367}),
        ("api/quality/uncleanable", {"page": 0}),
        ("api/quality/alerts", {"size": 201}),
    ],
)
def test_bounds_hold_on_every_list(viewer: Visitor, home_store: Store, path: str, query: Query) -> None:
    """Nobody asks for everything at once."""
    put(home_store)
    assert viewer.ask(path, query).status_code == 422


def test_topic_says_where_it_is_how_it_is_configured_and_how_often_it_failed(
    viewer: Visitor, home_store: Store
) -> None:
    """A row of the list, and the rest."""
    put(home_store)
    put_run(home_store, published=True)
    put_verdict(home_store, failures=(("a", Severity.FAIL), ("b", Severity.WARN)))
    put_verdict(home_store, "plan-0", at_ms=NOW_MS - 7 * DAY_MS - 1)
    found = viewer.json("api/topics/orders")
    configuration = found.pop("configuration")
    assert found == TOPIC_ROW | {
        "last_run": {"plan_id": "plan-1", "status": "published", "updated_at_ms": NOW_MS},
        "last_published_ms": NOW_MS,
        "table": {"name": "winnow.orders", "location": "s3://lake/winnow/orders"},
        "failing_expectations_7d": 1,
        "scrub": None,
        "ingest_lag": None,
        "latest_table": None,
        "held_by": None,
        "source": None,
    }
    assert configuration[1] == {
        "name": "segment.ms",
        "value": "1000",
        "source": "topic",
        "is_default": False,
        "sentence": "Two.",
    }


def test_topic_says_when_its_files_were_checked_and_how_many_are_damaged(viewer: Visitor, home_store: Store) -> None:
    put(home_store)
    check = FileCheck("orders", "s3://lake/a", "segment", 0, 10, NOW_MS)
    bad = replace(check, path="s3://lake/b", checked_at_ms=NOW_MS - 5, finding="damaged", text="no", since_ms=NOW_MS)
    home_store.segment_checks.record([check, bad])
    assert viewer.json("api/topics/orders")["scrub"] == {
        "files": 2,
        "last_checked_ms": NOW_MS,
        "oldest_checked_ms": NOW_MS - 5,
        "findings": 1,
    }


def test_topic_says_who_is_at_work_on_it_and_with_which_run(viewer: Visitor, home_store: Store) -> None:
    put(home_store)
    holder = "airflow:compact_now:manual__2026-01-01T00:00:00+00:00_x"
    put_run(home_store, holder=holder)
    home_store.leases.acquire("orders", holder, NOW_MS, 60_000)
    asked = AuditEntry(NOW_MS, "bob", "compact", "orders", origin=holder)
    held: dict[str, object] = {"plan_id": "plan-1"}

    assert viewer.json("api/topics/orders")["held_by"] == held | {
        "actor": "DAG run manual__2026-01-01T00:00:00+00:00_x of compact_now"
    }
    home_store.audit.record(asked)
    assert viewer.json("api/topics/orders")["held_by"] == held | {"actor": "bob"}

    lease = home_store.leases.find("orders")
    assert lease is not None
    home_store.leases.release(lease)
    home_store.leases.acquire("orders", "host:7:1", NOW_MS - 120_000, 60_000)
    assert viewer.json("api/topics/orders")["held_by"] is None, "its lease has run out"


def test_topic_says_that_it_is_gone_at_kafka_and_since_when(viewer: Visitor, home_store: Store) -> None:
    put(home_store)
    home_store.source_states.record([SourceState("orders", SourceKind.GONE, NOW_MS - 5, "file:///m.json")])
    assert viewer.json("api/topics/orders")["source"] == {"state": "gone", "since_ms": NOW_MS - 5}


def test_topic_says_since_when_its_latest_table_lacks_records_and_until_when_it_may(
    viewer: Visitor, home_store: Store
) -> None:
    put(home_store)
    limits = LatestLimits(max_age_ms=60_000)
    home_store.latest_tables.record_log(LogState("orders", "uuid", 1, limits, 5, NOW_MS - 7, appended=5))
    assert viewer.json("api/topics/orders")["latest_table"] == {
        "missing_since_ms": NOW_MS - 7,
        "updated_at_ms": None,
        "deadline_ms": NOW_MS + 59_993,
    }


def test_topic_says_how_far_it_is_behind_kafka_and_when_the_brokers_were_asked(
    viewer: Visitor, home_store: Store
) -> None:
    """The page asks no broker."""
    put(home_store)
    late = IngestLag("orders", 0, NOW_MS, 12, NOW_MS - 60_000, NOW_MS + 7)
    other = replace(late, partition=1, records_behind=3, complete_until_ms=NOW_MS)
    home_store.ingest_lags.record([late, replace(other, records_uncommitted=120, open_since_ms=NOW_MS - 9)])
    assert viewer.json("api/topics/orders")["ingest_lag"] == {
        "looked_at_ms": NOW_MS,
        "records_behind": 15,
        "complete_until_ms": NOW_MS - 60_000,
        "deadline_ms": NOW_MS + 7,
        "records_uncommitted": 120,
        "open_since_ms": NOW_MS - 9,
    }


def test_partitions_draw_their_log_with_offsets_as_text(viewer: Visitor, home_store: Store) -> None:
    """A 64-bit offset does not survive JavaScript."""
    put(home_store, parts=[{}, {"active_offset": None, "deadline_ms": NOW_MS - 1, "reason": "max_compaction_lag"}])
    put_marks(home_store, "orders", uncleanable=(0,), paused=(0,), count=2)
    found = viewer.json("api/topics/orders/partitions")
    assert (found["total"], found["page"], found["size"], found["now_ms"]) == (2, 1, 50, NOW_MS)
    first, second = found["partitions"]
    assert first == {
        "partition": 0,
        "state": "uncleanable",
        "eligible": False,
        "reason": "not_dirty_enough",
        "reason_text": "its dirty ratio is not above min.cleanable.dirty.ratio",
        "log_start_offset": "3",
        "first_dirty_offset": str(BIG),
        "first_uncleanable_offset": str(BIG + 1),
        "active_offset": str(BIG + 2),
        "log_end_offset": str(BIG + 3),
        "dirty_ratio": 0.25,
        "threshold": 0.5,
        "clean_bytes": 600,
        "cleanable_bytes": 200,
        "size_bytes": 1_000,
        "reclaimable_bytes": 100,
        "deadline_ms": None,
        "max_compaction_delay_ms": 0,
        "records": 12,
        "files": 3,
        "paused": {"since_ms": NOW_MS - DAY_MS, "by": ["zoe", "ops"]},
        "uncleanable": {
            "reason": "keys twice",
            "since_ms": NOW_MS - HOUR_MS,
            "attempts": 3,
            "next_attempt_ms": NOW_MS + HOUR_MS,
            "plan_id": "plan-u",
        },
    }
    assert (second["state"], second["active_offset"], second["paused"], second["uncleanable"]) == (
        *("overdue", None, None, None),
    )
    only = viewer.json("api/topics/orders/partitions", state="overdue", size=1)
    assert (only["total"], [row["partition"] for row in only["partitions"]]) == (1, [1])


def test_runs_are_rows_with_the_totals_of_their_receipts(viewer: Visitor, home_store: Store) -> None:
    """One that published nothing has none; one that a shell began has no DAG run."""
    put_run(home_store, published=True)
    put_run(home_store, "plan-2", at_ms=NOW_MS - 9, holder="host:12:cafe", state=RunState.VOID)
    found = viewer.json("api/runs")
    assert found == {"total": 2, "page": 1, "size": 50, "runs": [RUN_ROW, found["runs"][1]]}
    second = found["runs"][1]
    assert (second["dag_run"], second["holder"], second["totals"], second["snapshot_id"]) == (
        *(None, "host:12:cafe", None, None),
    )
    assert viewer.json("api/topics/orders/runs") == found
    assert viewer.json("api/topics/payments/runs")["total"] == 0


@pytest.mark.parametrize(
    ("asked", "plans"),
    [
        ({}, ["plan-1", "plan-2"]),
        ({"topic": "payments"}, ["plan-2"]),
        ({"status": "published"}, ["plan-1"]),
        ({"dag_id": "compact_topics"}, ["plan-1"]),
        ({"dag_run_id": "manual__2026-09-21T00:00:00+00:00"}, ["plan-1"]),
        ({"dag_id": "compact_topics", "dag_run_id": "manual__2026-09-21T00:00:00+00:00"}, ["plan-1"]),
        ({"dag_id": "sweep_topics"}, []),
        ({"page": 2, "size": 1}, ["plan-2"]),
    ],
)
def test_runs_are_filtered_and_paged(viewer: Visitor, home_store: Store, asked: Query, plans: list[str]) -> None:
    """By topic, state, DAG and DAG run."""
    put_run(home_store, published=True)
    put_run(home_store, "plan-2", "payments", at_ms=NOW_MS - 1, holder=None, state=RunState.VOID)
    assert [row["plan_id"] for row in viewer.json("api/runs", **asked)["runs"]] == plans


def test_run_shows_its_receipt_by_partition_and_its_verdicts(viewer: Visitor, home_store: Store) -> None:
    """Partitions in their order; whether each balances; estimates where there were any; every numeric figure."""
    put(home_store)
    put_run(home_store, published=True)
    put_verdict(home_store)
    found = viewer.json("api/runs/plan-1")
    parts, verdicts = found.pop("receipt_partitions"), found.pop("verdicts")
    assert found == RUN_ROW | {
        "data_docs": "validations/winnow/a%20run/page.html",
        "finished_at_ms": NOW_MS,
        "table": {"name": "winnow.orders", "location": "s3://lake/winnow/orders"},
    }
    assert verdicts == [VERDICT]
    assert [part["partition"] for part in parts] == [0, 1]
    assert parts[1] == {
        "partition": 1,
        "reason": None,
        "first_dirty_offset": "0",
        "next_first_dirty_offset": str(BIG),
        "records_in": 100,
        "records_kept": 40,
        "records_superseded": 57,
        "tombstones_expired": 1,
        "records_keyless": 2,
        "records_retired": 5,
        "balanced": True,
        "bytes_in": 4_096,
        "bytes_out": 1_024,
        "bytes_retired": 11,
        "expected_records_kept": None,
        "expected_bytes_out": None,
        "seconds": 1.5,
        **{name: 0 for name, value in extract_figures(NO_FIGURES).items() if name not in TOTALS and value == 0},
    }
    assert (parts[0]["reason"], parts[0]["expected_bytes_out"], parts[0]["seconds"]) == ("dirty_ratio", 60, None)


def test_receipt_that_does_not_add_up_says_so(viewer: Visitor, home_store: Store) -> None:
    """In is not kept, superseded, expired and keyless."""
    from tests.page.sample_rows import receipt

    put_run(home_store)
    home_store.projection.record_publication(receipt(kept=41), {}, [], NOW_MS)
    assert [part["balanced"] for part in viewer.json("api/runs/plan-1")["receipt_partitions"]] == [True, False]


def test_run_that_published_nothing_has_its_verdict_alone(viewer: Visitor, home_store: Store) -> None:
    """Its evidence is the verdict's page."""
    put_run(home_store, state=RunState.INVALID)
    put_verdict(home_store)
    found = viewer.json("api/runs/plan-1")
    assert (found["status"], found["totals"], found["receipt_partitions"], found["finished_at_ms"]) == (
        *("invalid", None, [], None),
    )
    assert (found["data_docs"], found["table"]) == ("validations/winnow/a%20run/verdict.html", None)


def test_verdicts_of_a_topic_are_paged(viewer: Visitor, home_store: Store) -> None:
    """The newest first."""
    put_verdict(home_store)
    put_verdict(home_store, "plan-0", at_ms=NOW_MS - 1)
    found = viewer.json("api/topics/orders/verdicts", size=1)
    assert found == {"total": 2, "page": 1, "size": 1, "verdicts": [VERDICT]}


def test_quality_has_a_day_for_every_day(viewer: Visitor, home_store: Store) -> None:
    """Today is the last; what failed comes with its days."""
    put_verdict(home_store)
    found = viewer.json("api/quality", days=2)
    today = NOW_MS // DAY_MS * DAY_MS
    assert found == {
        "now_ms": NOW_MS,
        "days": 2,
        "series": [
            {"day_ms": today - DAY_MS, "verdicts": 0, "failed": 0, "broken": 0},
            {"day_ms": today, "verdicts": 1, "failed": 1, "broken": 0},
        ],
        "expectations": [
            {"expectation": "keys_are_unique", "failures": 1, "topics": 1, "last_ms": NOW_MS, "by_day": [0, 1]}
        ],
    }
    assert len(viewer.json("api/quality")["series"]) == 30


def test_uncleanable_partitions_and_alerts_are_listed(viewer: Visitor, home_store: Store) -> None:
    """Over all topics."""
    put_marks(home_store, "orders", uncleanable=(1,), count=2)
    home_store.alerts.remember("x", NOW_MS, kind="uncleanable_partition", topic="orders", partition=1, message="It is.")
    page = {"total": 1, "page": 1, "size": 50}
    assert viewer.json("api/quality/uncleanable", search="ord") == page | {
        "partitions": [
            {
                "topic": "orders",
                "partition": 1,
                "reason": "keys twice",
                "since_ms": NOW_MS - HOUR_MS,
                "attempts": 3,
                "next_attempt_ms": NOW_MS + HOUR_MS,
                "plan_id": "plan-u",
            }
        ]
    }
    assert viewer.json("api/quality/uncleanable", search="pay")["total"] == 0
    assert viewer.json("api/quality/alerts") == page | {
        "alerts": [
            {
                "kind": "uncleanable_partition",
                "topic": "orders",
                "partition": 1,
                "since_ms": NOW_MS,
                "message": "It is.",
            }
        ]
    }


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("api/topics/nothing", "winnow assess nothing"),
        ("api/topics/nothing/partitions", "winnow assess nothing"),
        ("api/runs/nothing", "no run of plan nothing"),
        ("data-docs/nothing.html", "no such page"),
    ],
)
def test_what_is_not_there_is_told_in_a_sentence(viewer: Visitor, path: str, sentence: str) -> None:
    """404, and what to do."""
    answer = viewer.get(path)
    assert answer.status_code == 404
    assert sentence in answer.json()["detail"]


def test_store_that_is_out_of_reach_is_told_in_a_sentence(viewer: Visitor, read_from: ReadFrom, tmp_path: Path) -> None:
    """503 on every route that reads it; none of them shows a password."""
    with Store.open(f"sqlite:///{tmp_path / 'gone.db'}") as gone:
        with gone._database.writing() as session:
            session.execute(text("ALTER TABLE winnow_topic_overview RENAME TO moved"))
        read_from(gone)
        answer = viewer.get("api/topics")
    assert answer.status_code == 503
    assert "The metadata store sqlite" in answer.json()["detail"]


def test_store_that_cannot_be_opened_is_tried_again_by_the_next_request(
    viewer: Visitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """503 until the database is there, then 200; it is opened once."""
    from winnow_airflow.page import dependencies
    from winnow_airflow.page.app import app

    monkeypatch.delitem(app.dependency_overrides, dependencies.open_shown_installation)
    monkeypatch.setattr(dependencies, "_opened", [])
    monkeypatch.setenv("WINNOW_STORE_URL", "postgresql://winnow:hunter2@127.0.0.1:1/winnow?connect_timeout=1")
    answer = viewer.get("api/topics")
    assert answer.status_code == 503
    assert "cannot be reached" in answer.json()["detail"]
    assert "hunter2" not in answer.text
    monkeypatch.setenv("WINNOW_STORE_URL", f"sqlite:///{tmp_path / 'there.db'}")
    assert viewer.json("api/topics")["total"] == 0
    first = dependencies.open_shown_installation()
    assert dependencies.open_shown_installation() is first
    first.store.close()


def test_settings_that_are_not_valid_are_told_in_a_sentence(viewer: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """500, which no caller can mend; they keep the page from its store, and nothing else of Airflow from working."""
    from winnow_airflow.page import dependencies
    from winnow_airflow.page.app import app

    monkeypatch.delitem(app.dependency_overrides, dependencies.open_shown_installation)
    monkeypatch.setattr(dependencies, "_opened", [])
    monkeypatch.setenv("WINNOW_STORE_URL", "mysql://hunter2@127.0.0.1/winnow")
    answer = viewer.get("api/topics")
    assert answer.status_code == 500
    assert "no driver for mysql" in answer.json()["detail"]
    assert "hunter2" not in answer.text
