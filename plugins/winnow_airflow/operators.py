"""Operators for other people's DAGs: they have Winnow compact or ingest, wait for it, and return what came of it.

Each triggers one of Winnow's own DAGs, as the page's buttons do, and waits in Airflow's triggerer without a slot. To
import this module loads neither PySpark nor PyIceberg.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context

from winnow.errors import UsageError
from winnow_airflow.dag_ids import name_dag
from winnow_airflow.outcomes import OUTCOME_KEY, TaskOutcome, TopicOutcome

POLL_S = 5
"""Default time (s) between two looks at the triggered run."""


class WinnowRunOperator(TriggerDagRunOperator):
    """Triggers a DAG of this installation and waits for its end. The task fails if the run does.

    ``dag_name``: without this installation's prefix. ``outcome_tasks``: those of its tasks that say what came of
    topics. Returns a list of :class:`winnow_airflow.outcomes.TopicOutcome`.
    """

    def __init__(
        self, *, dag_name: str, conf: dict[str, Any], outcome_tasks: Sequence[str] = (), **arguments: Any
    ) -> None:
        waiting = {"wait_for_completion": True, "deferrable": True, "poke_interval": POLL_S}
        # The operator waits by itself only where it is not deferred, and then nothing reads the outcome.
        super().__init__(trigger_dag_id=name_dag(dag_name), conf=conf, **{**waiting, **arguments})
        self.outcome_tasks = tuple(outcome_tasks)

    def execute_complete(self, context: Context, event: tuple[str, dict[str, Any]]) -> list[TopicOutcome]:
        """Log and return what came of each topic.

        Raises:
            AirflowException: the run failed.
        """
        outcomes = [outcome for run_id in event[1]["run_ids"] for outcome in self._read_outcomes(context, str(run_id))]
        for outcome in outcomes:
            self.log.info("%s: %s", outcome["topic"] or "All topics", outcome["text"])
        super().execute_complete(context, event)
        return outcomes

    def _read_outcomes(self, context: Context, run_id: str) -> list[TopicOutcome]:
        found: list[TopicOutcome] = []
        for task_id in self.outcome_tasks:
            left: Any = context["ti"].xcom_pull(
                task_ids=task_id, dag_id=self.trigger_dag_id, run_id=run_id, key=OUTCOME_KEY
            )
            # Of a task that was mapped there are several.
            values: list[TaskOutcome | None] = left if isinstance(left, list) else [left]
            found.extend(outcome for value in values if value is not None for outcome in value["outcomes"])
        return found


class WinnowCompactOperator(WinnowRunOperator):
    """Compacts topics that are due, beside the schedule, as *Compact now* on the page does.

    A topic with nothing due, and one that another run works on, is an outcome of its own and no failure: ``kind`` is
    ``idle`` or ``left`` instead of ``done``.
    """

    def __init__(self, *, topics: Sequence[str], as_of: str | None = None, **arguments: Any) -> None:
        """Make the task. ``as_of``: decide as of this instant, ISO 8601; None: of the run.

        Raises:
            UsageError: ``topics`` is empty, which would mean all.
        """
        if not topics:
            raise UsageError("WinnowCompactOperator names no topic.", next="Name at least one in topics.")
        super().__init__(
            dag_name="compact_now",
            conf={"topics": topics, "as_of": as_of},
            outcome_tasks=("check_eligibility", "plan", "compact_batch.report"),
            **arguments,
        )


class WinnowIngestOperator(WinnowRunOperator):
    """Appends files to a topic, or what is new of Kafka topics; running it again appends nothing twice.

    A topic with nothing new at Kafka is an outcome of its own and no failure: ``kind`` is ``idle`` instead of ``done``.
    """

    def __init__(
        self,
        *,
        topic: str | None = None,
        paths: Sequence[str] = (),
        source_topic: str | None = None,
        kafka_topics: Sequence[str] = (),
        **arguments: Any,
    ) -> None:
        """Make the task. ``paths``: files or folders of ``topic``, below a folder of the setting ``ingest.roots``.

        Raises:
            UsageError: neither files of a topic nor Kafka topics are named, or both.
        """
        if bool(kafka_topics) is bool(topic and paths):
            raise UsageError(
                "WinnowIngestOperator takes either topic and paths, or kafka_topics.", next="Give one of the two."
            )
        conf = {"kafka_topics": kafka_topics} if kafka_topics else {"topic": topic, "paths": paths}
        if source_topic is not None:
            conf["source_topic"] = source_topic
        super().__init__(
            dag_name="ingest_topics", conf=conf, outcome_tasks=("ingest", "ingest_kafka", "ingest_topic"), **arguments
        )
