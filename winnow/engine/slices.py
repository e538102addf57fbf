"""How units of work are spread over Spark tasks: large ones alone and first, small ones packed together. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.model import Plan

if TYPE_CHECKING:
    from winnow.engine.rewrite import TaskBudget

MAXIMUM_TASKS_PER_CORE = 4
"""Enough tasks that a slow one does not leave cores idle, few enough that their start is not felt."""
UNIT_OVERHEAD_BYTES = 4 << 20
"""What a unit costs besides its records, as bytes that are read: statements, files, a new segment or two."""


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """One topic partition of one plan, or a range of one.

    ``plan`` is the plan with this partition alone: what a task needs, no more.
    """

    plan_uri: str
    topic: str
    partition: int
    size_bytes: int
    plan: Plan | None = None

    @property
    def range(self) -> str | None:
        """What of its partition it is about, in a log's words; None: all of it."""
        return None


def pack_units(units: Sequence[WorkUnit], cores: int, most: int | None = None) -> list[list[WorkUnit]]:
    """Units into tasks: one each while they are few, else the fullest first into the emptiest of cores x 4 tasks.

    Tasks come in the order in which Spark starts them: the largest first. ``most``: no more tasks than that, so no more
    units at once, whatever the number of cores is now or becomes.
    """
    ordered = sorted(units, key=lambda unit: -unit.size_bytes)
    count = min(len(ordered), max(1, cores) * MAXIMUM_TASKS_PER_CORE if most is None else most)
    heap = [(0, number) for number in range(count)]
    packed: list[list[WorkUnit]] = [[] for _ in range(count)]
    for unit in ordered:
        size_bytes, number = heapq.heappop(heap)
        packed[number].append(unit)
        heapq.heappush(heap, (size_bytes + estimate_unit_bytes(unit), number))
    return sorted(packed, key=lambda task: -sum(estimate_unit_bytes(unit) for unit in task))


def estimate_unit_bytes(unit: WorkUnit) -> int:
    """How long ``unit`` takes, as bytes that are read."""
    return UNIT_OVERHEAD_BYTES + unit.size_bytes


def plan_tasks(
    units: Sequence[WorkUnit], cores: int, budget: TaskBudget, most_tasks: int | None
) -> tuple[list[list[WorkUnit]], TaskBudget]:
    """Units into tasks, and what each task may use: the application's rate is divided, all else is per task."""
    rate = budget.bytes_per_second
    tasks = pack_units(units, cores, most_tasks if rate is None else min(cores, most_tasks or cores))
    if rate is None or not tasks:
        return tasks, budget
    # An equal share each, and no more tasks than cores: they cannot exceed the rate, however many run at a time.
    return tasks, replace(budget, bytes_per_second=rate / len(tasks))
