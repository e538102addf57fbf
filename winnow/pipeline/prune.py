"""Removing history that is older than the installation's retention, with the Data Docs pages of its verdicts."""

from __future__ import annotations

import logging

from winnow.pipeline.context import Context
from winnow.quality.data_docs import lock_site, remove_pages

LOG = logging.getLogger(__name__)


def prune_history(ctx: Context, topic: str, now_ms: int) -> tuple[int, int]:
    """Remove the history of ``topic`` from before ``now_ms`` less ``history.retention_ms``: rows, and pages.

    Where a page went the site's index names it until it is built again (:func:`winnow.quality.judge.build_site_index`).

    Raises:
        ServiceError: the store cannot be reached. What was removed so far stays removed.
    """
    rows = pages = 0
    for pruned in ctx.store.history.prune(topic, now_ms - ctx.settings.history.retention_ms):
        rows += pruned.rows
        if pruned.pages:
            pages += _remove_pages(ctx, pruned.pages)
    return rows, pages


def _remove_pages(ctx: Context, urls: tuple[str, ...]) -> int:
    folder = ctx.settings.data_docs
    if not folder.is_dir():
        return 0
    try:
        with lock_site(folder):
            return remove_pages(folder, urls)
    except OSError as problem:
        LOG.warning("Data Docs pages of old verdicts could not be removed: %s", problem)
        return 0
