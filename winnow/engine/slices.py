"""How units of work are spread over Spark tasks: large ones alone and first, small ones packed together. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.model import Plan

if TYPE_CHECKING:
    from winnow.engine.rewrite import Budget

TASKS_PER_CORE = 4
"""Enough tasks that a slow one does not leave cores idle, few enough that their start is not felt."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One topic partition of one plan. ``plan`` is the plan with this partition alone: what a task needs, no more."""

    plan_uri: str
    topic: str
    partition: int
    size_bytes: int
    plan: Plan | None = None


def slices(units: Sequence[Unit], cores: int, most: int | None = None) -> list[list[Unit]]:
    """Units into tasks: one each while they are few, else the fullest first into the emptiest of cores x 4 tasks.

    Tasks come in the order in which Spark starts them: the largest first. ``most``: no more tasks than that, so no more
    units at once, whatever the number of cores is now or becomes.
    """
    ordered = sorted(units, key=lambda unit: -unit.size_bytes)
    count = min(len(ordered), max(1, cores) * TASKS_PER_CORE if most is None else most)
    heap = [(0, number) for number in range(count)]
    packed: list[list[Unit]] = [[] for _ in range(count)]
    for unit in ordered:
        size_bytes, number = heapq.heappop(heap)
        packed[number].append(unit)
        # A unit costs something even when it is empty.
        heapq.heappush(heap, (size_bytes + unit.size_bytes + 1, number))
    return sorted(packed, key=lambda task: -sum(unit.size_bytes for unit in task))


def shared(
    units: Sequence[Unit], cores: int, budget: Budget, most_tasks: int | None
) -> tuple[list[list[Unit]], Budget]:
    """Units into tasks, and what each task may use: the application's rate is divided, all else is per task."""
    rate = budget.bytes_per_second
    tasks = slices(units, cores, most_tasks if rate is None else min(cores, most_tasks or cores))
    if rate is None or not tasks:
        return tasks, budget
    # An equal share each, and no more tasks than cores: they cannot exceed the rate, however many run at a time.
    return tasks, replace(budget, bytes_per_second=rate / len(tasks))
