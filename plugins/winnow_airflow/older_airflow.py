"""What Airflow 3.1 and 3.2 name differently, or lack: one place to import it from, whatever the version.

Airflow 3.1 keeps exceptions, configuration, timetables and metrics outside of its SDK. Retry policies came with 3.3:
before that a task fails without a retry only by raising ``AirflowFailException``, which :func:`fail_without_retries`
does for the errors that the policy of 3.3 names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import airflow.sdk

try:
    from airflow.sdk import CronTriggerTimetable, DeltaTriggerTimetable
except ImportError:  # before 3.2
    from airflow.timetables.trigger import (  # type: ignore[assignment]
        CronTriggerTimetable,
        DeltaTriggerTimetable,
    )

try:
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSkipException,
        AirflowTaskTimeout,
    )
except ImportError:  # before 3.2
    from airflow.exceptions import (  # type: ignore[attr-defined,no-redef]
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSkipException,
        AirflowTaskTimeout,
    )

try:
    from airflow.sdk.exceptions import TaskAwaitingInput as TaskWaiting
except ImportError:  # before 3.3, where the triggerer waits
    from airflow.exceptions import TaskDeferred as TaskWaiting  # type: ignore[no-redef]

from winnow.errors import (
    BadInputError,
    KeptVersionsError,
    PlanVoidError,
    UsageError,
    ValidationFailedError,
)

__all__ = [
    "DOUBLING_DELAY",
    "HAS_RETRY_POLICIES",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRescheduleException",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "CronTriggerTimetable",
    "DeltaTriggerTimetable",
    "TaskWaiting",
    "fail_without_retries",
    "get_airflow_conf",
    "get_dag_bag_class",
    "get_metrics_client",
    "get_plugin_errors",
]

DOUBLING_DELAY: Any = 2.0 if hasattr(airflow.sdk, "CronTriggerTimetable") else True
"""``retry_exponential_backoff`` so that the delay doubles: its base, and before 3.2 whether it does."""

HAS_RETRY_POLICIES = hasattr(airflow.sdk, "ExceptionRetryPolicy")

HOPELESS = (UsageError, BadInputError, ValidationFailedError, PlanVoidError, KeptVersionsError)
"""Errors that a retry meets again: same data, same configuration, same bucket, or a log that moved on."""


@contextmanager
def fail_without_retries(*, has_policies: bool = HAS_RETRY_POLICIES) -> Iterator[None]:
    """Where Airflow has no retry policies, turn errors that no retry can mend into a failure without retries.

    Raises:
        AirflowFailException: in place of such an error, with its text.
    """
    try:
        yield
    except HOPELESS as problem:
        if has_policies:
            raise
        raise AirflowFailException(str(problem)) from problem


def get_airflow_conf() -> Any:
    """Return Airflow's configuration."""
    try:
        from airflow.sdk.configuration import conf
    except ImportError:  # before 3.2
        from airflow.configuration import conf
    return conf


def get_dag_bag_class() -> Any:
    """Return Airflow's class ``DagBag``, which parses the files of a folder."""
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # before 3.2
        from airflow.models.dagbag import DagBag  # type: ignore[no-redef]
    return DagBag


def get_plugin_errors() -> Mapping[str, str]:
    """Load Airflow's plugins; return those that failed, by file, with what Airflow says of each."""
    from airflow import plugins_manager

    if hasattr(plugins_manager, "get_import_errors"):
        return plugins_manager.get_import_errors()
    before_3_2: Any = plugins_manager
    before_3_2.ensure_plugins_loaded()
    return dict(before_3_2.import_errors)


def get_metrics_client() -> Any:
    """Return Airflow's metrics client: an object with ``gauge``, ``incr`` and ``timing``."""
    try:
        from airflow.sdk.observability import stats
    except ImportError:  # before 3.2
        from airflow.stats import Stats

        return Stats
    return stats if hasattr(stats, "gauge") else stats.Stats
