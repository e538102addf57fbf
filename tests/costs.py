"""What the expensive tests need and cost: their marks, and the seconds by which ``tests/lanes.py`` orders them.

A test takes less than ten seconds on an idle core and needs no Spark, no server and no browser unless it is named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

TESTS: Final = Path(__file__).parent
SERVICES: Final = ("airflow", "browser", "cluster")
"""Folders whose tests share servers that take long to start, and wait for them most of the time."""
SECONDS_PER_TEST: Final = 0.4
"""Of a test that is not named here, roughly."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a folder or file: seconds for all of it on an idle machine (0: by the number of its tests), and its marks."""

    seconds: float
    marks: tuple[str, ...]


COSTS: Final[Mapping[str, Cost]] = MappingProxyType(
    {
        "airflow": Cost(400, ("airflow", "spark", "slow")),
        "browser": Cost(250, ("airflow", "browser")),
        "cluster": Cost(230, ("cluster", "spark", "slow")),
        "spark": Cost(0, ("spark",)),
        "bench/test_bench_small.py": Cost(90, ("spark", "slow")),
        "dags/test_docs.py": Cost(100, ("slow",)),
        "dags/test_compact_dag.py": Cost(100, ("spark", "slow")),
        "dags/test_alerts_in_airflow.py": Cost(40, ("slow",)),
        "docs/test_operations.py": Cost(70, ("slow",)),
        "faults/test_crash_table.py": Cost(40, ()),
        "faults/test_paused.py": Cost(30, ()),
        "faults/test_crowd.py": Cost(25, ("slow",)),
        "faults/test_power_cut.py": Cost(30, ("spark", "slow")),
        "faults/test_spark_killed.py": Cost(20, ("spark", "slow")),
        "integration/test_alerts.py": Cost(30, ()),
        "integration/test_demo_strategies.py": Cost(15, ("slow",)),
        "integration/test_demo_survivors.py": Cost(50, ("spark", "slow")),
        "integration/test_doctor.py": Cost(15, ("spark",)),
        "integration/test_facts_in_spark.py": Cost(10, ("spark",)),
        "integration/test_keyless_moved.py": Cost(20, ()),
        "integration/test_state_machine.py": Cost(15, ("slow",)),
        "spark/test_application.py": Cost(15, ("spark",)),
        "spark/test_cli_compact.py": Cost(15, ("spark",)),
        "spark/test_job_batch.py": Cost(30, ("spark",)),
        "spark/test_job_limits.py": Cost(20, ("spark",)),
        "unit/test_quality_facts.py": Cost(60, ()),
        "unit/test_quality_judge.py": Cost(45, ()),
        "unit/test_quality_orders.py": Cost(45, ()),
    }
)


def marks_of(path: Path) -> Iterator[str]:
    """The marks of the tests in one file."""
    inside = path.relative_to(TESTS)
    names = {inside.as_posix(), inside.parts[0]}
    yield from dict.fromkeys(mark for name in COSTS if name in names for mark in COSTS[name].marks)


def group_of(path: Path) -> str:
    """What the tests of one file are run with: their folder where it shares servers, else the file."""
    inside = path.relative_to(TESTS)
    return inside.parts[0] if inside.parts[0] in SERVICES else inside.as_posix()


def seconds_of(group: str, tests: int) -> float:
    """What a group of ``tests`` tests takes, roughly."""
    known = COSTS.get(group)
    return known.seconds if known is not None and known.seconds else tests * SECONDS_PER_TEST
