"""Runs a batch of plans in one or two rounds of tasks: partitions and key shares first, then their parts.

Where no partition is cut there is one wave. Both begin with what is largest, so both end on all cores at about the same
time. The driver sees counts, names of files and fingerprints, which add up; no offset and no record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from winnow.engine.splitting import (
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
"""What became of one unit: ``plan`` (its URI), ``partition``, and ``error`` with ``exit_code``, or what was made:
``staged`` of a whole partition, ``share`` of a share of its keys, ``part`` of a part."""

RunTasks = Callable[[Sequence[list[WorkUnit]], TaskBudget], list[Result]]
"""Gives each list of units to a task of its own, in this order, with what one task may use; the results of all."""

_Key = tuple[str, int]


def run_in_rounds(
    units: Sequence[WorkUnit],
    spread: RunTasks,
    *,
    cores: int,
    budget: TaskBudget,
    most_tasks: int | None,
    giant_bytes: int,
    done: Callable[[WorkUnit, Result], None],
) -> list[Result]:
    """Compact every unit, a topic partition each; the result of each, in any order.

    ``done`` is told of each partition that was cut, when its last task has ended. Under a rate nothing is cut: every
    share would have to wait for bytes that one task reads once. A partition of which a task failed has the error of it,
    and one of which a task gave no result has none itself.
    """
    at_once = min(cores, most_tasks or cores)
    cut = [1] * len(units)
    if budget.bytes_per_second is None:
        cut = count_key_shares([unit.size_bytes for unit in units], at_once, giant_bytes)
    giants = {_build_key(unit): unit for unit, number in zip(units, cut, strict=True) if number > 1}
    first: list[WorkUnit] = [unit for unit, number in zip(units, cut, strict=True) if number == 1]
    for unit, number in zip(units, cut, strict=True):
        first += build_share_units(unit, number) if number > 1 else []
    results, of_giants = _separate_results(spread(*plan_tasks(first, cores, budget, most_tasks)), giants)
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
        _, copies = _separate_results(spread(*plan_tasks(second, cores, budget, most_tasks)), giants)
    finally:
        remove_survivor_files(each["share"] for of_one in of_giants.values() for each in of_one if "share" in each)
    for key, unit in giants.items():
        result: Result = {"plan": unit.plan_uri, "partition": unit.partition}
        errors = [each for each in (*of_giants[key], *copies[key]) if "error" in each]
        if errors:
            # What is known of the log tells more than a service that was away meanwhile.
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
    """The results of whole partitions, and those of the tasks of each partition that was cut."""
    whole: list[Result] = []
    cut: dict[_Key, list[Result]] = {key: [] for key in giants}
    for result in results:
        cut.get((result["plan"], result["partition"]), whole).append(result)
    return whole, cut


def _is_complete(results: Sequence[Result], made: str, number: int) -> bool:
    return len(results) == number and all(made in each for each in results)


def _build_key(unit: WorkUnit) -> _Key:
    return unit.plan_uri, unit.partition
