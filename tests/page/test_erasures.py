"""Erasures over HTTP: their list and certificates, and what the other person says to a request; no key anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import Visitor, WithOwners
from tests.page.sample_rows import NOW_MS, put
from tests.support import reader_lake
from tests.support.world import FakeClock, open_world
from winnow.clock import DAY_MS, read_wall_clock_ms
from winnow.errors import ServiceError
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.store import Store
from winnow.store.erase_requests import RequestedErasure
from winnow.store.rows import Window

OWN = {"X-Winnow-Page": "1"}
ID = "5f" * 16
SHA256 = "ab" * 32
REQUESTS = "api/topics/orders/erasures/requests"
PLAN = {"request_id": ID, "topic": "orders", "keys": 3, "reason": "request 4711", "requested_by": "anna"}
REQUEST = RequestedErasure(ID, "orders", "uuid-1", "anna", NOW_MS - 9, "cd" * 32, json.dumps(PLAN), SHA256)


@pytest.fixture
def present(airflow_client: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's present stands still."""
    from winnow_airflow.page.app import app

    monkeypatch.setitem(app.dependency_overrides, read_wall_clock_ms, lambda: NOW_MS)


@pytest.fixture
def asked(present: None, home_store: Store) -> Store:
    """Anna asked for an erasure."""
    put(home_store, "orders")
    home_store.erase_requests.open(REQUEST)
    return home_store


def decide(who: Visitor, verb: str, **body: Any) -> Any:
    sent = {"plan_sha256": SHA256, "reason": "checked", **body}
    return who.post(f"{REQUESTS}/{ID}/{verb}", sent, headers=OWN)


def get_state(store: Store) -> tuple[str, str | None]:
    found = store.erase_requests.find(ID)
    assert found is not None
    return found.state.value, found.decided_by


def test_requests_are_listed_with_their_plans_for_everybody_who_sees_the_page(asked: Store, viewer: Visitor) -> None:
    asked.erase_requests.open(replace(REQUEST, request_id="00" * 16, requested_by="viewer@laptop"))
    asked.erase_requests.open(replace(REQUEST, request_id="11" * 16, topic="clicks"))
    found = viewer.json(REQUESTS)
    assert found["total"] == 2
    assert [(each["plan_sha256"], each["state"], each["own"]) for each in found["requests"]] == [
        (SHA256, "pending", True),
        (SHA256, "pending", False),
    ]
    assert found["requests"][1]["keys"] == 3


def test_another_person_approves_and_both_log_and_store_say_who(asked: Store, admin: Visitor) -> None:
    assert decide(admin, "approve").json() == {"state": "approved"}
    assert get_state(asked) == ("approved", "admin")
    assert decide(admin, "approve", reason="twice").json() == {"state": "approved"}
    (entry,) = asked.audit.list_entries(Window(), topic="orders", action="erase_approve").rows
    assert (entry.actor, entry.origin, entry.reason, entry.detail) == ("admin", "page", "checked", ID)


def test_approval_is_taken_back(asked: Store, admin: Visitor) -> None:
    decide(admin, "approve")
    assert decide(admin, "reject", reason="wrong person").json() == {"state": "rejected"}
    assert get_state(asked) == ("rejected", "admin")
    refused = decide(admin, "approve")
    assert refused.status_code == 409
    assert "rejected already" in refused.json()["detail"]


def test_who_asked_may_not_approve_on_the_page(present: None, home_store: Store, admin: Visitor) -> None:
    """The name is that of the login, whatever the request says."""
    for number, name in enumerate(("admin", "admin@laptop")):
        request_id = f"{number}" * 32
        home_store.erase_requests.open(replace(REQUEST, request_id=request_id, requested_by=name))
        body = {"plan_sha256": SHA256, "reason": "checked"}
        answer = admin.post(f"{REQUESTS}/{request_id}/approve", body, headers=OWN)
        assert answer.status_code == 409
        assert "may not approve" in answer.json()["detail"]


def test_viewer_decides_nothing_and_sees_no_preview(asked: Store, viewer: Visitor) -> None:
    """Who may is who may trigger the DAG, as with every action of the page."""
    for verb in ("approve", "reject"):
        answer = decide(viewer, verb)
        assert answer.status_code == 403
        assert "may not trigger erase_keys" in answer.json()["detail"]
    assert viewer.get("api/topics/orders/erasures/preview").status_code == 403
    assert viewer.json("api/me")["can"]["erase"] is False
    assert get_state(asked) == ("pending", None)


def test_nobody_decides_without_a_login_or_from_another_site(asked: Store, nobody: Visitor, admin: Visitor) -> None:
    assert decide(nobody, "approve").status_code == 401
    sent = {"plan_sha256": SHA256, "reason": "checked"}
    assert admin.post(f"{REQUESTS}/{ID}/approve", sent, headers={}).status_code == 403
    foreign = {**OWN, "Sec-Fetch-Site": "cross-site"}
    assert admin.post(f"{REQUESTS}/{ID}/approve", sent, headers=foreign).status_code == 403
    assert get_state(asked) == ("pending", None)


def test_request_of_an_owners_topic_is_left_to_those_who_may_act_for_it(
    present: None, home_store: Store, admin: Visitor, with_owners: WithOwners
) -> None:
    put(home_store, "orders", owner="payments")
    home_store.erase_requests.open(REQUEST)
    with_owners({"payments": "ada"})
    answer = decide(admin, "approve")
    assert answer.status_code == 403
    assert "by the setting owners" in answer.json()["detail"]
    with_owners({"payments": "ada, admin"})
    assert decide(admin, "approve").status_code == 200


