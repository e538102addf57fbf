"""Runs a batch of plans in one or two rounds of tasks: partitions and key shares first, then their parts.

Without a split partition there is one round. Both rounds begin with the largest work, so all cores end at about the
same time. The driver sees counts, file names and fingerprints, which add up; no offsets and no records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from winnow.engine.task_planning import (
    WorkUnit,
    build_part_units,
    build_share_units,
    combine_partition,
    count_key_shares,
    plan_tasks,
    remove_survivor_files,
)
from winnow.engine.task_resources import TaskBudget

Result = dict[str, Any]
"""The result of one unit: ``plan`` (its URI), ``partition``, and ``error`` with ``exit_code`` or its output: ``staged``
for a whole partition, ``share`` for a share of its keys, ``part`` for a part."""

RunTasks = Callable[[Sequence[list[WorkUnit]], TaskBudget], list[Result]]
"""Gives each list of units to its own task, in this order, with what one task may use; returns all results."""

_Key = tuple[str, int]


def run_in_rounds(
    units: Sequence[WorkUnit],
    spread: RunTasks,
    *,
    cores: int,
    budget: TaskBudget,
    maximum_tasks: int | None,
    giant_bytes: int,
    done: Callable[[WorkUnit, Result], None],
) -> list[Result]:
    """Compact every unit, a partition each; return their results in any order.

    ``done`` is called for each split partition when its last task has ended. Under a rate nothing is split: every share
    would wait for bytes that one task reads once. A partition with a failed task gets its error, and one with a missing
    result has none.
    """
    at_once = min(cores, maximum_tasks or cores)
    cut = [1] * len(units)
    if budget.bytes_per_second is None:
        cut = count_key_shares([unit.size_bytes for unit in units], at_once, giant_bytes)
    giants = {_build_key(unit): unit for unit, number in zip(units, cut, strict=True) if number > 1}
    first: list[WorkUnit] = [unit for unit, number in zip(units, cut, strict=True) if number == 1]
    for unit, number in zip(units, cut, strict=True):
        first += build_share_units(unit, number) if number > 1 else []
    results, of_giants = _separate_results(spread(*plan_tasks(first, cores, budget, maximum_tasks)), giants)
    if not giants:
        return results
    found = {
        key: [each["share"] for each in of_giants[key]]
        for key, number in zip(map(_build_key, units), cut, strict=True)
        if number > 1 and _is_complete(of_giants[key], "share", number)
    }
    try:
        copying = {key: build_part_units(giants[key], found[key], at_once) for key in found}
        second: list[WorkUnit] = [part for of_one in copying.values() for part in of_one]
        _, copies = _separate_results(spread(*plan_tasks(second, cores, budget, maximum_tasks)), giants)
    finally:
        for key, of_one in of_giants.items():
            remove_survivor_files(giants[key], [each["share"] for each in of_one if "share" in each])
    for key, unit in giants.items():
        result: Result = {"plan": unit.plan_uri, "partition": unit.partition}
        errors = [each for each in (*of_giants[key], *copies[key]) if "error" in each]
        if errors:
            # An error about the log says more than a service that was away meanwhile.
            result |= min(errors, key=lambda each: int(each["exit_code"]))
        elif key in found and _is_complete(copies[key], "part", len(copying[key])):
            result["staged"] = combine_partition(unit, found[key], [each["part"] for each in copies[key]])
        else:
            continue
        results.append(result)
        done(unit, result)
    return results


def _separate_results(
    results: Sequence[Result], giants: Mapping[_Key, WorkUnit]
) -> tuple[list[Result], dict[_Key, list[Result]]]:
    """Separate the results of whole partitions from those of each split partition's tasks."""
    whole: list[Result] = []
    cut: dict[_Key, list[Result]] = {key: [] for key in giants}
    for result in results:
        cut.get((result["plan"], result["partition"]), whole).append(result)
    return whole, cut


def _is_complete(results: Sequence[Result], output: str, number: int) -> bool:
    return len(results) == number and all(output in each for each in results)


def _build_key(unit: WorkUnit) -> _Key:
    return unit.plan_uri, unit.partition
