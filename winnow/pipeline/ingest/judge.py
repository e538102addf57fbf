"""Judges what arrived before anything of it is committed: results of a plan, records without a key, overlaps.

The rules of the interface for a record below the log end: equal in every field → skipped; missing below the first dirty
offset, and the digest of the file's slice was ingested before → compacted away, skipped; anything else → an error for
the whole call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise

import pyarrow as pa

from winnow.arrivals.compare_with_log import (
    AbsentRecord,
    AbsentRecords,
    build_missing_offset_error,
    compare_with_log,
)
from winnow.arrivals.erased_records import ErasedRecords
from winnow.arrivals.recreated_topic import find_newest_timestamp
from winnow.arrivals.spool import Spool, SpooledFile, format_file_numbers
from winnow.arrivals.write_range import build_order_error
from winnow.config.topic import COMPACT
from winnow.errors import BadInputError, Explanation, WinnowError, make_error
from winnow.files import duckdb_connection
from winnow.log.head import Head
from winnow.log.quarantine import Quarantine
from winnow.log.recorded_configuration import read_kafka_record
from winnow.log.reference_chains import list_seen_digests
from winnow.planning import cleanable
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.topic_filter import OtherTopicError
from winnow.values.ingest_plans import IngestPlan, IngestRange, IngestResult, RangeFailure, RangeResult, RecordPlace
from winnow.values.model import Segment
from winnow.values.topic_state import TopicState


def check_result(plan: IngestPlan, result: IngestResult) -> None:
    """Check that ``result`` is one of ``plan``, complete, and that its segments are where the plan puts them.

    Raises:
        WinnowError: with what is wrong; nothing landed.
    """
    wrong = _find_fault(plan, result)
    if wrong is not None:
        raise WinnowError(
            f"The result of ingest plan {plan.plan_id} of topic {plan.topic} was refused: {wrong}.",
            left="Nothing of this call landed; the next sweep removes its files.",
            next="Run it again.",
        )


def _find_fault(plan: IngestPlan, result: IngestResult) -> str | None:
    if result.plan_id != plan.plan_id:
        return f"it is that of plan {result.plan_id}"
    numbers = Counter([*(part.number for part in result.ranges), *(part.number for part in result.failures)])
    expected = range(len(plan.surveyed or plan.ranges))
    if set(numbers) != set(expected) or max(numbers.values(), default=1) > 1:
        return "it does not have each range once"
    groups = plan.surveyed or tuple(part.objects for part in plan.ranges)
    for part in result.ranges:
        if sorted(fact.number for fact in part.findings.objects) != sorted(groups[part.number]):
            return f"range {part.number} accounts for other objects than planned"
    if plan.surveyed:
        return None
    for part in result.ranges:
        wrong = _find_range_fault(plan, result, plan.ranges[part.number], part)
        if wrong is not None:
            return f"range {part.number} of partition {plan.ranges[part.number].partition} {wrong}"
    return None


def _find_range_fault(plan: IngestPlan, result: IngestResult, planned: IngestRange, made: RangeResult) -> str | None:
    below = f"{plan.folder}/{result.application}/"
    first, end = max(planned.offsets.start, planned.log_end_offset), planned.offsets.end
    for segment in made.segments:
        if not segment.path.startswith(below) or segment.partition != planned.partition:
            return "has a segment elsewhere than planned"
        if not first <= segment.first_offset <= segment.last_offset < end:
            return "has a segment outside of its offsets"
        if not 0 < segment.records <= segment.last_offset - segment.first_offset + 1:
            return "has a segment with an impossible number of records"
    if any(one.last_offset >= other.first_offset for one, other in pairwise(made.segments)):
        return "has segments that overlap"
    written = sum(segment.records for segment in made.segments)
    if made.records != written + made.repeats + made.skipped:
        return f"read {made.records} records and accounts for {written + made.repeats + made.skipped}"
    return None


def raise_first_failure(failures: Sequence[RangeFailure]) -> None:
    """Raise for the failure that comes first in the input, before others one of the input itself; none: return.

    Raises:
        OtherTopicError, WinnowError: what a range failed with.
    """
    if not failures:
        return
    first = min(
        failures, key=lambda failure: (failure.exit_code != BadInputError.exit_code, failure.order, failure.number)
    )
    other = first.other_topic
    if other is not None:
        raise OtherTopicError(Explanation(other.sentence, NOTHING_INGESTED), other.path, other.found)
    raise make_error(first.exit_code, first.explanation)


def list_result_files(plan: IngestPlan, result: IngestResult) -> list[SpooledFile]:
    """Return what the tasks found in each object of ``plan``, by number; what they left out counts nowhere."""
    erased: Counter[int] = Counter()
    for part in result.ranges:
        erased.update(part.erased)
    facts = {fact.number: fact for part in result.ranges for fact in part.findings.objects}
    return [
        SpooledFile(
            number,
            part.uri,
            facts[number].digest,
            dict(facts[number].slices.items()),
            facts[number].records - erased[number],
            False,
        )
        for number, part in enumerate(plan.objects)
    ]


def require_result_keys(head: Head, plan: IngestPlan, result: IngestResult) -> None:
    """Raise if tasks found new records without a key; with the first of the input.

    Raises:
        BadInputError: as :func:`build_keyless_error`.
    """
    keyless = [(part.keyless, plan.ranges[part.number].partition) for part in result.ranges if part.keyless is not None]
    if keyless:
        first, partition = min(keyless, key=lambda part: (part[0].number, part[0].row))
        count = sum(place.count for place, _ in keyless)
        path = plan.objects[first.number].uri
        raise build_keyless_error(head, plan.topic, path, first.row, partition, first.offset, count)


def require_known_absent(
    state: TopicState, files: Sequence[SpooledFile], plan: IngestPlan, result: IngestResult
) -> None:
    """Raise if tasks found a record that the log of ``state`` does not have and that was not compacted away here.

    Raises:
        BadInputError: as :func:`require_known_slices`.
    """
    by_partition: dict[int, list[RangeResult]] = {}
    for part in result.ranges:
        if part.absent:
            by_partition.setdefault(plan.ranges[part.number].partition, []).append(part)
    for partition, ranges in sorted(by_partition.items()):
        places: dict[int, RecordPlace] = {}
        for place in (place for part in ranges for place in part.absent):
            places[place.number] = min(place, places.get(place.number, place), key=lambda one: one.row)
        absent = AbsentRecords(
            tuple(AbsentRecord(place.number, place.row, place.offset) for _, place in sorted(places.items())),
            sum(part.absent_records for part in ranges),
            sum(part.absent_later for part in ranges),
        )
        require_known_slices(state, files, partition, absent)


def group_ranges(plan: IngestPlan, result: IngestResult) -> dict[int, list[RangeResult]]:
    """Return the ranges that had records by partition, in the order of offsets."""
    grouped: dict[int, list[RangeResult]] = {}
    for part in sorted(result.ranges, key=lambda part: _key(plan.ranges[part.number])):
        if part.records:
            grouped.setdefault(plan.ranges[part.number].partition, []).append(part)
    return grouped


def _key(planned: IngestRange) -> tuple[int, int]:
    return planned.partition, planned.offsets.start


def check_overlap(
    spool: Spool,
    head: Head,
    partition: int,
    segments: Sequence[Segment],
    quarantine: Quarantine,
    taken: Sequence[int],
    *,
    trust_compacted: bool,
    erased: ErasedRecords | None = None,
) -> None:
    """Compare every arriving record of ``partition`` below the log end with log and quarantine.

    ``erased``: what is left out of the input; None: no key was erased.

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
        if erased is not None and erased.lifted:
            compared.drop_absent(erased.is_lifted)
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
    for record in absent.firsts:
        if files[record.file].slices.get(partition) not in seen:
            advice = " If these records were compacted away in the source, add --trust-compacted."
            raise build_missing_offset_error(
                state.topic, files[record.file].path, record, partition, end, are_later=absent.are_later, advice=advice
            )


