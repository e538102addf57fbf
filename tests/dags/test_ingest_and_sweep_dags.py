"""``ingest_topics``, ``sweep_topics`` and ``scrub_topics`` run whole."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, ParamValidationError

from tests.dags.conftest import RunDag
from tests.support.dag_topics import build_old_lines, read_topic, write_lines
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.errors import BadInputError, DamagedSegmentError, UsageError
from winnow.files import storage
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.topics.definition import create_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.report.alert_kinds import AlertKind
from winnow_airflow.tasks import ingest_steps, scrub_steps
from winnow_airflow.xcom_values import IngestRow

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag


def test_ingest_appends_each_entry_once_however_often_it_runs(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """Two entries are two commits; a second run finds every offset there."""
    for topic in ("orders", "clicks"):
        create_topic(installation, topic, 1, {})
    path = write_lines(tmp_path / "records.jsonl", build_old_lines(20, 5))
    conf = {"topic": "orders", "paths": [path], "files": [{"topic": "clicks", "paths": [path]}]}
    for _ in range(2):
        states = run_dag("ingest_topics", **conf)
        assert states["run", -1] == "success"
        assert [states["ingest", number] for number in (0, 1)] == ["success", "success"]
        assert len(read_topic(installation, "orders")) == len(read_topic(installation, "clicks")) == 20


def test_bad_input_fails_its_entry_alone(installation: Installation, run_dag: RunDag, tmp_path: Path) -> None:
    """A file that is no JSON beside one that is well: nothing of the first lands, all of the second."""
    for topic in ("orders", "clicks"):
        create_topic(installation, topic, 1, {})
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no json\n")
    good = write_lines(tmp_path / "good.jsonl", build_old_lines(20, 5))
    files = [{"topic": "orders", "paths": [str(bad)]}, {"topic": "clicks", "paths": [good]}]
    states = run_dag("ingest_topics", files=files)
    assert states["run", -1] == "failed"
    assert [states["ingest", number] for number in (0, 1)] == ["failed", "success"]
    assert (len(read_topic(installation, "orders")), len(read_topic(installation, "clicks"))) == (0, 20)


def test_many_entries_share_few_tasks_and_a_bad_one_stops_no_other(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """Twenty entries: eight tasks, one of them red; nineteen topics are there, and a second run adds nothing."""
    topics = [f"orders-{number:02d}" for number in range(20)]
    for topic in topics:
        create_topic(installation, topic, 1, {})
    good, bad = write_lines(tmp_path / "good.jsonl", build_old_lines(20, 5)), tmp_path / "bad.jsonl"
    bad.write_text("no json\n")
    files = [{"topic": topic, "paths": [str(bad) if topic == "orders-03" else good]} for topic in topics]
    for _ in range(2):
        states = run_dag("ingest_topics", files=files)
        assert states["run", -1] == "failed"
        assert [states["ingest", number] for number in range(8)] == ["success", "failed", *["success"] * 6]
        assert [len(read_topic(installation, topic)) for topic in topics] == [20] * 3 + [0] + [20] * 16


def test_failure_of_entries_names_them_and_stops_only_their_own_topics(
    installation: Installation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a topic whose first entry fails, the second is not tried: it would make the offsets of the first late."""
    for topic in ("orders", "clicks", "returns"):
        create_topic(installation, topic, 1, {})
    lines = build_old_lines(20, 5)
    early, late = write_lines(tmp_path / "1.jsonl", lines[:10]), write_lines(tmp_path / "2.jsonl", lines[10:])
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no json\n")
    entries = [
        IngestRow(topic="orders", paths=[str(bad)]),
        IngestRow(topic="clicks", paths=[early]),
        IngestRow(topic="orders", paths=[late]),
        IngestRow(topic="missing", paths=[early]),
        IngestRow(topic="clicks", paths=[late]),
        IngestRow(topic="returns", paths=[early]),
    ]
    with caplog.at_level("INFO", "airflow.task"), pytest.raises(BadInputError) as raised:
        ingest_steps.ingest_entries(installation, entries, as_of_ms=read_wall_clock_ms())
    assert [line.split(":")[0] for line in str(raised.value).splitlines()] == ["orders", "missing"]
    assert [len(read_topic(installation, topic)) for topic in ("orders", "clicks", "returns")] == [0, 20, 10]
    assert "clicks: 10 records appended from 1 file" in caplog.text
    assert "orders: an entry was not tried" in caplog.text


