"""What alerts say: how they name things, how they shorten, and that every kind has all its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from winnow.clock import format_duration
from winnow.report import alert_kinds
from winnow.report.alert_kinds import MAXIMUM_MESSAGE_CHARACTERS, AlertKind, Finding, Situation
from winnow.report.alerts import dump_message, format_partitions, make_alert, make_link, make_recovery
from winnow.report.evidence import format_evidence
from winnow.values.results import OpenAlert

AT_MS = 1_760_000_000_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
FINDING = Finding(0, AT_MS - HOUR_MS, "it happened")

SITUATIONS: dict[AlertKind, Callable[[], Situation]] = {
    AlertKind.VALIDATION_FAILED: lambda: alert_kinds.make_validation_failed(
        "orders",
        "p1",
        [FINDING],
        evidence="/docs.html",
        effect="Once mended: winnow partitions release",
        at_ms=AT_MS,
    ),
    AlertKind.VALIDATION_BROKEN: lambda: alert_kinds.make_validation_broken(
        "orders", "p1", "A check raised.", at_ms=AT_MS
    ),
    AlertKind.UNCLEANABLE_PARTITION: lambda: alert_kinds.make_uncleanable_partition(
        "orders", "p1", [FINDING], effect="Have it tried at once: winnow partitions release orders", at_ms=AT_MS
    ),
    AlertKind.DEADLINE_NEAR: lambda: alert_kinds.make_deadline_near(
        "orders", [FINDING], to_do="Compact it: winnow compact orders", at_ms=AT_MS
    ),
    AlertKind.DEADLINE_MISSED: lambda: alert_kinds.make_deadline_missed(
        "orders", [FINDING], to_do="Compact it: winnow compact orders", at_ms=AT_MS
    ),
    AlertKind.COMMIT_UNKNOWN: lambda: alert_kinds.make_commit_unknown("orders", "p1", "Nobody knows.", at_ms=AT_MS),
    AlertKind.SWEEP_STUCK: lambda: alert_kinds.make_sweep_stuck(
        "orders", AT_MS, "Files lie about.", dag_id="sales_sweep_topics", at_ms=AT_MS
    ),
    AlertKind.RUN_LATE: lambda: alert_kinds.make_run_late(
        "orders", AT_MS - HOUR_MS, work="Run p1", state="it is compacting", plan_id="p1", at_ms=AT_MS
    ),
    AlertKind.ERASURE_UNFINISHED: lambda: alert_kinds.make_erasure_unfinished(
        "orders", AT_MS - HOUR_MS, 3, dag_id="sales_sweep_topics", at_ms=AT_MS
    ),
    AlertKind.SEGMENT_DAMAGED: lambda: alert_kinds.make_segment_damaged("orders", [FINDING], at_ms=AT_MS),
    AlertKind.INGEST_FAILED: lambda: alert_kinds.make_ingest_failed(
        "orders", "It was refused.", dag_id="sales_ingest_topics", at_ms=AT_MS
    ),
    AlertKind.SOURCE_GONE: lambda: alert_kinds.make_source_gone("orders", AT_MS - HOUR_MS, at_ms=AT_MS),
    AlertKind.CONFIGURATION_HELD: lambda: alert_kinds.make_configuration_held(
        "orders", "orders", "retention.ms is 1 day at Kafka (topic)", effect="", at_ms=AT_MS
    ),
    AlertKind.LATEST_LATE: lambda: alert_kinds.make_latest_late(
        "orders", AT_MS - 2 * HOUR_MS, max_age_ms=HOUR_MS, dag_id="sales_compact_topics", at_ms=AT_MS
    ),
    AlertKind.LATEST_REJECTED: lambda: alert_kinds.make_latest_rejected(
        "orders", [FINDING], evidence="a page", to_do="Then: winnow latest-table update orders", at_ms=AT_MS
    ),
    AlertKind.LATEST_SUSPECT: lambda: alert_kinds.make_latest_suspect(
        "orders", [FINDING], evidence="a page", at_ms=AT_MS
    ),
}


def test_every_kind_but_recovery_has_a_situation() -> None:
    assert SITUATIONS.keys() == set(AlertKind) - {AlertKind.RECOVERED}


@pytest.mark.parametrize("kind", SITUATIONS)
def test_text_of_each_kind_has_its_six_parts(kind: AlertKind) -> None:
    """What happened to which topic partition, since when, what is safe, what to do next, and where to look."""
    situation = SITUATIONS[kind]()
    alert = make_alert(situation, situation.open_alerts, "https://airflow.example.org")
    first, what, since, safe, to_do, link = alert.text.splitlines()
    assert first.startswith(f"{kind.severity.upper()}: {kind.value.replace('_', ' ')}: orders")
    assert what == alert.message
    assert what.endswith(".")
    assert not what.endswith("..")
    assert since.startswith("Since: 2025-10-09T0")
    assert safe == f"Safe: {alert.safe}"
    assert to_do == f"Next: {alert.next}"
    assert "winnow " in to_do
    assert link.startswith("https://airflow.example.org/winnow/page#/")
    assert str(situation.explain()) == f"{alert.message} {alert.safe} {alert.next}"


@pytest.mark.parametrize(
    ("kind", "dag_id"),
    [
        (AlertKind.SWEEP_STUCK, "sales_sweep_topics"),
        (AlertKind.ERASURE_UNFINISHED, "sales_sweep_topics"),
        (AlertKind.INGEST_FAILED, "sales_ingest_topics"),
    ],
)
def test_advice_names_the_dag_of_this_installation(kind: AlertKind, dag_id: str) -> None:
    """Another installation in the same Airflow has one without the prefix."""
    assert f" {dag_id} " in SITUATIONS[kind]().summary.next


def test_situation_tells_what_is_fresh_of_it_alone() -> None:
    findings = [Finding(number, AT_MS - number, f"reason {number}") for number in range(20)]
    situation = alert_kinds.make_deadline_missed("orders", findings, to_do="Compact it.", at_ms=AT_MS)
    fresh = [each for each in situation.open_alerts if each.partition in {3, 17}]
    alert = make_alert(situation, fresh, None)
    assert alert.partitions == (3, 17)
    assert alert.since_ms == AT_MS - 17
    assert alert.message.endswith(": orders-3: reason 3; orders-17: reason 17.")


def test_long_lists_and_long_reasons_are_cut_in_text_and_whole_in_the_document() -> None:
    findings = [Finding(number, AT_MS, "x" * 5_000) for number in range(2_000)]
    situation = alert_kinds.make_deadline_missed("orders", findings, to_do="Compact it.", at_ms=AT_MS)
    alert = make_alert(situation, situation.open_alerts, None)
    assert alert.partitions == tuple(range(2_000))
    assert "; and 1,997 more." in alert.message
    assert alert.text.splitlines()[0].endswith(
        ": orders-0, orders-1, orders-2, orders-3, orders-4, orders-5, orders-6, "
        "orders-7, orders-8, orders-9 and 1,990 more"
    )
    assert len(alert.text) < 4 * MAXIMUM_MESSAGE_CHARACTERS


def test_recovery_says_what_ended_after_how_long_and_by_whom() -> None:
    ended = [
        OpenAlert("uncleanable_partition", "orders", 1, AT_MS - 3 * HOUR_MS, released="released by anna"),
        OpenAlert("validation_failed", "orders", 0, AT_MS - DAY_MS - HOUR_MS),
        OpenAlert("validation_failed", "orders", 1, AT_MS - HOUR_MS),
    ]
    alert = make_recovery(
        "orders", ended, "was compacted and published again", at_ms=AT_MS, page_url=None, plan_id="p1"
    )
    assert alert.message == (
        "Recovered: orders-0, orders-1 was compacted and published again. This closes uncleanable_partition after 3 h, "
        "validation_failed after 1 day 1 h. By hand: released by anna."
    )
    assert (alert.about, alert.severity) == ((AlertKind.UNCLEANABLE_PARTITION, AlertKind.VALIDATION_FAILED), "info")
    assert alert.since_ms == AT_MS - DAY_MS - HOUR_MS
    assert alert.link is None
    assert alert.text.splitlines()[0] == alert.message
    assert alert.text.splitlines()[-1] == "Next: There is nothing to do."


def test_links_lead_to_the_run_or_to_the_topic_or_nowhere() -> None:
    assert make_link("http://a/", "orders", "p1") == "http://a/winnow/page#/runs/p1"
    assert make_link("http://a/airflow", "orders", None) == "http://a/airflow/winnow/page#/topics/orders"
    assert make_link(None, "orders", "p1") is None


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-1, "less than a minute"),
        (59_999, "less than a minute"),
        (MINUTE_MS, "1 min"),
        (90 * MINUTE_MS, "1 h 30 min"),
        (DAY_MS, "1 day"),
        (2 * DAY_MS + 59_000, "2 days"),
        (49 * HOUR_MS + 5 * MINUTE_MS, "2 days 1 h"),
        (1_000 * DAY_MS, "1,000 days"),
    ],
)
def test_durations_have_two_units_at_most(ms: int, words: str) -> None:
    assert format_duration(ms) == words


def test_topic_and_partition_are_never_taken_for_another_topic() -> None:
    """orders-1 may be partition 1 of orders, or a topic of that name."""
    about = [("orders", 1), ("orders-1", None), ("orders", None)]
    keys = {OpenAlert("k", topic, partition, 0).key for topic, partition in about}
    assert len(keys) == 3
    assert format_partitions("orders", None) == format_partitions("orders", ()) == "orders"


@pytest.mark.parametrize("kind", SITUATIONS)
def test_no_message_has_a_link_to_a_file_of_one_machine(kind: AlertKind) -> None:
    """Whoever reads a message in a chat cannot open it; the path is there as text."""
    damaged = Finding(0, AT_MS, "segment file:///lake/a.parquet is cut short")
    situation = replace(SITUATIONS[kind](), findings=(damaged,))
    message = dump_message(make_alert(situation, situation.open_alerts, None))
    assert "file://" not in message
    assert "segment /lake/a.parquet is cut short" in message


def test_evidence_is_an_address_in_airflow_where_that_is_known_and_else_a_path() -> None:
    page = "file:///var/winnow%20home/data_docs/site/validations/a%23b.html"
    assert format_evidence(page, "https://airflow.example.org/", "the log") == (
        "https://airflow.example.org/winnow/data-docs/validations/a%23b.html"
    )
    assert format_evidence(page, None, "the log") == "/var/winnow home/data_docs/site/validations/a#b.html"
    assert format_evidence(None, "https://airflow.example.org", "the log") == "the log"
    elsewhere = "file:///tmp/other.html"
    assert format_evidence(elsewhere, "https://airflow.example.org", "the log") == "/tmp/other.html"