_KEYLESS_CONDITION = "key IS NULL"


def require_keys(topic: str, spool: Spool, taken: Sequence[SpooledFile], head: Head) -> None:
    """Raise if the call has a new record without a key; ``head``: of the log of ``topic``.

    A record below the log end is not new: it is still in the log or was moved to the quarantine, from the time before
    the topic was compacted, and is compared like any other record.

    Raises:
        BadInputError: with file, row, partition and offset of the first, and their number.
    """
    log_ends = {number: partition.log_end_offset for number, partition in head.state.partitions.items()}
    keyless = spool.find_first_keyless([file.number for file in taken], log_ends)
    if keyless is None:
        return
    file, row, partition, offset, count = keyless
    raise build_keyless_error(head, topic, file.path, row, partition, offset, count)


def build_keyless_error(
    head: Head, topic: str, path: str, row: int, partition: int | None, offset: int | None, count: int
) -> BadInputError:
    """Make the error about ``count`` new records without a key; the others describe the first."""
    named = [("partition", partition), ("offset", offset)]
    where = ", ".join(f"{name} {value}" for name, value in named if value is not None)
    return BadInputError(
        f"{path}, row {row}{f' ({where})' if where else ''}: a record without a key; {count} in this call. Topic "
        f"{topic} is compacted, so every record needs a key.",
        left="Nothing of this call landed.",
        next=(
            f"{_describe_policy_at_kafka(head, topic)}To move such records to the quarantine: winnow topics alter "
            f"{topic} --config winnow.keyless=quarantine"
        ),
    )


