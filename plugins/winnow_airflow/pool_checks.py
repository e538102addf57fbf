"""Fails a run at once when a pool is missing; Airflow alone would let its tasks wait forever.

A task cannot see pools, because the interface between tasks and Airflow does not offer them. The scheduler can, so a
listener there checks them when a run begins and puts the names of missing pools into the run's configuration, which the
run's first task reads. Nothing is written while all pools exist.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from winnow.errors import ConfigurationError
from winnow_airflow.task_defaults import FIELD_TAG, TAG

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

log = logging.getLogger(__name__)

MISSING_POOLS_KEY = "winnow_missing_pools"
"""Entry of a run's configuration."""


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """In the scheduler: record the missing pools of the run's tasks; again when a run is cleared."""
    dag = dag_run.dag
    if dag is None or not _is_of_winnow(dag.tags):
        return
    missing = sorted({task.pool for task in dag.tasks} - _list_pools(dag_run))
    conf = {name: value for name, value in (dag_run.conf or {}).items() if name != MISSING_POOLS_KEY}
    if missing:
        log.error("Dag %s needs pools that do not exist: %s.", dag_run.dag_id, ", ".join(missing))
        conf[MISSING_POOLS_KEY] = missing
    if conf != (dag_run.conf or {}):
        dag_run.conf = conf


def _is_of_winnow(tags: Collection[str]) -> bool:
    """Check whether a DAG is Winnow's: also that of an installation with another prefix than the scheduler's own."""
    return FIELD_TAG in tags and any(tag.endswith(TAG) for tag in tags)


def _list_pools(dag_run: DagRun) -> set[str]:
    from airflow.models.pool import Pool
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    assert session is not None, "the scheduler's runs belong to its session"
    # Do not flush the scheduler's pending writes for this query.
    with session.no_autoflush:
        return set(session.scalars(select(Pool.pool)))


def require_pools(context: Mapping[str, Any]) -> None:
    """In the first task of a run: fail it when pools are missing.

    Raises:
        ConfigurationError: with the command that creates them.
    """
    missing: Iterable[str] = (context["dag_run"].conf or {}).get(MISSING_POOLS_KEY, ())
    if not missing:
        return
    commands = [_build_create_command(name) for name in missing]
    raise ConfigurationError(
        f"Airflow has no pool {' and no pool '.join(missing)}, so tasks of this run would wait forever.",
        left="Nothing was done.",
        next=f"Create what is missing, then clear this run: {' && '.join(commands)}",
    )


def _build_create_command(name: str) -> str:
    from winnow.embedded.airflow_home import POOLS

    pool = POOLS.get(name, {"slots": 1, "description": "Winnow"})
    return f"winnow airflow pools set {name} {pool['slots']} '{pool['description']}'"
