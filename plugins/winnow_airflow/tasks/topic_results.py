"""Ends a task that processed several topics: fails it, skips it, or lets it succeed.

Only backfills wait for a topic that another run holds (:mod:`winnow_airflow.tasks.backfill_order`); elsewhere it is
left to that run.
"""

from __future__ import annotations

import logging
from collections.abc import Sized
from typing import TYPE_CHECKING

from winnow.errors import WinnowError
from winnow.values.failures import TopicFailure, TopicFailures
from winnow_airflow.older_airflow import AirflowSkipException
from winnow_airflow.task_defaults import combine_errors, describe_error
from winnow_airflow.xcom_values import build_label

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")


class TaskResults(TopicFailures):
    """Collects the failures of the topics of one task, and logs each."""

    def __init__(self, installation: Installation) -> None:
        def explain(plan_id: str) -> str | None:
            from winnow.pipeline.compaction.plan_validity import explain_void

            return explain_void(installation, plan_id)

        super().__init__(explain)

    @property
    def errors(self) -> list[tuple[str, Exception]]:
        """Topics that failed, and their errors. Topics that failed for the same cause are one entry."""
        failed = [failure for failure in self._sorted_failures if failure.left is None]
        causes: dict[str, list[TopicFailure]] = {}
        for failure in failed:
            causes.setdefault(failure.cause or f"topic {failure.topic}", []).append(failure)
        return [entry for group in causes.values() for entry in _describe_group(group)]

    @property
    def left(self) -> list[str]:
        """The sentences about topics that are left to another run."""
        return [failure.left for failure in self._sorted_failures if failure.left is not None]

    @property
    def _sorted_failures(self) -> list[TopicFailure]:
        """The failures by topic: several are worked on at a time, in any order."""
        return sorted(self.failures, key=lambda failure: failure.topic)

    def add(self, failure: TopicFailure) -> None:
        """Add a failure and log it."""
        super().add(failure)
        if failure.left is not None:
            log.info("%s", failure.left)
            return
        problem = failure.error
        log.error("Topic %s: %s", failure.topic, describe_error(problem), exc_info=not isinstance(problem, WinnowError))

    def raise_errors(self) -> None:
        """Raise one exception for all errors, if there are any."""
        errors = self.errors
        if errors:
            raise combine_errors(errors)

    def close(self, done: Sized, *, nothing: str) -> None:
        """End a task: raise the collected errors, or skip the task when nothing was ``done``.

        The skip's message lists the topics that were left; without any it is ``nothing``.

        Raises:
            AirflowSkipException: there was nothing to do for this run.
        """
        self.raise_errors()
        if not done:
            raise AirflowSkipException("\n".join(self.left) or nothing)


def _describe_group(group: list[TopicFailure]) -> list[tuple[str, Exception]]:
    cause, problem = group[0].cause, group[0].error
    if cause is None or len(group) == 1:
        return [(failure.topic, failure.error) for failure in group]
    topics = [failure.topic for failure in group]
    shared = type(problem)(f"{len(topics)} topics were not compacted: {cause}. Nothing of them was published.")
    return [(build_label(topics), shared)]
