"""Checks arriving records below the log end: equal to the log's, compacted away since, or an error.

The rules of the interface: equal in every field → skipped; missing below the first dirty offset, and the digest of the
file's slice was ingested before → compacted away, skipped; anything else → error for the whole call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa

from winnow.log.head import Head
from winnow.log.quarantine import Quarantine
from winnow.log.reference_chains import list_seen_digests
from winnow.pipeline.ingest.log_comparison import AbsentRecords, build_missing_offset_error, compare_with_log
from winnow.pipeline.ingest.recreated_topic import find_newest_timestamp
from winnow.pipeline.ingest.spool import Spool, SpooledFile
from winnow.planning import cleanable
from winnow.values.model import Segment, TopicState


def check_overlap(
    spool: Spool,
    head: Head,
    partition: int,
    segments: Sequence[Segment],
    quarantine: Quarantine,
    taken: Sequence[int],
    *,
    trust_compacted: bool,
) -> None:
    """Compare every arriving record of ``partition`` below the log end with log and quarantine.

    Raises:
        BadInputError: one is neither there nor explained; with file, row, partition and offset.
        DamagedSegmentError: a segment of the log is not what was written.
    """
    state = head.state.partitions[partition]
    read_quarantined = partial(_read_quarantined, quarantine, head, partition)
    newest_ms = find_newest_timestamp(segments)
    with compare_with_log(
        spool, partition, state.log_end_offset, segments, taken, newest_ms=newest_ms, read_quarantined=read_quarantined
    ) as compared:
        if compared is None:
            return
        compared.require_equal()
        compared.require_present(cleanable.find_cleaned_offset(state), state.log_end_offset)
        if not trust_compacted:
            require_known_slices(head.state, spool.files, partition, compared.list_absent())


def _read_quarantined(
    quarantine: Quarantine, head: Head, partition: int, offsets: tuple[int, int]
) -> Iterable[pa.RecordBatch]:
    return quarantine.read(head.state.quarantine_ingests, partition=partition, offsets=offsets)


def require_known_slices(
    state: TopicState, files: Sequence[SpooledFile], partition: int, absent: AbsentRecords
) -> None:
    """Raise if a record of ``absent`` is of a file whose slice was never ingested: it was not compacted away here.

    Raises:
        BadInputError: with file, row, partition and offset of the first.
    """
    if not absent.firsts:
        return
    seen = list_seen_digests(state, partition)
    end = state.partitions[partition].log_end_offset
    for each in absent.firsts:
        if files[each.file].slices.get(partition) not in seen:
            advice = " If these records were compacted away in the source, add --trust-compacted."
            raise build_missing_offset_error(
                state.topic, files[each.file].path, each, partition, end, are_later=absent.are_later, advice=advice
            )
