"""Task priority by kind of run: manual, then scheduled, then backfill (class path is stored by Airflow).

Within a run the batches are mapped in the order of their deadlines, the most overdue first, and the scheduler takes
tasks of equal weight in the order of their map index. Across runs it looks at the weight first and then at the logical
date, the oldest first: by itself it would let a month's backfill go before the present, and where the database sorts
nulls last it would let it go before what somebody asks for by hand, which has no logical date. So a weight says what
kind of run a task belongs to. It cannot say how overdue a batch is: Airflow weighs the first of several mapped tasks
before anything is planned, and never again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.task.priority_strategy import PriorityWeightStrategy

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance

BY_HAND, BY_SCHEDULE, BY_BACKFILL = 3, 2, 1
"""Small, since the same weights decide who gets a slot of the executor beside the DAGs of other teams."""


class RunKindFirst(PriorityWeightStrategy):
    """What somebody waits for, then the present, then the past. All tasks of a run weigh the same."""

    def get_weight(self, ti: TaskInstance) -> int:
        """The weight by the kind of run, which Airflow puts at the beginning of the run's id."""
        kind, separator, _ = ti.run_id.partition("__")
        if separator and kind == "backfill":
            return BY_BACKFILL
        return BY_SCHEDULE if separator and kind in {"scheduled", "asset_triggered"} else BY_HAND
