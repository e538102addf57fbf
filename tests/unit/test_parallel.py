"""Steps of several topics side by side: order, errors, and what an interruption leaves undone."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator

import pytest

from winnow.pipeline.parallel import MAXIMUM_TOPICS_AT_A_TIME, map_parallel


def test_results_come_in_the_order_of_the_items_whoever_is_first() -> None:
    second = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second.wait(10)  # fails if the second one waits for the first
        second.set()
        return item * 10

    assert list(map_parallel(work, [0, 1, 2])) == [0, 10, 20]


def test_work_on_an_item_begins_before_the_next_one_is_known() -> None:
    """A topic is published while the next one is validated."""
    begun = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        assert begun.wait(10)
        yield 2

    def work(item: int) -> int:
        begun.set()
        return item

    assert list(map_parallel(work, items())) == [1, 2]


def test_work_sees_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("of the caller")
    assert list(map_parallel(lambda _: variable.get(), range(3))) == ["of the caller"] * 3


def test_after_an_interruption_work_that_has_not_begun_never_does() -> None:
    done: list[int] = []
    going_on = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            going_on.set()
            raise KeyboardInterrupt
        threading.Event().wait(0.2)
        done.append(item)

    with pytest.raises(KeyboardInterrupt):
        list(map_parallel(work, range(100)))
    assert going_on.is_set()
    assert len(done) <= 2 * MAXIMUM_TOPICS_AT_A_TIME
