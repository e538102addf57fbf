"""A broker that asks for a user and a password: the client properties lead in, and are nowhere else."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kafka.live_topics import LiveTopic, create_live_topic, make_rows
from tests.support.cli_runner import winnow_process
from tests.support.world import open_world
from winnow.embedded.kafka_broker import run_broker

PASSWORD = "s3cret-of-alice"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True)
class Secured:
    """A broker with a second listener, ``servers``, that asks for a password, and a topic in it."""

    servers: str
    topic: LiveTopic


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    properties = {
        "listeners": f"SECURED://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{MODULE} user_alice="{PASSWORD}";',
    }
    with run_broker(tmp_path_factory.mktemp("secured"), properties=properties) as broker:
        topic = create_live_topic(broker, partitions=2, name="orders")
        topic.write(make_rows(random.Random(1), 30))
        yield Secured(f"127.0.0.1:{port}", topic)


def write_properties(folder: Path, password: str) -> Path:
    path = folder / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} username="alice" password="{password}";\n'
    )
    return path


@pytest.mark.parametrize("on", ["local", "spark"])
def test_the_properties_lead_in_and_are_kept_nowhere(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    properties = write_properties(tmp_path, PASSWORD)
    home = tmp_path / "home"
    monkeypatch.setenv("WINNOW_HOME", str(home))
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local[1]")
    options = ["--bootstrap-servers", secured.servers, "--client-properties", properties, "--create", "--on", on]
    done = winnow_process("ingest", "kafka", "orders", *options)
    assert done.exit_code == 0, done.stderr
    with open_world(tmp_path) as world:
        assert world.read(topic="orders") == secured.topic.records
    assert PASSWORD not in done.stdout + done.stderr
    for folder, _, names in os.walk(home):
        for name in names:
            assert PASSWORD.encode() not in Path(folder, name).read_bytes(), name


def test_a_wrong_password_is_said_and_not_shown(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = write_properties(tmp_path, "wrong-password")
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    options = ["--bootstrap-servers", secured.servers, "--client-properties", properties, "--create"]
    done = winnow_process("ingest", "kafka", "orders", *options)
    assert done.exit_code == 2, done.stderr
    assert "does not accept the user or its password, or the token" in done.stderr
    assert "wrong-password" not in done.stdout + done.stderr
