"""The audit log: what people change is in it with who, what and why; and it can never stop a change."""

from __future__ import annotations

import getpass
import logging
import socket
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_runner import make_topic, winnow
from tests.support.world import TOPIC, World, build_versions, define_world
from winnow.pipeline.admin.checkpoints import import_checkpoints
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.topics.audit import record_request
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.pipeline.topics.marks import mark_uncleanable
from winnow.pipeline.topics.partitions import pause_partitions, release_partitions, resume_partitions
from winnow.sources.checkpoint_file import CheckpointEntry
from winnow.store.audit import AuditAction
from winnow.store.rows import AuditEntry, Window

RUN = "airflow:change_topics:manual__1"
SHELL_USER = f"{getpass.getuser()}@{socket.gethostname()}"


world = define_world(2, cleanup_policy="compact,delete")


def in_dag_run(world: World, **more: Any) -> Any:
    """The context of a task of a DAG run that anna triggered, and why."""
    return replace(world.installation, holder=RUN, actor="anna", reason="ticket 7", **more)


def entries(world: World) -> list[AuditEntry]:
    """The audit log, without the topic that every test begins with."""
    rows = world.installation.store.audit.list_entries(Window()).rows
    return [each for each in rows if (each.action, each.topic) != ("create", TOPIC)]


def said(world: World) -> list[tuple[str, str]]:
    """Each action, and what exactly."""
    return sorted((each.action, each.detail) for each in entries(world))


def test_every_change_of_a_topic_is_recorded_once_with_the_user_the_dag_run_and_the_reason(world: World) -> None:
    """Doing it again changes nothing, so nobody did anything."""
    installation = in_dag_run(world)
    ingest_id = world.ingest(build_versions(0, 6)).ingest_id
    assert ingest_id is not None
    for _ in range(2):
        pause_partitions(installation, TOPIC, [1], by="ticket 7")
    for _ in range(2):
        resume_partitions(installation, TOPIC, by="ticket 7")
    mark_uncleanable(installation, TOPIC, "plan-1", {0: "Damaged."})
    for _ in range(2):
        release_partitions(installation, TOPIC, why="ticket 7")
    for _ in range(2):
        undo_ingest(installation, TOPIC, ingest_id)
    world.ingest(build_versions(0, 6))
    alter_topic(installation, TOPIC, {"segment.ms": "1000"}, ["cleanup.policy"], partitions=3)
    alter_topic(installation, TOPIC, {"cleanup.policy": "compact,delete"}, [])
    for _ in range(2):
        import_checkpoints(installation, TOPIC, [CheckpointEntry(TOPIC, 0, 2), CheckpointEntry(TOPIC, 9, 2)])
    for _ in range(2):
        delete_records(installation, TOPIC, {0: 4})
    for _ in range(2):
        delete_topic(installation, TOPIC)
    for _ in range(2):
        restore_topic(installation, TOPIC)
    create_topic(installation, "clicks", 1, {"segment.ms": "1000"})
    by_anna = [each for each in entries(world) if each.action != "ingest"]
    assert {(each.actor, each.origin, each.reason) for each in by_anna} == {("anna", RUN, "ticket 7")}
    assert {each.topic for each in entries(world) if each.action != "create"} == {TOPIC}
    assert {detail.partition(": ")[2] for _, detail in said(world)[7:9]} == {"6 records appended, layout winnow"}
    assert said(world) == [
        ("add_partitions", "3 partitions"),
        ("alter", "cleanup.policy=compact,delete"),
        ("alter", "segment.ms=1000, reset cleanup.policy"),
        ("create", "1 partition, segment.ms=1000"),
        ("delete", said(world)[4][1]),
        ("delete_records", "orders-0 below 4"),
        ("import_checkpoint", "orders-0 clean below 2"),
        *(("ingest", detail) for _, detail in said(world)[7:9]),
        ("pause", "orders-1"),
        ("release", "orders-0"),
        ("restore", ""),
        ("resume", "orders-1"),
        ("undo_ingest", f"{ingest_id}: 6 records left the log"),
    ]


