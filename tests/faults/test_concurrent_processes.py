"""Ten processes on one topic, stopped at random, with leases of seconds and no grace: every record is accounted for."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.concurrent_workers import PROCESSES, open_topic
from tests.support.world import TOPIC, compute_survivors
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.values.model import Record

SEED = int(os.environ.get("CROWD_SEED", "1"))
SECONDS = os.environ.get("CROWD_SECONDS", "10")
"""`make test-long` takes three minutes each, with fresh seeds."""


def appended(folder: Path, number: int) -> list[Record]:
    """What one process is certain to have appended."""
    lines = (folder / f"appended-{number}.jsonl").read_text().splitlines()
    return [
        Record(
            offset=fields["offset"],
            key=base64.b64decode(fields["key"]),
            value=base64.b64decode(fields["value"]),
            timestamp_ms=fields["timestamp"],
            partition=fields["partition"],
        )
        for fields in map(json.loads, lines)
    ]


@pytest.mark.timeout(900)
def test_ten_processes_that_are_stopped_at_random_lose_and_double_no_record(tmp_path: Path) -> None:
    crowd = Path(__file__).with_name("concurrent_workers.py")
    done = subprocess.run(
        [sys.executable, str(crowd), str(tmp_path), str(SEED), SECONDS],
        env={**os.environ, "PYTHONPATH": str(crowd.parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    failures = [path.read_text() for path in sorted(tmp_path.glob("failed-*.txt"))]
    assert not failures, f"seed {SEED}: {failures[0]}"
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    records = [each for number in range(PROCESSES) for each in appended(tmp_path, number)]
    assert records
    with open_topic(tmp_path) as world:
        for round_number in range(2):
            while world.compact(read_wall_clock_ms(), attempt=f"last-{round_number}") is not None:
                pass
            assert world.read() == compute_survivors(records), f"seed {SEED}"
            sweep_topics(world.installation, [TOPIC])
        assert world.installation.store.runs.list_open(TOPIC) == []
        live = {segment.path for partition in range(PROCESSES) for segment in world.segments(partition)}
        kept = {file.path for file in world.head().state.waiting_files}
        files = {f"{world.head().location}/data/{path}" for path in world.listing(below=f"{world.log_folder()}/data")}
        assert live <= files
        assert files <= live | kept, f"seed {SEED}: nobody names files that are left: {len(files - live - kept)}"