def test_what_was_not_seen_is_not_approved(asked: Store, admin: Visitor) -> None:
    """Another plan, a request of another topic, one that is a week old."""
    assert decide(admin, "approve", plan_sha256="0" * 64).status_code == 409
    sent = {"plan_sha256": SHA256, "reason": "checked"}
    elsewhere = admin.post(f"api/topics/clicks/erasures/requests/{ID}/approve", sent, headers=OWN)
    assert elsewhere.status_code == 404
    assert admin.post(f"{REQUESTS}/{'0' * 32}/approve", sent, headers=OWN).status_code == 404
    old = replace(REQUEST, request_id="0" * 32, requested_at_ms=NOW_MS - 7 * DAY_MS - 1)
    asked.erase_requests.open(old)
    answer = admin.post(f"{REQUESTS}/{'0' * 32}/approve", sent, headers=OWN)
    assert answer.status_code == 409
    assert "7 days old" in answer.json()["detail"]
    assert {each["state"] for each in admin.json(REQUESTS)["requests"]} == {"pending", "expired"}


@pytest.mark.parametrize(
    "body", [{"reason": ""}, {"reason": "a\nb"}, {"plan_sha256": "x"}, {"key": "k"}, {"reason": None}]
)
def test_body_that_is_not_valid_is_refused(asked: Store, admin: Visitor, body: dict[str, Any]) -> None:
    assert decide(admin, "approve", **body).status_code == 422


def test_approval_that_the_audit_log_does_not_have_is_not_answered(
    asked: Store, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pressing again writes it."""

    def fail(*_: object) -> None:
        raise ServiceError("The metadata store does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(type(asked.audit), "record", fail)
        assert decide(admin, "approve").status_code == 503
    assert decide(admin, "approve").status_code == 200
    assert asked.audit.list_entries(Window(), action="erase_approve").total == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in which the planted key was erased from ``orders``."""
    made = tmp_path_factory.mktemp("erased")
    reader_lake.build_lake(made)
    with open_world(made, FakeClock(read_wall_clock_ms())) as world:
        wanted = EraseRequest("orders", [reader_lake.PLANTED_KEY.encode()], "request <4711>")
        erase_keys(replace(world.installation, actor="anna"), wanted)
    return made


@pytest.fixture
def lake(
    admin_login: Visitor, viewer_login: Visitor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Visitor, Visitor]]:
    """An administrator and a viewer at a page that shows that lake."""
    from winnow_airflow.page.app import app
    from winnow_airflow.page.dependencies import ShownInstallation, open_shown_installation
    from winnow_airflow.page.reader_process import readers

    viewer_login.client.portal.call(readers.close)  # type: ignore[union-attr]
    with reader_lake.at_lake(folder, {}, monkeypatch) as (settings, store):
        app.dependency_overrides[open_shown_installation] = lambda: ShownInstallation(settings, store)
        yield admin_login, viewer_login
    viewer_login.client.portal.call(readers.close)  # type: ignore[union-attr]
    app.dependency_overrides.clear()


def test_erasures_are_listed_and_certified_without_a_byte_of_the_key(lake: tuple[Visitor, Visitor]) -> None:
    """For a viewer, too: nothing of it is anybody's data. The page to print has its style, and no script may run."""
    admin, viewer = lake
    found = viewer.json("api/topics/orders/erasures")
    assert (found["persons"], found["files_left"], found["has_more"]) == (1, 0, False)
    (erasure,) = found["erasures"]
    assert (erasure["by"], erasure["reason"], erasure["keys_found"], erasure["files_left"]) == (
        "anna",
        "request <4711>",
        1,
        0,
    )
    assert erasure["files"] > 0
    place = f"api/topics/orders/erasures/{erasure['erasure_id']}"
    certificate = viewer.get(f"{place}/certificate.json")
    assert certificate.headers["Content-Disposition"] == (
        f'attachment; filename="winnow-erasure-{erasure["erasure_id"]}.json"'
    )
    assert certificate.json()["records"] == erasure["records"]
    page = viewer.get(f"{place}/certificate.html")
    assert page.headers["Content-Type"].startswith("text/html")
    assert "request &lt;4711&gt;" in page.text
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script" not in policy
    assert "unsafe" not in policy
    preview = admin.json("api/topics/orders/erasures/preview")
    assert preview["persons"] == 1
    everything = f"{found}{certificate.text}{page.text}{preview}"
    assert [word for word in reader_lake.PLANTED if word in everything] == []


def test_certificate_of_another_topic_or_of_none_is_not_found(lake: tuple[Visitor, Visitor]) -> None:
    _, viewer = lake
    (erasure,) = viewer.json("api/topics/orders/erasures")["erasures"]
    for topic, erasure_id in (("clicks", erasure["erasure_id"]), ("orders", "0" * 32)):
        assert viewer.get(f"api/topics/{topic}/erasures/{erasure_id}/certificate.json").status_code == 400
    assert viewer.get("api/topics/orders/erasures/x/certificate.html").status_code == 422
    assert viewer.get("api/topics/orders/erasures", limit=201).status_code == 422
    assert viewer.get("api/topics/nobody/erasures").status_code == 404