def test_configuration_that_an_ingest_changes_releases_marks_without_an_entry(world: World) -> None:
    """Nobody released anything by hand; the change of the configuration is the entry."""
    mark_uncleanable(world.installation, TOPIC, "plan-1", {0: "Damaged."})
    alter_topic(world.installation, TOPIC, {"segment.ms": "1000"}, [])
    assert world.state(0).uncleanable is None
    assert [each.action for each in entries(world)] == ["alter"]


def test_request_by_hand_is_one_entry_that_names_its_topics(world: World) -> None:
    """A task that is tried again asked for nothing new; somebody at a shell did."""
    installation = in_dag_run(world)
    for _ in range(2):
        record_request(installation, AuditAction.SWEEP, ["orders", "clicks"])
        record_request(installation, AuditAction.SCRUB, [])
        record_request(installation, AuditAction.COMPACT, ["orders"])
    assert sorted((each.action, each.topic, each.detail) for each in entries(world)) == [
        ("compact", "orders", ""),
        ("scrub", "", "all topics"),
        ("sweep", "", "2 topics: orders, clicks"),
    ]
    for _ in range(2):
        record_request(world.installation, AuditAction.SWEEP, ["orders"])
    assert [each.origin for each in entries(world) if each.topic == "orders"].count("shell") == 2


def test_dag_run_that_was_deleted_and_triggered_again_under_its_name_is_recorded_beside_the_first(world: World) -> None:
    """Whoever deletes a DAG run in Airflow and triggers another of its name changes no entry of the first."""
    record_request(in_dag_run(world, began="2026-01-01"), AuditAction.COMPACT, ["orders"])
    again = in_dag_run(world, began="2026-01-02")
    for _ in range(2):
        record_request(again, AuditAction.COMPACT, ["orders"])
    record_request(replace(again, actor="mallory"), AuditAction.COMPACT, ["orders"])
    assert sorted(each.actor for each in entries(world)) == ["anna", "anna", "mallory"]


def test_change_is_done_and_warned_about_if_the_audit_log_cannot_be_written(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit is the truth, and its snapshot names it; the warning says what is missing."""
    with sqlite3.connect(world.folder / "home" / "store.db") as database:
        database.execute("DROP TABLE winnow_audit")
    with caplog.at_level(logging.WARNING, "winnow.audit"):
        pause_partitions(in_dag_run(world), TOPIC, [0], by="ticket 7")
    assert world.state(0).paused_by == ("ticket 7",)
    assert "The audit log did not get this: anna: pause orders." in caplog.text


def test_commands_record_the_user_of_the_shell_and_the_reason_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is logged in to the machine; no option can name somebody else."""
    home = tmp_path / "home"
    monkeypatch.setenv("WINNOW_HOME", str(home))
    make_topic(TOPIC, tmp_path / "records.jsonl")
    for command in (
        ["topics", "alter", TOPIC, "--config", "segment.ms=1000", "--reason", "smaller files"],
        ["partitions", "pause", TOPIC, "--by", "restore-42"],
        ["sweep", TOPIC],
        ["topics", "delete", TOPIC, "--reason", "not needed"],
    ):
        winnow(*command)
    with sqlite3.connect(home / "store.db") as database:
        rows = database.execute("SELECT actor, origin, action, reason FROM winnow_audit ORDER BY at_ms").fetchall()
    assert {(actor, origin) for actor, origin, *_ in rows} == {(SHELL_USER, "shell")}
    assert [(action, reason) for _, _, action, reason in rows] == [
        ("create", ""),
        ("ingest", ""),
        ("alter", "smaller files"),
        ("pause", "restore-42"),
        ("sweep", ""),
        ("delete", "not needed"),
    ]