def test_run_reads_only_below_the_configured_folders(
    installation: Installation, run_dag: RunDag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that a command at the shell would take is refused to a run, and its content is not quoted."""
    create_topic(installation, "orders", 1, {})
    path = write_lines(tmp_path / "records.jsonl", build_old_lines(20, 5))
    with pytest.raises(UsageError, match="not below a folder that DAG runs may read") as raised:
        ingest_steps.ingest_entries(
            replace(installation, settings=load_settings(env={"WINNOW_HOME": str(tmp_path / "lake")})),
            [IngestRow(topic="orders", paths=[path])],
            as_of_ms=read_wall_clock_ms(),
        )
    assert str(tmp_path / "lake" / "incoming") in str(raised.value)
    monkeypatch.setenv("WINNOW_INGEST__ROOTS", str(tmp_path / "elsewhere"))
    assert run_dag("ingest_topics", topic="orders", paths=[path])["run", -1] == "failed"
    assert read_topic(installation, "orders") == []


@pytest.mark.parametrize(
    "conf",
    [
        {"topic": "../orders"},
        {"files": [{"topic": "orders|clicks", "paths": ["/archive"]}]},
        {"files": [{"topic": "", "paths": ["/archive"]}]},
    ],
)
def test_form_refuses_what_is_no_name_of_a_topic(dagbag: DagBag, conf: dict[str, object]) -> None:
    """Before a run begins, in the Params for one topic and in those for several."""
    params = copy.deepcopy(dagbag.dags["ingest_topics"].params)
    with pytest.raises(ParamValidationError, match="does not match"):
        params.update(conf)


def test_records_of_another_topic_fail_their_entry_unless_a_source_topic_is_picked(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """By the Params for one topic and by an entry of several; without it nothing lands."""
    for topic in ("orders", "clicks"):
        create_topic(installation, topic, 1, {})
    path = write_lines(tmp_path / "dump.jsonl", build_old_lines(20, 5))
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    named = [json.dumps(line | {"topic": name}) for name in ("orders", "clicks") for line in lines]
    Path(path).write_text("\n".join(named))
    mixed = [{"topic": "clicks", "paths": [path]}]
    assert run_dag("ingest_topics", topic="orders", paths=[path], files=mixed)["run", -1] == "failed"
    assert read_topic(installation, "orders") == read_topic(installation, "clicks") == []
    picked = [{"topic": "clicks", "paths": [path], "source_topic": "clicks"}]
    states = run_dag("ingest_topics", topic="orders", paths=[path], source_topic="orders", files=picked)
    assert states["run", -1] == "success"
    assert len(read_topic(installation, "orders")) == len(read_topic(installation, "clicks")) == 20


def test_a_sweep_goes_through_every_topic(installation: Installation, run_dag: RunDag, tmp_path: Path) -> None:
    """One task per topic; what is referenced stays."""
    create_topic(installation, "orders", 1, {})
    path = write_lines(tmp_path / "records.jsonl", build_old_lines(20, 5))
    assert run_dag("ingest_topics", topic="orders", paths=[path])["run", -1] == "success"
    states = run_dag("sweep_topics")
    assert (states["run", -1], states["sweep", 0]) == ("success", "success")
    assert len(read_topic(installation, "orders")) == 20


def test_a_sweep_removes_a_deleted_topic_once_its_grace_has_passed(installation: Installation, run_dag: RunDag) -> None:
    """It is swept with all topics, or by name."""
    for topic in ("orders", "clicks"):
        create_topic(installation, topic, 1, {"winnow.retired.grace.ms": "0" if topic == "orders" else "86400000"})
        delete_topic(installation, topic)
    create_topic(installation, "returns", 1, {})
    assert run_dag("sweep_topics")["run", -1] == "success"
    assert (installation.log.names(), installation.log.list_deleted()) == (["returns"], ["clicks"])
    assert run_dag("sweep_topics", topics=["clicks"])["run", -1] == "success"
    assert (installation.log.names(), installation.log.list_deleted()) == (["returns"], ["clicks"])


def test_a_scrub_reads_every_topic_and_fails_at_damage_with_an_alert(
    installation: Installation, run_dag: RunDag, tmp_path: Path
) -> None:
    """Green while all is sound; red, and told, when a byte of a segment has changed."""
    for topic in ("orders", "clicks"):
        create_topic(installation, topic, 1, {})
        ingest_files(
            installation,
            topic,
            [write_lines(tmp_path / f"{topic}.jsonl", build_old_lines(20, 5))],
            as_of_ms=read_wall_clock_ms(),
        )
    assert run_dag("scrub_topics")["run", -1] == "success"
    for topic in ("orders", "clicks"):
        kinds = sorted(check.kind for check in installation.store.segment_checks.list_checks(topic).values())
        assert kinds == [*["document"] * 4, "segment"], "state and ledger, each with its copy"
    log = installation.log.open("orders")
    path = storage.parse_local_path(log.segments(log.head())[0][0].path)
    path.write_bytes(path.read_bytes()[:-30] + bytes(30))
    states = run_dag("scrub_topics")
    assert (states["scrub", -1], states["run", -1]) == ("failed", "failed")
    assert [row.topic for row in installation.store.alerts.list_open({AlertKind.SEGMENT_DAMAGED})] == ["orders"]


def test_a_scrub_whose_budget_is_used_up_gives_its_slot_back_and_goes_on_the_next_day(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two segments of a megabyte, a megabyte a day: two days, and damage is told when the run is through."""
    monkeypatch.setenv("WINNOW_SCRUB__BYTES_PER_DAY", "1MB")
    now_ms = [read_wall_clock_ms()]
    noise = random.Random(1)
    create_topic(installation, "orders", 1, {})
    for first in (0, 9):
        lines = [replace(line, value=noise.randbytes(105_000).hex()) for line in build_old_lines(9, 9, start=first)]
        ingest_files(installation, "orders", [write_lines(tmp_path / f"{first}.jsonl", lines)], as_of_ms=now_ms[0])
    with open_installation(now_ms=lambda: now_ms[0]) as later:
        log = later.log.open("orders")
        (segment, _) = log.segments(log.head())[0]
        assert 500_000 < segment.size_bytes < 1_000_000
        path = storage.parse_local_path(segment.path)
        path.write_bytes(path.read_bytes()[:-30] + bytes(30))
        started_ms = now_ms[0] - 1
        with pytest.raises(AirflowRescheduleException) as again:
            scrub_steps.scrub_topics(later, ["orders"], started_ms=started_ms)
        assert again.value.reschedule_date.timestamp() * 1000 == pytest.approx(now_ms[0] + 86_400_000, abs=1_000)
        now_ms[0] += 86_400_000
        with pytest.raises(DamagedSegmentError, match="1 damaged or missing"):
            scrub_steps.scrub_topics(later, ["orders"], started_ms=started_ms)
