"""Alerts about failed tasks, including tasks that were killed before they could report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context

from winnow.errors import TopicBusyError, WinnowError
from winnow_airflow.older_airflow import AirflowFailException
from winnow_airflow.task_defaults import describe_error
from winnow_airflow.xcom_values import BatchRow, PlanRow, list_staged_attempts

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.report.alert_kinds import Situation
    from winnow.store import Run


class WinnowNotifier(BaseNotifier):
    """Alerts once per topic of the failed task that was not alerted yet: to the log, the webhook and every notifier.

    For ``on_failure_callback``. The pipeline itself alerts about errors it finds, and no alert is sent twice, so this
    covers tasks that ended without a report. ``listing_task``: the task whose return value lists what the mapped tasks
    work on, batches or shares of topics.
    """

    template_fields = ("listing_task",)

    def __init__(self, listing_task: str = "plan") -> None:
        super().__init__()
        self.listing_task = listing_task

    def notify(self, context: Context) -> None:
        """Alert about what the failed task left behind."""
        from winnow_airflow.tasks.task_start import open_task_installation

        task_instance: Any = context["ti"]
        listed = task_instance.xcom_pull(task_ids=self.listing_task, map_indexes=-1)
        if not listed:
            return
        mine: Any = listed[max(task_instance.map_index or 0, 0)]
        problem = context.get("exception")
        step = task_instance.task_id.rpartition(".")[2]
        with open_task_installation(context) as installation:
            if step == "ingest_topic":
                found = find_failed_ingests(installation, mine, problem)
            elif isinstance(mine, list):
                found = find_stuck_sweeps(installation, mine, problem)
            else:
                found = find_unreported_failures(installation, mine, step, problem)
            for situation in found:
                installation.alerts.open_alert(situation)


def find_unreported_failures(
    installation: Installation, batch: BatchRow, step: str, problem: object
) -> Iterator[Situation]:
    """Yield the situations of the topics of a batch whose ``step`` failed, from the metadata store."""
    for row in batch["plans"]:
        situation = find_situation(installation, row, batch["attempt"], step, problem)
        if situation is not None:
            yield situation


def find_situation(installation: Installation, row: PlanRow, base: str, step: str, problem: object) -> Situation | None:
    """Return the situation of one topic of a batch whose ``step`` failed; None when nothing is wrong with it."""
    from winnow.report import alert_kinds
    from winnow.store import RunState

    run = installation.store.runs.find(row["plan_id"])
    if run is None:
        return None
    topic, plan_id, at_ms = run.topic, run.plan_id, installation.now_ms()
    if run.status.is_unsettled:
        what = f"The task ended before it said whether the commit of plan {plan_id} of topic {topic} landed"
        return alert_kinds.make_commit_unknown(topic, plan_id, f"{what} ({_describe_cause(problem)})", at_ms=at_ms)
    attempt = next(list_staged_attempts(row["uri"], base), None)
    verdict = installation.store.verdicts.find(plan_id, attempt) if attempt is not None else None
    if verdict is not None and verdict.broken:
        from winnow.pipeline.compaction.validate import build_broken_alert

        return build_broken_alert(verdict, at_ms=at_ms)
    if verdict is not None and not verdict.passed:
        from winnow.pipeline.compaction.validate import build_verdict_alert

        numbers = verdict.failing_partitions or tuple(_find_marks(installation, run))
        marks = _find_marks(installation, run)
        return build_verdict_alert(topic, verdict, numbers, marks, at_ms=at_ms, page_url=installation.page_url)
    if run.status in {RunState.INVALID, RunState.SPARK_FAILED}:
        from winnow.pipeline.topics.marks import build_uncleanable_alert

        marks = _find_marks(installation, run)
        reasons = {number: mark.reason for number, mark in marks.items()}
        return build_uncleanable_alert(topic, plan_id, reasons, marks, at_ms=at_ms) if marks else None
    if step == "validate" and attempt is not None and verdict is None:
        return alert_kinds.make_validation_broken(
            topic,
            plan_id,
            f"Validation of plan {plan_id} of topic {topic} ended without a verdict: {_describe_cause(problem)}",
            at_ms=at_ms,
            to_do=f"Clear the task to judge it again, or wait for the next run; by hand: winnow compact {topic}",
        )
    return None


def _find_marks(installation: Installation, run: Run) -> dict[int, Any]:
    marks = installation.store.projection.list_uncleanable([run.topic])
    return {each.partition: mark for each, mark in marks.items() if mark.plan_id == run.plan_id}


def find_stuck_sweeps(installation: Installation, topics: Iterable[str], problem: object) -> Iterator[Situation]:
    """Yield the situations of topics whose sweep failed. A topic that a run holds is left to a later sweep."""
    from winnow.report import alert_kinds

    if isinstance(problem, TopicBusyError):
        return
    now_ms = installation.now_ms()
    for topic, words in _split_cause(topics, problem).items():
        what = f"The sweep of topic {topic} failed: {words}"
        yield alert_kinds.make_sweep_stuck(
            topic, now_ms, what, dag_id=installation.settings.name_dag("sweep_topics"), at_ms=now_ms
        )


def find_failed_ingests(installation: Installation, topics: Iterable[str], problem: object) -> Iterator[Situation]:
    """Yield the situations of topics whose ingest from Kafka failed."""
    from winnow.report import alert_kinds

    for topic, words in _split_cause(topics, problem).items():
        yield alert_kinds.make_ingest_failed(
            topic, words, dag_id=installation.settings.name_dag("ingest_topics"), at_ms=installation.now_ms()
        )


def _split_cause(topics: Iterable[str], problem: object) -> dict[str, str]:
    """Split the error of a task over those of its ``topics`` that it is about: all of them if it names none."""
    share = list(topics)
    if isinstance(problem, AirflowFailException):  # in which an older Airflow ends a task for good
        problem = problem.__cause__ or problem
    of_topics = problem.of_topics if isinstance(problem, WinnowError) else {}
    told = {topic: str(of_topics[topic]) for topic in share if topic in of_topics}
    return told or dict.fromkeys(share, _describe_cause(problem))


def _describe_cause(problem: object) -> str:
    return describe_error(problem) if isinstance(problem, Exception) else "it was ended from outside"
