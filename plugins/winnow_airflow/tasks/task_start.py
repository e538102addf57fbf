"""What the tasks of every DAG begin with: the opened pipeline, the topics of the run, and who asked for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from winnow.errors import UnknownTopicError
from winnow_airflow import outcomes, params, topic_rights
from winnow_airflow.event_logging import log_pipeline_events
from winnow_airflow.older_airflow import CronTriggerTimetable
from winnow_airflow.task_context import open_run_installation
from winnow_airflow.task_defaults import DEFAULT_ARGS, RUN_TIMEOUT, START, TAGS, make_dag_arguments

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation


@contextmanager
def open_task_installation(context: Mapping[str, Any]) -> Iterator[Installation]:
    """Open settings, store and catalog for one task; its DAG run holds the leases, and events go to the task's log."""
    with (
        open_run_installation(context) as installation,
        installation.store.keep_open(),
        log_pipeline_events(installation),
    ):
        yield installation


def record_manual_run(installation: Installation, context: Mapping[str, Any], action: str) -> None:
    """Record in the audit log that somebody triggered this DAG run; runs of the schedule are not actions of people."""
    if not outcomes.is_triggered(context):
        return
    from winnow.pipeline.topics.audit import record_request
    from winnow.store.audit import AuditAction

    record_request(installation, AuditAction(action), context["params"]["topics"])


def select_topics(installation: Installation, context: Mapping[str, Any], wanted: Sequence[str]) -> list[str]:
    """Return the topics of a run: those it names, or all on which the person who triggered it may act.

    Raises:
        UnknownTopicError: a named topic does not exist.
        UsageError: the person may not act on a named topic.
    """
    known = installation.log.names()
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise UnknownTopicError(
            f"There is no topic {', '.join(unknown)}.",
            left="Nothing was done.",
            next="Name existing topics.",
        )
    topic_rights.require_right(installation, context, wanted)
    return list(dict.fromkeys(wanted)) or topic_rights.keep_permitted(installation, context, known)


def build_maintenance_dag(name: str, cron: str, doc: str, timeout: timedelta = RUN_TIMEOUT) -> DAG:
    """Build a DAG without tasks, on a schedule in UTC, whose Params are the list of topics and why somebody asks."""
    return DAG(
        **make_dag_arguments(name, timeout),
        schedule=CronTriggerTimetable(cron, timezone="UTC"),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        default_args=DEFAULT_ARGS,
        tags=TAGS,
        doc_md=doc,
        params={"topics": params.TOPICS, "reason": params.REASON},
    )
