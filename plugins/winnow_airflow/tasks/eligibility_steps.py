"""Checks which topics of a run are due: one task looks at as many topics as one process does well.

What is due and why stands per topic in the metadata store, on the page, and in the log of the task: one line for each
topic with something due, and the reasons of the others counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from winnow.clock import format_ms, read_wall_clock_ms
from winnow.errors import TopicBusyError
from winnow_airflow import outcomes
from winnow_airflow.metrics import are_metrics_enabled
from winnow_airflow.task_defaults import is_worth_retrying
from winnow_airflow.task_skipping import skip_tasks
from winnow_airflow.tasks import dry_run
from winnow_airflow.tasks.ended_runs import release_topics_of_ended_runs
from winnow_airflow.tasks.monitoring import explain_not_present
from winnow_airflow.tasks.topic_results import TaskResults
from winnow_airflow.xcom_values import MAXIMUM_MAPPED_TASKS, TopicCheck, split_evenly

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")

CHECKS_KEY = "checks"
"""XCom key of what the first task found; its return value is the topics that are left."""

MAXIMUM_TOPICS_PER_TASK = 500
"""Maximum topics that one task looks at: some seconds of work, several times what starting its process takes."""


def looks_at_all(params: Mapping[str, Any]) -> bool:
    """Check whether a run looks at topics that were idle, too: somebody who names topics is told of their present."""
    return bool(params["dry_run"] or params["topics"])


def split_topics(
    installation: Installation, topics: Sequence[str], *, as_of_ms: int, looks_at_all: bool
) -> list[list[str]]:
    """Split the topics that have to be looked at into one share per task.

    A topic that was idle at the last check and cannot have anything due since is in none of them, unless the run
    ``looks_at_all``.
    """
    from winnow.pipeline.compaction.idle_topics import find_idle_topics

    idle = {} if looks_at_all else find_idle_topics(installation, topics, as_of_ms=as_of_ms)
    log.info("As of %s: %s.", format_ms(as_of_ms), _count_topics(len(topics)))
    if idle:
        reasons: Counter[str] = Counter()
        for each in idle.values():
            reasons.update(each)
        log.info(
            "Unchanged since the last check and not due: %s (%s).", _count_topics(len(idle)), format_reasons(reasons)
        )
    left = [topic for topic in topics if topic not in idle]
    return split_evenly(left, min(-(-len(left) // MAXIMUM_TOPICS_PER_TASK), MAXIMUM_MAPPED_TASKS))


def check_share(
    installation: Installation, context: Mapping[str, Any], topics: Sequence[str], *, as_of_ms: int
) -> tuple[TaskResults, list[TopicCheck]]:
    """Check the topics of one task and log what is due; return the failures, and the checks that later tasks need."""
    results = TaskResults(installation)
    is_dry_run = context["params"]["dry_run"]
    if not is_dry_run:
        release_topics_of_ended_runs(installation, context, topics)
    checks = (dry_run.open_previews if is_dry_run else open_checks)(installation, topics, as_of_ms=as_of_ms)
    found = _check_all(topics, results, checks)
    if outcomes.is_triggered(context):
        _push_outcomes(installation, context, found)
    # A backfill may wait for a topic that another run is working on; any other run leaves it.
    waits = context["dag_run"].run_type == "backfill"
    needed = [check for check in found if check["eligible"] or (waits and "in_progress" in check["reasons"])]
    return results, found if is_dry_run else needed


def _push_outcomes(installation: Installation, context: Mapping[str, Any], found: Sequence[TopicCheck]) -> None:
    """Leave what a dry run found, or why topics were not due; later tasks tell of the others."""
    if context["params"]["dry_run"]:
        outcomes.push_sentences(context, "", [check["would"] or "" for check in found])
        return
    idle = {check["topic"]: check["reasons"] for check in found if not check["eligible"]}
    outcomes.push_outcomes(context, outcomes.describe_idle_topics(installation, idle))


def will_be_retried(context: Mapping[str, Any], problems: Sequence[Exception]) -> bool:
    """Check whether raising ``problems`` leads to another try of the task."""
    has_tries_left = context["ti"].try_number <= context["ti"].max_tries
    return has_tries_left and any(is_worth_retrying(problem) for problem in problems)


@contextmanager
def end_run_on_error(context: Mapping[str, Any]) -> Iterator[None]:
    """Skip the tasks of a run whose first task fails before it could look at a topic."""
    try:
        yield
    except Exception as problem:
        if not will_be_retried(context, [problem]):
            skip_tasks(list_idle_tasks(context, [], further=[]))
        raise


def list_idle_tasks(
    context: Mapping[str, Any], found: Sequence[TopicCheck], *, further: Sequence[Sequence[str]]
) -> list[str]:
    """List the tasks of this run that have nothing to do, by what its first task ``found``."""
    idle = []
    if not found and not further:
        idle += ["plan", *(task for task in context["dag"].task_ids if task.startswith("compact_batch."))]
    if context["params"]["shadow_strategy"] is None:
        idle += ["list_compared", "compare_strategy"]
    if not are_metrics_enabled():
        idle.append("send_metrics")
    if explain_not_present(context, now_ms=read_wall_clock_ms()) is not None:
        idle.append("watch")
    return [task for task in idle if task in context["dag"].task_ids]


def _check_all(
    topics: Sequence[str], results: TaskResults, checks: AbstractContextManager[Callable[[str], TopicCheck]]
) -> list[TopicCheck]:
    found: list[TopicCheck] = []
    idle: Counter[str] = Counter()
    with checks as check:
        for topic in topics:
            with results.collect(topic):
                found.append(check(topic))
    for each in found:
        if each["eligible"]:
            log.info("%s is due: %s.", each["topic"], format_reasons(each["reasons"]))
        else:
            idle.update(each["reasons"])
    if not topics:
        return found
    due = sum(each["eligible"] for each in found)
    rest = f"; nothing of the others is: {format_reasons(idle)}" if idle else ""
    log.info("Looked at %s: %d due%s.", _count_topics(len(found)), due, rest)
    return found


def _count_topics(count: int) -> str:
    return f"{count:,} topic" if count == 1 else f"{count:,} topics"


def format_reasons(reasons: Mapping[str, int]) -> str:
    """Format the number of partitions per reason, the most frequent first."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {reason}" for reason, count in ordered)


