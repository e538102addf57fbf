"""Step of the DAG change_many: one reviewed change of many topics, each in a commit of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from winnow.errors import UsageError, WinnowError
from winnow.values.bulk_changes import ACTIONS, ALTER, MAXIMUM_TOPICS, BulkChange, compute_review_digest
from winnow.values.counts import format_count
from winnow_airflow.older_airflow import fail_without_retries
from winnow_airflow.outcomes import TopicOutcome
from winnow_airflow.task_defaults import combine_errors, describe_error, is_worth_retrying
from winnow_airflow.topic_rights import require_right

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

__all__ = ["ACTIONS", "ALTER", "MAXIMUM_TOPICS", "BulkParams", "BulkReport", "change_many", "describe_change"]

log = logging.getLogger("airflow.task")

MAXIMUM_ERRORS_RAISED = 20
"""Maximum topics whose errors are in the error of the task; the log has all."""


class BulkParams(TypedDict):
    """The Params of ``change_many``. ``topics``: names, each with the fingerprint of the topic as it was reviewed."""

    action: str
    topics: dict[str, str]
    config: dict[str, str]
    reset: list[str]
    add_tags: list[str]
    remove_tags: list[str]
    digest: str
    reason: str


@dataclass(frozen=True, slots=True)
class BulkReport:
    """What came of a change of many topics. ``errors``: of those that failed or were refused, by topic."""

    changed: int
    unchanged: int
    errors: tuple[tuple[str, Exception], ...]

    @property
    def text(self) -> str:
        """How many were changed, were so already and failed, in a sentence."""
        parts = [f"{format_count(self.changed, 'topic')} changed"]
        if self.unchanged:
            parts.append(f"{self.unchanged:,} had it already")
        if self.errors:
            parts.append(f"{self.failed_count:,} failed or refused")
        return f"{', '.join(parts)}."

    @property
    def failed_count(self) -> int:
        """How many topics failed or were refused."""
        return len(self.errors)

    @property
    def outcomes(self) -> list[TopicOutcome]:
        """The sentence about all, then one per topic that failed."""
        kind = "failed" if self.errors else "done" if self.changed else "idle"
        failed = [
            TopicOutcome(topic=topic, kind="failed", text=describe_error(problem), plan_id=None)
            for topic, problem in self.errors
        ]
        return [TopicOutcome(topic="", kind=kind, text=self.text, plan_id=None), *failed]  # type: ignore[typeddict-item]

    def raise_errors(self) -> None:
        """Raise one exception for all errors, if there are any; it is worth a retry if one of them is."""
        if not self.errors:
            return
        first = sorted(self.errors, key=lambda error: not is_worth_retrying(error[1]))[:MAXIMUM_ERRORS_RAISED]
        with fail_without_retries():
            raise combine_errors(first)


def change_many(installation: Installation, context: Mapping[str, Any]) -> BulkReport:
    """Carry out the change of the Params on each topic that is as it was reviewed; one topic's failure stops no other.

    The rights of the person who triggered the run are checked for each topic. The audit log gets one entry, which names
    all of them, before the first is changed. Repeating it has no effect.

    Raises:
        UsageError: the request is not what was reviewed. Nothing was changed.
    """
    from winnow.pipeline.parallel import map_parallel
    from winnow.pipeline.topics.audit import record_request
    from winnow.pipeline.topics.bulk import change_reviewed_topic, list_reviewed_values
    from winnow.store.audit import AuditAction

    asked: BulkParams = context["params"]
    change = BulkChange(
        asked["action"],
        asked["config"],
        tuple(asked["reset"]),
        tuple(asked["add_tags"]),
        tuple(asked["remove_tags"]),
    )
    topics = asked["topics"]
    if compute_review_digest(change, topics) != asked["digest"]:
        raise UsageError(
            "This request is not the one that was reviewed.",
            left="Nothing was changed.",
            next="Review the change on the page again.",
        )
    record_request(
        installation,
        AuditAction(change.action),
        sorted(topics),
        detail=describe_change(change),
        changes=list_reviewed_values(installation, topics, change),
    )

    def change_one(topic: str) -> bool | Exception:
        try:
            require_right(installation, context, [topic])
            return change_reviewed_topic(installation, topic, topics[topic], change)
        except Exception as problem:  # one topic's failure, expected or not, stops no other
            log.error("Topic %s: %s", topic, describe_error(problem), exc_info=not isinstance(problem, WinnowError))
            return problem

    report = _count_results(sorted(topics), map_parallel(change_one, sorted(topics)))
    log.info("%s", report.text)
    return report


def describe_change(change: BulkChange) -> str:
    """Describe what is done with each topic: keys and tags; empty for a pause and its end, which have only a name."""
    if change.action != ALTER:
        return ""
    parts = [f"{key}={text}" for key, text in sorted(change.config.items())]
    parts += [f"reset {key}" for key in sorted(change.reset)]
    parts += [f"tag {tag}" for tag in sorted(change.add_tags)]
    return ", ".join([*parts, *(f"no tag {tag}" for tag in sorted(change.remove_tags))])


def _count_results(topics: Sequence[str], results: Sequence[bool | Exception]) -> BulkReport:
    errors = tuple((topic, found) for topic, found in zip(topics, results, strict=True) if isinstance(found, Exception))
    return BulkReport(results.count(True), results.count(False), errors)
