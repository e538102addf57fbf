"""Attaches OpenLineage facets to tasks when Airflow's OpenLineage provider is installed and enabled.

The provider asks an operator's ``get_openlineage_facets_on_complete`` when a task ended, well or not. Functions made
tasks by ``@task`` are operators too, but of a class that is Airflow's, so theirs hangs on the operator itself.
What is told comes from the metadata store and the table, and is the same however often the task ran.
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
"""The functions of :mod:`winnow_airflow.lineage_facets` by their names: naming them imports nothing."""


def attach_lineage(returned: Any, what: str) -> Any:
    """Have the task that gives ``returned`` tell ``what`` of the topics of its batch. Gives ``returned``."""
    operator: Any = cast("PlainXComArg", returned).operator
    operator.get_openlineage_facets_on_complete = partial(build_facets, what)
    return returned


def build_facets(what: str, task_instance: Any) -> Any:
    """Inputs and outputs with their facets, as the provider takes them; None where the task has no batch.

    Called by the provider alone, in a process of its own, after the task; what it raises is a warning there.
    """
    from winnow.pipeline.context import open_context
    from winnow_airflow import lineage_facets

    batch = find_batch(task_instance.task)
    if batch is None:
        return None
    with open_context() as ctx:
        return getattr(lineage_facets, what)(ctx, batch)


def find_batch(task: Any) -> BatchRow | None:
    """The batch that ``task`` was called with, its templates rendered."""
    arguments = [getattr(task, "batch", None), *getattr(task, "op_args", ()), *getattr(task, "op_kwargs", {}).values()]
    found = next((each for each in arguments if isinstance(each, Mapping) and "plans" in each), None)
    return cast("BatchRow | None", found)
