"""Real receivers on loopback for what tasks send: HTTP bodies, and StatsD's datagrams."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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
