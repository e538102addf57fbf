"""Tells people of a validation that failed, also of one that died before it could tell them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier, Context

from winnow_airflow.policy import sentence
from winnow_airflow.references import BatchRow, PlanRow, attempts
from winnow_airflow.steps import pipeline

if TYPE_CHECKING:
    from winnow.pipeline.context import Context as Pipeline
    from winnow.report.alerts import Alert


class WinnowNotifier(BaseNotifier):
    """An alert per topic of the batch that did not pass: to the log and to the webhook of the settings.

    The pipeline alerts a failed verdict when it records it; what was alerted is not alerted twice. ``plan_task``: the
    task whose return value lists the batches.
    """

    template_fields = ("plan_task",)

    def __init__(self, plan_task: str = "plan") -> None:
        super().__init__()
        self.plan_task = plan_task

    def notify(self, context: Context) -> None:
        """Alert what the failed task left without a passed verdict."""
        from winnow.report.alerts import raise_alert

        task_instance = context["ti"]
        batches: list[BatchRow] = task_instance.xcom_pull(task_ids=self.plan_task, map_indexes=-1)
        batch = batches[task_instance.map_index or 0]
        with pipeline(context) as ctx:
            for row in batch["plans"]:
                alert = alert_for(ctx, row, batch["attempt"], context.get("exception"))
                if alert is not None:
                    raise_alert(ctx.settings, ctx.store, alert)


def alert_for(ctx: Pipeline, row: PlanRow, base: str, problem: object) -> Alert | None:
    """What to tell about one topic of a batch whose validation failed; None when nothing is wrong with it."""
    from winnow.report.alerts import Alert

    attempt = next(attempts(row["uri"], base), None)
    if attempt is None:
        return None
    verdict = ctx.store.verdict(row["plan_id"], attempt)
    now_ms = ctx.now_ms()
    if verdict is None:
        cause = sentence(problem) if isinstance(problem, Exception) else "the task was ended from outside"
        message = (
            f"Validation of plan {row['plan_id']} of topic {row['topic']} ended without a verdict: {cause}. Nothing "
            "was published; readers see the log as before. Clear the task to judge it again, or wait for the next run."
        )
        return Alert("validation_broken", row["topic"], None, message, now_ms)
    if verdict.passed:
        return None
    run = ctx.store.run(row["plan_id"])
    message = run.message if run is not None else f"Validation of topic {row['topic']} failed; nothing was published."
    if verdict.broken:
        return Alert("validation_broken", row["topic"], None, message, now_ms)
    return Alert("validation_failed", row["topic"], verdict.failing_partitions or None, message, now_ms)
