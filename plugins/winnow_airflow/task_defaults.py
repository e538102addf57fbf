"""Defaults of every task: owner, tags, pools, start date and retry policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from winnow.errors import (
    BadInputError,
    CommitConflictError,
    PlanVoidError,
    UsageError,
    ValidationFailedError,
    WinnowError,
)

OWNER = "winnow"
TAGS = ["winnow", "kafka"]
SPARK_POOL = "winnow_spark"
COMMIT_POOL = "winnow_commit"
SCRUB_POOL = "winnow_scrub"
SPARK_CONNECTION = "winnow_spark"

START = datetime(2011, 1, 1, tzinfo=UTC)
"""Before every record that Kafka ever took, so that a backfill may reach any of them."""

DEFAULT_RETRIES = 3

RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=[UsageError, BadInputError, ValidationFailedError],
            action=RetryAction.FAIL,
            reason="The same call meets the same data and configuration again.",
        ),
        RetryRule(
            exception=PlanVoidError,
            action=RetryAction.FAIL,
            reason="The log moved on; the next run plans from where it is.",
        ),
        RetryRule(
            exception=CommitConflictError,
            action=RetryAction.RETRY,
            retry_delay=timedelta(0),
            reason="Another commit came first; it is through by now.",
        ),
    ],
    # Services that are away, commits of unknown outcome, topics in other hands and the unforeseen: tried again, each
    # time after twice the delay.
    default=RetryAction.DEFAULT,
)

RUN_KIND_FIRST = "winnow_airflow.priority.RunKindFirst"
"""By its name: of a mapped task Airflow serialises the weight rule as text."""

DEFAULT_ARGS: dict[str, Any] = {
    "owner": OWNER,
    "retries": DEFAULT_RETRIES,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
    "retry_policy": RETRY_POLICY,
    "weight_rule": RUN_KIND_FIRST,
}


def combine_errors(errors: Sequence[tuple[str, Exception]]) -> Exception:
    """One exception for what went wrong with several topics, of a kind that says whether trying again can help.

    It can when it can for one of them: the others have ended, and end the same way again.
    """
    if len(errors) == 1:
        return errors[0][1]
    worth_retrying = [problem for _, problem in errors if is_worth_retrying(problem)]
    # The most patient first: what waits for a service must not be tried again at once.
    patient = [problem for problem in worth_retrying if not isinstance(problem, CommitConflictError)]
    chosen = next(iter([*patient, *worth_retrying]), errors[0][1])
    kind = type(chosen) if isinstance(chosen, WinnowError) else WinnowError
    return kind("\n".join(f"{topic}: {describe_error(problem)}" for topic, problem in errors))


def is_worth_retrying(problem: Exception) -> bool:
    """Whether the same call may end otherwise without anybody changing anything."""
    return RETRY_POLICY.evaluate(problem, 1, 1).action is not RetryAction.FAIL


def describe_error(problem: Exception) -> str:
    """What may be said of an exception: Winnow's own words; of a stranger its type alone, since it may quote data."""
    return str(problem) if isinstance(problem, WinnowError) else f"{type(problem).__name__}, see the log of the task"
