"""What goes on at a cluster while things happen to it: ingest, following and a restore, each again and again.

A call may end with an error that says "run it again": of a service that did not answer, or of another call that was
first. Every other error is a fault of Winnow's, and is kept for the test.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tests.support.world import World
from winnow.clock import read_wall_clock_ms
from winnow.errors import RunAgainError, ServiceError
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.ingest.kafka.following import follow_topics
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.kafka.reading import ReadingRules
from winnow.planning.kafka_configuration import TakingRules

AGAIN = (ServiceError, RunAgainError)
PAUSE_S = 0.4
TIMEOUT_S = 120.0


def ingest_once(world: World, servers: str, topics: Sequence[str], **rules: Any) -> bool:
    """Ingest topics in one call; return whether all of them succeeded. ``rules``: what a person decided.

    Raises:
        WinnowError: one failed with an error that does not say to run it again.
    """
    world.clock.now_ms = read_wall_clock_ms()
    done = ingest_kafka_topics(
        world.installation,
        Cluster(ClientSettings(servers)),
        {topic: topic for topic in topics},
        KafkaRequest(ReadingRules(**rules), creates=True),
        as_of_ms=world.clock(),
        on="local",
    )
    for failure in done.failures:
        if not isinstance(failure.error, AGAIN):
            raise failure.error
    return not done.failures


def follow_once(world: World, servers: str, topics: Sequence[str], *, takes_configuration: bool = False) -> bool:
    """Follow topics once; return whether all of them succeeded. Raises as :func:`ingest_once`."""
    world.clock.now_ms = read_wall_clock_ms()
    wanted = KafkaRequest(creates=True, configuration=TakingRules(takes=takes_configuration))
    done = follow_topics(world.installation, Cluster(ClientSettings(servers)), topics, wanted, as_of_ms=world.clock())
    for failure in done.failures:
        if not isinstance(failure.error, AGAIN):
            raise failure.error
    return not done.failures


def repeat_until_done(call: Callable[[], bool]) -> None:
    """Call until it succeeds.

    Raises:
        AssertionError: it did not within two minutes.
    """
    until = time.monotonic() + TIMEOUT_S
    while not call():
        assert time.monotonic() < until


class Activity:
    """Calls a function again and again in a thread of its own, while the block runs."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self.successes = 0
        self.retries: list[str] = []
        """The messages of errors that said to run it again."""
        self.faults: list[str] = []
        """Other errors, with their places."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._ends.wait(PAUSE_S) and not self.faults:
            self.call_once()

    def call_once(self) -> None:
        """Call the function once and note how it ended."""
        try:
            self._call()
            self.successes += 1
        except AGAIN as problem:
            self.retries.append(str(problem))
        except Exception:
            self.faults.append(traceback.format_exc())
