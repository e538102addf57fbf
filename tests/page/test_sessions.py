"""Sessions in the embedded Airflow end with what they were given for, at once, while it runs."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.page.conftest import ReadFrom, Visitor, log_in
from tests.support.airflow_environment import SETTINGS
from winnow.embedded.airflow_users import add_user, remove_user, renew_password
from winnow.store import Store


@pytest.fixture
def shown(airflow_client: TestClient, read_from: ReadFrom, home_store: Store) -> TestClient:
    """The page, with a store to read from, and no cookie of a former test."""
    read_from(home_store)
    airflow_client.cookies.clear()
    return airflow_client


def find_status(visitor: Visitor) -> tuple[int, int]:
    """The statuses of Winnow's page and of Airflow's own API."""
    own = visitor.client.get("/api/v2/dags", headers={"Authorization": f"Bearer {visitor.token}"})
    return visitor.get("api/me").status_code, own.status_code


def test_removed_user_is_let_in_no_more(shown: TestClient, viewer_login: Visitor) -> None:
    """From the next request on, nor again with the token when the name is given again; others stay logged in."""
    session = log_in(shown, "removed")
    assert find_status(session) == (200, 200)
    remove_user(SETTINGS, "removed")
    assert find_status(session) == (401, 401)
    assert shown.post("/auth/token", json={"username": "removed", "password": "any"}).status_code == 401
    add_user(SETTINGS, "removed", "admin")
    assert find_status(session) == (401, 401)
    assert find_status(viewer_login) == (200, 200)
    assert find_status(log_in(shown, "removed")) == (200, 200)


def test_demoted_user_has_the_new_rights_only(shown: TestClient) -> None:
    """The session ends; the next one begins with the new role, also where Airflow was started with the former."""
    session = log_in(shown, "demoted")
    assert session.json("api/me")["can"]["compact"] is True
    add_user(SETTINGS, "demoted", "viewer")
    assert find_status(session) == (401, 401)
    assert log_in(shown, "demoted").json("api/me")["can"]["compact"] is False
    add_user(SETTINGS, "demoted", "admin")


def test_another_password_ends_the_sessions_that_the_former_one_began(shown: TestClient) -> None:
    """Who has stolen a session or the password is out; the same role given again ends none."""
    session = log_in(shown, "renewed")
    add_user(SETTINGS, "renewed", "admin")
    assert find_status(session) == (200, 200)
    password = renew_password(SETTINGS, "renewed")
    assert find_status(session) == (401, 401)
    answer = shown.post("/auth/token", json={"username": "renewed", "password": password})
    assert answer.status_code == 201
