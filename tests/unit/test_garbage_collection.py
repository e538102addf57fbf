"""While records are read, Python's collector of cycles is not started by every few hundred of them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.garbage_collection import MINIMUM_NEW_OBJECTS, collect_rarely
from winnow.kafka.range_reader import RangeReader
from winnow.kafka.transactional_writer import TransactionalWriter


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_a_batch_of_records_starts_no_collection_and_garbage_does() -> None:
    """Objects that are freed do not count, so memory in cycles stays bounded."""
    started: list[dict[str, int]] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            started.append(info)

    gc.callbacks.append(note)
    try:
        with collect_rarely():
            for _ in range(100):
                kept = [[number] for number in range(8_192)]
                del kept
            assert started == []
            for _ in range(MINIMUM_NEW_OBJECTS + 1_000):
                cycle: list[object] = []
                cycle.append(cycle)
            assert started
    finally:
        gc.callbacks.remove(note)


def test_thresholds_come_back_when_the_last_of_overlapping_blocks_ends() -> None:
    with ExitStack() as later:
        with collect_rarely():
            later.enter_context(collect_rarely())
        assert gc.get_threshold()[0] == MINIMUM_NEW_OBJECTS
    assert gc.get_threshold() == (700, 10, 10)


def test_whoever_reads_records_collects_rarely_while_the_reader_is_open() -> None:
    with RangeReader(read_client_settings("localhost:1")):
        assert gc.get_threshold()[0] == MINIMUM_NEW_OBJECTS
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("threshold", [0, MINIMUM_NEW_OBJECTS + 1])
def test_a_collector_that_is_off_or_runs_more_rarely_is_left_alone(threshold: int) -> None:
    gc.set_threshold(threshold, 10, 10)
    with collect_rarely():
        assert gc.get_threshold()[0] == threshold
    assert gc.get_threshold()[0] == threshold


def test_a_closed_writer_and_its_clients_are_freed_at_once() -> None:
    """A restore of hundreds of topics would otherwise keep the threads of all of their clients."""
    writer = TransactionalWriter(read_client_settings("localhost:1"), "orders", "restore.orders")
    reference = weakref.ref(writer)
    gc.disable()
    try:
        writer.__exit__(None, None, None)
        del writer
        assert reference() is None
    finally:
        gc.enable()
