"""Lists the steps of each size and runs them round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.competitors import COMPETITORS
from bench.keyed_tables import WAYS as KEYED
from bench.lake import get_lake, prepare
from bench.results import CompetitorRun, Results
from bench.workloads import Size

StepCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One competitor on one workload, ``rounds`` times unless the command line says otherwise."""

    workload: str
    competitor: str
    rounds: int = 3


SUITES: dict[str, tuple[Step, ...]] = {
    "12m": (
        Step("uniform", "winnow"),
        Step("uniform", "duckdb"),
        Step("uniform", "spark-window"),
        Step("uniform", "spark-copy"),
        Step("uniform", "spark-semi-join", 1),
        Step("uniform", "spark-merge-cow", 1),
        Step("uniform", "spark-overwrite", 1),
        Step("uniform", "pyiceberg-upsert", 1),
        Step("uniform", "ingest", 2),
        Step("uniform", "duckdb-ingest", 2),
        Step("timestamp", "winnow"),
        Step("headers", "winnow"),
        Step("header", "winnow"),
        Step("incremental-1", "winnow"),
        *(Step("incremental-1", competitor, 1) for competitor in KEYED),
        Step("clean-1", "winnow"),
        *(Step("incremental-1-spread", competitor) for competitor in ("winnow", *KEYED)),
        *(Step("incremental-10-spread", competitor, 1) for competitor in ("winnow", *KEYED)),
        Step("many-small", "winnow", 2),
        Step("many-small", "spark-each", 1),
        Step("one-partition", "winnow-256m", 1),
        *(
            Step(workload, competitor, 1)
            for workload in ("zipf", "unique", "wide", "tombstones")
            for competitor in ("winnow", "duckdb")
        ),
    ),
    "large": (
        Step("uniform", "winnow"),
        Step("uniform", "duckdb"),
        Step("uniform", "spark-window", 1),
        Step("uniform", "spark-copy", 1),
    ),
}
"""Steps per size. Size small is in :mod:`bench.small_suite`, the control plane in :mod:`bench.control_plane`."""


def order_steps(
    steps: Sequence[Step], done: Callable[[Step], int], rounds: int | None = None
) -> Iterator[tuple[Step, int]]:
    """Yield the remaining steps with their round number, workload by workload and A B C A B C within each."""
    for workload in dict.fromkeys(step.workload for step in steps):
        mine = [step for step in steps if step.workload == workload]
        for number in range(max(rounds or step.rounds for step in mine)):
            for step in mine:
                if done(step) <= number < (rounds or step.rounds):
                    yield step, number


def select_steps(
    size: Size, workloads: Sequence[str], competitors: Sequence[str], suites: dict[str, tuple[Step, ...]] = SUITES
) -> list[Step]:
    """Return the steps of ``size`` that the command line selects; combinations that no suite has are added.

    Raises:
        ValueError: an unknown workload or competitor.
    """
    steps = [
        step
        for step in suites.get(size.name, ())
        if (not workloads or step.workload in workloads) and (not competitors or step.competitor in competitors)
    ]
    known = {(step.workload, step.competitor) for step in steps}
    asked = [(workload, competitor) for workload in workloads for competitor in competitors]
    return [*steps, *(Step(*pair, 1) for pair in asked if pair not in known)]


def run_suite(
    steps: Sequence[Step],
    size: Size,
    folder: Path,
    results: Results,
    *,
    rounds: int | None,
    report: StepCallback,
    on_run: Callable[[Step, CompetitorRun], None] = lambda step, run: None,
) -> None:
    """Run the steps missing in ``results``; save each run as it ends."""
    ready: set[str] = set()
    for step, number in order_steps(
        steps, lambda step: len(results.of(size.name, step.workload, step.competitor)), rounds
    ):
        lake = get_lake(step.workload, size, folder)
        if lake.workload.name not in ready:
            prepare(lake, report)
            ready.add(lake.workload.name)
        report(f"{size.name} {step.workload}: {step.competitor}, round {number + 1}")
        seen = any(run.fingerprint for run in results.of(size.name, step.workload, step.competitor))
        lake.warm()
        run = COMPETITORS[step.competitor].run(lake, not seen)
        results.add(run)
        on_run(step, run)
