"""The latest state on the page: rows of a typed table by the page's permission and masks, and by the topic's rules."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import Visitor
from tests.support import reader_lake
from tests.support.reader_lake import START_MS
from tests.support.world import FakeClock, open_world, record
from winnow.log.topic_configuration import set_config
from winnow.pipeline.latest.table import update_latest_table
from winnow.store.rows import Window

OWN = {"X-Winnow-Page": "1"}
SECRET = "planted-email-4be1"
ROWS = 130

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topics with a typed table in two files, without one, with one of older rules, and of bytes."""
    made = tmp_path_factory.mktemp("lake")
    with open_world(made, FakeClock(START_MS)) as world:
        config = {"winnow_value_format": "json", "winnow_latest_table": "true", "winnow_owner": "payments"}
        for topic in ("visits", "outdated", "unwritten"):
            world.create(2, topic, winnow_latest_fields="city,card,id", **config)
            world.ingest([_make_visit(number) for number in range(100)], topic=topic)
            if topic != "unwritten":
                update_latest_table(world.installation, topic)
        other = {"city": "Bonn", "card": {"number": "4222222222222222"}, "id": 1}
        odd = [record(ROWS, b"v-broken", b"no json"), record(ROWS + 1, b"v-other", json.dumps(other).encode())]
        world.ingest([*map(_make_visit, range(100, ROWS)), *odd], topic="visits")
        update_latest_table(world.installation, "visits")
        set_config(world.installation.log.open("outdated"), {"winnow.latest.fields": "city,id"}, [])
        world.create(1, "bytes")
    return made


def _make_visit(number: int) -> Any:
    fields = {"city": f"Ulm {number}", "card": "4111111111111111", "id": 2**60 + number, "email": SECRET}
    return record(number, b"v-%d" % number, json.dumps(fields).encode(), START_MS)


@pytest.fixture
def ask(viewer_login: Visitor, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Posts a question about the latest state as the viewer, at a page with the named settings."""
    from winnow_airflow.page.app import app
    from winnow_airflow.page.dependencies import ShownInstallation, open_shown_installation
    from winnow_airflow.page.reader_process import readers

    def post(path: str, body: Any, topic: str = "visits", **page: Any) -> Any:
        viewer_login.client.portal.call(readers.close)  # type: ignore[union-attr]
        with reader_lake.at_lake(folder, {"record_readers": "viewer", **page}, monkeypatch) as (settings, store):
            app.dependency_overrides[open_shown_installation] = lambda: ShownInstallation(settings, store)
            return viewer_login.post(f"api/topics/{topic}/latest{path}", body, headers=OWN)

    yield post
    viewer_login.client.portal.call(readers.close)  # type: ignore[union-attr]
    app.dependency_overrides.clear()


def read_rows(answer: Any) -> list[dict[str, Any]]:
    """The rows of an answer."""
    return [json.loads(base64.b64decode(row["row"]["base64"])) for row in answer.json()["rows"]]


def test_rows_are_shown_page_by_page_as_the_rules_and_the_pages_masks_show_them(ask: Ask) -> None:
    """Across files, each row once; numbers keep their digits, what is hidden or masked is in no answer."""
    first = ask("", {"partition": 0, "start": 70, "limit": 50}, masked_fields="card")
    second = ask("", {"partition": 0, "start": 120, "limit": 50}, masked_fields="card")
    assert (first.status_code, first.json()["total"], first.json()["partitions"]) == (200, ROWS + 2, 2)
    rows = [*read_rows(first), *read_rows(second)]
    assert [row["id"] for row in rows[:-2]] == [2**60 + number for number in range(70, ROWS)]
    assert rows[0] == {"city": "Ulm 70", "card": "***", "id": 2**60 + 70}
    fields = {field["name"]: field["text"] for field in first.json()["rows"][0]["row"]["fields"]}
    assert fields == {"city": "Ulm 70", "card": "***", "id": str(2**60 + 70)}
    assert second.json()["rows"][-2]["error"].startswith("value: It is not JSON")
    # A card of another kind is in a column of another name, and masked all the same.
    assert set(rows[-1].values()) == {"Bonn", "***", 1}
    text = first.text + second.text
    encoded = base64.b64encode(SECRET.encode()).decode().rstrip("=")
    assert not [planted for planted in (SECRET, encoded, "411111", "422222", "no json", "v-7") if planted in text]
    assert ask("", {"partition": 1}).json()["rows"] == []
    assert ask("", {"partition": 2}).status_code == 400


def test_row_of_a_key_is_found_though_the_table_hides_keys(ask: Ask) -> None:
    """By its record in the log; a key that is not there has none."""
    answer = ask("/key", {"key": "v-117"})
    assert (answer.status_code, read_rows(answer)[0]["id"], answer.json()["rows"][0]["offset"]) == (
        200,
        2**60 + 117,
        "117",
    )
    assert read_rows(ask("/key", {"key": "nobody"})) == []
    assert ask("/key", {"key": "zz", "encoding": "hex"}).status_code == 400


def test_topics_without_rows_to_show_say_why(ask: Ask) -> None:
    """Bytes, no table yet, and one that was written before its rules changed: it has a column that is hidden now."""
    for topic, command in (
        ("bytes", "winnow topics alter bytes --config winnow.value.format=json"),
        ("unwritten", "winnow latest-table update unwritten"),
        ("outdated", "winnow latest-table update outdated"),
    ):
        for path, body in (("", {"partition": 0}), ("/key", {"key": "v-1"})):
            answer = ask(path, body, topic)
            assert (answer.status_code, answer.json()["rows"]) == (200, [])
            assert command in answer.json()["problem"]
            assert "Ulm" not in answer.text
    assert ask("", {"partition": 0}, "nothing").status_code == 404


def test_rows_take_the_permission_of_records_and_are_in_the_audit_log(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may by default, nor who may not act for the owner; each look is an entry, without the key."""
    for path, body in (("", {"partition": 0}), ("/key", {"key": "v-1"})):
        refused = ask(path, body, record_readers="")
        assert (refused.status_code, "page.record_readers" in refused.text) == (403, True)
    ask("", {"partition": 0, "start": 5, "limit": 2})
    ask("/key", {"key": "v-117"})
    with reader_lake.at_lake(folder, {}, monkeypatch) as (_, store):
        entries = store.audit.list_entries(Window(1, 2), topic="visits", action="records_read").rows
    assert [entry.detail for entry in entries] == [
        "visits-0: row of a key in the latest state, offset 117",
        "visits-0: 2 rows of the latest state from row 5",
    ]
    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")
    answer = ask("", {"partition": 0})
    assert answer.status_code != 200
    assert "Ulm" not in answer.text
