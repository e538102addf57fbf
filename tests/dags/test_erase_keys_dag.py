"""``erase_keys``: keys of a file below ``erase.roots`` are erased by a run, and stand nowhere but in that file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.dags.conftest import RunDag
from tests.dags.test_change_topics_dag import read_events
from tests.support.dag_topics import build_old_lines, make_topic, read_topic
from winnow.config.settings import Settings
from winnow.errors import BadInputError, ConfigurationError, EraseRefusedError, RunAgainError, UsageError
from winnow.pipeline.erase.certificate import make_certificate
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.topics.leases import hold_lease
from winnow.store.rows import Window
from winnow_airflow import topic_rights
from winnow_airflow.assets import build_erase_event
from winnow_airflow.task_defaults import is_worth_retrying
from winnow_airflow.tasks.erase_steps import EraseParams, erase_keys

KEY = "key-1"


@pytest.fixture
def requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which runs find keys, with a file of one."""
    folder = tmp_path / "requests"
    folder.mkdir()
    (folder / "4711.txt").write_text(f"{KEY}\n")
    monkeypatch.setenv("WINNOW_ERASE__ROOTS", str(folder))
    return folder


@pytest.fixture
def topics(requests: Path, installation: Installation, tmp_path: Path) -> Installation:
    """``orders`` with 20 records of four keys; its installation knows the folder."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(20, 4)])
    return installation


def ask(path: Path | str, **others: Any) -> EraseParams:
    """The Params of one run."""
    wanted: Any = {
        "topic": "orders",
        "keys_from": str(path),
        "reason": "request 4711",
        "with_tombstone": False,
        "break_pins": False,
        "request_id": None,
        **others,
    }
    return wanted  # type: ignore[no-any-return]


def count_commits(installation: Installation) -> int:
    """How often ``orders`` was committed to."""
    return len(installation.log.open("orders").head().table.metadata.metadata_log)


def find_key(folder: Path) -> list[str]:
    """The files below ``folder`` that hold the key."""
    found = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        parts = [path.read_bytes()]
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            parts += [each for each in table.column("key").to_pylist() if each] if "key" in table.column_names else []
        if any(KEY.encode() in part for part in parts):
            found.append(str(path))
    return found


def test_a_run_erases_the_keys_of_a_file_and_tells_readers_and_a_second_one_changes_nothing(
    topics: Installation,
    requests: Path,
    run_dag: RunDag,
    airflow_home: Settings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No byte of the key is in the lake, in what the task returned, in Airflow's rows of the run, or in a log."""
    before = len(read_events(airflow_home))
    for _ in range(2):
        made = run_dag("erase_keys", topic="orders", keys_from=str(requests / "4711.txt"), reason="request 4711")
        assert (made["run", -1], made["erase", -1]) == ("success", "success")
    assert len(read_topic(topics, "orders")) == 15
    (event,) = read_events(airflow_home)[before:]
    assert (event["operation"], event["topic"], event["records_erased"]) == ("erase", "orders", 5)
    (entry,) = topics.store.audit.list_entries(Window(), topic="orders", action="erase").rows
    assert (entry.actor, entry.reason) == ("dag_test", "request 4711")
    assert entry.origin.startswith("airflow:erase_keys:")
    with closing(sqlite3.connect(airflow_home.airflow_home / "airflow.db")) as database:
        travelled = [str(value) for (value,) in database.execute("SELECT value FROM xcom WHERE dag_id = 'erase_keys'")]
        confs = [str(conf) for (conf,) in database.execute("SELECT conf FROM dag_run WHERE dag_id = 'erase_keys'")]
    values = read_rows(airflow_home)
    assert {each["erasure_id"] for each in values} == {event["plan_id"]}
    assert all(
        (each["keys"], each["records"], each["files"], each["deleted"]) == (1, 5, 1, True)
        and set(each) == {"topic", "erasure_id", "request_id", "keys", "records", "files", "deleted", "closed"}
        for each in values
    )
    assert KEY not in f"{travelled}{confs}{event}{entry}{caplog.text}"
    assert find_key(tmp_path / "lake") == []
    certificate = make_certificate(topics, event["plan_id"], verify=True)
    assert certificate.document.by == "dag_test"
    assert certificate.verified is not None
    assert certificate.verified.old_records == 0


