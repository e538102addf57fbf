"""Addresses for brokers on this machine, and whether a broker answers there."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from typing import Final

from winnow.errors import ConfigurationError

LOOPBACK: Final = "127.0.0.1"

_PORTS: Final = (16_000, 32_000)


def find_free_ports() -> tuple[int, int]:
    """Return two ports of the loopback interface that nothing listens on, for clients and for controllers.

    They lie below those that the system gives to connections: a port of these can be taken, by a client's connection
    even to itself, while a killed broker is away.
    """
    while True:
        first = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as one, socket.socket() as another, contextlib.suppress(OSError):
            one.bind((LOOPBACK, first))
            another.bind((LOOPBACK, first + 1))
            return first, first + 1


def check_port(port: int) -> int:
    """Return ``port`` if a broker can listen there, at the loopback interface.

    Raises:
        ConfigurationError: another process does, or this one may not.
    """
    with socket.socket() as probe:
        # As the broker binds: connections that have just ended do not keep it away.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            raise ConfigurationError(
                f"Another process listens at port {port}, or it may not be used.",
                "Nothing was started.",
                'Say another one: make kafka ARGS="--port N", and N for 9092 in what you paste.',
            ) from None
    return port


def list_living_brokers(port: int) -> set[int]:
    """List the brokers that live, as the one at ``port`` knows them; none while it does not answer."""
    # Metadata, version 4: correlation id, no client id, no topics, no automatic creation.
    request = struct.pack(">hhihib", 3, 4, 1, -1, 0, 0)
    brokers = set()
    try:
        with socket.create_connection((LOOPBACK, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as stream:

                def read(layout: str) -> tuple[int, ...]:
                    return struct.unpack(layout, stream.read(struct.calcsize(layout)))

                # Length, correlation id, throttle time, number of brokers; a broker: id, host, port, rack or none.
                *_, count = read(">iiii")
                for _ in range(count):
                    node_id, size = read(">ih")
                    stream.read(size)
                    _, size = read(">ih")
                    stream.read(max(size, 0))
                    brokers.add(node_id)
    except (OSError, struct.error):
        return set()
    return brokers
