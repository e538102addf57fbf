"""Rebuilds the metadata store from the log's tables, and removes expired history."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.overview import refresh_overview
from winnow.pipeline.topics.sources import restore_row
from winnow.quality.gx_runtime import lock_site, remove_pages

LOG = logging.getLogger(__name__)


def prune_history(installation: Installation, topic: str, now_ms: int) -> tuple[int, int]:
    """Remove the history of ``topic`` from before ``now_ms`` minus ``history.retention_ms``: rows, and pages.

    After pages were removed, the site's index names them until it is rebuilt
    (:func:`winnow.quality.validation.build_site_index`).

    Raises:
        ServiceError: the store cannot be reached. What was removed so far stays removed.
    """
    rows = pages = 0
    for pruned in installation.store.history.prune(topic, now_ms - installation.settings.history.retention_ms):
        rows += pruned.rows
        if pruned.pages:
            pages += _remove_pages(installation, pruned.pages)
    installation.store.history.thin_samples(topic, now_ms)
    return rows, pages


def _remove_pages(installation: Installation, urls: tuple[str, ...]) -> int:
    folder = installation.settings.data_docs
    if not folder.is_dir():
        return 0
    try:
        with lock_site(folder):
            return remove_pages(folder, urls)
    except OSError as problem:
        LOG.warning("Data Docs pages of old verdicts could not be removed: %s", problem)
        return 0


def rebuild_store(installation: Installation, topics: Sequence[str] = ()) -> list[str]:
    """Rebuild the projection of ``topics`` (none = all); assessments, runs and verdicts are history and stay.

    Returns:
        The topics that were rebuilt.
    """
    rebuilt = list(topics) or installation.log.names()
    for topic in rebuilt:
        log = installation.log.open(topic)
        head = log.newest_head()
        state = head.state
        log.record(head)
        receipts = log.receipts(head)
        installation.store.projection.replace(
            topic, state.partitions, receipts, state.waiting_files, installation.now_ms(), table_uuid=head.table_uuid
        )
        restore_row(installation, log, head)
        refresh_overview(installation, topic)
    return rebuilt