@pytest.mark.parametrize("place", ["outside.txt", "requests/../outside.txt", "requests/link.txt", "requests/out/keys"])
def test_a_file_outside_of_the_roots_is_refused_whether_it_is_there_or_not(
    topics: Installation, requests: Path, tmp_path: Path, place: str
) -> None:
    """By name, by .., by a link to a file and by a link to a folder; no retry helps."""
    (tmp_path / "outside.txt").write_text(f"{KEY}\n")
    (requests / "link.txt").symlink_to(tmp_path / "outside.txt")
    (requests / "out").symlink_to(tmp_path)
    made = count_commits(topics)
    with open_installation() as opened, pytest.raises(UsageError, match=r"setting erase\.roots") as refused:
        erase_keys(opened, ask(tmp_path / place))
    assert not is_worth_retrying(refused.value)
    assert count_commits(topics) == made


@pytest.mark.parametrize(
    "path", ["s3://privacy/requests-of-others/1.txt", "requests/4711.txt", "/nowhere", "/proc/1/environ"]
)
def test_other_places_are_refused_too(topics: Installation, path: str) -> None:
    with open_installation() as opened, pytest.raises(UsageError, match="not below a folder"):
        erase_keys(opened, ask(path))


def test_a_link_inside_of_the_roots_is_followed(topics: Installation, requests: Path) -> None:
    (requests / "newest.txt").symlink_to(requests / "4711.txt")
    with open_installation() as opened:
        assert erase_keys(opened, ask(f"file://{requests}/newest.txt")).row["records"] == 5


def test_without_roots_no_file_is_read_and_the_setting_is_named(
    topics: Installation, requests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WINNOW_ERASE__ROOTS")
    with open_installation() as opened, pytest.raises(ConfigurationError, match=r"setting erase\.roots") as refused:
        erase_keys(opened, ask(requests / "4711.txt"))
    assert "WINNOW_ERASE__ROOTS" in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "There is no file"), (f"{KEY}\nhex:{KEY}\n", "line 2"), ("", "has no key")]
)
def test_a_file_that_is_not_there_or_malformed_is_refused_without_its_keys(
    topics: Installation, requests: Path, content: str | None, said: str
) -> None:
    path = requests / "bad.txt"
    if content is not None:
        path.write_text(content)
    made = count_commits(topics)
    with open_installation() as opened, pytest.raises(BadInputError, match=said) as refused:
        erase_keys(opened, ask(path))
    assert KEY not in str(refused.value)
    assert count_commits(topics) == made


def test_a_retry_deletes_what_the_first_try_could_not_and_tells_readers(topics: Installation, requests: Path) -> None:
    """The topic is being compacted when its files should go: the task fails, and its next try ends it."""
    wanted = ask(requests / "4711.txt")
    with (
        open_installation(holder="another") as other,
        hold_lease(other, "orders"),
        open_installation() as opened,
        pytest.raises(RunAgainError, match="not yet from disk: 1 file") as early,
    ):
        erase_keys(opened, wanted)
    assert is_worth_retrying(early.value)
    assert len(read_topic(topics, "orders")) == 15
    made = count_commits(topics)
    with open_installation() as opened:
        done = erase_keys(opened, wanted, is_first_try=False)
        assert done.told is not None
        event = build_erase_event(*done.told)
        assert (event["operation"], event["records_erased"]) == ("erase", 5)
        assert event["snapshot_id"] == str(opened.log.open("orders").head().snapshot_id)
        assert (done.row["records"], done.row["deleted"]) == (5, True)
        assert erase_keys(opened, wanted).told is None
    assert count_commits(topics) > made


def test_tombstones_stay_where_they_are_asked_for(topics: Installation, requests: Path) -> None:
    with open_installation() as opened:
        done = erase_keys(opened, ask(requests / "4711.txt", with_tombstone=True))
    assert done.told is not None
    assert done.told[0].tombstones == 1
    assert (done.row["deleted"], done.row["closed"]) == (True, False)
    assert len(read_topic(topics, "orders")) == 16


def approve(installation: Installation, request_id: str) -> None:
    """What the other person does on the page."""
    found = installation.store.erase_requests.find(request_id)
    assert found is not None
    installation.store.erase_requests.decide(
        request_id, found.plan_sha256, approves=True, by="bert", why="checked", now_ms=installation.now_ms()
    )


def read_rows(airflow_home: Settings) -> list[dict[str, Any]]:
    """What the tasks returned, in the order of the runs."""
    with closing(sqlite3.connect(airflow_home.airflow_home / "airflow.db")) as database:
        query = (
            "SELECT value FROM xcom WHERE dag_id = 'erase_keys' AND task_id = 'erase' AND key = 'return_value' "
            "ORDER BY dag_run_id"
        )
        return [json.loads(value) for (value,) in database.execute(query)]


