"""Apicurio's registry, by its Confluent-compatible API, in a JVM beside the tests; and one that answers as it is told.

Apicurio comes from Maven Central once per user, as one archive; it keeps what it is given in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import ssl
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker.addresses import find_free_ports
from broker.jars import locate_cache, resolve_jars
from tests.support.waiting import wait_until
from winnow.embedded.java import find_java

VERSION: Final = "3.0.9"
_SHA256: Final = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_ARCHIVE: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:all@tar.gz"
_JVM_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def serve_apicurio(folder: Path) -> Iterator[str]:
    """Serve an empty registry until the block ends; the URL of its Confluent-compatible API."""
    program = _fetch() / f"apicurio-registry-app-{VERSION}-runner.jar"
    port, management_port = find_free_ports()
    java = find_java(os.environ, locate_cache().parent) / "bin" / "java"
    places = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
    places += [f"-Dquarkus.management.port={management_port}"]
    with (folder / "apicurio.log").open("w") as log:
        server = subprocess.Popen(
            [str(java), *_JVM_OPTIONS, *places, "-jar", str(program)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        wait_until(lambda: server.poll() is not None or _answers(f"{url}/subjects"), within_s=180)
        assert server.poll() is None, (folder / "apicurio.log").read_text()[-4000:]
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _fetch() -> Path:
    """The archive, unpacked by whoever comes first, and there whole, by one rename, or not at all."""
    place = locate_cache().parent / "apicurio" / VERSION
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="draft-", dir=place.parent) as draft:
        (archive,) = resolve_jars([_ARCHIVE], "apicurio").iterdir()
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == _SHA256
        with tarfile.open(archive) as tar:
            tar.extractall(Path(draft) / "app", filter="data")
        # Another process may have been as quick.
        with contextlib.suppress(OSError):
            (Path(draft) / "app").rename(place)
    return place


Answer = Callable[[str], tuple[int, bytes]]
"""What is answered to the path of a request: a status and a body."""


@contextmanager
def serve_answers(
    answer: Answer, *, delay_s: float = 0, token: str = "", tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Serve whatever ``answer`` gives: its URL, and the paths of the requests in order.

    ``delay_s``: how long it takes. ``token``: without it in a request, the answer is 401. ``tls``: for https.
    """
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            time.sleep(delay_s)
            status, body = answer(self.path)
            if token and token not in self.headers.get("Authorization", ""):
                status, body = 401, b"no"
            with contextlib.suppress(OSError):  # who asked may have gone
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is Python's
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
