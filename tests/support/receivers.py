"""Webhook and StatsD servers on loopback that record what they receive."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


class WebhookInbox:
    """What arrived, in order. ``status``: what the server answers; whatever is no success arrives nowhere.

    ``refuses``: a kind of alert that it answers with 413.
    """

    def __init__(self) -> None:
        self.url = ""
        self.status = 204
        self.refuses: str | None = None
        self.bodies: list[bytes] = []
        self.refused = 0

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """Every document."""
        return [json.loads(body) for body in self.bodies]

    @property
    def kinds(self) -> list[str]:
        """Their kinds, in order."""
        return [alert["kind"] for alert in self.alerts]

    def take(self) -> list[dict[str, Any]]:
        """What arrived since the last time."""
        taken = self.alerts
        self.bodies.clear()
        return taken


@contextmanager
def open_inbox() -> Iterator[WebhookInbox]:
    """A real HTTP server for as long as the block runs."""
    inbox = WebhookInbox()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            unwanted = inbox.refuses is not None and json.loads(body).get("kind") == inbox.refuses
            status = 413 if unwanted else inbox.status
            if status < 300:
                inbox.bodies.append(body)
            else:
                inbox.refused += 1
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{inbox.url}/elsewhere")
            self.end_headers()
            self.wfile.write(b"ok" if status == 200 else b"")

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is Python's
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        inbox.url = f"http://127.0.0.1:{server.server_port}/alerts"
        try:
            yield inbox
        finally:
            server.shutdown()
            thread.join()


TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class Posted:
    """An HTTP server's address, and the bodies that were posted to it in the order of their arrival."""

    url: str
    bodies: list[bytes] = field(default_factory=list)


@contextmanager
def open_webhook() -> Iterator[Posted]:
    """An HTTP server that takes every POST."""
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is Python's
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield Posted(f"http://127.0.0.1:{server.server_port}", bodies)
        server.shutdown()
        thread.join()


@dataclass(frozen=True)
class Datagrams:
    """A StatsD server's socket."""

    server: socket.socket

    @property
    def port(self) -> int:
        """Where it listens, on loopback."""
        return int(self.server.getsockname()[1])

    def lines(self) -> dict[str, list[str]]:
        """What has arrived of Winnow's own: per name and tags the values with their kinds, in order.

        Datagrams on loopback are there as soon as they are sent.
        """
        found: dict[str, list[str]] = {}
        self.server.setblocking(False)
        while True:
            try:
                line = self.server.recv(65_536).decode()
            except BlockingIOError:
                return found
            name, _, value = line.rpartition(":")
            if name.startswith("airflow.winnow."):
                found.setdefault(name.removeprefix("airflow.winnow."), []).append(value)


@contextmanager
def open_statsd() -> Iterator[Datagrams]:
    """A StatsD server that keeps what comes until it is asked."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        server.bind(("127.0.0.1", 0))
        yield Datagrams(server)
