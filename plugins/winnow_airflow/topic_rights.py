"""Rights by owner in a DAG run: of the person who triggered it. Runs of the schedule and of assets act for nobody.

The check is in the tasks, where the work is done: whoever may trigger a DAG can do so past the page, with any topic.
Airflow's auth manager cannot be asked there; it decides who may trigger the DAG at all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from winnow.errors import UsageError

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")

_OF_PEOPLE = ("manual", "operator_triggered", "backfill")
"""Kinds of runs that somebody asked for. One that a task of another DAG triggered is of that DAG's author, whom Airflow
does not name; older versions call it manual, too.
"""


def find_person(context: Mapping[str, Any]) -> str | None:
    """Return who triggered the run; None: nobody. Empty: somebody whom Airflow does not name."""
    run = context["dag_run"]
    name: str | None = getattr(run, "triggering_user_name", None)
    return name if name is not None or str(run.run_type) not in _OF_PEOPLE else ""


def require_person(context: Mapping[str, Any]) -> None:
    """Check that Airflow names the person who triggered the run, for what takes two.

    Raises:
        UsageError: it does not.
    """
    if not find_person(context):
        raise UsageError(
            "This takes two persons, and Airflow does not name anybody who triggered this run.",
            left="Nothing was done.",
            next="Trigger it on the page, or in Airflow.",
        )


def require_right(installation: Installation, context: Mapping[str, Any], topics: Iterable[str]) -> None:
    """Check that the person who triggered the run may act on all of ``topics``.

    Raises:
        UsageError: not on all; the message names them.
    """
    from winnow.pipeline.topics import rights as topic_rights

    person = find_person(context)
    if person is not None:
        topic_rights.require_right(installation, topics, person)


def keep_permitted(installation: Installation, context: Mapping[str, Any], topics: Sequence[str]) -> list[str]:
    """Return those of ``topics`` that the person who triggered the run may act on; the others are logged."""
    from winnow.pipeline.topics.rights import find_forbidden

    person = find_person(context)
    forbidden = {} if person is None else find_forbidden(installation, topics, person)
    if forbidden:
        log.warning("Left to their owners: %s.", ", ".join(f"{name} ({owner})" for name, owner in forbidden.items()))
    return [topic for topic in topics if topic not in forbidden]
