"""Bringing the page's picture of a topic up to date after something moved: a publish, a mark, a pause, a release."""

from __future__ import annotations

from winnow.pipeline.assess import load_topic_view
from winnow.pipeline.context import Context
from winnow.pipeline.pictures import record_overview, suppress_overview_errors


def refresh_overview(ctx: Context, topic: str) -> bool:
    """Look at ``topic`` again and record what the page shows of it. Reads manifests and state, as assessing does.

    What was done is done and recorded, so a picture that cannot be taken never fails it: the page shows the one before
    until the next check.

    Returns:
        Whether the picture was taken.
    """
    with suppress_overview_errors(topic) as taken:
        record_overview(ctx, load_topic_view(ctx, topic))
        taken.append(topic)
    return bool(taken)
