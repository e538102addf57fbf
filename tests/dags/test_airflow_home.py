"""The home of the embedded Airflow."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.embedded_airflow import find_free_port
from winnow.config.settings import Settings, load_settings
from winnow.embedded import airflow_components, airflow_scheduler
from winnow.embedded.airflow_components import Components, run_components
from winnow.embedded.airflow_env import make_airflow_environment, read_ui_port
from winnow.embedded.airflow_home import OpenAirflow, format_environment
from winnow.embedded.airflow_users import (
    add_user,
    locate_password_file,
    read_or_create_login_password,
    remove_user,
    renew_password,
)
from winnow.embedded.processes import Guardian, stop_processes
from winnow.errors import ConfigurationError, ServiceError, UsageError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(env={"WINNOW_HOME": str(tmp_path / "home"), "WINNOW_SPARK__MASTER": "spark://host:7077"})


def test_secrets_are_generated_once_and_only_their_owner_reads_them(settings: Settings) -> None:
    """Files of mode 0600 in a folder of mode 0700, the same at the next start, the signing key of 64 bytes."""
    make_airflow_environment(settings, os.environ)
    home = settings.airflow_home
    names = ("fernet.key", "jwt.secret", "api.secret")
    before = {name: (home / name).read_text() for name in names}
    make_airflow_environment(settings, os.environ)
    assert {name: (home / name).read_text() for name in names} == before
    assert len(set(before.values())) == 3
    assert {stat.S_IMODE((home / name).stat().st_mode) for name in names} == {0o600}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert len(before["jwt.secret"]) == 88


def test_the_environment_holds_no_secret(settings: Settings) -> None:
    """It names the commands that read them; whoever lists processes or prints the environment sees none."""
    login_password_before = set(os.environ.values())
    environment = make_airflow_environment(settings, os.environ)
    secrets = [(settings.airflow_home / name).read_text() for name in ("fernet.key", "jwt.secret", "api.secret")]
    secrets.append(read_or_create_login_password(settings))
    new = "\n".join(value for value in environment.values() if value not in login_password_before)
    assert [secret for secret in secrets if secret in new] == []


def test_no_task_is_started_before_the_api_server_answers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task asks it first, and would fail its first try."""
    steps: list[str] = []
    answers = iter([False, False, True])

    def answer(components: Components) -> bool:
        steps.append("asked")
        return next(answers)

    monkeypatch.setattr(airflow_components, "open_airflow", lambda *_: nullcontext(OpenAirflow({}, None)))
    monkeypatch.setattr(airflow_components, "start_guardian", lambda *_: nullcontext(None))
    monkeypatch.setattr(Components, "start", lambda _, name: steps.append(name))
    monkeypatch.setattr(Components, "is_answering", answer)
    monkeypatch.setattr(Components, "is_healthy", lambda _: True)
    with run_components(settings, {**os.environ, "WINNOW_UI_PORT": str(find_free_port())}):
        pass
    assert steps == ["api-server", "dag-processor", "asked", "asked", "asked", "scheduler", "triggerer"]


def test_the_scheduler_has_imported_what_its_tasks_import_before_it_forks_them() -> None:
    """Else each of them would import it anew; a name that nobody has would be left out in silence."""
    airflow_scheduler.preload_modules()
    assert [name for name in (*airflow_scheduler.PRELOADED, "great_expectations") if name not in sys.modules] == []
    assert {"scheduler": airflow_scheduler.__name__} == airflow_components.PROGRAMS


def test_the_login_password_stays_what_it_was(settings: Settings) -> None:
    """Airflow finds it in its password file."""
    settings.airflow_home.mkdir(parents=True)
    first = read_or_create_login_password(settings)
    assert read_or_create_login_password(settings) == first
    assert len(first) >= 16


def test_airflow_listens_on_the_loopback_interface_only(settings: Settings) -> None:
    """Its default is every interface."""
    environment = make_airflow_environment(settings, {**os.environ, "WINNOW_UI_PORT": "8123"})
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert environment["AIRFLOW__API__PORT"] == "8123"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:8123/execution/"


def test_the_spark_connection_is_that_of_the_settings(settings: Settings) -> None:
    """A connection that does not exist would silently become YARN."""
    environment = make_airflow_environment(settings, os.environ)
    assert json.loads(environment["AIRFLOW_CONN_WINNOW_SPARK"]) == {"conn_type": "spark", "host": "spark://host:7077"}


def test_another_airflow_of_the_machine_is_left_alone(settings: Settings) -> None:
    """A database that the shell names is not migrated; a number of workers that it names is taken."""
    environment = make_airflow_environment(
        settings,
        {
            **os.environ,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://elsewhere/airflow",
            "AIRFLOW__CORE__PARALLELISM": "9",
        },
    )
    database = environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert database.startswith("postgresql+psycopg2://winnow@/airflow?host=/")
    assert "elsewhere" not in database
    assert environment["AIRFLOW__CORE__PARALLELISM"] == "9"


