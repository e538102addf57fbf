"""Alerts inside Airflow: the task that watches, callbacks of failed tasks, and Airflow's own notifiers as channels."""

from __future__ import annotations

import email
import email.policy
import json
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from airflow.sdk.api.datamodels._generated import DagRunType

from tests.dags.conftest import RunDag
from tests.support.dag_topics import build_old_lines, make_topic
from tests.support.receivers import WebhookInbox, open_inbox
from winnow.engine import staging
from winnow.errors import ConfigurationError, ServiceError
from winnow.files.segments import ARROW_SCHEMA
from winnow.pipeline.compaction.plan import plan_topic
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.report.alert_kinds import AlertKind
from winnow.report.alerts import Alert
from winnow.store import RunState
from winnow.values.results import StagingManifest
from winnow_airflow.notifier import find_situation, find_stuck_sweeps
from winnow_airflow.older_airflow import AirflowFailException
from winnow_airflow.task_context import build_channels, open_run_installation
from winnow_airflow.task_defaults import combine_errors
from winnow_airflow.tasks.monitoring import explain_not_present
from winnow_airflow.xcom_values import PlanRow, build_plan_row

PAGE = "http://127.0.0.1:8080/winnow/page#"
LAG_MS = 3_600_000
SLACK = {
    "class": "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier",
    "arguments": {"slack_webhook_conn_id": "on_call_chat", "text": "{{ alert.text }}"},
}
MAIL = {
    "class": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
    "arguments": {
        "smtp_conn_id": "on_call_mail",
        "to": "on-call@example.org",
        "subject": "{{ alert.kind }}: {{ alert.topic }}",
        "html_content": "<pre>{{ alert.text | e }}</pre><p>{{ dag_run.dag_id }}</p>",
    },
}


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookInbox]:
    """The webhook of the settings."""
    with open_inbox() as inbox:
        monkeypatch.setenv("WINNOW_ALERT__WEBHOOK", inbox.url)
        yield inbox


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookInbox]:
    """What stands for Slack; its address and its token are in an Airflow connection."""
    with open_inbox() as inbox:
        inbox.status = 200
        connection = {"conn_type": "slackwebhook", "host": inbox.url.removesuffix("/alerts"), "password": "T0/B0/X0"}
        monkeypatch.setenv("AIRFLOW_CONN_ON_CALL_CHAT", json.dumps(connection))
        yield inbox


class Mailbox:
    """Messages that a mail server took."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's
        parsed = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(parsed, EmailMessage)
        self.messages.append(parsed)
        return "250 OK"


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    """A real mail server on loopback."""
    box = Mailbox()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # It looks at its own port before it has one, so it cannot choose.
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        connection = {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": port,
            "extra": {"disable_ssl": True, "disable_tls": True, "from_email": "winnow@example.org"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_ON_CALL_MAIL", json.dumps(connection))
        yield box
    finally:
        controller.stop()


def test_every_channel_hears_of_a_missed_deadline_once_and_of_its_end(
    webhook: WebhookInbox,
    chat: WebhookInbox,
    mailbox: Mailbox,
    installation: Installation,
    run_dag: RunDag,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Webhook, Slack and e-mail get the same text with a link to Airflow's page; a second run tells nobody again."""
    monkeypatch.setenv("WINNOW_ALERT__NOTIFIERS", json.dumps([SLACK, MAIL]))
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)], max_compaction_lag_ms=str(LAG_MS))
    pause_partitions(installation, "orders", by="anna")

    first = run_dag("compact_topics")
    assert (first["run", -1], first["watch", -1]) == ("success", "success")
    (alert,) = webhook.take()
    assert (alert["kind"], alert["topic"], alert["partitions"]) == ("deadline_missed", "orders", [0])
    assert alert["link"] == f"{PAGE}/topics/orders"
    assert [message["text"] for message in chat.take()] == [alert["text"]]
    (mail,) = mailbox.messages
    assert (mail["to"], mail["from"]) == ("on-call@example.org", "winnow@example.org")
    assert mail["subject"] == "deadline_missed: orders"
    body = mail.get_body(("html",))
    assert body is not None
    assert f"<pre>{alert['text']}</pre><p>compact_topics</p>" in body.get_content().replace("\r\n", "\n")

    assert run_dag("compact_topics")["watch", -1] == "success"
    assert (webhook.kinds, chat.bodies, len(mailbox.messages)) == ([], [], 1)

    alter_topic(installation, "orders", {}, ["max.compaction.lag.ms"])
    assert run_dag("compact_topics")["run", -1] == "success"
    (recovery,) = webhook.take()
    assert (recovery["kind"], recovery["about"]) == ("recovered", ["deadline_missed"])
    assert [message["text"] for message in chat.take()] == [recovery["text"]]
    assert [message["subject"] for message in mailbox.messages] == ["deadline_missed: orders", "recovered: orders"]