def _describe_policy_at_kafka(head: Head, topic: str) -> str:
    """Say which policy the topic has at Kafka; empty if it does not come from there."""
    there = read_kafka_record(head.table.properties).get("cleanup.policy")
    if there is None:
        return ""
    text = f"At Kafka its cleanup.policy is {there.value or 'empty'} ({there.origin})"
    if COMPACT in there.value:
        return f"{text}. "
    return f"{text}, so it may have such records; to have that here too: winnow ingest kafka {topic} --sync-config. "


def require_partitions(topic: str, spool: Spool, taken: Sequence[SpooledFile]) -> None:
    """Raise for a record with neither key nor partition, if the topic has no quarantine.

    Raises:
        BadInputError: with file and row of the first.
    """
    row = duckdb_connection.fetch_one_row(
        spool.connection,
        f"""
        SELECT file, row FROM spool
        WHERE partition IS NULL AND file IN {format_file_numbers([file.number for file in taken])}
        ORDER BY "sequence" LIMIT 1
        """,
    )
    if row is not None:
        raise BadInputError(
            f"{spool.files[row[0]].path}, row {row[1]}: a record with neither key nor partition, so its partition in "
            f"topic {topic} is not known.",
            left="Nothing of this call landed.",
            next="Name the partition.",
        )


def check_order(spool: Spool, taken: Sequence[SpooledFile]) -> None:
    """Raise if offsets of keyed and keyless records together do not increase (keyed ones alone are checked on writing).

    Raises:
        BadInputError: with file, row, partition and offset of the first.
    """
    files = format_file_numbers([file.number for file in taken])
    row = duckdb_connection.fetch_one_row(
        spool.connection,
        f"""
        SELECT file, row, partition, "offset", previous FROM (
            SELECT *, lag("offset") OVER (PARTITION BY partition ORDER BY "sequence") AS previous FROM spool
            WHERE "offset" IS NOT NULL AND file IN {files}
              AND partition IN (SELECT partition FROM spool WHERE {_KEYLESS_CONDITION} AND file IN {files})
        ) WHERE "offset" <= previous ORDER BY "sequence" LIMIT 1
        """,
    )
    if row is not None:
        raise build_order_error(spool.files[row[0]].path, *row[1:])
