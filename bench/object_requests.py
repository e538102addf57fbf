"""Counts the requests to an object store, and the bytes moved, by ingest, compaction, reading and sweep.

    python -m bench.object_requests            writes docs/object-requests.json; ten minutes

An S3 server on this machine answers and logs each request. Its speed says nothing about a cloud's, its requests and
bytes are the same. Two sizes are measured, so that what each run needs can be told from what each byte needs.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.process_measurement import ROOT

STORED_REQUESTS: Final = ROOT / "docs" / "object-requests.json"
RECORDS: Final = (600_000, 6_000_000)
"""Of the small and of the large measurement."""
VERSIONS: Final = 10
"""Of each key, evenly spread, as in the workload `uniform` of the benchmark."""
PARTITIONS: Final = 4
SEGMENT_BYTES: Final = 134_217_728
BUCKET: Final = "lake"
_REQUEST: Final = re.compile(r'"(?:\x1b\[[\d;]*m)*(GET|HEAD|PUT|POST|DELETE) /(\S*) HTTP')
"""Lines of answers such as 404 are in colour."""
_START_TIMEOUT_S: Final = 60

_SOURCE: Final = """
copy (
  select (n % {partitions})::int as partition, (n // {partitions})::bigint as "offset",
    make_timestamp_ms(1700000000000 + n) as "timestamp", 0 as "timestampType",
    encode('key-' || hash(n % {keys})) as key,
    encode(md5(n::varchar) || md5((n + 1)::varchar) || hash(n)) as value
  from range({records}) r(n) order by 1, 2
) to '{path}' (format parquet, compression zstd)
"""


@contextmanager
def start_logged_store(log: Path) -> Iterator[str]:
    """Run an S3 server that logs to ``log``, until the block ends; yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as sink, subprocess.Popen(command, stdout=sink, stderr=sink) as server:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(f"{url}/moto-api/", timeout=2).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        try:
            yield url
        finally:
            server.terminate()


def count_requests(text: str) -> dict[str, int]:
    """Count what a server's log names, by the classes in which clouds bill: writes and lists, reads, deletes."""
    counts = Counter({"write": 0, "list": 0, "read": 0, "delete": 0})
    for method, path in _REQUEST.findall(text):
        if path.startswith("moto-api"):
            continue
        is_list = method == "GET" and ("list-type=" in path or "uploads" in path)
        is_bulk_delete = method == "POST" and "?delete" in path
        if method == "DELETE" or is_bulk_delete:
            counts["delete"] += 1
        elif is_list:
            counts["list"] += 1
        else:
            counts["read" if method in {"GET", "HEAD"} else "write"] += 1
    return dict(counts)


def _measure_command(arguments: list[str], folder: Path, env: Mapping[str, str], log: Path) -> dict[str, int]:
    before = log.stat().st_size
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "winnow.cli", *arguments],
        cwd=folder,
        env={**os.environ, **env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"winnow {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    with log.open("rb") as written:
        written.seek(before)
        return count_requests(written.read().decode("utf-8", "replace"))


def measure_requests(records: int) -> dict[str, object]:
    """Ingest, compact, read and sweep a topic in an S3 warehouse; return the requests of each step and the sizes."""
    import duckdb
    from pyarrow import fs

    with tempfile.TemporaryDirectory(prefix="winnow-requests-") as name:
        folder = Path(name)
        source, log = folder / "source.parquet", folder / "requests.log"
        shape = {"partitions": PARTITIONS, "keys": records // VERSIONS, "records": records, "path": source}
        duckdb.connect().execute(_SOURCE.format(**shape))
        with start_logged_store(log) as url:
            client = fs.S3FileSystem(
                endpoint_override=url, access_key="none", secret_key="none", allow_bucket_creation=True
            )
            client.create_dir(BUCKET)
            env = {
                "WINNOW_WAREHOUSE": f"s3://{BUCKET}/warehouse",
                "WINNOW_HOME": str(folder / "home"),
                "AWS_ENDPOINT_URL_S3": url,
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "none",
                "AWS_SECRET_ACCESS_KEY": "none",
            }
            steps = {}
            make = ["topics", "create", "t", "--partitions", str(PARTITIONS)]
            settings = (f"segment.bytes={SEGMENT_BYTES}", "winnow.retired.grace.ms=0")
            _measure_command(make + [part for each in settings for part in ("--config", each)], folder, env, log)
            steps["ingest"] = _measure_command(["ingest", "files", "t", str(source)], folder, env, log)
            before = _measure_size(client)
            steps["compact"] = _measure_command(["compact", "t", "--now"], folder, env, log)
            steps["sweep"] = _measure_command(["sweep", "t"], folder, env, log)
            after = _measure_size(client)
            steps["assess"] = _measure_command(["assess", "t"], folder, env, log)
            output = ["--format", "parquet", "--output", "read.parquet"]
            steps["read"] = _measure_command(["read", "t", *output], folder, env, log)
    return {
        "day": datetime.now(UTC).strftime("%Y-%m-%d"),
        "records": records,
        "partitions": PARTITIONS,
        "segment_bytes": SEGMENT_BYTES,
        "bytes_before": before[0],
        "segments_before": before[1],
        "bytes_after": after[0],
        "segments_after": after[1],
        "requests": steps,
    }


def _measure_size(client: object) -> tuple[int, int]:
    from pyarrow import fs

    assert isinstance(client, fs.FileSystem)
    found = client.get_file_info(fs.FileSelector(f"{BUCKET}/warehouse", recursive=True))
    sizes = [each.size for each in found if each.path.endswith(".parquet")]
    return sum(sizes), len(sizes)


if __name__ == "__main__":
    measured = [measure_requests(records) for records in RECORDS]
    STORED_REQUESTS.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
