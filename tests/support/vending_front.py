"""What stands before Iceberg's own REST catalog and vends credentials, as Polaris and others do by AWS's STS.

Every request goes through to the catalog. Where a client asks for delegated access, the answer about a table gets a
session of a role, with a policy for the table's folder alone. Clients log in with an id and a secret, and their tokens
expire when a test says so.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]

from tests.support.guarded_object_store import ACCOUNT, ADMIN_KEY, ADMIN_SECRET
from tests.support.object_store import REGION

NAME = "lake-of-the-catalog"
"""The name that the catalog has for the warehouse; it is also the prefix of its addresses."""
LOGIN = "winnow:the-client-s-secret"

_TABLE = re.compile(r"/v1/namespaces/[^/]+/tables(/[^/]+)?")


@dataclass
class VendingFront:
    """How credentials are vended. ``upstream``: the catalog's address; ``store``: the S3 and STS server's.

    ``lifetime``: of what is vended from now on. ``vends``: whether anything is; ``available``: whether it answers.
    ``vended``: every table that credentials were vended for, in order. ``secrets``: all of these.
    """

    upstream: str
    store: str
    uri: str = ""
    lifetime: timedelta = timedelta(hours=1)
    vends: bool = True
    available: bool = True
    vended: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def log_in(self, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """The answer to a client that wants a token."""
        if ":".join((form["client_id"][0], form["client_secret"][0])) != LOGIN:
            return 401, {"error": {"message": "who?", "type": "NotAuthorizedException", "code": 401}}
        token = uuid.uuid4().hex
        self.tokens.add(token)
        return 200, {"access_token": token, "token_type": "bearer", "expires_in": 3600}

    def assume_role(self, location: str) -> dict[str, str]:
        """Properties that open the folder ``location`` for a while, and nothing else."""
        folder = location.removeprefix("s3://")
        policy = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": f"arn:aws:s3:::{folder}/*"}],
        }
        sts = boto3.client(
            "sts",
            endpoint_url=self.store,
            region_name=REGION,
            aws_access_key_id=ADMIN_KEY,
            aws_secret_access_key=ADMIN_SECRET,
            config=Config(parameter_validation=False),  # AWS vends for 15 minutes at least
        )
        given = sts.assume_role(
            RoleArn=f"arn:aws:iam::{ACCOUNT}:role/catalog",
            RoleSessionName="vended",
            Policy=json.dumps(policy),
            DurationSeconds=int(self.lifetime.total_seconds()),
        )["Credentials"]
        self.vended.append(folder.rpartition("/")[2])
        self.secrets += [given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]]
        return {
            "s3.access-key-id": given["AccessKeyId"],
            "s3.secret-access-key": given["SecretAccessKey"],
            "s3.session-token": given["SessionToken"],
            "s3.session-token-expires-at-ms": str(int(given["Expiration"].timestamp() * 1000)),
        }

    def add_credentials(self, document: dict[str, Any]) -> dict[str, Any]:
        """The catalog's answer about a table, with what opens it."""
        location = document["metadata"]["location"]
        config = {"s3.endpoint": self.store, "s3.region": REGION, "s3.path-style-access": "true"}
        given = [{"prefix": f"{location}/", "config": self.assume_role(location)}] if self.vends else []
        # A prefix that fits less well comes first, with what opens nothing.
        wrong = {"s3.access-key-id": "wrong", "s3.secret-access-key": "wrong"}
        worse = [{"prefix": "s3://", "config": wrong}] if self.vends else []
        return {**document, "config": config, "storage-credentials": worse + given}

    def answer(self, method: str, path: str, headers: Message, body: bytes) -> tuple[int, bytes]:
        """The status and the body for one request."""
        place = path.partition("?")[0].replace(f"/v1/{NAME}/", "/v1/", 1)
        if not self.available:
            return _make_error(503, "ServiceUnavailableException")
        if place == "/v1/oauth/tokens":
            status, told = self.log_in(parse_qs(body.decode()))
            return status, json.dumps(told).encode()
        if (headers.get("Authorization") or "").removeprefix("Bearer ") not in self.tokens:
            return _make_error(401, "NotAuthorizedException")
        if place == "/v1/config":
            if parse_qs(path.partition("?")[2]).get("warehouse") != [NAME]:
                return _make_error(404, "NotFoundException")
            return 200, json.dumps({"defaults": {}, "overrides": {"prefix": NAME}}).encode()
        if not path.startswith(f"/v1/{NAME}/"):
            return _make_error(404, "NoSuchEndpoint")
        status, data = self._pass_on(method, path.replace(f"/v1/{NAME}/", "/v1/", 1), body)
        asks = "vended-credentials" in (headers.get("X-Iceberg-Access-Delegation") or "")
        if status == 200 and data and asks and method in {"GET", "POST"} and _TABLE.fullmatch(place):
            document = json.loads(data)
            if "metadata" in document:
                data = json.dumps(self.add_credentials(document)).encode()
        return status, data

    def _pass_on(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(f"{self.upstream}{path}", data=body or None, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read()


def _make_error(status: int, kind: str) -> tuple[int, bytes]:
    return status, json.dumps({"error": {"message": kind, "type": kind, "code": status}}).encode()


@contextmanager
def serve_vending_front(upstream: str, store: str) -> Iterator[VendingFront]:
    """Serve before the catalog at ``upstream`` until the block ends."""
    front = VendingFront(upstream, store)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, data = front.answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: object) -> None:
            """Nothing: tests say what went wrong."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    front.uri = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield front
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
