"""S3 server on the loopback interface in a separate process, and the variables that point to it."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pyarrow import fs

START_TIMEOUT_S = 60
REGION = "us-east-1"


@dataclass(frozen=True)
class ObjectStore:
    """A running S3 server. ``endpoint``: its URL. ``log``: the file with its requests, whoever made them."""

    endpoint: str
    log: Path

    @property
    def variables(self) -> dict[str, str]:
        """What makes a process use it."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "not-checked",
            "AWS_SECRET_ACCESS_KEY": "not-checked-either",
        }

    @property
    def client(self) -> fs.FileSystem:
        """A client of its own, made with no code of Winnow's."""
        return fs.S3FileSystem(
            endpoint_override=self.endpoint,
            region=REGION,
            access_key="not-checked",
            secret_key="not-checked-either",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def create_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self.client.create_dir(name)

    def has_bucket(self, name: str) -> bool:
        """Whether the bucket is there."""
        return bool(self.client.get_file_info(name).type == fs.FileType.Directory)

    def remove_bucket(self, name: str) -> None:
        """Remove a bucket with everything in it."""
        self.client.delete_dir(name)

    def keys(self, bucket: str) -> dict[str, int]:
        """Every object of ``bucket`` by key with its size in bytes; markers of empty folders are none."""
        found = self.client.get_file_info(fs.FileSelector(bucket, recursive=True))
        return {each.path.removeprefix(f"{bucket}/"): each.size for each in found if each.type == fs.FileType.File}

    def list_changes(self, bucket: str) -> list[tuple[str, str]]:
        """Every request so far that writes or deletes an object of ``bucket``: its method, and its key."""
        found = re.findall(r'"(PUT|POST|DELETE) /([^ ?]*)(?:\?[^ ]*)? HTTP', self.log.read_text())
        named = [(method, *unquote(path).partition("/")) for method, path in found]
        return [(method, key) for method, name, _, key in named if name == bucket and key]


def find_free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def start_object_store() -> Iterator[ObjectStore]:
    """Moto's server, empty, until the block ends."""
    port = find_free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with tempfile.NamedTemporaryFile(prefix="winnow-s3-", suffix=".log") as log:
        store = ObjectStore(f"http://127.0.0.1:{port}", Path(log.name))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
        try:
            wait_for_store(f"{store.endpoint}/moto-api/data.json", process)
            yield store
        finally:
            process.kill()
            process.wait()


def wait_for_store(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server at ``url`` answers."""
    until = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError as problem:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the S3 server did not start") from problem
            time.sleep(0.1)
