"""Attaches OpenLineage facets to tasks when Airflow's OpenLineage provider is installed and enabled.

The provider calls an operator's ``get_openlineage_facets_on_complete`` when a task has ended, successfully or not. A
``@task`` function is an operator too, but of a class of Airflow's, so the method is set on the operator instance. The
facets come from the metadata store and the table, and are the same however often the task ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from winnow_airflow.xcom_values import BatchRow

if TYPE_CHECKING:
    from airflow.sdk.definitions.xcom_arg import PlainXComArg

COMPACTED: Final = "compacted"
JUDGED: Final = "judged"
PUBLISHED: Final = "published"
"""Names of the functions of :mod:`winnow_airflow.lineage_facets`, so that naming one imports nothing."""


def attach_lineage(returned: Any, what: str) -> Any:
    """Attach the facet function ``what`` to the task that returns ``returned``, for its batch. Returns ``returned``."""
    operator: Any = cast("PlainXComArg", returned).operator
    operator.get_openlineage_facets_on_complete = partial(build_facets, what)
    return returned


def build_facets(what: str, task_instance: Any) -> Any:
    """Build inputs and outputs with their facets for the provider; None when the task has no batch.

    Only the provider calls it, in a separate process after the task; an exception is logged there as a warning.
    """
    from winnow.pipeline.installation import open_installation
    from winnow_airflow import lineage_facets

    batch = find_batch(task_instance.task)
    if batch is None:
        return None
    with open_installation() as installation:
        return getattr(lineage_facets, what)(installation, batch)


def find_batch(task: Any) -> BatchRow | None:
    """Return the batch that ``task`` was called with, its templates rendered."""
    arguments = [getattr(task, "batch", None), *getattr(task, "op_args", ()), *getattr(task, "op_kwargs", {}).values()]
    found = next((each for each in arguments if isinstance(each, Mapping) and "plans" in each), None)
    return cast("BatchRow | None", found)
