"""Bringing the page's picture of a topic up to date after something moved: a publish, a mark, a pause, a release."""

from __future__ import annotations

import logging

from winnow.errors import WinnowError
from winnow.pipeline.assess import view_topic
from winnow.pipeline.context import Context
from winnow.pipeline.pictures import record_picture

log = logging.getLogger("winnow")


def refresh_picture(ctx: Context, topic: str) -> bool:
    """Look at ``topic`` again and record what the page shows of it. Reads manifests and state, as assessing does.

    What was done is done and recorded, so a picture that cannot be taken never fails it: the page shows the one before
    until the next check.

    Returns:
        Whether the picture was taken.
    """
    try:
        record_picture(ctx, view_topic(ctx, topic))
    except Exception as problem:  # whatever it is, it must not turn a recorded outcome into another one
        # A library's own words may quote data.
        said = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
        log.warning("The page shows topic %s as it was before; the next check looks again. %s", topic, said)
        return False
    return True
