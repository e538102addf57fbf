"""The page in a real Airflow, in this process: its login, an administrator and a viewer, and stores to read from."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.support.airflow_environment import SETTINGS
from tests.support.store_fixtures import new_store_url, postgresql_server, store, store_url
from winnow.config.settings import load_settings
from winnow.embedded.airflow_home import migrate
from winnow.embedded.airflow_users import add_user, format_users, locate_password_file
from winnow.store import Store

__all__ = ["new_store_url", "postgresql_server", "store", "store_url"]

USERS = {"viewer": "viewer", "demoted": "admin", "removed": "admin", "renewed": "admin"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Airflow reads `.airflowignore` with a class that pathspec deprecates."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"))


@dataclass(frozen=True)
class Visitor:
    """Somebody at the page; ``token`` None: nobody logged in."""

    client: TestClient
    token: str | None

    def ask(self, path: str, parameters: Mapping[str, str | int], *, html: bool = False) -> Any:
        """GET a path below /winnow/, with the token as scripts send it."""
        headers = {"Accept": "text/html" if html else "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return self.client.get(f"/winnow/{path}", headers=headers, params={**parameters}, follow_redirects=False)

    def post(self, path: str, body: Any = None, *, headers: Mapping[str, str]) -> Any:
        """POST a document to a path below /winnow/."""
        login = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return self.client.post(f"/winnow/{path}", headers={**login, **headers}, json=body)

    def get(self, path: str, **parameters: str | int) -> Any:
        """What a script is answered."""
        return self.ask(path, parameters)

    def browse(self, path: str) -> Any:
        """What a browser is answered."""
        return self.ask(path, {}, html=True)

    def json(self, path: str, **parameters: str | int) -> Any:
        """The document at a path that is there."""
        answer = self.ask(path, parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="session")
def airflow_client() -> Iterator[TestClient]:
    """Airflow's whole api-server, without a socket."""
    migrate(SETTINGS)
    before = os.environ.get("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS")
    for name, role in USERS.items():
        add_user(SETTINGS, name, role)
    os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] = format_users(SETTINGS)
    from airflow.api_fastapi.app import create_app, purge_cached_app

    app = create_app()
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with TestClient(app, base_url="http://127.0.0.1:8080", raise_server_exceptions=False) as client:
        yield client
    purge_cached_app()
    if before is not None:
        os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] = before


def log_in(client: TestClient, name: str) -> Visitor:
    passwords = json.loads(locate_password_file(SETTINGS).read_text())
    answer = client.post("/auth/token", json={"username": name, "password": passwords[name]})
    assert answer.status_code == 201, answer.text
    return Visitor(client, answer.json()["access_token"])


@pytest.fixture(scope="session")
def admin_login(airflow_client: TestClient) -> Visitor:
    """Somebody who may trigger DAGs."""
    return log_in(airflow_client, "admin")


@pytest.fixture(scope="session")
def viewer_login(airflow_client: TestClient) -> Visitor:
    """Somebody who may only look."""
    return log_in(airflow_client, "viewer")


ReadFrom = Callable[[Store], None]


@pytest.fixture
def read_from(airflow_client: TestClient, tmp_path: Path) -> Iterator[ReadFrom]:
    """Makes the page read from a store of the test's; its Data Docs rest in the test's home."""
    from winnow_airflow.page.app import app
    from winnow_airflow.page.dependencies import ShownInstallation, open_shown_installation

    settings = load_settings(env={"WINNOW_HOME": str(tmp_path / "winnow-home"), "PATH": os.environ["PATH"]})

    def read(opened: Store) -> None:
        app.dependency_overrides[open_shown_installation] = lambda: ShownInstallation(settings, opened)

    yield read
    app.dependency_overrides.clear()


WithOwners = Callable[[dict[str, str]], None]


@pytest.fixture
def with_owners(read_from: ReadFrom, monkeypatch: pytest.MonkeyPatch) -> WithOwners:
    """Gives the page that reads from a store the setting ``owners``."""
    from winnow_airflow.page.app import app
    from winnow_airflow.page.dependencies import ShownInstallation, open_shown_installation

    def change(owners: dict[str, str]) -> None:
        lake = app.dependency_overrides[open_shown_installation]()
        lake = ShownInstallation(lake.settings.model_copy(update={"owners": owners}), lake.store)
        monkeypatch.setitem(app.dependency_overrides, open_shown_installation, lambda: lake)

    return change


@pytest.fixture
def home_store(tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite."""
    with Store.open(f"sqlite:///{tmp_path / 'page.db'}") as opened:
        yield opened


@pytest.fixture
def viewer(viewer_login: Visitor, read_from: ReadFrom, home_store: Store) -> Visitor:
    """A viewer at a page that reads from ``home_store``."""
    read_from(home_store)
    return viewer_login


@pytest.fixture
def admin(admin_login: Visitor, read_from: ReadFrom, home_store: Store) -> Visitor:
    """An administrator at a page that reads from ``home_store``."""
    read_from(home_store)
    return admin_login


@pytest.fixture
def nobody(airflow_client: TestClient, read_from: ReadFrom, home_store: Store) -> Visitor:
    """Somebody without a login."""
    read_from(home_store)
    airflow_client.cookies.clear()
    return Visitor(airflow_client, None)


@pytest.fixture(scope="module", autouse=True)
def no_reader_left(airflow_client: TestClient) -> Iterator[None]:
    """The process that waits for the next question about a log ends with the module whose questions began it."""
    yield
    from winnow_airflow.page.reader_process import readers

    airflow_client.portal.call(readers.close)  # type: ignore[union-attr]
