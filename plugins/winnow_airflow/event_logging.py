"""Writes pipeline events to the task log as structured lines and counts them as metrics.

Airflow logs through structlog: a line has a text and fields, which the UI and JSON logs keep apart. It drops the
``extra`` fields of the standard library's logging, so this module passes events to structlog directly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from winnow.report import events
from winnow_airflow import metrics

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation


class _EventHandler(logging.Handler):
    """Writes each event once with its fields, and counts it when metrics are on."""

    def __init__(self, installation: Installation) -> None:
        super().__init__()
        self._installation = installation
        self.has_counted = False

    @cached_property
    def _counts_events(self) -> bool:
        return metrics.are_metrics_enabled()

    @cached_property
    def _with_topic(self) -> bool:
        try:
            return len(self._installation.log.names()) <= self._installation.settings.metrics.most_topics
        except Exception:  # an unavailable catalog is reported by the code that needs it
            return False

    def emit(self, record: logging.LogRecord) -> None:
        """Log and count one event. Never raises."""
        import structlog

        event = events.read_event(record)
        if event is None:
            return
        try:
            logger = structlog.get_logger(events.log.name)
            getattr(logger, record.levelname.lower())(event.name, **event.fields)
            if self._counts_events:
                self.has_counted |= metrics.count_pipeline_event(event, with_topic=self._with_topic)
        except Exception:  # an error while logging must not fail the run
            self.handleError(record)


@contextmanager
def log_pipeline_events(installation: Installation) -> Iterator[None]:
    """Send events to this task's log and to Airflow's metrics while the block runs; each once, also when nested."""
    logger = events.log
    if any(isinstance(handler, _EventHandler) for handler in logger.handlers):
        yield
        return
    handler = _EventHandler(installation)
    before = (logger.propagate, logger.level)
    logger.addHandler(handler)
    # Count events also when the log shows warnings only; structlog decides which lines are shown.
    logger.propagate, logger.level = False, logging.INFO
    try:
        yield
    finally:
        logger.propagate, logger.level = before
        logger.removeHandler(handler)
        if handler.has_counted:
            metrics.flush_metrics()
