"""Shows that the newest records of a log, which came from files, are those of a Kafka topic at the same offsets.

Files carry no topic id, so whose they are is compared, never guessed: equal times at equal offsets show it, and one
that differs refutes it. Times only, because sinks change keys, values and headers.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import pyarrow.compute as pc

from winnow.arrivals.compare_with_log import read_log_segment
from winnow.errors import BadInputError, join_first
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.ingest.kafka.reading import KafkaReading
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.model import Segment

COMPARED_RECORDS = 500
"""Newest records of a partition that are compared."""
MAXIMUM_NAMED = 5
Times = dict[int, int]
"""Milliseconds since the epoch per offset of the log."""


def check_continuity(
    log_topic: str,
    reading: KafkaReading,
    live: Mapping[int, Sequence[Segment]],
    reader: RangeReader,
    tombstones: Mapping[int, Collection[int]],
) -> list[str]:
    """Check that the records which came from files since the brokers were read are of the topic; return notices.

    ``live``: the live segments of the log. ``tombstones``: per partition the offsets of those that stand in the place
    of erased records, which are not compared.

    Raises:
        BadInputError: a record has another time at the brokers, or nothing is left there to compare.
    """
    open_ends = []
    shown = 0
    for partition, start in reading.unproven.items():
        ours = _read_newest_times(log_topic, live.get(partition, ()), start, tombstones.get(partition, ()))
        theirs = _read_times(reading, partition, min(ours), reader) if ours else {}
        common = sorted(ours.keys() & theirs.keys())
        different = next((offset for offset in common if ours[offset] != theirs[offset]), None)
        if different is not None:
            # No epoch begins of the topic that was read before.
            or_epoch = ", or go on at the end of the log with --new-epoch" if reading.is_new else ""
            raise BadInputError(
                f"Topic {reading.topic.name} is not the one that {log_topic} holds: at offset {different} of "
                f"partition {partition} the record from a file has another time than that at the brokers.",
                left=NOTHING_INGESTED,
                next=(
                    "The topic was created again, or the files were of another one: ingest it into another "
                    f"topic{or_epoch}."
                ),
            )
        shown += len(common)
        if not common:
            open_ends.append(f"{log_topic}-{partition} from offset {start}")
    if open_ends:
        raise BadInputError(
            "The newest records came from files, and the brokers have none of them left to compare: "
            f"{join_first(open_ends, MAXIMUM_NAMED)}. Whether they are of topic {reading.topic.name} is not known.",
            left=NOTHING_INGESTED,
            next=f"If they are, say so: winnow ingest kafka {log_topic} --trust-offsets",
        )
    if not shown:
        return []
    return [f"{shown:,} of the newest records, which came from files, were compared with the brokers'."]


def _read_newest_times(topic: str, segments: Sequence[Segment], start: int, left_out: Collection[int]) -> Times:
    """Read offsets and times of the newest records from offset ``start`` on; records without a time tell nothing."""
    found: Times = {}
    for segment in reversed(segments):
        if segment.last_offset < start or len(found) >= COMPARED_RECORDS:
            break
        first = max(start, segment.first_offset)
        for batch in read_log_segment(topic, segment, max(first, segment.last_offset - COMPARED_RECORDS)):
            times_us = pc.cast(batch.column("timestamp"), "int64").to_pylist()
            pairs = zip(batch.column("offset").to_pylist(), times_us, strict=True)
            found |= {
                offset: time_us // 1000 for offset, time_us in pairs if time_us is not None and offset not in left_out
            }
    return dict(itertools.islice(sorted(found.items(), reverse=True), COMPARED_RECORDS))


def _read_times(reading: KafkaReading, partition: int, first: int, reader: RangeReader) -> Times:
    """Read offsets and times of the records at the brokers from ``first``, an offset of the log, to its end."""
    base = reading.epoch.get_base(partition)
    at_brokers = reading.topic.partitions[partition]
    start = max(first - base, at_brokers.start_offset)
    mine = next((each.start for each in reading.ranges if each.partition == partition), at_brokers.stable_offset)
    found: Times = {}
    for batch in reader.read(BrokerRange(reading.topic.name, partition, start, mine, base)):
        pairs = zip(batch.column("offset").to_pylist(), batch.column("timestamp").to_pylist(), strict=True)
        found |= {offset: time_ms for offset, time_ms in pairs if time_ms is not None}
    return found
