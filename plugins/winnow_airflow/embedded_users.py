"""The auth manager of the embedded Airflow: its simple one, whose sessions end with what they were given for.

Airflow's simple auth manager believes a token for as long as it is signed, a day: who was removed or has another role
keeps every right until then. Here each request looks up the user in the files of :mod:`winnow.embedded.airflow_users`,
so that a change holds from the next request on, in an Airflow that runs, too. Airflow signs the tokens of running tasks
with the same key; it stays, and so they and the other users are not disturbed.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.configuration import conf
from jwt import ExpiredSignatureError

from winnow.embedded.airflow_users import KnownUser, find_user, list_users

SESSION_CLAIM = "session"


class _User(SimpleAuthManagerUser):
    """A user that is also read as a dictionary, which Airflow before 3.2 does."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class EmbeddedAuthManager(SimpleAuthManager):
    """Lets in who is among the users at present, with the role at present, and a session begun under both."""

    @staticmethod
    def get_users() -> list[SimpleAuthManagerUser]:
        """Return the users at present: for one who was removed, Airflow must make no password at its next start."""
        return [_User(username=name, role=role) for name, role in list_users(_find_home()).items()]

    def serialize_user(self, user: SimpleAuthManagerUser) -> dict[str, Any]:
        """Make the claims of a token; they tell role and password apart without showing either."""
        claims: dict[str, Any] = super().serialize_user(user)
        known = find_user(_find_home(), user.username)
        return claims if known is None else {**claims, SESSION_CLAIM: self._sign(known)}

    def deserialize_user(self, token: dict[str, Any]) -> SimpleAuthManagerUser:
        """Return the user of a token.

        Raises:
            ExpiredSignatureError: the user was removed, or has another role or password since. Airflow answers 401,
                which leads a browser to the login.
        """
        if conf.getboolean("core", "simple_auth_manager_all_admins"):
            return super().deserialize_user(token)
        known = find_user(_find_home(), str(token["sub"]))
        if known is None or not hmac.compare_digest(str(token.get(SESSION_CLAIM, "")), self._sign(known)):
            raise ExpiredSignatureError("The user was removed, or has another role or password since.")
        return super().deserialize_user({**token, "role": known.role})

    @cached_property
    def _key(self) -> bytes:
        return conf.get_mandatory_value("api_auth", "jwt_secret").encode()

    def _sign(self, known: KnownUser) -> str:
        text = "\0".join((known.name, known.role, known.password))
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def _find_home() -> Path:
    return Path(SimpleAuthManager.get_generated_password_file()).parent
