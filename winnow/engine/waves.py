"""A batch of plans in one or two waves of tasks: whole partitions and shares of keys first, then parts of what was cut.

Where no partition is cut there is one wave. Both begin with what is largest, so both end on all cores at about the same
time. The driver sees counts, names of files and fingerprints, which add up; no offset and no record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from winnow.engine.cutting import shares
from winnow.engine.ranges import combined_partition, part_units, remove_scratch, share_units
from winnow.engine.rewrite import Budget
from winnow.engine.slices import Unit, shared

Result = dict[str, Any]
"""What became of one unit: ``plan`` (its URI), ``partition``, and ``error`` with ``exit_code``, or what was made:
``staged`` of a whole partition, ``share`` of a share of its keys, ``part`` of a part."""

Spread = Callable[[Sequence[list[Unit]], Budget], list[Result]]
"""Gives each list of units to a task of its own, in this order, with what one task may use; the results of all."""

_Key = tuple[str, int]


def in_waves(
    units: Sequence[Unit],
    spread: Spread,
    *,
    cores: int,
    budget: Budget,
    most_tasks: int | None,
    giant_bytes: int,
    done: Callable[[Unit, Result], None],
) -> list[Result]:
    """Compact every unit, a topic partition each; the result of each, in any order.

    ``done`` is told of each partition that was cut, when its last task has ended. Under a rate nothing is cut: every
    share would have to wait for bytes that one task reads once. A partition of which a task failed has the error of it,
    and one of which a task gave no result has none itself.
    """
    at_once = min(cores, most_tasks or cores)
    cut = [1] * len(units)
    if budget.bytes_per_second is None:
        cut = shares([unit.size_bytes for unit in units], at_once, giant_bytes)
    giants = {_key_of(unit): unit for unit, number in zip(units, cut, strict=True) if number > 1}
    first: list[Unit] = [unit for unit, number in zip(units, cut, strict=True) if number == 1]
    for unit, number in zip(units, cut, strict=True):
        first += share_units(unit, number) if number > 1 else []
    results, of_giants = _apart(spread(*shared(first, cores, budget, most_tasks)), giants)
    if not giants:
        return results
    found = {
        key: [each["share"] for each in of_giants[key]]
        for key, number in zip(map(_key_of, units), cut, strict=True)
        if number > 1 and _whole(of_giants[key], "share", number)
    }
    try:
        copying = {key: part_units(giants[key], found[key], at_once) for key in found}
        second: list[Unit] = [part for of_one in copying.values() for part in of_one]
        _, copies = _apart(spread(*shared(second, cores, budget, most_tasks)), giants)
    finally:
        remove_scratch(each["share"] for of_one in of_giants.values() for each in of_one if "share" in each)
    for key, unit in giants.items():
        result: Result = {"plan": unit.plan_uri, "partition": unit.partition}
        errors = [each for each in (*of_giants[key], *copies[key]) if "error" in each]
        if errors:
            # What is known of the log tells more than a service that was away meanwhile.
            result |= min(errors, key=lambda each: int(each["exit_code"]))
        elif key in found and _whole(copies[key], "part", len(copying[key])):
            result["staged"] = combined_partition(unit, found[key], [each["part"] for each in copies[key]])
        else:
            continue
        results.append(result)
        done(unit, result)
    return results


def _apart(results: Sequence[Result], giants: Mapping[_Key, Unit]) -> tuple[list[Result], dict[_Key, list[Result]]]:
    """The results of whole partitions, and those of the tasks of each partition that was cut."""
    whole: list[Result] = []
    cut: dict[_Key, list[Result]] = {key: [] for key in giants}
    for result in results:
        cut.get((result["plan"], result["partition"]), whole).append(result)
    return whole, cut


def _whole(results: Sequence[Result], made: str, number: int) -> bool:
    return len(results) == number and all(made in each for each in results)


def _key_of(unit: Unit) -> _Key:
    return unit.plan_uri, unit.partition
