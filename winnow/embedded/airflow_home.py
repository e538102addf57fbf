"""Runs the embedded Airflow below ``WINNOW_HOME``: prepares its database, and runs commands in its environment.

    python -m winnow.embedded.airflow_home ui           start Airflow on the loopback interface, until Ctrl-C
    python -m winnow.embedded.airflow_home airflow ...  run Airflow's own command line in it; shorter: winnow airflow
    python -m winnow.embedded.airflow_home users        list, add (with a role), remove who may log in; renew a password
    python -m winnow.embedded.airflow_home migrate      prepare its database and pools; a second call does nothing
    python -m winnow.embedded.airflow_home env          print the environment, for a shell beside a running Airflow:
    eval "$(python -m winnow.embedded.airflow_home env)"
    python -m winnow.embedded.airflow_home check        what winnow doctor asks of Airflow, as JSON

Airflow's metadata are in PostgreSQL below ``WINNOW_HOME/postgres``, which runs while one of these commands needs it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from winnow.config.settings import Settings, load_settings
from winnow.embedded.airflow_env import (
    DATABASE_NAME,
    DATABASE_VARIABLE,
    choose_database,
    locate_postgres,
    make_airflow_environment,
    make_sqlite_url,
)
from winnow.embedded.airflow_users import (
    ROLES,
    add_user,
    read_or_create_login_password,
    read_users,
    remove_user,
    renew_password,
)
from winnow.embedded.bundle import find_bundled_folder
from winnow.embedded.postgres import PostgresServer, use_postgres
from winnow.errors import ConfigurationError, ServiceError, WinnowError

POOLS: dict[str, dict[str, Any]] = {
    "winnow_spark": {"slots": 2, "description": "Spark applications at a time", "include_deferred": False},
    "winnow_commit": {"slots": 4, "description": "Commits to topic logs at a time", "include_deferred": False},
    "winnow_check": {"slots": 2, "description": "Checks of topics at a time", "include_deferred": False},
    "winnow_scrub": {"slots": 1, "description": "Scrubs at a time", "include_deferred": False},
}
"""A task of a missing pool waits for ever without an error, so pools are created before anything starts."""


@dataclass(frozen=True)
class OpenAirflow:
    """The embedded Airflow with its database ready. ``server`` None: it is a SQLite file of the home."""

    environment: dict[str, str]
    server: PostgresServer | None


@contextlib.contextmanager
def open_airflow(settings: Settings, env: Mapping[str, str] | None = None) -> Iterator[OpenAirflow]:
    """Keep Airflow's database running until the block ends, prepared once per Airflow version, with its pools.

    Raises:
        ConfigurationError: Airflow is not installed, or see
            :func:`winnow.embedded.airflow_env.make_airflow_environment`.
        ServiceError: PostgreSQL did not start, or Airflow could not prepare its database; the message names the log.
    """
    version = _read_airflow_version()
    environment = make_airflow_environment(settings, os.environ if env is None else env)
    if environment[DATABASE_VARIABLE] == make_sqlite_url(settings):
        found = (settings.airflow_home / "airflow.db").is_file()
        _prepare(settings, environment, version, "airflow.db" if found else None)
        yield OpenAirflow(environment, None)
        return
    with use_postgres(locate_postgres(settings)) as server:
        number = server.create_database(DATABASE_NAME)
        _prepare(settings, environment, version, f"{server.read_system_identifier()}/{number}")
        yield OpenAirflow(environment, server)


def migrate(settings: Settings, env: Mapping[str, str] | None = None) -> None:
    """Prepare database and pools of the embedded Airflow. Raises as :func:`open_airflow`."""
    with open_airflow(settings, env):
        pass


def _prepare(settings: Settings, environment: Mapping[str, str], version: str, database: str | None) -> None:
    home = settings.airflow_home
    stamp = home / "prepared.json"
    wanted = {"airflow": version, "pools": POOLS, "database": database}
    read_or_create_login_password(settings)
    if database is not None and _read_stamp(stamp) == wanted:
        return
    pools = home / "pools.json"
    pools.write_text(json.dumps(POOLS), encoding="utf-8")
    _prepare_with(environment, settings, "db", "migrate")
    _prepare_with(environment, settings, "pools", "import", str(pools))
    stamp.write_text(json.dumps({**wanted, "database": database or "airflow.db"}, sort_keys=True), encoding="utf-8")


def _read_stamp(stamp: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _read_airflow_version() -> str:
    try:
        return metadata.version("apache-airflow-core")
    except metadata.PackageNotFoundError as problem:
        raise ConfigurationError(
            "Airflow is not installed.",
            left="Nothing was started.",
            next="Install 'winnow-log[airflow,embedded]'.",
        ) from problem


def _prepare_with(environment: Mapping[str, str], settings: Settings, *arguments: str) -> None:
    log = settings.airflow_home / "prepare.log"
    with log.open("ab") as stream:
        ended = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments], env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    if ended.returncode:
        raise ServiceError(
            f"'airflow {' '.join(arguments)}' ended with exit code {ended.returncode}; the embedded Airflow in "
            f"{settings.airflow_home} is not ready and nothing was started.",
            next=f"The end of its output is in {log}.",
        )


def is_embedded(settings: Settings, env: Mapping[str, str]) -> bool:
    """Check whether ``env`` names no Airflow but the embedded one."""
    home = str(settings.airflow_home)
    own = {None, make_sqlite_url(settings), choose_database(settings, {})}
    return env.get("AIRFLOW_HOME", home) == home and env.get(DATABASE_VARIABLE) in own


def run_airflow(settings: Settings, env: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Run Airflow's command line in the Airflow that ``env`` names, else in the embedded one; return its exit code.

    Raises:
        ConfigurationError: as :func:`open_airflow`.
        ServiceError: as :func:`open_airflow`.
    """
    command = [sys.executable, "-m", "airflow", *arguments]
    if not is_embedded(settings, env):
        _read_airflow_version()
        return _run_in_foreground(command, env)
    with open_airflow(settings, env) as airflow:
        return _run_in_foreground(command, airflow.environment)


