"""Ingests a Kafka topic with several processes of this machine; this one judges what they wrote, and commits."""

from __future__ import annotations

from winnow.log.head import Head
from winnow.pipeline.ingest.commit import IngestReport, IngestRequest, LogMovedError
from winnow.pipeline.ingest.ingest import append_records
from winnow.pipeline.ingest.kafka_input import KafkaInput
from winnow.pipeline.ingest.kafka_spark import KafkaSegments
from winnow.pipeline.ingest.range_processes import MINIMUM_PROCESS_OFFSETS, carry_out_in_processes, choose_processes
from winnow.pipeline.ingest.spool import Progress


def append_here(request: IngestRequest, head: Head, progress: Progress | None = None, *, divides: bool) -> IngestReport:
    """Append what ``request`` reads from brokers: in this process, or in several if it is much and ``divides``.

    Raises:
        BadInputError, CommitConflictError, CommitUnknownError, ServiceError: as the ingest; nothing landed.
    """
    assert isinstance(request.source, KafkaInput)
    offsets = sum(each.end - each.start for each in request.source.ranges)
    processes = choose_processes(offsets, request.ctx.settings.ingest.processes) if divides else 1
    if processes == 1:
        return append_records(request, head, progress)
    try:
        return _append_in_processes(request, head, processes, progress)
    except LogMovedError:
        # As where one process reads: everything is read again, and what came meanwhile is compared with it.
        return append_records(request, request.prepare_head(request.log.newest_head()), progress)


def _append_in_processes(
    request: IngestRequest, head: Head, processes: int, progress: Progress | None = None
) -> IngestReport:
    """Append by processes. A partition is divided among them only where it has most of the offsets.

    Raises:
        LogMovedError: something else was appended meanwhile; nothing landed.
    """
    segments = KafkaSegments(request, head)
    with segments.row.renew_in_background():
        segments.row.open()
        plan = segments.make_plan(max(MINIMUM_PROCESS_OFFSETS, segments.offsets // processes))
        try:
            result = carry_out_in_processes(plan, processes, request.ctx.budget, segments.client_properties, progress)
        except BaseException:
            segments.discard()
            raise
        return segments.commit(plan, result)
