"""Who gets in and who may act: every route of the page, in a real Airflow with its own login."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.page.conftest import ReadFrom, Visitor, WithOwners
from tests.page.sample_rows import put, put_run, put_verdict
from winnow.store import Store
from winnow_airflow.page.index_page import STATIC

NAMES = {
    "topic": "orders",
    "plan_id": "plan-1",
    "path": "verdict.html",
    "section": "sweep_stuck",
    "erasure_id": "5f" * 16,
    "request_id": "5f" * 16,
}
"""What stands for the variable parts of a route's path."""


def routes(app: Any, method: str) -> list[str]:
    """The paths of every route of the page with that method, with names filled in for what they are about."""
    paths = []
    for route in app.routes:
        if isinstance(route, APIRoute):
            assert route.methods in ({"GET"}, {"POST"}), route.path
            if method in route.methods:
                paths.append(route.path.replace(":path}", "}").format(**NAMES).lstrip("/"))
        else:
            assert isinstance(route, Mount), route
            assert route.path == "/static", route.path
    return paths


@pytest.fixture
def every_route(airflow_client: TestClient, home_store: Store) -> list[str]:
    """Every route but static files, with something behind each."""
    from winnow_airflow.page.app import app

    put(home_store)
    put_run(home_store, published=True)
    put_verdict(home_store)
    found = routes(app, "GET")
    assert len(found) >= 13
    return found


LOG_QUESTIONS = (
    *("/explain", "/forecast", "/ingests", "/changes"),
    *("/erasures", "/erasures/preview", "/certificate.json", "/certificate.html"),
)
"""Ends of routes that start a process to read the log: two seconds each, and they have tests of their own."""


@pytest.fixture
def store_routes(every_route: list[str]) -> list[str]:
    """The routes that read the store only."""
    return [path for path in every_route if not path.endswith(LOG_QUESTIONS)]


@pytest.fixture
def every_post(airflow_client: TestClient) -> list[str]:
    """Every route that takes what a user sends."""
    from winnow_airflow.page.app import app

    return routes(app, "POST")


def test_every_post_refuses_strangers_other_sites_and_users_without_the_right(
    nobody: Visitor, viewer: Visitor, admin: Visitor, every_post: list[str]
) -> None:
    """401 without a login; 403 for a form of another site with a user's cookie, and for somebody who may only look."""
    own = {"X-Winnow-Page": "1"}
    for path in every_post:
        assert (path, nobody.post(path, headers=own).status_code) == (path, 401)
        for headers in ({}, {**own, "Sec-Fetch-Site": "cross-site"}):
            answer = admin.post(path, headers=headers)
            assert (path, answer.status_code) == (path, 403)
            assert "not sent by Winnow's page" in answer.json()["detail"]
        assert (path, viewer.post(path, headers=own).status_code) == (path, 403)


def test_every_route_but_static_files_refuses_who_is_not_logged_in(nobody: Visitor, every_route: list[str]) -> None:
    """401, with nothing of the lake in the answer; also where the token is no token."""
    for path in every_route:
        answer = nobody.get(path)
        assert (path, answer.status_code) == (path, 401)
        assert answer.json() == {"detail": "Not authenticated"}
        forged = Visitor(nobody.client, "e30.e30.e30").get(path)
        assert (path, forged.status_code in {401, 403}) == (path, True)
        assert "orders" not in forged.text
    assert nobody.get("static/icon.svg").status_code == 200


def test_every_route_answers_a_viewer(viewer: Visitor, store_routes: list[str]) -> None:
    """All that is there is for looking at; the Data Docs were not built."""
    for path in store_routes:
        answer = viewer.get(path)
        assert (path, answer.status_code) == (path, 404 if path.startswith("data-docs") else 200)


def test_cookie_of_the_browser_is_a_login_too(viewer: Visitor, store_routes: list[str]) -> None:
    """The page in its frame has no other."""
    assert viewer.token is not None
    for path in store_routes:
        answer = viewer.client.get(f"/winnow/{path}", headers={"Cookie": f"_token={viewer.token}"})
        assert (path, answer.status_code) != (path, 401)