def test_a_run_only_asks_where_it_takes_two_persons_and_one_with_the_approved_request_erases(
    topics: Installation,
    requests: Path,
    run_dag: RunDag,
    airflow_home: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody downstream is told of a request, and no byte of the key is in anything but the file."""
    monkeypatch.setenv("WINNOW_ERASE__APPROVALS", "2")
    told = len(read_events(airflow_home))
    made = count_commits(topics)
    conf = {"topic": "orders", "keys_from": str(requests / "4711.txt"), "reason": "request 4711"}
    assert run_dag("erase_keys", **conf)["erase", -1] == "success"
    (asked,) = topics.store.erase_requests.list_requests(Window(), topic="orders").rows
    row = read_rows(airflow_home)[-1]
    assert (row["erasure_id"], row["request_id"], row["records"], row["deleted"]) == (None, asked.request_id, 5, False)
    assert asked.requested_by == "dag_test"
    assert count_commits(topics) == made
    assert len(read_events(airflow_home)) == told
    assert run_dag("erase_keys", **conf, request_id=asked.request_id)["erase", -1] == "failed"
    assert count_commits(topics) == made
    approve(topics, asked.request_id)
    assert run_dag("erase_keys", **conf, request_id=asked.request_id)["erase", -1] == "success"
    assert len(read_topic(topics, "orders")) == 15
    (event,) = read_events(airflow_home)[told:]
    assert event["records_erased"] == 5
    (approval,) = make_certificate(topics, event["plan_id"]).document.approvals
    assert (approval.requested_by, approval.approved_by) == ("dag_test", "bert")
    assert run_dag("erase_keys", **conf, request_id=asked.request_id)["erase", -1] == "failed"
    with closing(sqlite3.connect(tmp_path / "lake" / "store.db")) as database:
        dump = "\n".join(database.iterdump())
    assert KEY not in f"{dump}{caplog.text}{read_rows(airflow_home)}"
    assert find_key(tmp_path / "lake") == []


def test_a_file_that_was_changed_since_the_approval_erases_nothing(
    topics: Installation, requests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No retry helps, and the file as it is now is asked for by a person, not by this run."""
    monkeypatch.setenv("WINNOW_ERASE__APPROVALS", "2")
    path = requests / "4711.txt"
    with open_installation(actor="anna") as opened:
        request_id = erase_keys(opened, ask(path)).row["request_id"]
        assert request_id is not None
        approve(opened, request_id)
        path.write_text(f"{KEY}\nkey-2\n")
        made = count_commits(opened)
        with pytest.raises(EraseRefusedError, match="other keys") as refused:
            erase_keys(opened, ask(path, request_id=request_id))
        assert not is_worth_retrying(refused.value)
        assert count_commits(opened) == made
        assert opened.store.erase_requests.list_requests(Window()).total == 1
        path.write_text(f"{KEY}\n")
        assert erase_keys(opened, ask(path, request_id=request_id)).row["records"] == 5


def test_a_retry_of_an_approved_erasure_deletes_what_the_first_try_could_not(
    topics: Installation, requests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The approval was used by the first try; the second one finds its erasure."""
    monkeypatch.setenv("WINNOW_ERASE__APPROVALS", "2")
    with open_installation(actor="anna") as opened:
        request_id = erase_keys(opened, ask(requests / "4711.txt")).row["request_id"]
        assert request_id is not None
        approve(opened, request_id)
        wanted = ask(requests / "4711.txt", request_id=request_id)
        with (
            open_installation(holder="another") as other,
            hold_lease(other, "orders"),
            pytest.raises(RunAgainError, match="not yet from disk"),
        ):
            erase_keys(opened, wanted)
        done = erase_keys(opened, wanted, is_first_try=False)
    assert (done.row["deleted"], done.told is not None) == (True, True)


@pytest.mark.parametrize(("name", "run_type"), [(None, "asset_triggered"), (None, "manual"), ("", "manual")])
def test_a_run_that_nobody_triggered_asks_for_nothing_that_takes_two(name: str | None, run_type: str) -> None:
    """Else whoever approves would be the only person."""
    context = {"dag_run": SimpleNamespace(triggering_user_name=name, run_type=run_type)}
    with pytest.raises(UsageError, match="does not name anybody"):
        topic_rights.require_person(context)
    topic_rights.require_person({"dag_run": SimpleNamespace(triggering_user_name="anna", run_type="manual")})
