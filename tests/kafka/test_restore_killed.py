"""A restore that is killed with SIGKILL at any step and run again has every record once; so have two kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.restored_topics import Target, list_rows, make_log, open_present_world
from tests.support.examples import IS_LONG
from tests.support.world import World
from winnow.values.model import Record

PLACES = 30 if IS_LONG else 3


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_present_world(tmp_path_factory.mktemp("killed")) as opened:
        yield opened


@pytest.fixture(scope="module")
def records(world: World) -> list[Record]:
    return make_log(world, rounds=60)


def run(world: World, target: Target, last: int, shares: int) -> subprocess.CompletedProcess[str]:
    options = [world.folder, target.servers, target.name, last, shares]
    command = [sys.executable, "-m", "tests.kafka.killed_restore", *options]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run([str(each) for each in command], env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("shares", [1, 2])
def test_a_restore_killed_anywhere_and_run_again_has_every_record_once(
    world: World, records: list[Record], broker: KafkaBroker, shares: int
) -> None:
    whole = run(world, Target(broker.bootstrap_servers), 0, shares)
    assert whole.returncode == 0, whole.stderr
    steps = int(whole.stdout)
    assert steps >= 30
    places = [1 + (steps - 1) * number // (PLACES - 1) for number in range(PLACES)]
    for place in places:
        target = Target(broker.bootstrap_servers)
        killed = run(world, target, place, shares)
        assert killed.returncode == -signal.SIGKILL, (place, killed.stderr)
        if place % 2:
            again = run(world, target, 1 + place // 2, shares)  # the call that goes on is killed too, somewhere
            assert again.returncode in {0, -signal.SIGKILL}, again.stderr
        report = target.restore(world)
        assert [(number, row) for number, _, row in target.read()] == list_rows(records), place
        assert list(world.head().table.metadata.refs) == ["main"], place
        file = world.folder / f"{target.name}.parquet"
        assert sum(pq.read_table(file).column("records").to_pylist()) == len(records), place
        assert target.restore(world).was_complete, report