@contextmanager
def open_checks(
    installation: Installation, topics: Sequence[str], *, as_of_ms: int
) -> Iterator[Callable[[str], TopicCheck]]:
    """Clean up what earlier runs of ``topics`` left open, then assess the topics and record the decisions together.

    Yields a function that checks one of ``topics`` and raises that topic's own error.
    """
    from winnow.pipeline.compaction.assess import open_assessor

    problems: dict[str, Exception] = {}
    for topic in sorted(installation.store.runs.list_open_topics().intersection(topics)):
        try:
            _settle_topic(installation, topic)
        except Exception as problem:  # raised when that topic is checked
            problems[topic] = problem
    with open_assessor(installation, topics, as_of_ms=as_of_ms) as assess:

        def check(topic: str) -> TopicCheck:
            if topic in problems:
                raise problems[topic]
            found = assess(topic)
            reasons = Counter(assessment.reason.value for assessment in found)
            return TopicCheck(topic=topic, eligible=any(a.eligible for a in found), reasons=dict(reasons), would=None)

        yield check


def _settle_topic(installation: Installation, topic: str) -> None:
    from winnow.pipeline.compaction.open_runs import settle_topic

    try:
        for receipt in settle_topic(installation, topic):
            log.info("Settled an earlier run of %s: plan %s is published.", topic, receipt.plan_id)
    except TopicBusyError as problem:
        log.info("%s", problem)


def check_topic(installation: Installation, topic: str, *, as_of_ms: int) -> TopicCheck:
    """Check one topic like :func:`open_checks`."""
    with open_checks(installation, [topic], as_of_ms=as_of_ms) as check:
        return check(topic)
