"""What came of a DAG run that somebody triggered, in a sentence per topic, for the page to show beside its button.

A task leaves it as an XCom under :data:`OUTCOME_KEY`, which is read through Airflow's API with the reader's own rights,
and goes when Airflow removes the DAG run. A run of the schedule leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from winnow_airflow.older_airflow import AirflowFailException, AirflowRescheduleException, AirflowSkipException
from winnow_airflow.task_defaults import describe_error

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

OUTCOME_KEY = "outcome"
"""The XCom's key."""

MAXIMUM_OUTCOMES = 20
"""Maximum topics of one task that get a sentence; the others are counted."""


class TopicOutcome(TypedDict):
    """What came of a topic. ``topic`` empty: of all. ``plan_id``: of the run that is meant, ours or another's.

    ``waiting``: nothing came of it yet; a later sentence takes the place of this one.
    """

    topic: str
    kind: Literal["done", "idle", "left", "failed", "waiting"]
    text: str
    plan_id: str | None


class TaskOutcome(TypedDict):
    """What a task leaves. ``further``: how many topics have no sentence."""

    outcomes: list[TopicOutcome]
    further: int


def is_triggered(context: Mapping[str, Any]) -> bool:
    """Check whether somebody triggered the DAG run, on the page or elsewhere, or a task of another DAG did."""
    return context["dag_run"].run_type in {"manual", "operator_triggered"}


def push_outcomes(context: Mapping[str, Any], outcomes: Sequence[TopicOutcome]) -> None:
    """Leave what came of topics, if somebody triggered the DAG run."""
    if not is_triggered(context) or not outcomes:
        return
    value = TaskOutcome(outcomes=list(outcomes[:MAXIMUM_OUTCOMES]), further=max(0, len(outcomes) - MAXIMUM_OUTCOMES))
    context["ti"].xcom_push(key=OUTCOME_KEY, value=value)


def push_sentences(context: Mapping[str, Any], topic: str, sentences: Sequence[str]) -> None:
    """Leave sentences about what was done with ``topic``; empty: each names its own."""
    push_outcomes(context, [TopicOutcome(topic=topic, kind="done", text=text, plan_id=None) for text in sentences])


def push_reports(context: Mapping[str, Any], reports: Sequence[tuple[str, str]]) -> None:
    """Leave what was done with each topic: its name, and a sentence that may begin with it."""
    push_outcomes(
        context,
        [
            TopicOutcome(topic=topic, kind="done", text=text.removeprefix(f"{topic}: "), plan_id=None)
            for topic, text in reports
        ],
    )


@contextmanager
def push_failure(context: Mapping[str, Any]) -> Iterator[None]:
    """Leave the error that ends the block: the one in whose place Airflow's own was raised, before Airflow 3.3."""
    try:
        yield
    except (AirflowSkipException, AirflowRescheduleException):
        raise
    except Exception as problem:
        cause = problem.__cause__ if isinstance(problem, AirflowFailException) else None
        text = describe_error(cause if isinstance(cause, Exception) else problem)
        push_outcomes(context, [TopicOutcome(topic="", kind="failed", text=text, plan_id=None)])
        raise


def describe_idle_topics(installation: Installation, reasons_of: Mapping[str, Mapping[str, int]]) -> list[TopicOutcome]:
    """Describe why topics were not due, by the number of partitions per reason.

    A topic that another run works on is left to that run, which is named, with who started it.
    """
    from winnow.report.outcomes import describe_idle_topic
    from winnow.values.model import Reason

    if len(reasons_of) > MAXIMUM_OUTCOMES:
        text = f"Of {len(reasons_of):,} topics nothing was due, or other runs work on them."
        return [TopicOutcome(topic="", kind="idle", text=text, plan_id=None)]
    outcomes = []
    for topic, reasons in sorted(reasons_of.items()):
        if Reason.IN_PROGRESS.value in reasons:
            outcomes.append(describe_left_topic(installation, topic))
        else:
            overview = installation.store.overview.find_recorded(topic)
            ratio = None if overview is None else (overview.dirty_ratio, overview.threshold)
            text = describe_idle_topic(reasons, ratio)
            outcomes.append(TopicOutcome(topic=topic, kind="idle", text=text, plan_id=None))
    return outcomes


def describe_left_topic(installation: Installation, topic: str) -> TopicOutcome:
    """Describe to which run ``topic`` is left, and who started that."""
    from winnow_airflow.holders import find_holder

    holder = find_holder(installation.store, topic, now_ms=installation.now_ms())
    if holder is None:
        return TopicOutcome(topic=topic, kind="left", text="Left to another run, which has ended since.", plan_id=None)
    what = "another run" if holder.plan_id is None else f"run {holder.plan_id}"
    return TopicOutcome(topic=topic, kind="left", text=f"Left to {what} by {holder.actor}.", plan_id=holder.plan_id)
