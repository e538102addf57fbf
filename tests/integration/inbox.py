"""A webhook on loopback that keeps what is posted to it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
