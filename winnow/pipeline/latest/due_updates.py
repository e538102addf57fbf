"""Brings the tables of latest states up to date whose last update is as long ago as their topics say."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winnow.errors import WinnowError
from winnow.pipeline.latest.progress import measure_progress

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("winnow")


def update_due_tables(installation: Installation) -> list[str]:
    """Update the tables with ``winnow.latest.update=SECONDS`` that are due; return the topics that were tried.

    Where nothing is due it costs two statements at the metadata store. A table that cannot be updated is a warning, and
    is tried again when it is due again; of several processes one takes it.

    Raises:
        ServiceError: the metadata store cannot be reached.
    """
    store = installation.store.latest_tables
    for topic in store.list_unaccounted():
        try:
            measure_progress(installation, topic)
        except WinnowError as problem:
            log.warning("The table of the latest state of topic %s was not looked at. %s", topic, problem)
    tried: list[str] = []
    for due in store.list_due(installation.now_ms()):
        if store.claim(due, installation.now_ms()):
            tried.append(due.topic)
            _update(installation, due.topic)
    return tried


def _update(installation: Installation, topic: str) -> None:
    from winnow.pipeline.latest.table import update_after_publish  # heavy, and most ticks have nothing to do

    try:
        head = installation.log.open(topic).newest_head()
    except WinnowError as problem:
        log.warning("The table of the latest state of topic %s was not updated. %s", topic, problem)
    else:
        update_after_publish(installation, topic, head)