def test_user_without_the_right_to_see_plugins_is_forbidden(
    viewer: Visitor, every_route: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The auth manager's word counts for every route: 403, and nothing else."""
    from airflow.api_fastapi.app import get_auth_manager

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_view", lambda *_, **__: False)
    for path in every_route:
        answer = viewer.get(path)
        assert (path, answer.status_code, answer.json()) == (path, 403, {"detail": "Forbidden"})


def test_administrator_may_act_and_viewer_may_not(
    admin_login: Visitor, viewer_login: Visitor, read_from: ReadFrom, home_store: Store
) -> None:
    """What the page offers is what Airflow will allow; so says Airflow's own route for new runs."""
    read_from(home_store)
    for who, name, allowed in ((admin_login, "admin", True), (viewer_login, "viewer", False)):
        found = who.json("api/me")
        actions = ("compact", "change", "configure", "sweep", "scrub", "erase", "change_many")
        assert (found["user"], found["can"]) == (name, {**dict.fromkeys(actions, allowed), "read_records": False})
        for dag in ("compact_now", "change_partitions"):
            answer = who.client.post(
                f"/api/v2/dags/{dag}/dagRuns",
                headers={"Authorization": f"Bearer {who.token}"},
                json={"logical_date": None, "conf": {}},
            )
            assert (answer.status_code == 403) is not allowed


def test_page_is_told_which_topics_are_of_owners_whom_the_user_may_not_act_for(
    admin: Visitor, home_store: Store, with_owners: WithOwners
) -> None:
    """Those of owners that the setting names without the user, and no others; whoever may act for all has none."""
    for name, owner in (("orders", "payments"), ("refunds", "payments"), ("clicks", "web"), ("visits", "")):
        put(home_store, name, owner=owner)
    for owners, expected in (
        ({}, {}),
        ({"payments": "ada"}, {"orders": "payments", "refunds": "payments"}),
        ({"payments": "ada, admin", "web": "ada"}, {"clicks": "web"}),
        ({"payments": "ada", "web": "ada", "*": "admin"}, {}),
    ):
        with_owners(owners)
        assert admin.json("api/me")["topics_of_others"] == expected


def test_actions_are_those_of_this_installations_dags(
    admin_login: Visitor, read_from: ReadFrom, home_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights are asked about by the ids with the prefix, which the page is told for its triggers and links."""
    from airflow.api_fastapi.app import get_auth_manager

    from winnow_airflow import dag_ids

    asked: list[str] = []

    def allow_some(manager: object, *, details: Any, **_: object) -> bool:
        asked.append(details.id)
        return bool(details.id == "sales_compact_now")

    monkeypatch.setattr(type(get_auth_manager()), "is_authorized_dag", allow_some)
    monkeypatch.setattr(dag_ids, "get_prefix", lambda: "sales_")
    monkeypatch.setattr("winnow_airflow.page.access.get_prefix", lambda: "sales_")
    read_from(home_store)
    found = admin_login.json("api/me")
    assert found["dag_prefix"] == "sales_"
    assert {name for name, allowed in found["can"].items() if allowed} == {"compact"}
    assert {"sales_compact_now", "sales_change_topics", "sales_sweep_topics"} <= set(asked)
    assert all(each.startswith("sales_") for each in asked)
    refused = admin_login.post(
        "api/configuration/check", {"topic": "orders", "config": {}}, headers={"X-Winnow-Page": "1"}
    )
    assert refused.status_code == 403
    assert "may not trigger sales_change_topics" in refused.json()["detail"]


def test_browser_without_a_login_is_led_through_it(nobody: Visitor) -> None:
    """401, with a link and a script of the page's own; the script takes along what follows the #."""
    answer = nobody.browse("page")
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert 'href="/api/v2/auth/login"' in answer.text
    assert 'src="/winnow/static/login.js"' in answer.text
    assert "next" in nobody.get("static/login.js").text
    back = "http://127.0.0.1:8080/winnow/page#/runs/plan-1"
    there = nobody.client.get("/api/v2/auth/login", params={"next": back}, follow_redirects=False)
    assert there.status_code == 307
    assert there.headers["location"].endswith(f"?next={quote(back, safe='')}")


def test_the_document_names_every_module_so_that_none_is_waited_for_in_turn(viewer: Visitor) -> None:
    """A module that is not preloaded costs one more round trip per level of imports."""
    named = re.findall(r'(?:href|src)="static/(js/[^"]+)"', viewer.get("page").text)
    assert sorted(named) == sorted(str(path.relative_to(STATIC)) for path in (STATIC / "js").rglob("*.js"))


def test_every_answer_carries_the_security_headers(viewer: Visitor, nobody: Visitor, store_routes: list[str]) -> None:
    """Errors too: no inline script, no other frames, no guessing of types, nothing kept."""
    answers = [viewer.get(path) for path in store_routes]
    answers += [nobody.browse("page"), nobody.get("api/topics"), viewer.get("api/nothing"), viewer.get("nothing")]
    answers += [viewer.get("api/topics", size=0), viewer.get("static/js/main.js")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'; " in policy or "default-src 'none'; " in policy
        assert "frame-ancestors 'self'" in policy
        assert "script-src" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        path = answer.request.url.path
        assert answer.headers["cache-control"] == ("no-cache" if "etag" in answer.headers else "no-store"), path


def test_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(viewer: Visitor) -> None:
    """What the policy forbids is not there to be forbidden."""
    text = viewer.browse("page").text
    assert "<script>" not in text
    assert "style=" not in text
    assert "onclick" not in text
    assert "//" not in text.replace("http://www.w3.org", "")
