"""What one ingest call did, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.model import PartitionState
from winnow.pipeline.appending import PreparedSegments
from winnow.sources.source_topic import TopicFilter


@dataclass(frozen=True, slots=True)
class PartitionIngest:
    """What one call did to one partition. ``first_offset`` is that of the first record appended."""

    partition: int
    first_offset: int | None
    log_end_offset: int
    records_appended: int
    records_skipped: int
    records_quarantined: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one call did. ``snapshot_id`` None: nothing new was there.

    Records that were all there already, in a file never seen before, make a snapshot without files: it remembers the
    file, so that it is still known when a compaction has removed its records.

    ``records_left_out``: records of other topics than ``source_topic``; they count nowhere else.
    """

    topic: str
    snapshot_id: int | None
    files: int
    records_appended: int
    records_skipped: int
    records_quarantined: int
    partitions: tuple[PartitionIngest, ...]
    notices: tuple[str, ...]
    records_left_out: int = 0
    source_topic: str | None = None


def build_report(
    topic: str,
    snapshot_id: int | None,
    prepared: PreparedSegments,
    *,
    states: Mapping[int, PartitionState],
    files: int,
    notices: Sequence[str],
    records_of: TopicFilter | None = None,
) -> IngestReport:
    """The report of a call that committed ``prepared`` over partitions in ``states``, or found nothing to commit."""
    numbers = sorted(
        {*prepared.base, *(p for p in prepared.skipped if p is not None and p >= 0)}
        | {p for p in prepared.quarantined if p is not None}
    )
    partitions = tuple(
        PartitionIngest(
            partition=number,
            first_offset=prepared.segments[number][0].first_offset if prepared.segments.get(number) else None,
            log_end_offset=prepared.log_end.get(number, states[number].log_end_offset),
            records_appended=prepared.appended.get(number, 0),
            records_skipped=prepared.skipped.get(number, 0),
            records_quarantined=prepared.quarantined.get(number, 0),
        )
        for number in numbers
    )
    return IngestReport(
        topic=topic,
        snapshot_id=snapshot_id,
        files=files,
        records_appended=sum(prepared.appended.values()),
        records_skipped=sum(prepared.skipped.values()),
        records_quarantined=sum(prepared.quarantined.values()),
        partitions=partitions,
        notices=tuple(notices),
        records_left_out=0 if records_of is None else records_of.records_left_out,
        source_topic=None if records_of is None else records_of.source_topic,
    )
