"""``winnow compact``: everything from assessing to the report, for any number of topics."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from winnow.cli.command_errors import exit_with, print_error
from winnow.cli.options import (
    AsOf,
    IncludeActiveSegment,
    Json,
    Simulate,
    Topics,
    choose_topics,
    open_for_command,
    require_not_ahead,
    resolve_as_of,
)
from winnow.cli.output import format_names, print_lines, write_json
from winnow.cli.progress import CompactionProgress
from winnow.cli.receipts import make_document

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

_RECENT_RUNS = 20
"""Runs whose pace is expected of the next."""


def compact(
    topics: Topics = None,
    as_of: AsOf = None,
    simulate: Simulate = False,
    include_active_segment: IncludeActiveSegment = False,
    as_json: Json = False,
) -> None:
    """Keep the last record of each key in eligible partitions.

    Plans, rewrites with Spark, validates the result and publishes it in one snapshot per topic. Partitions that `winnow
    assess` calls idle do not change. Readers see the old log until the new one is published. One topic's failure does
    not stop the others. A topic that another run holds is refused if it was named (exit code 5), else skipped.

    An --as-of more than a minute ahead of the present needs --simulate; the result then says what was removed before
    its time by the wall clock.

    Example: winnow compact orders
    """
    with open_for_command() as installation:
        if not simulate:
            require_not_ahead(installation, as_of)
        as_of_ms = resolve_as_of(installation, as_of)
        chosen = choose_topics(installation, topics)
        from winnow.pipeline.compaction.driver import CompactionOutcome, compact_topics
        from winnow.pipeline.topics.audit import record_request
        from winnow.store.audit import AuditAction

        outcome = CompactionOutcome()
        if chosen:
            with CompactionProgress(_find_usual_pace(installation)) as progress:
                outcome = compact_topics(
                    installation,
                    chosen,
                    as_of_ms=as_of_ms,
                    progress=progress,
                    leave_held=not topics,
                    closes_active=include_active_segment,
                )
            record_request(installation, AuditAction.COMPACT, topics or ())
    for error in outcome.errors:
        print_error(error.error)
    if as_json:
        if outcome.receipts or not outcome.errors:
            write_json([make_document(receipt) for receipt in outcome.receipts])
        exit_with(outcome.exit_code)
        return
    from winnow.report.receipts import format_receipt
    from winnow.values.model import Status

    said = {error.message for error in outcome.errors}
    for receipt in outcome.receipts:
        if receipt.message not in said:
            print_lines(format_receipt(receipt))
    published = [receipt.topic for receipt in outcome.receipts if receipt.status is Status.PUBLISHED]
    if published:
        print_lines(
            f"Next: winnow read {published[0]}"
            + (f" (published: {format_names(published)})" if len(published) > 1 else "")
        )
    exit_with(outcome.exit_code)


def _find_usual_pace(installation: Installation) -> float | None:
    """Find the bytes per second of recent runs, all tasks together; None if there is no terminal to show it."""
    if not sys.stderr.isatty():
        return None
    from winnow.report.forecast import measure_pace

    per_task = measure_pace(installation.store.projection.list_receipts(limit=_RECENT_RUNS))
    return None if per_task is None else per_task * (installation.settings.engine.tasks or os.cpu_count() or 1)
