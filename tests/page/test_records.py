"""Records on the page: who may read them, what the answers hold, and that nothing of them is anywhere else."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.page.conftest import Visitor
from tests.support import reader_lake
from tests.support.reader_lake import OTHERS, PLANTED, PLANTED_HEADER, PLANTED_KEY, PLANTED_VALUE
from winnow.store.rows import Window

OWN = {"X-Winnow-Page": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake, made once: reading changes nothing of it but the audit log."""
    made = tmp_path_factory.mktemp("lake")
    reader_lake.build_lake(made)
    return made


Ask = Callable[..., Any]


@pytest.fixture
def ask(viewer_login: Visitor, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Posts a question about records as the viewer, at a page with the named settings; by default they may read."""
    from winnow_airflow.page.app import app
    from winnow_airflow.page.dependencies import ShownInstallation, open_shown_installation
    from winnow_airflow.page.reader_process import readers

    known: list[Any] = [{}]

    def post(path: str, body: Any, topic: str = "orders", **page: Any) -> Any:
        if known[0] != page:  # a process that waits for its question has the settings of its start
            viewer_login.client.portal.call(readers.close)  # type: ignore[union-attr]
            known[0] = page
        with reader_lake.at_lake(folder, {"record_readers": "viewer", **page}, monkeypatch) as (settings, store):
            app.dependency_overrides[open_shown_installation] = lambda: ShownInstallation(settings, store)
            return viewer_login.post(f"api/topics/{topic}/records{path}", body, headers=OWN)

    yield post
    viewer_login.client.portal.call(readers.close)  # type: ignore[union-attr]
    app.dependency_overrides.clear()


def decode(shown: dict[str, Any]) -> str:
    """The text of a key or value as shown."""
    return base64.b64decode(shown["base64"]).decode()


def test_changes_are_listed_for_a_viewer_and_not_more_than_the_process_takes(ask: Ask, viewer_login: Visitor) -> None:
    """What the undo tab asks: without the right to read records, since it has nothing of them."""
    ask("", {"partition": 0}, record_readers="")
    found = viewer_login.json("api/topics/orders/changes", limit=5)
    (change,) = found["changes"]
    assert (change["kind"], change["undoable"], change["records"]) == ("compaction", True, 2)
    assert found["has_more"] is False
    assert viewer_login.get("api/topics/orders/changes", limit=101).status_code == 422
    assert viewer_login.get("api/topics/nobody/changes").status_code == 404


def test_nobody_may_read_records_by_default(ask: Ask) -> None:
    """403, and what to do; no process is started, so this is quick."""
    for path, body in (
        ("", {"partition": 0}),
        ("/record", {"partition": 0, "offset": "1"}),
        ("/key", {"key": "k"}),
        ("/suite", {"suite": "example_json_values"}),
    ):
        answer = ask(path, body, record_readers="")
        assert answer.status_code == 403
        assert "page.record_readers" in answer.json()["detail"]
        assert "Winnow records" in answer.json()["detail"]


def test_records_are_shown_to_those_who_may_act_for_the_topics_owner(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside both other rights: the owner is the one that the topic's own configuration names."""
    questions: tuple[tuple[str, dict[str, Any]], ...] = (
        ("", {"partition": 0}),
        ("", {}),
        ("/record", {"partition": 0, "offset": "1"}),
        ("/key", {"key": PLANTED_KEY}),
        ("/search", {"key_prefix": PLANTED_KEY}),
        ("/suite", {"suite": "example_json_values"}),
    )
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada, grace")
    for path, body in (*questions, ("/why", {"partition": 0, "offset": "1"})):
        answer = ask(path, body, reader_seconds=31)
        assert answer.status_code not in {200, 500}, path
        assert "orders is owned by payments, for whom viewer may not act" in answer.text
        assert "planted" not in answer.text
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada, viewer")
    assert ask("", {"partition": 0}, reader_seconds=32).status_code == 200
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")
    monkeypatch.setenv("WINNOW_OWNERS__shipping", "viewer")
    assert ask("", {"partition": 0}, reader_seconds=33).status_code != 200


def test_auth_manager_has_a_say_too(ask: Ask, viewer_login: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked about a view of that name; its no counts more than the settings' yes."""
    from airflow.api_fastapi.app import get_auth_manager

    asked: list[str] = []

    def refuse(_: object, *, resource_name: str, **__: object) -> bool:
        asked.append(resource_name)
        return False

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_custom_view", refuse)
    assert ask("", {"partition": 0}).status_code == 403
    assert asked == ["Winnow records"]
    assert viewer_login.json("api/me")["can"]["read_records"] is False


def test_each_look_is_in_the_audit_log_without_the_key(ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who, which topic, partition and offsets; never the key."""
    with reader_lake.at_lake(folder, {}, monkeypatch) as (_, store):
        before = store.audit.list_entries(Window(1, 1)).total
        ask("/key", {"key": PLANTED_KEY})
        ask("", {"partition": 0, "limit": 2, "offset": "10"})
        entries = store.audit.list_entries(Window(1, 10), topic="orders", action="records_read")
        assert store.audit.list_entries(Window(1, 1)).total == before + 2
    details = {each.detail for each in entries.rows}
    removed = "removed ones, by partition and offset: 0:0, 0:1"
    assert f"versions of a key, orders-0: 2 records from offset 2 to {OTHERS}; {removed}" in details
    assert "orders-0: 2 records from offset 10 to 11" in details
    assert {(each.actor, each.origin) for each in entries.rows} == {("viewer", "page")}


def test_a_suite_is_tried_on_present_records_and_tells_counts_and_offsets_alone(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, with an audit entry; a suite that is none is named with those that are."""
    found = ask("/suite", {"suite": "example_json_values"}, reader_seconds=200)
    assert found.status_code == 200, found.text
    assert not any(word in found.text for word in PLANTED)
    trial = found.json()
    assert (trial["suite"], trial["is_in_force"], trial["would_block"]) == ("example_json_values", False, True)
    assert (trial["records"], trial["partitions"], trial["is_whole"]) == (OTHERS + 2, 2, True)
    outcomes = {each["id"]: (each["is_held"], each["records"], each["severity"]) for each in trial["expectations"]}
    assert outcomes["value_is_json"] == (False, OTHERS, "fail")
    assert outcomes["value_is_text"] == (True, 0, "fail")
    large = {"partition": 0, "records": 1, "first_offsets": [str(OTHERS + 2)]}
    assert [each["violations"] for each in trial["expectations"] if each["id"] == "value_size"] == [[large]]
    with reader_lake.at_lake(folder, {}, monkeypatch) as (_, store):
        (entry,) = store.audit.list_entries(Window(1, 1), topic="orders", action="records_read").rows
    assert entry.detail == f"orders: suite example_json_values tried on {OTHERS + 2} records"
    assert "Known suites: " in ask("/suite", {"suite": "../other"}, reader_seconds=200).json()["detail"]
    assert "names no content suite" in ask("/suite", {}, reader_seconds=200).json()["detail"]


def test_newest_records_of_all_partitions_are_audited_by_partition_and_offset(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a place to begin at needs its partition."""
    with reader_lake.at_lake(folder, {}, monkeypatch) as (_, store):
        found = ask("", {"limit": 2, "before_offsets": {"0": "12"}})
        assert [each["offset"] for each in found.json()["records"]] == ["10", "11"]
        (entry,) = store.audit.list_entries(Window(1, 1), topic="orders", action="records_read").rows
    assert entry.detail == "orders: 2 records: 2 of partition 0 from offset 10 to 11"
    assert ask("", {"offset": "3"}).status_code == 422
    assert ask("", {"before_offsets": {"x": "3"}}).status_code == 422


def test_without_an_audit_entry_there_is_no_answer(ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store cannot take the entry: an error, and nothing of the record in it."""
    with reader_lake.at_lake(folder, {}, monkeypatch) as (settings, _):
        engine = create_engine(settings.store_url)
        rename = "ALTER TABLE {} RENAME TO {}"
        try:
            with engine.begin() as connection:
                connection.execute(text(rename.format("winnow_audit", "winnow_audit_away")))
            answer = ask("", {"partition": 0, "limit": 1, "offset": "2"})
        finally:
            with engine.begin() as connection:
                connection.execute(text(rename.format("winnow_audit_away", "winnow_audit")))
            engine.dispose()
    assert answer.status_code >= 500
    assert "records" not in answer.text


def test_planted_bytes_are_found_nowhere_but_in_the_answer(
    ask: Ask, viewer_login: Visitor, folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not in logs of either process, the store with its audit log, addresses, or any other route of the page."""
    caplog.set_level(logging.DEBUG)
    spellings = [
        form for word in PLANTED for form in (word, base64.b64encode(word.encode()).decode(), word.encode().hex())
    ]
    answers = [
        ask("/key", {"key": PLANTED_KEY}),
        ask("", {"partition": 0, "limit": 4}),
        ask("/record", {"partition": 0, "offset": str(OTHERS)}),
        ask("/why", {"partition": 0, "offset": str(OTHERS)}),
        ask("/search", {"key_prefix": PLANTED_KEY, "value_text": PLANTED_VALUE, "header_value": PLANTED_HEADER}),
    ]
    assert decode(answers[1].json()["records"][0]["headers"][0]["value"]) == PLANTED_HEADER
    assert [each["offset"] for each in answers[-1].json()["records"]] == ["2", str(OTHERS)]
    refused = [
        ask("/search", {"key_prefix": PLANTED_KEY, "encoding": "hex"}),
        ask("/search", {"field_value": PLANTED_VALUE}),
        ask("/search", {"value_text": PLANTED_VALUE}, record_readers=""),
        ask("/key", {"key": PLANTED_KEY, "encoding": "hex"}),
        ask("/key", {"key": PLANTED_KEY}, reader_memory_bytes=300_000_000),
        ask("/key", {"key": PLANTED_KEY}, record_readers=""),
    ]
    assert [each.status_code for each in refused] == [400, 400, 403, 400, 400, 403]
    others = [viewer_login.get(path) for path in ("api/topics", "api/topics/orders", "api/topics/orders/partitions")]
    others += [
        viewer_login.get(f"api/topics/orders/{name}") for name in ("explain", "forecast", "ingests", "changes", "runs")
    ]
    addresses = " ".join(str(each.request.url) for each in answers)
    printed = capfd.readouterr()
    places = {
        "logs": caplog.text,
        "output": printed.out + printed.err,
        "addresses": addresses,
        "refusals": " ".join(each.text for each in refused),
        "other routes": " ".join(each.text for each in others),
        **{path.name: path.read_bytes().decode("latin-1") for path in (folder / "home").glob("store.db*")},
    }
    found = [(place, word) for place, content in places.items() for word in spellings if word in content]
    assert found == []


def test_decoded_records_show_what_the_topics_rules_show_and_the_pages_masks_leave(ask: Ask) -> None:
    """No bytes, no headers, no field that is hidden; numbers keep their digits, and an error quotes nothing."""
    place = {"partition": 0, "offset": "0", "decoded": True}
    browsed = ask("", place, "profiles", masked_fields="card")
    answers = [browsed, *(ask(path, place, "profiles", masked_fields="card") for path in ("/record", "/why"))]
    answers.append(ask("/key", {"key": PLANTED_KEY, "decoded": True}, "profiles", masked_fields="card"))
    spellings = [form for word in PLANTED for form in (word, base64.b64encode(word.encode()).decode().rstrip("="))]
    for answer in answers:
        assert answer.status_code == 200
        assert not [form for form in (*spellings, "411111111", "email", "trace") if form in answer.text]
    found = browsed.json()
    assert found["has_formats"] is True
    fine, broken, tombstone = found["records"]
    assert json.loads(decode(fine["decoded"]["value"])) == {"city": "Ulm", "card": "***", "id": 12345678901234567}
    fields = [(field["name"], field["text"]) for field in fine["decoded"]["value"]["fields"]]
    assert fields == [("city", "Ulm"), ("card", "***"), ("id", "12345678901234567")]
    assert (fine["key"], fine["value"], fine["headers"], fine["headers_total"]) == (None, None, [], 1)
    assert broken["decoded"]["value"] is None
    assert broken["decoded"]["error"].startswith("value: It is not JSON")
    assert (tombstone["decoded"]["has_value"], tombstone["decoded"]["error"]) == (False, None)


def test_decoded_form_takes_the_same_right_and_a_format(ask: Ask) -> None:
    """Without either it is refused with what to do."""
    assert ask("", {"partition": 0, "decoded": True}, "profiles", record_readers="").status_code == 403
    answer = ask("", {"partition": 0, "decoded": True})
    assert answer.status_code == 400
    assert "winnow topics alter orders --config winnow.value.format=json" in answer.text
    assert ask("", {"partition": 0}).json()["has_formats"] is False
