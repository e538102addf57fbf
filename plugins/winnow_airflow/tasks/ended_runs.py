"""Releases topics that are still leased to DAG runs that have ended: somebody marked the run failed while it worked.

Airflow then stops the run's tasks, the one that releases its topics among them. Without this they would stay locked
until the lease ends. A process of such a run that goes on can do no harm: the topic's fence rejects its commit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from winnow.values.model import AIRFLOW_HOLDER

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")

ENDED_STATES = ("success", "failed")


def release_topics_of_ended_runs(
    installation: Installation, context: Mapping[str, Any], topics: Sequence[str]
) -> list[str]:
    """Release those of ``topics`` whose holder is a DAG run that has ended; return them.

    A run whose state cannot be found out, because it was deleted or belongs to another Airflow, keeps its topics.
    """
    released: list[str] = []
    states: dict[str, str | None] = {}
    for topic, lease in installation.store.leases.find_many(topics).items():
        if lease.holder == installation.holder or not lease.holder.startswith(AIRFLOW_HOLDER):
            continue
        if lease.holder not in states:
            states[lease.holder] = _find_state(context, lease.holder)
        if states[lease.holder] in ENDED_STATES and installation.store.leases.release(lease):
            log.info("Topic %s is released: %s, which held it, has ended.", topic, lease.holder)
            released.append(topic)
    return released


def _find_state(context: Mapping[str, Any], holder: str) -> str | None:
    dag_id, _, run_id = holder.removeprefix(AIRFLOW_HOLDER).partition(":")
    try:
        # Airflow's enumeration is text by its value, and not by str().
        state: str = context["ti"].get_dagrun_state(dag_id, run_id)
    except Exception as problem:
        log.info("The state of %s is not known (%s).", holder, type(problem).__name__)
        return None
    return state
