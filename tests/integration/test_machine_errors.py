"""What the machine lacks (room on the disk, memory, a store that answers) ends in a sentence and with exit code 6.

The commands run as they are, in a process of their own on a small disk of its own; where this machine mounts none,
files may not grow beyond a limit instead. Nothing is lost by it, and the next run goes on.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.support.cli_runner import record, write_lines
from winnow.files.storage_health import describe_machine_fault, make_service_error

DISK_BYTES = 3 << 20
_PROGRAM = """
import json, os, sys
from pathlib import Path
from typer.testing import CliRunner
from winnow.cli import app
from winnow.engine.rewrite import compact_partition
from winnow.pipeline.compaction import driver as running
from winnow.pipeline.compaction.stage import stage_retention_plans
from winnow.pipeline.spark.submit import JobOutcome
from winnow.engine.damage import build_failed_result, find_plan_failure
from winnow.engine import staging
from winnow.engine.rewrite import ENGINE_NAME
from winnow.values.results import StagingManifest

folder, limited = Path(sys.argv[1]), json.loads(sys.argv[2])

def submit(installation, plans, attempt, progress=None):
    # The engine as a task runs it, without Spark around it.
    failures = {}
    for reference in plans:
        plan = staging.read_plan(reference.uri)
        (partition,) = plan.partitions
        try:
            part = compact_partition(plan, partition, attempt=attempt, budget=installation.budget)
        except Exception as problem:
            result = {"partition": 0, **build_failed_result(problem, plan.topic, partition)}
            failures[plan.plan_id] = find_plan_failure(plan.topic, [result], 1)
            continue
        manifest = StagingManifest(plan.plan_id, plan.topic, attempt, (part,), ENGINE_NAME, "")
        staging.write_manifest(reference.uri, manifest)
    return JobOutcome(0, failures)

running.submit = submit
found = []

def do(*arguments):
    answer = CliRunner().invoke(app, list(arguments))
    found.append([answer.exit_code, answer.stdout, answer.stderr])

def fill():
    if limited:
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return
    with open(folder / "warehouse" / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(1024))
        except OSError:
            pass

def make_room():
    if limited:
        import resource
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        return
    (folder / "warehouse" / "filler").unlink()

eager = ["--config", "segment.ms=1000", "--config", "min.cleanable.dirty.ratio=0"]
do("topics", "create", "orders", "--partitions", "1", *eager)
do("ingest", "files", "orders", str(folder / "first.jsonl"))
fill()
do("ingest", "files", "orders", str(folder / "second.jsonl"))
do("compact", "orders")
do("read", "orders", "--output", str(folder / "warehouse" / "out.jsonl"))
make_room()
do("ingest", "files", "orders", str(folder / "second.jsonl"))
do("compact", "orders")
do("read", "orders")
print(json.dumps(found))
"""


def _mounts() -> list[str] | None:
    """What comes before a command that may mount a disk of its own; None: nothing does on this machine."""
    if shutil.which("unshare") is None:
        return None
    for flags in ("-m", "-rm"):
        probe = ["unshare", flags, "sh", "-c", "mount -t tmpfs -o size=1m winnow /mnt"]
        if subprocess.run(probe, capture_output=True).returncode == 0:
            return ["unshare", flags]
    return None


def test_a_full_disk_is_said_loses_nothing_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """Ingest, compaction and reading into a file end with 6; once there is room all of it is done."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    value = random.Random(1).randbytes(3_000).hex()
    for name, first in (("first", 0), ("second", 4)):
        lines = [record(f"key-{number % 2}", value, partition=0, offset=first + number) for number in range(4)]
        write_lines(tmp_path / f"{name}.jsonl", lines)
    mounting = _mounts()
    program = [sys.executable, "-c", _PROGRAM, str(tmp_path), json.dumps(mounting is None)]
    if mounting is not None:
        mount = f'mount -t tmpfs -o size={DISK_BYTES} winnow "$0" && exec "$@"'
        program = [*mounting, "sh", "-c", mount, str(warehouse), *program]
    done = subprocess.run(
        program, capture_output=True, text=True, env=os.environ | {"WINNOW_WAREHOUSE": str(warehouse)}
    )
    assert done.returncode == 0, done.stderr
    created, first, ingest, compact, read, again, compacted, seen = json.loads(done.stdout)
    assert (created[0], first[0]) == (0, 0), (created, first)
    for code, _, said in (ingest, compact, read):
        assert code == 6, said
        assert "nexpected" not in said
        assert "Traceback" not in said
    if mounting is not None:
        assert f"no space left on the disk: file://{warehouse} has 0 MiB free" in ingest[2]
        assert "no space left on the disk" in compact[2]
    assert (again[0], compacted[0]) == (0, 0), (again, compacted)
    assert [json.loads(line)["offset"] for line in seen[1].splitlines()] == [6, 7]


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (OSError(28, "No space left on device", "/lake/x"), "no space left on the disk: at /lake/x"),
        (OSError(30, "Read-only file system", "/lake/x"), "the file system can only be read: at /lake/x"),
        (PermissionError(13, "Permission denied", "/lake/x"), "permission denied"),
        (OSError("Error writing bytes to file. Detail: No space left on device"), "no space left on the disk"),
        (OSError("When reading: AWS Error NETWORK_CONNECTION during GetObject"), "a service did not answer"),
        (ConnectionResetError(104, "Connection reset by peer"), "a service did not answer"),
        (duckdb.IOException("Could not write: Read-only file system"), "the file system can only be read"),
        (duckdb.OutOfMemoryException("failed to pin b'secret'"), "not enough memory"),
        (pa.ArrowMemoryError("malloc of b'secret'"), "not enough memory"),
        (MemoryError("b'secret'"), "not enough memory"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_machine_lacks_is_told_in_its_own_words(problem: Exception, said: str) -> None:
    """Also where a library wrapped it; no byte of a record is quoted."""
    wrapped = RuntimeError("a library's own words, b'secret'")
    wrapped.__cause__ = problem
    for each in (problem, wrapped):
        found = make_service_error(each)
        assert found is not None
        assert (found.exit_code, said.lower() in str(found).lower(), "secret" in str(found)) == (6, True, False), found


@pytest.mark.parametrize("problem", [ValueError("no"), KeyError(28), OSError(2, "No such file"), pa.ArrowInvalid("x")])
def test_what_is_not_of_the_machine_stays_what_it_is(problem: Exception) -> None:
    """A bug is not excused as a full disk."""
    assert describe_machine_fault(problem) is None
