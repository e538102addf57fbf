"""An ingest from a broker that is killed -9 at any step: run again, every record is in the log once.

`make test` tries two places of each way of reading, three where several processes read; `make test-long` sixty.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.kafka_broker import KafkaBroker
from tests.faults.forked_processes import ForkServer, start_fork_server
from tests.kafka.killed_ingest import let_three_processes_read
from tests.kafka.live_topics import LiveTopic, create_live_topic, make_rows
from tests.kafka.test_ingest_kafka import ingest
from tests.support.examples import IS_LONG
from tests.support.in_process_ingest import carry_out_plans_in_process
from tests.support.world import FakeClock, open_world
from winnow.clock import read_wall_clock_ms
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.ingest.kafka import run as kafka_run

GRACE_MS = 24 * 3_600_000
PLACES = 60 if IS_LONG else 2


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> LiveTopic:
    """A topic of three partitions with aborted transactions; the log had two partitions and a part of them."""
    made = create_live_topic(broker, partitions=2)
    chosen = random.Random(1)
    made.write(make_rows(chosen, 40))
    return made


@pytest.fixture(scope="module")
def lake(topic: LiveTopic, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose log has the first records; the topic went on since."""
    folder = tmp_path_factory.mktemp("lake")
    with open_world(folder / "world", FakeClock(read_wall_clock_ms())) as world:
        ingest(world, topic)
    chosen = random.Random(2)
    topic.add_partitions(3)
    topic.write(make_rows(chosen, 80, partitions=3))
    topic.write_transaction(make_rows(chosen, 20, partitions=3), commits=False)
    topic.write_transaction(make_rows(chosen, 20, partitions=3))
    return folder / "world"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with start_fork_server(os.environ, "tests.kafka.killed_ingest") as started:
        yield started


def run(server: ForkServer, folder: Path, topic: LiveTopic, on: str, last: int) -> tuple[int | None, str]:
    """Ingest until the ``last``-th step: exit code, and what was said."""
    child = server.start(folder.parent, str(folder), topic.broker.bootstrap_servers, topic.name, on, str(last))
    return child.wait(), child.errors


@pytest.mark.parametrize("on", ["local", "processes", "spark"])
def test_killed_anywhere_and_run_again_every_record_is_there_once(
    server: ForkServer, topic: LiveTopic, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    """After the first kill a Spark application goes on, after the others its tasks in this process."""

    def copy_lake(name: str) -> Path:
        """A lake of its own; its catalog names files by their absolute paths, so it is moved into place."""
        if lake.exists():
            shutil.copytree(lake, tmp_path / name, symlinks=True)
        return tmp_path / name

    kept = copy_lake("kept")

    def put_back() -> Path:
        shutil.rmtree(lake)
        shutil.copytree(kept, lake, symlinks=True)
        return lake

    exit_code, said = run(server, lake, topic, on, 0)
    assert exit_code == 0, said
    steps = int(said.split()[-1])
    assert steps >= (30 if on != "processes" else 20)
    if on == "processes":
        let_three_processes_read(monkeypatch.setattr)
    count = max(PLACES, 3) if on == "processes" else PLACES
    places = sorted({1 + steps * number // count for number in range(count)})
    for place in places:
        exit_code, said = run(server, put_back(), topic, on, place)
        if exit_code == 0 and place > steps * 3 // 4:
            continue  # how many steps there are depends on how fast the broker sends
        assert exit_code == -signal.SIGKILL, (place, said)
        with open_world(lake, FakeClock(read_wall_clock_ms())) as world:
            ingest(world, topic, "spark" if on == "spark" else "local")
            monkeypatch.setattr(kafka_run, "submit_ingest_plans", carry_out_plans_in_process)
            assert world.read(topic=topic.name) == topic.records, place
            for _ in range(3):
                world.clock.now_ms += 2 * GRACE_MS
                sweep_topics(world.installation, [topic.name])
            assert world.read(topic=topic.name) == topic.records, place
            live = {each.path for number in range(3) for each in world.segments(number, topic.name)}
            listed = {entry.uri for entry in storage.list_files(f"{world.head(topic.name).location}/data")}
            assert listed == live, place
    put_back()
