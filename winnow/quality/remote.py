"""The recomputation as a Spark task runs it: plain values in, plain figures out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Protocol

from winnow import documents
from winnow.errors import ValidationBrokenError, WinnowError
from winnow.model import PartitionPlan, Plan, StagedPartition
from winnow.quality.recomputation import IndependentFacts, recompute_facts

Figures = dict[str, int | str]


class TaskBudget(Protocol):
    """What one task may use."""

    @property
    def memory_limit_bytes(self) -> int:
        """Memory, in bytes, before it spills."""

    @property
    def threads(self) -> int:
        """Threads."""

    @property
    def spill_folder(self) -> str | None:
        """Where it spills; None: Spark's local folders, or the system's temporary folder."""


def compute_figures(
    plan: Plan, partition: PartitionPlan, staged: StagedPartition, attempt: str, budget: TaskBudget
) -> Figures:
    """:func:`winnow.quality.recomputation.recompute_facts`, as plain figures.

    Raises:
        ServiceError, ValidationBrokenError: as there.
    """
    facts = recompute_facts(
        plan,
        partition,
        staged,
        attempt=attempt,
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
    )
    return asdict(facts)


def parse_figures(figures: Figures) -> IndependentFacts:
    """The facts behind ``figures``.

    Raises:
        ValidationBrokenError: some are missing or are no figures; another Winnow computed them.
    """
    try:
        return documents.load_json(IndependentFacts, documents.dump_json(figures))
    except WinnowError as problem:
        raise ValidationBrokenError(
            "The facts that the Spark application computed are not those of this Winnow. Nothing was published and no "
            "partition was marked. Install one version of Winnow everywhere, then validate again."
        ) from problem