def test_run_that_goes_on_for_too_long_is_told_by_the_watch_beside_it_once_and_its_end_too(
    webhook: WebhookInbox, installation: Installation, run_dag: RunDag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the topic, the run and a link to its page, while it goes on; it ends with the next run of the topic."""
    monkeypatch.setenv("WINNOW_ALERT__RUN_LATE_MS", "1")
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    plan = plan_topic(installation, "orders", as_of_ms=installation.now_ms(), attempt="a1")
    assert plan is not None
    for _ in range(2):
        assert run_dag("watch_topics")["run", -1] == "success"
    (alert,) = webhook.take()
    assert (alert["kind"], alert["topic"], alert["plan_id"]) == ("run_late", "orders", plan.plan_id)
    assert alert["link"] == f"{PAGE}/runs/{plan.plan_id}"
    installation.store.runs.set_state(plan.plan_id, RunState.VOID, installation.now_ms(), attempt="a1")
    run_dag("watch_topics")
    assert [each["about"] for each in webhook.take()] == [["run_late"]]


def test_backfilled_past_alerts_nobody(
    webhook: WebhookInbox, installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """What was late then is no news; the runs of the present watch the present."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)], max_compaction_lag_ms=str(LAG_MS))
    pause_partitions(installation, "orders", by="anna")
    states = run_dag("compact_topics", logical_date=datetime(2023, 11, 15, tzinfo=UTC))
    assert (states["run", -1], states["watch", -1]) == ("success", "skipped")
    assert webhook.kinds == []


@pytest.mark.parametrize(
    ("run_type", "as_of", "watches"),
    [
        ("scheduled", timedelta(hours=9), True),
        ("manual", timedelta(minutes=59), True),
        ("manual", timedelta(minutes=61), False),
        ("backfill", timedelta(days=30), False),
        ("manual", timedelta(minutes=-61), False),
    ],
)
def test_only_runs_that_look_from_the_present_watch(run_type: str, as_of: timedelta, watches: bool) -> None:
    """A scheduled run does however late it begins: when runs queue up, deadlines pass. A simulated one does not."""
    now = datetime(2026, 1, 31, 18, 0, tzinfo=UTC)
    run = SimpleNamespace(run_type=DagRunType(run_type), run_after=now)
    context = {"params": {"simulate": True}, "dag_run": run, "data_interval_end": now - as_of}
    assert (explain_not_present(context, now_ms=round(now.timestamp() * 1000)) is None) == watches


def test_sweep_that_fails_is_alerted_and_its_next_success_recovers(
    webhook: WebhookInbox, installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """Somebody else committed to one of two tables; the callback of the failed task tells of that one."""
    for topic in ("clicks", "orders"):
        make_topic(installation, tmp_path, topic, [build_old_lines(10, 5)])
    table = installation.log.open("orders").head().table
    before = table.current_snapshot()
    assert before is not None
    table.append(ARROW_SCHEMA.empty_table())
    states = run_dag("sweep_topics")
    assert [states["sweep", number] for number in (0, 1)] == ["success", "failed"]
    (alert,) = webhook.take()
    assert (alert["kind"], alert["topic"], alert["partitions"]) == ("sweep_stuck", "orders", None)
    assert alert["message"].startswith("The sweep of topic orders failed: ")
    assert alert["next"].endswith("winnow sweep orders")

    run_dag("sweep_topics")
    assert webhook.kinds == []
    table.refresh().manage_snapshots().set_current_snapshot(snapshot_id=before.snapshot_id).commit()
    assert run_dag("sweep_topics")["run", -1] == "success"
    (recovery,) = webhook.take()
    assert (recovery["kind"], recovery["about"]) == ("recovered", ["sweep_stuck"])


def test_sweep_of_several_topics_tells_of_those_that_failed(installation: Installation) -> None:
    """Each has its own error; where it is not known whose the error is, all are told."""
    share = ["orders", "orders-1", "clicks"]
    wrong, away = ConfigurationError("The policy is wrong."), ServiceError("The store is away.", next="Run it again.")
    found = list(find_stuck_sweeps(installation, share, combine_errors([("orders", wrong), ("clicks", away)])))
    assert [each.topic for each in found] == ["orders", "clicks"]
    assert found[1].explain().what == "The sweep of topic clicks failed: The store is away. Run it again."
    alone = find_stuck_sweeps(installation, share, combine_errors([("orders-1", wrong)]))
    assert [each.topic for each in alone] == ["orders-1"]
    final = AirflowFailException("The policy is wrong.")
    final.__cause__ = combine_errors([("clicks", wrong)])
    assert [each.topic for each in find_stuck_sweeps(installation, share, final)] == ["clicks"]
    assert [each.topic for each in find_stuck_sweeps(installation, share, None)] == share


def planned(installation: Installation, folder: Path) -> PlanRow:
    """A plan of which nothing is staged yet."""
    make_topic(installation, folder, "orders", [build_old_lines(100, 10)])
    plan = plan_topic(installation, "orders", as_of_ms=installation.now_ms(), attempt="a-1")
    assert plan is not None
    return build_plan_row(plan)


def test_a_validation_that_died_is_alerted_by_the_notifier(installation: Installation, tmp_path: Path) -> None:
    """It could not tell anybody itself; the alert quotes no library, since that may quote data."""
    row = planned(installation, tmp_path)
    died = MemoryError("secret")
    assert find_situation(installation, row, "a", "validate", died) is None, (
        "nothing is staged, so nothing was to be judged"
    )
    staging.write_manifest(row["uri"], StagingManifest(row["plan_id"], "orders", "a-1", (), "test", "0"))
    assert find_situation(installation, row, "a", "compact", died) is None, "it is staged, and nobody has judged it yet"
    found = find_situation(installation, row, "a", "validate", died)
    assert found is not None
    assert (found.kind, found.topic) == (AlertKind.VALIDATION_BROKEN, "orders")
    assert "MemoryError" in found.explain().what
    assert "secret" not in str(found.explain())


def test_a_publish_that_was_killed_leaves_an_unknown_commit(installation: Installation, tmp_path: Path) -> None:
    """Whoever killed it did so before or after the commit; nobody knows until the next run looks."""
    row = planned(installation, tmp_path)
    for state in (RunState.STAGED, RunState.VALIDATED, RunState.PUBLISHING):
        assert find_situation(installation, row, "a", "publish", None) is None
        installation.store.runs.set_state(row["plan_id"], state, installation.now_ms(), attempt="a-1")
    found = find_situation(installation, row, "a", "publish", None)
    assert found is not None
    assert (found.kind, found.plan_id) == (AlertKind.COMMIT_UNKNOWN, row["plan_id"])
    assert "it was ended from outside" in found.explain().what


def alert() -> Alert:
    """One whose words would be code to a template."""
    return Alert(
        kind=AlertKind.DEADLINE_MISSED,
        topic="orders",
        partitions=(0,),
        message="paused by {{ conn.on_call_chat.password }}",
        at_ms=2,
        since_ms=1,
        safe="All of it.",
        next="Nothing.",
        link=None,
        plan_id=None,
        severity="critical",
        text="paused by {{ conn.on_call_chat.password }}",
    )


def context() -> dict[str, Any]:
    """As much of a task's context as a channel needs."""
    return {"dag_run": SimpleNamespace(dag_id="compact_topics", run_id="manual"), "params": {}}


def test_what_an_alert_quotes_is_no_template(
    chat: WebhookInbox, installation: Installation, monkeypatch: pytest.MonkeyPatch, airflow_home: object
) -> None:
    """Whoever names a pause like a template reads no connection with it."""
    monkeypatch.setenv("WINNOW_ALERT__NOTIFIERS", json.dumps([SLACK]))
    with open_run_installation(context()) as opened:
        (channel,) = build_channels(opened.settings, context())
        channel.deliver(alert())
    assert [message["text"] for message in chat.alerts] == ["paused by {{ conn.on_call_chat.password }}"]


@pytest.mark.parametrize(
    ("notifier", "told"),
    [
        ({"class": "no.such.Notifier"}, "There is no class no.such.Notifier"),
        ({"class": "airflow.sdk.DAG"}, "airflow.sdk.DAG is not an Airflow notifier"),
        (
            {"class": SLACK["class"], "arguments": {"text": "x", "colour": "red"}},
            "does not take these arguments: text, colour",
        ),
    ],
)
def test_notifier_that_is_none_is_said_and_the_other_channels_are_told(
    webhook: WebhookInbox,
    installation: Installation,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    notifier: dict[str, Any],
    told: str,
) -> None:
    """What it should have said waits for it to be mended."""
    monkeypatch.setenv("WINNOW_ALERT__NOTIFIERS", json.dumps([notifier]))
    with open_run_installation(context()) as opened:
        row = next(iter(opened.alerts.queues[1:]))
        opened.alerts.recover("orders", set(AlertKind), None, "was well all the time")
        opened.store.alerts.remember("validation_failed:orders:0", 1, kind="validation_failed", topic="orders")
        opened.alerts.recover("orders", {AlertKind.VALIDATION_FAILED}, None, "was mended")
        assert webhook.kinds == ["recovered"]
        assert told in caplog.text
        assert opened.store.alerts.claim_delivery(row, time.time_ns(), time.time_ns()) is not None
