"""Moto's S3 and STS, which serve only those who may: the admin, and assumed roles within their session policy and time.

Moto checks neither session policies nor when a session ends. So each request is checked before moto sees it: by its
access key, against the role that moto's STS remembers. ``python -m tests.support.guarded_object_store PORT``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from pyarrow import fs

from tests.support.object_store import REGION, ObjectStore, find_free_port, wait_for_store

ADMIN_KEY, ADMIN_SECRET = "AKIAWINNOWADMIN00000", "the-secret-of-the-catalog"
ACCOUNT = "123456789012"

_END_SESSIONS = "/end-sessions"
_STATUS = {"ExpiredToken": "400 Bad Request", "Ended": "200 OK"}
_KEY = re.compile(r"Credential=([^/,]+)/[^/]+/[^/]+/([^/]+)/")

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class GuardedObjectStore(ObjectStore):
    """A store that serves no anonymous client and no own key but the admin's."""

    @property
    def client(self) -> fs.FileSystem:
        """The admin's client."""
        return fs.S3FileSystem(
            endpoint_override=self.endpoint,
            region=REGION,
            access_key=ADMIN_KEY,
            secret_key=ADMIN_SECRET,
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def end_sessions(self) -> None:
        """Have every session that was vended so far end now."""
        request = urllib.request.Request(f"{self.endpoint}{_END_SESSIONS}", method="POST")
        urllib.request.urlopen(request, timeout=30).close()


@contextlib.contextmanager
def start_guarded_store() -> Iterator[GuardedObjectStore]:
    """The store, empty, until the block ends."""
    port = find_free_port()
    command = [sys.executable, "-m", "tests.support.guarded_object_store", str(port)]
    with tempfile.NamedTemporaryFile(prefix="winnow-s3-", suffix=".log") as log:
        store = GuardedObjectStore(f"http://127.0.0.1:{port}", Path(log.name))
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True, cwd=Path(__file__).parents[2]
        )
        try:
            wait_for_store(f"{store.endpoint}/moto-api/data.json", process)
            yield store
        finally:
            process.kill()
            process.wait()


def find_refusal(environ: dict[str, Any]) -> str | None:
    """The error's code if the request is refused; None if it is served."""
    if environ["PATH_INFO"].startswith("/moto-api"):
        return None
    if environ["PATH_INFO"] == _END_SESSIONS:
        _end_sessions()
        return "Ended"
    found = _KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
    if found is None:
        return "AccessDenied"
    if found[1] == ADMIN_KEY:
        return None
    from moto.core.utils import utcnow
    from moto.sts.models import sts_backends

    roles = sts_backends[ACCOUNT]["aws"].assumed_roles
    role = next((each for each in roles if each.access_key_id == found[1]), None)
    if role is None or found[2] != "s3":
        return "InvalidAccessKeyId"
    if environ.get("HTTP_X_AMZ_SECURITY_TOKEN") != role.session_token:
        return "InvalidToken"
    if utcnow() >= role.expiration:
        return "ExpiredToken"
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    asked = key or parse_qs(environ.get("QUERY_STRING", "")).get("prefix", [""])[0]
    return None if is_within(json.loads(role.policy), bucket, asked) else "AccessDenied"


def _end_sessions() -> None:
    from moto.core.utils import utcnow
    from moto.sts.models import sts_backends

    for role in sts_backends[ACCOUNT]["aws"].assumed_roles:
        role.expiration = min(role.expiration, utcnow())


def is_within(policy: dict[str, Any], bucket: str, asked: str) -> bool:
    """Whether the object or the listed prefix ``asked`` is below a folder that ``policy`` names as ``.../*``."""
    folders = [each["Resource"].removeprefix("arn:aws:s3:::").removesuffix("*") for each in policy["Statement"]]
    return any(f"{bucket}/{asked.rstrip('/')}/".startswith(folder) for folder in folders)


def guard(serve: Application) -> Application:
    """``serve`` behind the check."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        code = find_refusal(environ)
        if code is None:
            return serve(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>refused by the test</Message></Error>".encode()
        status = _STATUS.get(code, "403 Forbidden")
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    return application


def main() -> None:
    """Serve on the port that is the only argument, until killed."""
    os.environ["MOTO_ACCOUNT_ID"] = ACCOUNT
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    application = guard(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)


if __name__ == "__main__":
    main()
