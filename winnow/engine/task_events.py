"""Units of work on their way through Spark: each task tells events while it runs, the driver prints them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import AccumulatorParam, SparkContext

from winnow.engine.events import emit_event

if TYPE_CHECKING:
    from pyspark import Accumulator

EVENT_POLL_SECONDS = 0.5

ReportEvent = Callable[[dict[str, Any]], None]
"""Takes a small progress event inside a task."""

Work = TypeVar("Work")


class _EventAccumulatorParam(AccumulatorParam[list[dict[str, Any]]]):
    """Small progress events on their way from tasks to the driver, as each task ends."""

    def zero(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return []

    def addInPlace(  # noqa: N802 - PySpark's name
        self, value1: list[dict[str, Any]], value2: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        value1.extend(value2)
        return value1


def run_tasks(
    context: SparkContext,
    tasks: Sequence[Work],
    run: Callable[[Iterable[Work], ReportEvent], Iterator[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Give each of ``tasks`` to a Spark task of its own, in this order; the results of ``run``, which must be small.

    What ``run`` tells is printed as an event of the application (:func:`winnow.engine.events.emit_event`).
    """
    if not tasks:
        return []
    events: Accumulator[list[dict[str, Any]]] = context.accumulator([], _EventAccumulatorParam())
    stop = threading.Event()
    printer = threading.Thread(target=_print_events, args=(events, stop), daemon=True)
    printer.start()
    try:
        work = context.parallelize(tasks, len(tasks))
        return work.mapPartitions(lambda task: run(task, lambda event: events.add([event]))).collect()
    finally:
        stop.set()
        printer.join()


def _print_events(events: Accumulator[list[dict[str, Any]]], stop: threading.Event) -> None:
    printed = 0
    while True:
        ending = stop.wait(EVENT_POLL_SECONDS)
        for event in events.value[printed:]:
            emit_event(event)
            printed += 1
        if ending:
            return
