"""Has the files of an update judged before their commit: what readers would see, against the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import ValidationBrokenError, ValidationFailedError
from winnow.log.latest_tables import ReflectedLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoders import TableRows
from winnow.pipeline.latest.table_change import TableChange
from winnow.pipeline.topics.topic_view import TopicView
from winnow.quality.latest_facts import NOTHING_UPDATED, LatestPartition, compute_latest_facts
from winnow.quality.validation import validate_fact_table
from winnow.values.model import Segment, Severity
from winnow.values.results import Failure

log = logging.getLogger("winnow")

SUITE: Final = "latest"


def require_sound_change(
    installation: Installation,
    view: TopicView,
    order: RecordOrder,
    table_rows: TableRows,
    rows: Mapping[int, tuple[Segment, ...]],
    change: TableChange,
    reflected: ReflectedLog,
) -> None:
    """Judge the partitions that ``change`` changes: ``rows`` of before, with its files in their place.

    Rows that could not be decoded are a warning.

    Raises:
        ValidationFailedError: readers would see other rows than the log's greatest records.
        ValidationBrokenError: a check could not be carried out.
        DamagedSegmentError: a segment is not what was written.
    """
    topic = view.log.topic
    if change.facts is None:
        changed = _list_changed(view, order, table_rows, rows, change)
        facts = compute_latest_facts(topic, changed, budget=installation.budget)
    else:
        facts = [change.facts[number] for number in sorted(change.facts)]
    if not facts:
        return
    verdict = validate_fact_table(
        facts,
        plan_id=f"{reflected.snapshot_id:x}",
        topic=topic,
        attempt=SUITE,
        checked_at_ms=installation.now_ms(),
        suite=SUITE,
        data_docs=installation.settings.data_docs,
    )
    said = _describe(topic, verdict.failures)
    if not verdict.passed:
        error = ValidationBrokenError if verdict.broken else ValidationFailedError
        raise error(
            f"The table of the latest state of topic {topic} was not updated: {said}.",
            left=NOTHING_UPDATED,
            next=(
                f"Drop the table and have it written anew: winnow latest-table drop {topic}, then winnow latest-table "
                f"update {topic}. If that repeats, report it as a defect."
            ),
        )
    if said:
        log.warning("The table of the latest state of topic %s was updated, with warnings: %s.", topic, said)


def _list_changed(
    view: TopicView,
    order: RecordOrder,
    table_rows: TableRows,
    rows: Mapping[int, tuple[Segment, ...]],
    change: TableChange,
) -> list[LatestPartition]:
    removed = {segment.path for segment in change.removed}
    changed = {segment.partition for segment in (*change.added, *change.removed)}
    return [
        LatestPartition(
            partition.partition,
            [
                *(segment for segment in rows.get(partition.partition, ()) if segment.path not in removed),
                *(segment for segment in change.added if segment.partition == partition.partition),
            ],
            [segment for segment in partition.segments if segment.last_offset >= partition.state.log_start_offset],
            partition.state.log_start_offset,
            partition.state.log_end_offset,
            order.strategy,
            order.header,
            table_rows.table_schema.error_column_id,
            drops_rows=table_rows.maker.drops_rows,
        )
        for partition in view.partitions
        if partition.partition in changed
    ]


def _describe(topic: str, failures: Sequence[Failure]) -> str:
    return "; ".join(
        f"{'warning: ' if failure.severity is Severity.WARN else ''}"
        f"{topic if failure.partition is None else f'{topic}-{failure.partition}'}: {failure.detail.rstrip('.')}"
        for failure in failures
    )
