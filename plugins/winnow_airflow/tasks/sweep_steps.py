"""Steps of the DAG sweep_topics."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context

from winnow.errors import TopicBusyError
from winnow_airflow import pool_checks, topic_rights
from winnow_airflow.tasks.task_start import open_task_installation, record_manual_run, select_topics
from winnow_airflow.tasks.topic_results import TaskResults

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")


def list_swept_topics() -> list[str]:
    """Return the topics of a sweep, which may name deleted ones too; where none is named, all of both kinds."""
    context = get_current_context()
    pool_checks.require_pools(context)
    named = context["params"]["topics"]
    with open_task_installation(context) as installation:
        deleted = [name for name in installation.log.list_deleted() if not named or name in named]
        others = [name for name in named if name not in deleted]
        if named:
            topic_rights.require_right(installation, context, deleted)
        deleted = topic_rights.keep_permitted(installation, context, deleted)
        record_manual_run(installation, context, "sweep")
        return [*(select_topics(installation, context, others) if others or not named else []), *deleted]


def sweep_topics(installation: Installation, names: Sequence[str], *, last_try: bool) -> list[tuple[str, str]]:
    """Sweep topics one by one. Returns each topic with a sentence.

    Raises:
        TopicBusyError: topics are being compacted, and this is not the last try; on the last try they are left to the
            next sweep.
    """
    from winnow.pipeline.admin import sweep as step

    results = TaskResults(installation)
    done = []
    for topic in names:
        with results.collect(topic):
            for swept in step.sweep_topics(installation, [topic]):
                log.info("%s", swept.message)
                done.append((swept.topic, swept.message))
    results.raise_errors()
    if results.left and not last_try:
        raise TopicBusyError("\n".join(results.left))
    return [*done, *((failure.topic, failure.left) for failure in results.failures if failure.left is not None)]
