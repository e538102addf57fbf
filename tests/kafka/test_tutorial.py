"""docs/kafka.md and docs/start/kafka.md: their commands, typed as they stand there at a running broker."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import kafka_broker
from broker.addresses import find_free_ports
from tests.docs.runbook import list_blocks, prompt_program, run_block, sections
from tests.support.world import FakeClock, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import ConfigurationError

PAGE = sections("kafka.md")["Ten commands"]
ADDRESS = f"localhost:{kafka_broker.DEFAULT_PORT}"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where ``make kafka`` says that its broker listens; the topic ``orders`` is the tutorial's own."""
    port, _ = find_free_ports()
    command = [sys.executable, "-m", "broker.kafka_broker", str(tmp_path / "broker"), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        assert said.endswith(f"bootstrap.servers=localhost:{port}\n")
        try:
            yield f"localhost:{port}"
        finally:
            running.terminate()


def test_ten_commands_lead_from_kafka_to_a_compacted_archive_and_back(address: str, tmp_path: Path) -> None:
    """Of a hundred orders ninety are paid and ten are deleted, and both copies say so."""
    (prepare,), (tutorial,) = PAGE.blocks("prepare"), PAGE.blocks("tutorial")
    assert len(tutorial.splitlines()) == 10
    env = {"WINNOW_HOME": str(tmp_path / "home"), "WINNOW_SPARK__MASTER": "local[2]"}
    output = ""
    with prompt_program("winnow", tmp_path) as scripts:
        for block in (prepare, tutorial):
            typed = block.replace(ADDRESS, address)
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


def test_shortest_way_from_kafka_is_three_commands(address: str, tmp_path: Path) -> None:
    """The newest record of each order is printed, from the same broker."""
    (prepare,), (short,) = PAGE.blocks("prepare"), list_blocks("start/kafka.md")
    env = {"WINNOW_SPARK__MASTER": "local[2]"}
    output = ""
    with prompt_program("winnow", tmp_path) as scripts:
        for block in (prepare, short):
            typed = block.replace(ADDRESS, address)
            output = run_block(typed, tmp_path, env, first_on_path=scripts)
    assert "Of 210 records 100 were kept" in output


def test_a_port_that_is_taken_is_said_with_the_option_for_another(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused = pytest.raises(ConfigurationError, match=f'listens at port {port}.*make kafka ARGS="--port N"')
        with refused, kafka_broker.run_broker(tmp_path / "broker", port=port):
            pass
    assert not (tmp_path / "broker").exists()
