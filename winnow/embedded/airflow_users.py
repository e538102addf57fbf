"""The users of the embedded Airflow: their roles and passwords, as Airflow's SimpleAuthManager reads them.

The user ``admin`` is always there. Roles of others are in ``users.json``, passwords of all in the password file of
SimpleAuthManager, both below ``WINNOW_HOME/airflow`` with mode 0600. An Airflow that runs looks here at each request
(``winnow_airflow.embedded_users``), so a removal, another role or another password ends the user's sessions at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from winnow.config.settings import Settings
from winnow.errors import UsageError

LOGIN = "admin"
ROLES = ("viewer", "user", "op", "admin")
"""Those of SimpleAuthManager; each may do what those before it may."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


_PASSWORD_FILE = "simple_auth_manager_passwords.json"
_ROLE_FILE = "users.json"


@dataclass(frozen=True, slots=True)
class KnownUser:
    """A user at present."""

    name: str
    role: str
    password: str = field(repr=False)


def locate_password_file(settings: Settings) -> Path:
    """Return the path of the password file, as SimpleAuthManager keeps it."""
    return settings.airflow_home / _PASSWORD_FILE


def read_users(settings: Settings) -> dict[str, str]:
    """Read the role of each user."""
    return list_users(settings.airflow_home)


def list_users(home: Path) -> dict[str, str]:
    """Read the role of each user of the Airflow in ``home``."""
    return {**_read(home / _ROLE_FILE), LOGIN: "admin"}


def find_user(home: Path, name: str) -> KnownUser | None:
    """Find a user of the Airflow in ``home``; None if there is none of that name, or it has no password."""
    role, password = list_users(home).get(name), _read(home / _PASSWORD_FILE).get(name)
    return None if not role or not password else KnownUser(name, role, password)


def format_users(settings: Settings) -> str:
    """Format the users as SimpleAuthManager's setting takes them."""
    return ",".join(f"{name}:{role}" for name, role in read_users(settings).items())


def add_user(settings: Settings, name: str, role: str) -> str | None:
    """Add the user ``name``, or change its role; return its password if it is new.

    A new user can log in from Airflow's next start on. Another role holds at once and ends the user's sessions.

    Raises:
        UsageError: the name or the role is not one, or the name is that of the login ``admin``.
    """
    if not _NAME.fullmatch(name) or name == LOGIN:
        raise UsageError(
            f"A user cannot be called {name!r}.",
            left="Nothing was changed.",
            next=f"Take letters, digits and ._@-, and another name than {LOGIN}, which is there already.",
        )
    if role not in ROLES:
        raise UsageError(
            f"{role!r} is not a role.",
            left="Nothing was changed.",
            next=f"Choose one of: {', '.join(ROLES)}.",
        )
    read_or_create_login_password(settings)
    with _hold_lock(settings):
        passwords = _read(locate_password_file(settings))
        password = None
        # The password first: SimpleAuthManager makes one for a user without, and prints it into its log.
        if name not in passwords:
            password = passwords[name] = secrets.token_urlsafe(12)
            _replace(locate_password_file(settings), passwords)
        _replace(_locate_roles(settings), {**_read(_locate_roles(settings)), name: role})
    return password


def remove_user(settings: Settings, name: str) -> None:
    """Remove the user ``name`` with its password. Holds at once and ends the user's sessions.

    Raises:
        UsageError: there is no such user, or it is the login ``admin``.
    """
    with _hold_lock(settings):
        roles, passwords = _read(_locate_roles(settings)), _read(locate_password_file(settings))
        if name not in roles:
            others = ", ".join(roles) or "none"
            raise UsageError(
                f"No user {name!r} was added here.",
                left="Nothing was changed.",
                next=f"Users besides admin: {others}.",
            )
        _replace(_locate_roles(settings), {other: role for other, role in roles.items() if other != name})
        _replace(locate_password_file(settings), {other: kept for other, kept in passwords.items() if other != name})


def renew_password(settings: Settings, name: str) -> str:
    """Give the user ``name`` another password and return it. Holds at once and ends the user's sessions.

    Raises:
        UsageError: there is no such user.
    """
    read_or_create_login_password(settings)
    with _hold_lock(settings):
        if name not in read_users(settings):
            raise UsageError(
                f"There is no user {name!r}.",
                left="Nothing was changed.",
                next=f"Users: {', '.join(read_users(settings))}.",
            )
        passwords = _read(locate_password_file(settings))
        passwords[name] = secrets.token_urlsafe(12)
        _replace(locate_password_file(settings), passwords)
    return passwords[name]


def read_or_create_login_password(settings: Settings) -> str:
    """Read the password of the login ``admin``; generate it the first time."""
    path = locate_password_file(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(path, json.dumps({LOGIN: secrets.token_urlsafe(12)}))
    return _read(path)[LOGIN]


def write_secret(path: Path, text: str) -> None:
    """Write a secret that only its owner may read; keep an existing one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)


def _locate_roles(settings: Settings) -> Path:
    return settings.airflow_home / _ROLE_FILE


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _replace(path: Path, content: Mapping[str, str]) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent)  # of mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(content) + "\n")
    Path(draft).replace(path)


@contextmanager
def _hold_lock(settings: Settings) -> Iterator[None]:
    settings.airflow_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (settings.airflow_home / "users.lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