def test_a_taken_port_is_said_before_anything_starts(settings: Settings) -> None:
    """No database is made for an Airflow that cannot listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with (
            pytest.raises(ConfigurationError, match=f"Port {port} .* is taken. Nothing was started"),
            run_components(settings, {**os.environ, "WINNOW_UI_PORT": port}),
        ):
            pytest.fail("it started")
    assert not settings.airflow_home.exists()


def test_stop_ends_every_descendant_of_a_component() -> None:
    """Tasks and Spark form process groups of their own; a signal to the component alone would leave them behind."""
    script = (
        "import subprocess, sys, time; subprocess.Popen(['sleep', '600'], process_group=0); "
        "print('ready', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True) as component:
        assert component.stdout is not None
        assert component.stdout.readline() == b"ready\n"
        stop_processes([component])
        assert component.returncode == -signal.SIGTERM
        # The pipe ends when the last process that holds it has ended.
        assert component.stdout.read() == b""


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "8080 "])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    """Before anything starts."""
    with pytest.raises(ConfigurationError, match="WINNOW_UI_PORT"):
        read_ui_port({"WINNOW_UI_PORT": port})


def test_the_port_is_8080_unless_said_otherwise() -> None:
    """An empty variable says nothing."""
    assert read_ui_port({}) == 8080
    assert read_ui_port({"WINNOW_UI_PORT": ""}) == 8080


def test_environment_lines_are_what_a_shell_needs() -> None:
    """Only what differs, quoted."""
    assert format_environment({"A": "1", "B": "x y"}, {"A": "1"}) == ["export B='x y'"]


def test_the_sqlite_file_of_the_home_is_the_one_other_database_that_the_environment_may_name(
    settings: Settings,
) -> None:
    url = f"sqlite:///{settings.airflow_home}/airflow.db"
    environment = make_airflow_environment(settings, {**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url})
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == url


def test_user_that_is_added_gets_a_password_once_and_keeps_it(settings: Settings) -> None:
    """Changing a role changes no password; files are their owner's alone; admin stays admin."""
    password = add_user(settings, "ann", "viewer")
    assert password is not None
    assert len(password) >= 16
    assert add_user(settings, "ann", "op") is None
    add_user(settings, "bob", "viewer")
    users = make_airflow_environment(settings, os.environ)["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]
    assert set(users.split(",")) == {"admin:admin", "ann:op", "bob:viewer"}
    passwords = json.loads(locate_password_file(settings).read_text())
    assert passwords["ann"] == password
    assert passwords["admin"] == read_or_create_login_password(settings)
    files = (locate_password_file(settings), settings.airflow_home / "users.json")
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_user_that_is_removed_cannot_log_in_and_gets_another_password_later(settings: Settings) -> None:
    """A former colleague's password opens nothing, even when the name is given again."""
    former = add_user(settings, "ann", "admin")
    remove_user(settings, "ann")
    assert "ann" not in json.loads(locate_password_file(settings).read_text())
    assert "ann" not in make_airflow_environment(settings, os.environ)["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]
    assert add_user(settings, "ann", "viewer") not in {None, former}


def test_another_password_is_given_to_who_is_there(settings: Settings) -> None:
    """To admin as well; to nobody else, who would become a user by it."""
    former = add_user(settings, "ann", "viewer")
    renewed = renew_password(settings, "ann")
    assert renewed not in {None, former}
    assert json.loads(locate_password_file(settings).read_text())["ann"] == renewed
    assert renew_password(settings, "admin") == read_or_create_login_password(settings)
    with pytest.raises(UsageError, match=r"There is no user 'bob'\. Nothing was changed"):
        renew_password(settings, "bob")


@pytest.mark.parametrize(
    ("name", "role"), [("a:admin", "viewer"), ("a,b", "viewer"), ("", "op"), ("ann", "root"), ("admin", "viewer")]
)
def test_user_that_would_get_other_rights_is_refused(settings: Settings, name: str, role: str) -> None:
    """Names go into a list of name:role, and admin keeps its rights."""
    with pytest.raises(UsageError, match="Nothing was changed"):
        add_user(settings, name, role)
    assert make_airflow_environment(settings, os.environ)["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == "admin:admin"


def test_user_that_is_not_there_is_not_removed(settings: Settings) -> None:
    """Neither is admin."""
    for name in ("ann", "admin"):
        with pytest.raises(UsageError, match="Nothing was changed"):
            remove_user(settings, name)


class _Fleeting(Components):
    """Components that end as soon as they begin."""

    def start(self, name: str) -> None:
        self.processes[name] = subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=True)


def _supervise_long(components: Components, said: list[str]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        components.supervise(said.append)
        time.sleep(0.005)


def test_component_that_dies_again_and_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five times it is started again, after a delay that doubles; then everything stops, and the log is named."""
    monkeypatch.setattr(airflow_components, "FIRST_DELAY_S", 0.01)
    said: list[str] = []
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as listener:
        guardian = Guardian(listener)
        components = _Fleeting("http://127.0.0.1:1", tmp_path, OpenAirflow({}, None), guardian)
        components.start("scheduler")
        began = time.monotonic()
        with pytest.raises(ServiceError, match=r"started again 5 times .*scheduler\.log"):
            _supervise_long(components, said)
        guardian.finish()
    assert time.monotonic() - began > 0.01 + 0.02 + 0.04 + 0.08 + 0.16
    assert len(said) == 5
    assert all("Airflow's scheduler ended with exit code 3; it is started again" in each for each in said)


def test_component_that_died_long_ago_is_not_held_against_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what happened within ten minutes counts."""
    monkeypatch.setattr(airflow_components, "FIRST_DELAY_S", 0.0)
    monkeypatch.setattr(airflow_components, "RESTART_WINDOW_S", 0)
    said: list[str] = []
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as listener:
        guardian = Guardian(listener)
        components = _Fleeting("http://127.0.0.1:1", tmp_path, OpenAirflow({}, None), guardian)
        components.start("scheduler")
        until = time.monotonic() + 60
        while len(said) < 7 and time.monotonic() < until:
            components.supervise(said.append)
        components.processes["scheduler"].wait()
        guardian.finish()
    assert len(said) == 7
