"""Task priority by kind of run: manual, then scheduled, then checks by schedule, then backfill.

Airflow stores the class path.

Within a run the batches are mapped in the order of their deadlines, the most overdue first, and the scheduler takes
tasks of equal weight in the order of their map index. Across runs it orders by weight, then by logical date, the oldest
first. Without weights it would run a month's backfill before the present, and, where the database sorts nulls last,
also before a manual run, which has no logical date. So the weight is the kind of run. It cannot express how overdue a
batch is: Airflow computes the weight of mapped tasks once, from the first, before anything is planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.task.priority_strategy import PriorityWeightStrategy

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance

BY_HAND, BY_SCHEDULE, CHECKS_BY_SCHEDULE, BY_BACKFILL = 4, 3, 2, 1
"""Small, since the same weights compete for executor slots with the DAGs of other teams."""


CHECKS = frozenset({"check_eligibility", "check_further_topics"})
"""Tasks that look at many topics; they come round again with the schedule."""


class RunKindFirst(PriorityWeightStrategy):
    """Orders runs: manual, then scheduled, then backfill; of scheduled runs the checks come last."""

    def get_weight(self, ti: TaskInstance) -> int:
        """Return the weight of the kind of run, which Airflow writes as the prefix of the run's id."""
        kind, separator, _ = ti.run_id.partition("__")
        if separator and kind == "backfill":
            return BY_BACKFILL
        if not separator or kind not in {"scheduled", "asset_triggered"}:
            return BY_HAND
        return CHECKS_BY_SCHEDULE if ti.task_id in CHECKS else BY_SCHEDULE
