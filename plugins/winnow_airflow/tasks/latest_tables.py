"""A step at the end of tasks that come often: tables of latest states that are due are brought up to date."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winnow.errors import WinnowError

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")


def update_due_tables(installation: Installation) -> None:
    """Bring the tables of latest states up to date that are due. A failure is a warning: what was ingested stays."""
    from winnow.pipeline.latest.due_updates import update_due_tables as update_tables

    try:
        tried = update_tables(installation)
    except WinnowError as problem:
        log.warning("Tables of latest states were not brought up to date; the next run looks again. %s", problem)
    else:
        if tried:
            log.info("Brought up to date, as far as no warning says otherwise: tables of latest states of %s.", tried)
