"""docs/kafka.md and docs/start/kafka.md: their commands, typed as they stand there at a running broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.runbook import list_blocks, prompt_program, run_block, sections
from tests.support.world import FakeClock, open_world
from winnow.clock import read_wall_clock_ms
from winnow.embedded.kafka_broker import KafkaBroker, run_broker

PAGE = sections("kafka.md")["Ten commands"]
ADDRESS = "localhost:9092"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker of the tutorial's own, as the topic ``orders`` is its own."""
    with run_broker(tmp_path / "broker") as running:
        yield running


def test_ten_commands_lead_from_kafka_to_a_compacted_archive_and_back(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """Of a hundred orders ninety are paid and ten are deleted, and both copies say so."""
    (prepare,), (tutorial,) = PAGE.blocks("prepare"), PAGE.blocks("tutorial")
    assert len(tutorial.splitlines()) == 10
    env = {"WINNOW_HOME": str(tmp_path / "home"), "WINNOW_SPARK__MASTER": "local[2]"}
    output = ""
    with prompt_program("winnow", tmp_path) as scripts:
        for block in (prepare, tutorial):
            typed = block.replace(ADDRESS, own_broker.bootstrap_servers)
            output = run_block(typed, tmp_path, env, first_on_path=scripts)
    assert "Nothing new in Kafka's orders" in output
    assert '"headers":[{"key":"version","value":"cGFpZA=="}]' in output
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), env) as world:
        ours, again = (
            {(each.key, each.value, each.timestamp_ms, each.headers) for each in world.read(topic=topic)}
            for topic in ("orders", "orders-again")
        )
    assert len(ours) == 100
    assert sum(value is None for _, value, *_ in ours) == 10
    assert ours == again


def test_shortest_way_from_kafka_is_three_commands(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """The newest record of each order is printed, from the same broker."""
    (prepare,), (short,) = PAGE.blocks("prepare"), list_blocks("start/kafka.md")
    env = {"WINNOW_SPARK__MASTER": "local[2]"}
    output = ""
    with prompt_program("winnow", tmp_path) as scripts:
        for block in (prepare, short):
            typed = block.replace(ADDRESS, own_broker.bootstrap_servers)
            output = run_block(typed, tmp_path, env, first_on_path=scripts)
    assert "Of 210 records 100 were kept" in output
