"""A restore that is killed with SIGKILL at any step and run again has every record once; so have two kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from broker.kafka_broker import KafkaBroker
from tests.faults.forked_processes import ForkServer, start_fork_server
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


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with start_fork_server(os.environ, "tests.kafka.killed_restore") as started:
        yield started


def run(server: ForkServer, world: World, target: Target, last: int, shares: int) -> tuple[int | None, str]:
    """Restore until the ``last``-th step: exit code, and what was said."""
    options = [world.folder, target.servers, target.name, last, shares]
    child = server.start(world.folder, *map(str, options))
    return child.wait(), child.errors


@pytest.mark.parametrize("shares", [1, 2])
def test_a_restore_killed_anywhere_and_run_again_has_every_record_once(
    server: ForkServer, world: World, records: list[Record], broker: KafkaBroker, shares: int
) -> None:
    exit_code, said = run(server, world, Target(broker.bootstrap_servers), 0, shares)
    assert exit_code == 0, said
    steps = int(said.split()[-1])
    assert steps >= 30
    places = [1 + (steps - 1) * number // (PLACES - 1) for number in range(PLACES)]
    for place in places:
        target = Target(broker.bootstrap_servers)
        exit_code, said = run(server, world, target, place, shares)
        assert exit_code == -signal.SIGKILL, (place, said)
        if place % 2:
            # The call that goes on is killed too, somewhere.
            exit_code, said = run(server, world, target, 1 + place // 2, shares)
            assert exit_code in {0, -signal.SIGKILL}, said
        report = target.restore(world)
        assert [(number, row) for number, _, row in target.read()] == list_rows(records), place
        assert list(world.head().table.metadata.refs) == ["main"], place
        file = world.folder / f"{target.name}.parquet"
        assert sum(pq.read_table(file).column("records").to_pylist()) == len(records), place
        assert target.restore(world).was_complete, report
