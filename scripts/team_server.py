#!/usr/bin/env python
"""Helper commands of docker-compose.yml's services; ``team-server`` in the image."""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import secrets
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

OPEN, PRIVATE = 0o444, 0o600
LOGIN = "admin"
DATABASE_USER = "winnow"
MAXIMUM_ANSWER_SECONDS = 5.0


def write_once(path: Path, text: str, mode: int) -> str:
    """Write ``text`` to the file ``path`` unless it exists; return the file's content.

    The write is atomic: the file is complete or absent, also when this process is killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        os.fchmod(handle, mode)  # regardless of the umask
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    return path.read_text(encoding="utf-8")


def make_secrets(env: Mapping[str, str]) -> None:
    """Create the missing secrets below ``TEAM_SERVER_SECRETS``."""
    folder = Path(env["TEAM_SERVER_SECRETS"])
    password = write_once(folder / "database" / "password", secrets.token_urlsafe(32), OPEN)
    key_id = write_once(folder / "objects" / "access-key-id", f"winnow{secrets.token_hex(7)}", OPEN)
    key = write_once(folder / "objects" / "secret-access-key", secrets.token_urlsafe(32), OPEN)
    profile = f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = {key}\n"
    write_once(folder / "objects" / "credentials", profile, OPEN)
    # Spark's own file of defaults: neither an environment nor an argument has the secret.
    spark = f"spark.authenticate true\nspark.authenticate.secret {secrets.token_urlsafe(32)}\n"
    write_once(folder / "spark" / "spark-defaults.conf", spark, PRIVATE)
    airflow = folder / "airflow"
    # libpq ignores a password file that others can read.
    write_once(airflow / "pgpass", f"*:*:*:{DATABASE_USER}:{password}\n", PRIVATE)
    write_once(airflow / "fernet-key", base64.urlsafe_b64encode(os.urandom(32)).decode(), PRIVATE)
    write_once(airflow / "jwt-secret", base64.b64encode(os.urandom(64)).decode(), PRIVATE)
    write_once(airflow / "api-secret", base64.b64encode(os.urandom(64)).decode(), PRIVATE)
    write_once(airflow / "login.json", json.dumps({LOGIN: secrets.token_urlsafe(12)}), PRIVATE)


def make_databases(env: Mapping[str, str]) -> None:
    """Create the databases of the catalog and the metadata store; Airflow's exists already."""
    import psycopg
    from psycopg import sql

    address = env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg", "", 1)
    wanted = {urlsplit(env[name]).path.strip("/") for name in ("WINNOW_CATALOG__URI", "WINNOW_STORE_URL")}
    with psycopg.connect(address, autocommit=True) as connection:
        there = {str(name) for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()}
        for name in sorted(wanted - there):
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def make_bucket(env: Mapping[str, str]) -> None:
    """Create the bucket of the warehouse."""
    from pyarrow import fs

    store = fs.S3FileSystem(
        endpoint_override=env["AWS_ENDPOINT_URL_S3"], region=env["AWS_REGION"], allow_bucket_creation=True
    )
    store.create_dir(urlsplit(env["WINNOW_WAREHOUSE"]).netloc)


def print_pools(env: Mapping[str, str]) -> None:
    """Print the pools as Airflow imports them."""
    from winnow.embedded.airflow_home import POOLS

    sys.stdout.write(json.dumps(POOLS))


def print_login(env: Mapping[str, str]) -> None:
    """Print what an administrator needs to log in."""
    passwords = json.loads((Path(env["TEAM_SERVER_SECRETS"]) / "airflow" / "login.json").read_text(encoding="utf-8"))
    said = "".join(f"  login: {name}  password: {password}\n" for name, password in passwords.items())
    sys.stdout.write(f"{env['AIRFLOW__API__BASE_URL']}\n{said}")


def check_component(env: Mapping[str, str], component: str) -> None:
    """Check one Airflow component's health by its heartbeats, as Airflow's API reports them."""
    url = urlsplit(env["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"])._replace(path="/api/v2/monitor/health").geturl()
    status = json.loads(fetch_url(url)).get(component.replace("-", "_"), {}).get("status")
    if status != "healthy":
        raise SystemExit(f"{component} is {status}")


def fetch_url(url: str) -> bytes:
    """Return the response of ``url``; raises OSError on failure."""
    with urllib.request.urlopen(url, timeout=MAXIMUM_ANSWER_SECONDS) as stream:
        return bytes(stream.read())


COMMANDS: dict[str, Callable[[Mapping[str, str]], None]] = {
    "secrets": make_secrets,
    "databases": make_databases,
    "bucket": make_bucket,
    "pools": print_pools,
    "login": print_login,
}


def main(arguments: Sequence[str] | None = None, env: Mapping[str, str] = os.environ) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="team-server", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        commands.add_parser(name)
    commands.add_parser("healthy").add_argument("component", choices=("scheduler", "dag-processor", "triggerer"))
    commands.add_parser("answers").add_argument("url")
    chosen = parser.parse_args(arguments)
    if chosen.command == "healthy":
        check_component(env, chosen.component)
    elif chosen.command == "answers":
        fetch_url(chosen.url)
    else:
        COMMANDS[chosen.command](env)
    return 0


if __name__ == "__main__":
    sys.exit(main())
