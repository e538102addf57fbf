"""Defaults of every task: owner, tags, pools, start date and retry policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from winnow.errors import (
    BadInputError,
    CommitConflictError,
    Explanation,
    KeptVersionsError,
    PlanVoidError,
    UsageError,
    ValidationFailedError,
    WinnowError,
)
from winnow_airflow.dag_ids import get_prefix, name_dag
from winnow_airflow.older_airflow import DOUBLING_DELAY, HAS_RETRY_POLICIES, HOPELESS

if TYPE_CHECKING:
    from airflow.sdk import ExceptionRetryPolicy

OWNER = "winnow"
TAG = "winnow"
FIELD_TAG = "kafka"
TAGS = [f"{get_prefix()}{TAG}", FIELD_TAG]
"""The first is that of one installation: by it the page finds its DAGs."""
SPARK_POOL = "winnow_spark"
COMMIT_POOL = "winnow_commit"
SCRUB_POOL = "winnow_scrub"
CHECK_POOL = "winnow_check"
SPARK_CONNECTION = "winnow_spark"

START = datetime(2011, 1, 1, tzinfo=UTC)
"""Earlier than any Kafka record, so that a backfill can reach all of them."""

DEFAULT_RETRIES = 3

HOPELESS_REASONS: dict[tuple[type[Exception], ...], str] = {
    (UsageError, BadInputError, ValidationFailedError): "A retry would meet the same data and configuration.",
    (PlanVoidError,): "The log moved on; the next run plans from where it is.",
    (KeptVersionsError,): "The bucket, or the rights in it, have to be changed first.",
}
"""Why errors are not retried."""

RETRY_POLICY: ExceptionRetryPolicy | None = None
"""Which errors fail at once, and which are retried at once; None before Airflow 3.3, which has no such policies.

There :func:`winnow_airflow.older_airflow.fail_without_retries` has the first part, and a lost race for a commit waits
like an unavailable service.
"""

if HAS_RETRY_POLICIES:
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

    RETRY_POLICY = ExceptionRetryPolicy(
        rules=[
            *(
                RetryRule(exception=list(kinds), action=RetryAction.FAIL, reason=reason)
                for kinds, reason in HOPELESS_REASONS.items()
            ),
            RetryRule(
                exception=CommitConflictError,
                action=RetryAction.RETRY,
                retry_delay=timedelta(0),
                reason="Another commit came first; it has finished by now.",
            ),
        ],
        # Retried with a doubling delay: unavailable services, commits of unknown outcome, topics held by another run,
        # and unexpected errors.
        default=RetryAction.DEFAULT,
    )

RUN_TIMEOUT = timedelta(days=3)
"""Time after which a run is ended: longer than its tasks with all their retries take, so it ends what hangs.

Until then it would hold up the next run where there is one at a time. What it leaves behind the next run completes.
"""

OWNER_LINKS = {OWNER: "https://github.com/winnow-data/winnow/blob/main/docs/airflow.md"}
"""Where the owner in Airflow's list of DAGs leads."""


def make_dag_arguments(name: str, timeout: timedelta = RUN_TIMEOUT) -> dict[str, Any]:
    """Make what every DAG is called with: its id in this installation, a name for people, links and a timeout."""
    dag_id = name_dag(name)
    return {
        "dag_id": dag_id,
        # With the id, which the command line and the documents use.
        "dag_display_name": f"{name.replace('_', ' ').capitalize()} ({dag_id})",
        "owner_links": OWNER_LINKS,
        "dagrun_timeout": timeout,
    }


RUN_KIND_FIRST = "winnow_airflow.priority.RunKindFirst"
"""Class path of the weight rule, because Airflow serialises the rule of a mapped task as text."""

DEFAULT_ARGS: dict[str, Any] = {
    "owner": OWNER,
    "retries": DEFAULT_RETRIES,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": DOUBLING_DELAY,
    "max_retry_delay": timedelta(minutes=15),
    **({} if RETRY_POLICY is None else {"retry_policy": RETRY_POLICY}),
    "weight_rule": RUN_KIND_FIRST,
}


def combine_errors(errors: Sequence[tuple[str, Exception]]) -> Exception:
    """Combine the errors of several topics into one exception that is retryable if one of them is.

    A retry does not harm the other topics: they have ended, and end the same way again.
    """
    of_topics = {topic: _explain(problem) for topic, problem in errors}
    if len(errors) == 1:
        (_, alone), *_ = errors
        if isinstance(alone, WinnowError):
            alone.of_topics = of_topics
        return alone
    worth_retrying = [problem for _, problem in errors if is_worth_retrying(problem)]
    # The longest delay first: an error that waits for a service must not be retried at once.
    patient = [problem for problem in worth_retrying if not isinstance(problem, CommitConflictError)]
    chosen = next(iter([*patient, *worth_retrying]), errors[0][1])
    kind = type(chosen) if isinstance(chosen, WinnowError) else WinnowError
    combined = kind("\n".join(f"{topic}: {describe_error(problem)}" for topic, problem in errors))
    combined.of_topics = of_topics
    return combined


def is_worth_retrying(problem: Exception) -> bool:
    """Check whether the same call may succeed later without anyone changing something."""
    return not isinstance(problem, HOPELESS)


def _explain(problem: Exception) -> Explanation:
    return problem.explanation if isinstance(problem, WinnowError) else Explanation(describe_error(problem))


def describe_error(problem: Exception) -> str:
    """Describe an exception: Winnow's own message, or only the type of a foreign exception, which may quote data."""
    return str(problem) if isinstance(problem, WinnowError) else f"{type(problem).__name__}, see the log of the task"
