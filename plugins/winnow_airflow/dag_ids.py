"""Names of this installation in Airflow: what the setting ``airflow.dag_prefix`` stands before."""

from __future__ import annotations

from functools import cache

from winnow.config.settings import read_dag_prefix


@cache
def get_prefix() -> str:
    """Return the prefix; read once, because a process keeps the DAGs that it parsed.

    Raises:
        ConfigurationError: see :func:`winnow.config.settings.read_dag_prefix`. Airflow shows it as the DAG's import
            error, rather than a DAG of another name, which would start by itself.
    """
    return read_dag_prefix()


def name_dag(name: str) -> str:
    """Return the id of the DAG ``name`` in this installation."""
    return f"{get_prefix()}{name}"