def _run_in_foreground(command: Sequence[str], env: Mapping[str, str]) -> int:
    with subprocess.Popen(command, env=env) as process:
        while True:
            # Ctrl-C reaches the command too, which decides when it ends.
            with contextlib.suppress(KeyboardInterrupt):
                return process.wait()


def format_environment(environment: Mapping[str, str], base: Mapping[str, str]) -> list[str]:
    """Format the variables that ``environment`` adds to ``base`` as lines for a shell."""
    return [
        f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items()) if base.get(name) != value
    ]


def check_health(settings: Settings, env: Mapping[str, str]) -> int:
    """Print what ``winnow_airflow.health`` finds in the Airflow that ``env`` names, else in the embedded one.

    Returns its exit code. An embedded Airflow that is not prepared yet stays so.
    """
    if not is_embedded(settings, env):
        return _run_checks(env)
    home = settings.airflow_home
    if not (home / "prepared.json").is_file():
        detail = f"Airflow {_read_airflow_version()} is installed; its home {home} is prepared by its first start."
        finding = {"check": "airflow", "status": "ok", "detail": detail, "fix": "", "exit_code": 0}
        print_message(json.dumps([finding]))
        return 0
    environment = make_airflow_environment(settings, env)
    if environment[DATABASE_VARIABLE] == make_sqlite_url(settings):
        return _run_checks(environment, "--embedded")
    with use_postgres(locate_postgres(settings)) as server:
        server.create_database(DATABASE_NAME)
        return _run_checks(environment, "--embedded")


def _run_checks(environment: Mapping[str, str], *options: str) -> int:
    paths = [str(find_bundled_folder("plugins")), *filter(None, [environment.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "winnow_airflow.health", *options],
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
    ).returncode


def print_message(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _print_notice(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = _build_parser().parse_args(arguments)
    try:
        return _run_command(load_settings(), options)
    except WinnowError as problem:
        _print_notice(str(problem))
        return problem.exit_code


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m winnow.embedded.airflow_home",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("ui", "migrate", "env", "check"):
        commands.add_parser(name)
    airflow = commands.add_parser("airflow", add_help=False, prefix_chars="\0")
    airflow.add_argument("arguments", nargs=argparse.REMAINDER)
    users = commands.add_parser("users").add_subparsers(dest="action")
    users.add_parser("list")
    add = users.add_parser("add")
    add.add_argument("name")
    add.add_argument("--role", choices=ROLES, default="viewer")
    users.add_parser("remove").add_argument("name")
    users.add_parser("password").add_argument("name")
    return parser


def _run_command(settings: Settings, options: argparse.Namespace) -> int:
    if options.command == "ui":
        from winnow.embedded.airflow_components import run_ui

        run_ui(settings)
    elif options.command == "airflow":
        separator = options.arguments[:1] == ["--"]
        return run_airflow(settings, os.environ, options.arguments[separator:])
    elif options.command == "users":
        _change_users(settings, options)
    elif options.command == "migrate":
        migrate(settings)
        print_message(f"The embedded Airflow in {settings.airflow_home} is ready.")
    elif options.command == "check":
        return check_health(settings, os.environ)
    else:
        print_message("\n".join(format_environment(make_airflow_environment(settings, os.environ), os.environ)))
    return 0


def _change_users(settings: Settings, options: argparse.Namespace) -> None:
    if options.action == "add":
        print_message(_describe_added(options.name, options.role, add_user(settings, options.name, options.role)))
    elif options.action == "remove":
        remove_user(settings, options.name)
        print_message(f"{options.name} cannot log in any more. {_ENDED}")
    elif options.action == "password":
        print_message(f"{options.name} has the password {renew_password(settings, options.name)} from now on. {_ENDED}")
    else:
        for name, role in read_users(settings).items():
            print_message(f"{name}: {role}")


_ENDED = (
    "Sessions of this user have ended, also in an Airflow that runs. Others stay logged in, and tasks that run go on."
)


def _describe_added(name: str, role: str, password: str | None) -> str:
    if password is not None:
        return f"{name} is a {role} from the next start of Airflow on, and has the password {password}."
    return f"{name} is a {role} from now on and keeps the password. If the role was another one: {_ENDED}"


if __name__ == "__main__":
    sys.exit(main())
