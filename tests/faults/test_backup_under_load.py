"""Backups that are made while processes append, compact and sweep: each is whole, and restores what the log held."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.backup_under_load import PROCESSES
from tests.faults.concurrent_workers import open_topic
from tests.faults.test_concurrent_processes import appended
from tests.support.world import TOPIC, compute_survivors
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.backup.restore import restore_backup

SEED = int(os.environ.get("CROWD_SEED", "1"))
SECONDS = os.environ.get("BACKUP_SECONDS", "2")
RESTORED = int(os.environ.get("BACKUP_RESTORES", "1"))
"""How many of the backups are restored, the newest ones."""


@pytest.mark.timeout(3600)
def test_each_backup_under_load_restores_every_record_of_its_moment(tmp_path: Path) -> None:
    """Up to the log ends of the backup, compacted: exactly the records that the oracle keeps of what was appended."""
    with open_topic(tmp_path) as world:
        world.create(PROCESSES, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms="0")
    script = Path(__file__).with_name("backup_under_load.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(SEED), SECONDS],
        env={**os.environ, "PYTHONPATH": str(script.parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    failures = [path.read_text() for path in sorted(tmp_path.glob("failed-*.txt"))]
    assert not failures, f"seed {SEED}: {failures[0]}"
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    backups = done.stdout.split()
    assert backups
    records = [each for number in range(PROCESSES) for each in appended(tmp_path, number)]
    for backup_id in backups[-RESTORED:]:
        shutil.rmtree(tmp_path / "home")
        with open_topic(tmp_path) as world:
            restore_backup(world.installation, str(tmp_path / "backup"), backup_id)
            ends = {number: state.log_end_offset for number, state in world.head().state.partitions.items()}
            expected = [each for each in records if each.offset < ends[each.partition]]
            found = world.read()
            assert {(each.partition, each.offset) for each in found} <= {(e.partition, e.offset) for e in expected}
            while world.compact(read_wall_clock_ms(), attempt=f"last-{len(found)}") is not None:
                pass
            assert world.read() == compute_survivors(expected), f"seed {SEED}, backup {backup_id}"
            assert world.installation.store.runs.list_open(TOPIC) == []
